// Lanes 0 to 7 wait for a group of 8, lanes 8 to 15 for one of 16.
//
// launch: grid=1 block=32
// args: i32[32]=iota i32[32]=zeros
// bug: different masks

extern "C" __global__ void reverse_groups(const int* in, int* out) {
    __shared__ int row[32];
    int lane = threadIdx.x;
    row[lane] = 0;
    __syncwarp();
    unsigned group = lane < 8 ? 0x000000ffu : lane < 16 ? 0x0000ffffu : 0xffff0000u;
    row[lane] = in[lane];
    __syncwarp(group);  // BUG
    out[lane] = row[lane ^ 7];
}
