// Clears its bins for the next part, with no barrier of the cluster before the other block counts
// there.
//
// arch: compute_90a
// launch: grid=4 block=64
// args: i32[768]=iota i32[96]=zeros
// bug: shared race

#include "cluster.cuh"

extern "C" __global__ __cluster_dims__(2, 1, 1) void histograms(const int* in, int* out) {
    __shared__ int bins[8];
    int t = threadIdx.x;
    if (t < 8) bins[t] = 0;
    cluster_sync();
    for (int part = 0; part < 3; part++) {
        int x = in[64 * (4 * part + blockIdx.x) + t];
        int bin = (x * x + x / 3) % 16;
        atomicAdd(on_rank(bins, bin / 8) + bin % 8, 1);  // BUG
        cluster_sync();
        if (t < 8) {
            out[8 * (4 * part + blockIdx.x) + t] = bins[t];
            bins[t] = 0;  // BUG
        }
        __syncthreads();
    }
    cluster_sync();
}
