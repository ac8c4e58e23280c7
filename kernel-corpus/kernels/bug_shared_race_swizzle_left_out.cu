// The tile is stored swizzled and read as if it were not: a thread reads the chunk of another one.
//
// launch: grid=1 block=64
// args: i32[256]=iota i32[256]=zeros
// bug: shared race

extern "C" __global__ void own_chunks(const int* in, int* out) {
    __shared__ __align__(16) int tile[8][32];
    int row = threadIdx.x / 8, chunk = threadIdx.x % 8;
    // Chunks of 16 bytes lie in another order in each row, so that a column of
    // them has no bank conflicts.
    int at = 4 * (chunk ^ row);
    for (int i = 0; i < 4; i++) tile[row][at + i] = in[4 * threadIdx.x + i];  // BUG
    // Each thread goes on with what it has stored, so no barrier is needed.
    for (int i = 0; i < 4; i++) out[4 * threadIdx.x + i] = 2 * tile[row][4 * chunk + i];  // BUG
}
