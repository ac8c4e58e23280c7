// Tiles of eight lanes synchronise among themselves, but read the slot of the tile beside them.
//
// launch: grid=1 block=64
// args: i32[64]=iota i32[64]=uninit
// bug: shared race

extern "C" __global__ void neighbours(const int* in, int* out) {
    __shared__ int slot[8];
    int t = threadIdx.x;
    if (t < 8) slot[t] = 0;
    __syncthreads();
    if (t % 8 == 0) slot[t / 8] = in[t];
    __syncwarp(0xffu << (t % 32 / 8 * 8));
    out[t] = slot[t / 8 ^ 1];  // BUG
}
