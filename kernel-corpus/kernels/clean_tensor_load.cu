// A tensor copy fills a tile with a box of a matrix, and every thread waits for its bytes.
//
// arch: compute_90a
// launch: grid=1 block=64 pass=1,2
// args: i32[256]=iota tensormap{0,16x16,box=8x8} i32[64]=zeros
// bug: none
// expect 2: i32 191 190 189 188 187 186 185 184 175 174 173 172 171 170 169 168 159 158 157 156 155 154 153 152 143
// expect 2: i32 142 141 140 139 138 137 136 127 126 125 124 123 122 121 120 111 110 109 108 107 106 105 104 95 94 93
// expect 2: i32 92 91 90 89 88 79 78 77 76 75 74 73 72

#include "hopper.cuh"

// Waits until the phase of this parity is over.
__device__ __forceinline__ void wait_for_phase(Barrier* barrier, unsigned parity) {
    unsigned over;
    do {
        asm volatile(
            "{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
            : "=r"(over) : "r"(shared_address(barrier)), "r"(parity) : "memory");
    } while (!over);
}

// Copies the box of a matrix whose first element is in this column and row.
__device__ __forceinline__ void load_box(void* to, const TensorMap& map, int column, int row, Barrier* barrier) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
        ::"r"(shared_address(to)), "l"(&map), "r"(column), "r"(row), "r"(shared_address(barrier)) : "memory");
}

extern "C" __global__ void reverse(const __grid_constant__ TensorMap matrix, int* out) {
    __shared__ alignas(128) int tile[64];
    __shared__ Barrier full;
    int t = threadIdx.x;
    tile[t] = -1;
    if (t == 0) mbarrier_init(&full, 1);
    fence_proxy_async();  // so that the copy comes behind the stores and finds the barrier
    __syncthreads();
    if (t == 0) {
        mbarrier_arrive_expect_tx(&full, sizeof(tile));
        load_box(tile, matrix, 8, 4, &full);
    }
    wait_for_phase(&full, 0);
    out[t] = tile[63 - t];
}
