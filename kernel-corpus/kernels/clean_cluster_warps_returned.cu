// All warps but the first return before the barrier of the cluster, which does not wait for them.
//
// arch: compute_90a
// launch: grid=4 block=96
// args: i32[384]=iota i32[128]=zeros
// bug: none
// expect 1: i32 477 474 471 468 465 462 459 456 453 450 447 444 441 438 435 432 429 426 423 420 417 414 411 408 405
// expect 1: i32 402 399 396 393 390 387 384 189 186 183 180 177 174 171 168 165 162 159 156 153 150 147 144 141 138
// expect 1: i32 135 132 129 126 123 120 117 114 111 108 105 102 99 96 1053 1050 1047 1044 1041 1038 1035 1032 1029
// expect 1: i32 1026 1023 1020 1017 1014 1011 1008 1005 1002 999 996 993 990 987 984 981 978 975 972 969 966 963 960
// expect 1: i32 765 762 759 756 753 750 747 744 741 738 735 732 729 726 723 720 717 714 711 708 705 702 699 696 693
// expect 1: i32 690 687 684 681 678 675 672

#include "cluster.cuh"

extern "C" __global__ __cluster_dims__(2, 1, 1) void sums(const int* in, int* out) {
    __shared__ int tile[96];
    int t = threadIdx.x;
    tile[t] = in[96 * blockIdx.x + t];
    __syncthreads();
    if (t >= 32) return;
    tile[t] += tile[t + 32] + tile[t + 64];
    cluster_sync();
    out[32 * blockIdx.x + t] = on_rank(tile, cluster_rank() ^ 1)[31 - t];
    cluster_sync();
}
