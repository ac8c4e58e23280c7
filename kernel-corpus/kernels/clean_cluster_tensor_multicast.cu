// A tensor copy loads a box of a matrix for both blocks of the cluster.
//
// arch: compute_90a
// launch: grid=2 block=64
// args: i32[256]=iota tensormap{0,16x16,box=8x8} i32[128]=zeros
// bug: none
// expect 2: i32 191 190 189 188 187 186 185 184 175 174 173 172 171 170 169 168 159 158 157 156 155 154 153 152 143
// expect 2: i32 142 141 140 139 138 137 136 127 126 125 124 123 122 121 120 111 110 109 108 107 106 105 104 95 94 93
// expect 2: i32 92 91 90 89 88 79 78 77 76 75 74 73 72 191 190 189 188 187 186 185 184 175 174 173 172 171 170 169
// expect 2: i32 168 159 158 157 156 155 154 153 152 143 142 141 140 139 138 137 136 127 126 125 124 123 122 121 120
// expect 2: i32 111 110 109 108 107 106 105 104 95 94 93 92 91 90 89 88 79 78 77 76 75 74 73 72

#include "cluster.cuh"

// Copies the box from this column and row on to the same place in each block of the mask.
__device__ __forceinline__ void load_box_for_all(
    void* to, const TensorMap& map, int column, int row, Barrier* barrier, int mask
) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster"
        " [%0], [%1, {%2, %3}], [%4], %5;"
        ::"r"(shared_address(to)), "l"(&map), "r"(column), "r"(row), "r"(shared_address(barrier)),
        "h"(static_cast<unsigned short>(mask)) : "memory");
}

extern "C" __global__ __cluster_dims__(2, 1, 1) void reverse(
    const int* in, const __grid_constant__ TensorMap map, int* out
) {
    __shared__ alignas(128) int tile[64];
    __shared__ Barrier full;
    int t = threadIdx.x;
    if (t == 0) {
        mbarrier_init(&full, 1);
        fence_mbarrier_init();
    }
    cluster_sync();
    if (t == 0) {
        mbarrier_arrive_expect_tx(&full, sizeof(tile));
        if (cluster_rank() == 1) load_box_for_all(tile, map, 8, 4, &full, 3);
    }
    mbarrier_wait_cluster(&full, 0);
    out[64 * blockIdx.x + t] = tile[63 - t];
}
