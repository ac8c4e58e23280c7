// Loads of 16 bytes from shared memory: plain rows, padded rows, and rows that two lanes share.
//
// Idea: shared memory serves 8 lanes at a time, which must lie in different banks; 16 lanes, if
// neighbours have the same address. Shown by `gpu trace` and `gpu picture`.
// Grid: 1. Block: 32 threads, one warp.
// Shared: two tiles, 4,608 bytes.
// Reads: matrix. Writes: sums, of four loads by each lane.
//
// launch: grid=1 block=32
// args: f32[512]=iota f32[32]=uninit
// expect 1: f32 24 216 472 664 920 1112 1368 1560 1816 2008 2264 2456 2712 2904 3160 3352 2584 2776
// expect 1: f32 3032 3224 3480 3672 3928 4120 4376 4568 4824 5016 5272 5464 5720 5912

constexpr int ROWS = 32;
constexpr int VECTORS = 4;  // of a row: 16 floats

__device__ inline float total(float4 v) {
    return v.x + v.y + v.z + v.w;
}

extern "C" __global__ void vector_loads(const float4* matrix,  // [ROWS, VECTORS] of 4 f32
                                        float* sums) {         // [ROWS] f32
    // ANCHOR: tiles
    __shared__ float4 tile[ROWS][VECTORS];
    __shared__ float4 padded[ROWS][VECTORS + 1];
    // ANCHOR_END: tiles
    int x = threadIdx.x;
    for (int c = 0; c < VECTORS; ++c) {
        tile[x][c] = matrix[VECTORS * x + c];
        padded[x][c] = tile[x][c];
    }
    __syncwarp();  // so that no lane reads a vector that another has not stored yet
    // ANCHOR: loads
    float4 plain = tile[x][0];
    float4 apart = padded[x][0];
    float4 pairs = padded[x / 2][0];   // lanes 0 and 1 have one address, 2 and 3, ...
    float4 halves = padded[x % 16][0];  // lanes 0 and 16 have one address, 1 and 17, ...
    // ANCHOR_END: loads
    sums[x] = total(plain) + total(apart) + total(pairs) + total(halves);
}
