// Reads what a block of the next cluster has written, which no barrier of the cluster orders.
//
// arch: compute_90a
// launch: grid=4 block=64
// args: i32[256]=iota i32[256]=zeros i32[256]=zeros
// bug: global race

#include "cluster.cuh"

extern "C" __global__ __cluster_dims__(2, 1, 1) void next(const int* in, int* scratch, int* out) {
    int i = 64 * blockIdx.x + threadIdx.x;
    scratch[i] = 3 * in[i];  // BUG
    cluster_sync();
    out[i] = scratch[(i + 64) % 256];  // BUG
}
