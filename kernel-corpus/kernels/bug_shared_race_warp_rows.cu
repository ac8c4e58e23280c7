// A warp reverses rows through shared memory, and stores the next row while lanes read this one.
//
// launch: grid=1 block=64
// args: i32[256]=iota i32[256]=zeros
// bug: shared race

extern "C" __global__ void reverse_rows(const int* in, int* out) {
    __shared__ int row[2][32];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (int r = 0; r < 4; r++) {
        int base = (warp * 4 + r) * 32;
        row[warp][lane] = in[base + lane];
        __syncwarp();
        out[base + lane] = row[warp][31 - lane];  // BUG
    }
}
