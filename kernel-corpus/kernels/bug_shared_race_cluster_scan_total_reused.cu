// Prefix sums in two parts: a block stores its next total although others may still read the last
// one.
//
// arch: compute_90a
// launch: grid=8 block=32
// args: i32[512]=iota i32[512]=zeros
// bug: shared race

#include "cluster.cuh"

extern "C" __global__ __cluster_dims__(8, 1, 1) void scan(const int* in, int* out) {
    __shared__ int total;
    int t = threadIdx.x, rank = cluster_rank(), carry = 0;
    cluster_sync();
    for (int part = 0; part < 2; part++) {
        int i = 256 * part + 32 * rank + t, x = in[i];
        for (int step = 1; step < 32; step *= 2) {
            int left = __shfl_up_sync(~0u, x, step);
            if (t >= step) x += left;
        }
        if (t == 31) total = x;  // BUG
        cluster_sync();
        int mine = t < 8 ? *on_rank(&total, t) : 0;  // BUG
        int before = t < rank ? mine : 0;
        for (int step = 16; step > 0; step /= 2) {
            mine += __shfl_xor_sync(~0u, mine, step);
            before += __shfl_xor_sync(~0u, before, step);
        }
        out[i] = carry + before + x;
        carry += mine;
    }
    cluster_sync();
}
