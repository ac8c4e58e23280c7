// The grid is no multiple of the cluster.
//
// arch: compute_90a
// launch: grid=3 block=32
// args: i32[96]=zeros
// bug: launch limit

#include "cluster.cuh"

extern "C" __global__ __cluster_dims__(2, 1, 1) void ranks(int* out) {
    out[32 * blockIdx.x + threadIdx.x] = cluster_rank();
}
