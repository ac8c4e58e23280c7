// Four warps fill a tile; a barrier that counts their threads tells when.
//
// arch: compute_90a
// launch: grid=1 block=160
// args: i32[128]=iota i32[32]=zeros
// bug: none
// expect 1: i32 192 196 200 204 208 212 216 220 224 228 232 236 240 244 248 252 256 260 264 268 272 276 280 284 288
// expect 1: i32 292 296 300 304 308 312 316

#include "hopper.cuh"

extern "C" __global__ void sums(const int* in, int* out) {
    __shared__ int tile[128];
    __shared__ Barrier full;
    int t = threadIdx.x;
    if (t == 0) mbarrier_init(&full, 128);
    if (t < 128) tile[t] = -1;
    __syncthreads();
    if (t < 128) {
        tile[t] = in[t];
        mbarrier_arrive(&full);
    } else {
        mbarrier_wait(&full, 0);
        int column = t % 32, sum = 0;
        for (int i = 0; i < 4; i++) sum += tile[32 * i + column];
        out[column] = sum;
    }
}
