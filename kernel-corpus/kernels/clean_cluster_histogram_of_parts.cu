// Histograms of three parts in bins that two blocks share, cleared between two barriers of the
// cluster.
//
// arch: compute_90a
// launch: grid=4 block=64
// args: i32[768]=iota i32[96]=zeros
// bug: none
// expect 1: i32 10 6 11 5 11 5 12 5 11 6 11 6 10 5 9 5 11 6 10 6 12 5 10 6 10 4 11 4 11 6 11 5 11 4 11 5 9 6 10 5 11
// expect 1: i32 6 10 6 11 5 12 6 10 6 11 5 11 5 12 5 11 6 11 6 10 5 9 5 11 6 10 6 12 5 10 6 10 4 11 4 11 6 11 5 11 4
// expect 1: i32 11 5 9 6 10 5 11 6 10 6 11 5 12 6

#include "cluster.cuh"

extern "C" __global__ __cluster_dims__(2, 1, 1) void histograms(const int* in, int* out) {
    __shared__ int bins[8];
    int t = threadIdx.x;
    if (t < 8) bins[t] = 0;
    for (int part = 0; part < 3; part++) {
        cluster_sync();
        int x = in[64 * (4 * part + blockIdx.x) + t];
        int bin = (x * x + x / 3) % 16;
        atomicAdd(on_rank(bins, bin / 8) + bin % 8, 1);
        cluster_sync();
        if (t < 8) {
            out[8 * (4 * part + blockIdx.x) + t] = bins[t];
            bins[t] = 0;
        }
    }
}
