// A row goes through 40 blocks, each of which changes it in place: wait, fence, barrier,
// change, fence, barrier, flag.
//
// launch: grid=40 block=64
// args: i32[64]=iota u32[1]=zeros
// bug: none
// expect 0: i32 780 781 782 783 784 785 786 787 788 789 790 791 792 793 794 795 796 797 798 799 800 801 802 803 804
// expect 0: i32 805 806 807 808 809 810 811 812 813 814 815 816 817 818 819 820 821 822 823 824 825 826 827 828 829
// expect 0: i32 830 831 832 833 834 835 836 837 838 839 840 841 842 843

extern "C" __global__ void chain(int* row, unsigned* turn) {
    int t = threadIdx.x, b = blockIdx.x;
    if (t == 0) {
        while (atomicAdd(turn, 0u) < b) {}
        __threadfence();
    }
    __syncthreads();
    int x = row[63 - t];
    __syncthreads();  // the whole row is read before it is overwritten
    row[t] = x + b;
    __threadfence();
    __syncthreads();  // all threads have fenced before the next block's turn
    if (t == 0) atomicExch(turn, b + 1u);
}
