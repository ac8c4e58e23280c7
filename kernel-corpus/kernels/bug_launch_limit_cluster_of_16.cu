// A cluster of 16 blocks, more than a launch may have without an attribute of its own.
//
// arch: compute_90a
// launch: grid=16 block=32
// args: i32[512]=zeros
// bug: launch limit

#include "cluster.cuh"

extern "C" __global__ __cluster_dims__(16, 1, 1) void ranks(int* out) {
    out[32 * blockIdx.x + threadIdx.x] = cluster_rank();
}
