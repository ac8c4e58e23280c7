// Stencil whose blocks wait for their two neighbours alone, at a barrier in shared memory for each.
//
// arch: compute_90a
// launch: grid=8 block=32
// args: i32[256]=iota i32[256]=zeros
// bug: none
// expect 1: i32 147 315 513 736 973 1215 1458 1701 1944 2187 2430 2673 2916 3159 3402 3645 3888 4131 4374 4617 4860
// expect 1: i32 5103 5346 5589 5832 6075 6318 6561 6804 7047 7290 7533 7776 8019 8262 8505 8748 8991 9234 9477 9720
// expect 1: i32 9963 10206 10449 10692 10935 11178 11421 11664 11907 12150 12393 12636 12879 13122 13365 13608 13851
// expect 1: i32 14094 14337 14580 14823 15066 15309 15552 15795 16038 16281 16524 16767 17010 17253 17496 17739
// expect 1: i32 17982 18225 18468 18711 18954 19197 19440 19683 19926 20169 20412 20655 20898 21141 21384 21627
// expect 1: i32 21870 22113 22356 22599 22842 23085 23328 23571 23814 24057 24300 24543 24786 25029 25272 25515
// expect 1: i32 25758 26001 26244 26487 26730 26973 27216 27459 27702 27945 28188 28431 28674 28917 29160 29403
// expect 1: i32 29646 29889 30132 30375 30618 30861 31104 31347 31590 31833 32076 32319 32562 32805 33048 33291
// expect 1: i32 33534 33777 34020 34263 34506 34749 34992 35235 35478 35721 35964 36207 36450 36693 36936 37179
// expect 1: i32 37422 37665 37908 38151 38394 38637 38880 39123 39366 39609 39852 40095 40338 40581 40824 41067
// expect 1: i32 41310 41553 41796 42039 42282 42525 42768 43011 43254 43497 43740 43983 44226 44469 44712 44955
// expect 1: i32 45198 45441 45684 45927 46170 46413 46656 46899 47142 47385 47628 47871 48114 48357 48600 48843
// expect 1: i32 49086 49329 49572 49815 50058 50301 50544 50787 51030 51273 51516 51759 52002 52245 52488 52731
// expect 1: i32 52974 53217 53460 53703 53946 54189 54432 54675 54918 55161 55404 55647 55890 56133 56376 56619
// expect 1: i32 56862 57105 57348 57591 57834 58077 58320 58563 58806 59049 59292 59535 59778 60021 60264 60507
// expect 1: i32 60750 60737 59444 54567 43290 24333

#include "cluster.cuh"

extern "C" __global__ __cluster_dims__(8, 1, 1) void smooth(const int* in, int* out) {
    __shared__ int cells[2][32];
    __shared__ Barrier left_done, right_done;
    int t = threadIdx.x, rank = cluster_rank(), last = 7;
    cells[0][t] = in[32 * blockIdx.x + t];
    if (t == 0) {
        mbarrier_init(&left_done, 1 + (rank > 0));  // the block itself and its neighbour
        mbarrier_init(&right_done, 1 + (rank < last));
        fence_mbarrier_init();
    }
    cluster_sync();
    for (int round = 0; round < 5; round++) {
        int* now = cells[round % 2];
        int left = 0, right = 0;
        if (t > 0) left = now[t - 1];
        else if (rank > 0) left = on_rank(now, rank - 1)[31];
        if (t < 31) right = now[t + 1];
        else if (rank < last) right = on_rank(now, rank + 1)[0];
        cells[(round + 1) % 2][t] = left + now[t] + right;
        __syncthreads();
        if (t == 0) {
            mbarrier_arrive(&left_done);
            mbarrier_arrive(&right_done);
            if (rank > 0) mbarrier_arrive_on(&right_done, rank - 1);
            if (rank < last) mbarrier_arrive_on(&left_done, rank + 1);
        }
        mbarrier_wait_cluster(&left_done, round % 2);
        mbarrier_wait_cluster(&right_done, round % 2);
    }
    out[32 * blockIdx.x + t] = cells[1][t];
    cluster_sync();
}
