// A role for each quarter of a warp, and a barrier in one of the roles.
//
// launch: grid=1 block=32
// args: i32[32]=iota i32[32]=zeros
// bug: divergent barrier

extern "C" __global__ void roles(const int* in, int* out) {
    __shared__ int tile[32];
    int t = threadIdx.x;
    tile[t] = 0;
    switch (in[t] / 8) {
        case 0: tile[t] = 1; break;
        case 1: tile[t] = t * t; break;
        case 2: __syncthreads(); tile[t] = 7 - t; break;  // BUG
        default: tile[t] = -t;
    }
    __syncthreads();
    out[t] = tile[31 - t];
}
