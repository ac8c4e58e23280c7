// Tiles of eight lanes: each leader hands a value to its tile through shared memory, and the
// tile alone synchronises.
//
// launch: grid=1 block=64
// args: i32[64]=iota i32[64]=uninit
// bug: none
// expect 1: i32 3 3 3 3 3 3 3 3 27 27 27 27 27 27 27 27 51 51 51 51 51 51 51 51 75 75 75 75 75 75 75 75 99 99 99 99
// expect 1: i32 99 99 99 99 123 123 123 123 123 123 123 123 147 147 147 147 147 147 147 147 171 171 171 171 171 171
// expect 1: i32 171 171

extern "C" __global__ void broadcast(const int* in, int* out) {
    __shared__ int slot[8];
    int t = threadIdx.x;
    unsigned tile = 0xffu << (t % 32 / 8 * 8);
    int sum = 0;
    for (int round = 0; round < 3; round++) {
        if (t % 8 == round) slot[t / 8] = in[t];
        __syncwarp(tile);
        sum += slot[t / 8];
        __syncwarp(tile);
    }
    out[t] = sum;
}
