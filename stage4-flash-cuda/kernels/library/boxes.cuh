// Tiles of rows of 16-bit elements in shared memory as boxes of 64 columns, which the tensor memory
// accelerator copies and wgmma reads.

#pragma once

#include "half_rows.cuh"
#include "wgmma.cuh"

constexpr int PANEL = 8;                 // vectors of a row of a box: 128 bytes, in which vectors swap places
constexpr int PANELS = VECTORS / PANEL;  // boxes of a tile: each has 64 columns of all of its rows

// Starts the copies of a tile's boxes: COUNT rows from `row` on. The barrier gets their bytes. One
// thread calls it, after it has announced them.
template <int COUNT>
__device__ void copy_tile(
    Vector* tile_smem, const TensorMap& tensor, int row, int head, int batch, Mbarrier* barrier_smem
) {
    for (int panel = 0; panel < PANELS; panel++) {
        copy_box(tile_smem + panel * COUNT * PANEL, tensor, panel * 64, row, head, batch, barrier_smem);
    }
}

// Copies a tile of COUNT keys from `key` on, by one warp. It is there when a phase of `full_smem`
// ends. Rows from `keys` on, the sequence's length, may hold anything, even memory that nobody has
// written, and 0 times NaN is NaN in p v: they become zeros before that. The bytes of such a tile
// end a phase of `cut_smem` with this parity.
template <int COUNT>
__device__ void copy_keys(
    Vector* tile_smem, const TensorMap& tensor, int key, int keys, int head, int batch, Mbarrier* full_smem,
    Mbarrier* cut_smem, int parity
) {
    const int lane = threadIdx.x % 32;
    const bool cut = keys - key < COUNT;
    Mbarrier* copied_smem = cut ? cut_smem : full_smem;
    if (lane == 0) {
        mbarrier_arrive_expect_tx(copied_smem, COUNT * HEAD_DIM * 2);
        copy_tile<COUNT>(tile_smem, tensor, key, head, batch, copied_smem);
    }
    if (cut) {
        mbarrier_wait(cut_smem, parity);
        for (int panel = 0; panel < PANELS; panel++) {
            for (int x = (keys - key) * PANEL + lane; x < COUNT * PANEL; x += 32) {
                tile_smem[panel * COUNT * PANEL + x] = {};
            }
        }
        fence_proxy_async();
        __syncwarp();  // so that lane 0 arrives when all lanes have stored
        if (lane == 0) {
            mbarrier_arrive(full_smem);
        }
    }
}
