// Loads of a warp at a distance that the launch chooses: from global memory, and a column of a tile
// in shared memory, with rows of any length, plain or swizzled.
//
// Idea: the book's page on memory moves the numbers. Sectors and wavefronts follow.
// Grid: 1. Block: 32 threads, one warp.
// Shared: one tile, 5,120 bytes, of `shared_loads`.
// Reads: numbers. Writes: out.
//
// launch: grid=1 block=32 kernel=global_loads pass=0,1,2,3
// launch: grid=1 block=32 kernel=shared_loads pass=4,5,6,7
// args: f32[1088]=iota f32[32]=uninit i32=3 i32=5
// args: f32[32]=uninit i32=33 i32=1 i32=2
// expect 1: f32 5 8 11 14 17 20 23 26 29 32 35 38 41 44 47 50 53 56 59 62 65 68 71 74 77 80 83 86 89 92 95 98
// expect 4: f32 2 34 66 98 130 162 194 226 258 290 322 354 386 418 450 482 514 546 578 610 642 674 706 738 770 802 834
// expect 4: f32 866 898 930 962 994

// ANCHOR: global
extern "C" __global__ void global_loads(const float* numbers,  // [31 * stride + offset + 1] f32
                                        float* out,            // [32] f32
                                        int stride,            // elements from lane to lane
                                        int offset) {          // of lane 0
    out[threadIdx.x] = numbers[threadIdx.x * stride + offset];
}
// ANCHOR_END: global

constexpr int N = 32;

extern "C" __global__ void shared_loads(float* out,    // [N] f32
                                        int pitch,     // words from row to row, N to 40
                                        int swizzled,  // 1: column x of row y lies at x ^ y; else 0
                                        int column) {  // 0 to N - 1
    __shared__ float tile[N * 40];
    int x = threadIdx.x;
    for (int y = 0; y < N; ++y) {
        tile[y * pitch + (swizzled ? x ^ y : x)] = N * y + x;
    }
    __syncwarp();  // so that no lane reads a word that another has not stored yet
    // ANCHOR: shared
    out[x] = tile[x * pitch + (swizzled ? column ^ x : column)];
    // ANCHOR_END: shared
}
