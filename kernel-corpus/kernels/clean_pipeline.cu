// A producer warp copies boxes of a matrix to two tiles in turn; two warps sum their columns.
//
// arch: compute_90a
// launch: grid=1 block=96 pass=1,2
// args: i32[3584]=iota tensormap{0,64x56,box=64x8} i32[64]=zeros
// bug: none
// expect 2: i32 98560 98616 98672 98728 98784 98840 98896 98952 99008 99064 99120 99176 99232 99288 99344 99400
// expect 2: i32 99456 99512 99568 99624 99680 99736 99792 99848 99904 99960 100016 100072 100128 100184 100240
// expect 2: i32 100296 100352 100408 100464 100520 100576 100632 100688 100744 100800 100856 100912 100968 101024
// expect 2: i32 101080 101136 101192 101248 101304 101360 101416 101472 101528 101584 101640 101696 101752 101808
// expect 2: i32 101864 101920 101976 102032 102088

#include "hopper.cuh"

extern "C" __global__ void column_sums(const __grid_constant__ TensorMap matrix, int* out) {
    __shared__ alignas(128) int tile[2][8 * 64];
    __shared__ Barrier full[2], empty[2];
    int t = threadIdx.x;
    if (t == 0) {
        for (int stage = 0; stage < 2; stage++) {
            mbarrier_init(&full[stage], 1);
            mbarrier_init(&empty[stage], 2);  // one thread of each warp that reads
        }
        fence_mbarrier_init();
    }
    __syncthreads();
    if (t == 64) {
        for (int round = 0; round < 7; round++) {
            int stage = round % 2;
            mbarrier_wait(&empty[stage], round / 2 % 2 ^ 1);  // passes at once for the first two tiles
            mbarrier_arrive_expect_tx(&full[stage], sizeof(tile[stage]));
            tensor_load(tile[stage], matrix, 0, 8 * round, &full[stage]);
        }
    }
    if (t < 64) {
        int sum = 0;
        for (int round = 0; round < 7; round++) {
            int stage = round % 2;
            mbarrier_wait(&full[stage], round / 2 % 2);
            for (int i = 0; i < 8; i++) sum += tile[stage][64 * i + t];
            __syncwarp();  // so that one thread arrives for all
            if (t % 32 == 0) mbarrier_arrive(&empty[stage]);
        }
        out[t] = sum;
    }
}
