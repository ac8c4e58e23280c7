// A block transposes two tiles in turn, and overwrites the first while
// columns of it are still read.
//
// launch: grid=1 block=16,16
// args: i32[512]=iota i32[512]=zeros
// bug: shared race

extern "C" __global__ void transpose(const int* in, int* out) {
    __shared__ int tile[16][17];
    int tx = threadIdx.x, ty = threadIdx.y;
    for (int x0 = 0; x0 < 32; x0 += 16) {
        tile[ty][tx] = in[ty * 32 + x0 + tx];  // BUG
        __syncthreads();
        out[(x0 + ty) * 16 + tx] = tile[tx][ty];
    }
}
