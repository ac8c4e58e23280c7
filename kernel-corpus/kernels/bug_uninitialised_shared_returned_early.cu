// Threads beyond the end return before they have filled their part of the tile, and
// the others read all of it.
//
// launch: grid=1 block=64
// args: i32[40]=iota i32[40]=zeros i32=40
// bug: uninitialised shared

extern "C" __global__ void windows(const int* in, int* out, int n) {
    __shared__ int tile[64];
    int t = threadIdx.x;
    if (t >= n) return;  // RETURN
    tile[t] = in[t];
    __syncthreads();
    int sum = 0;
    for (int j = 0; j < 8; j++) sum += tile[(t + j) % 64];  // BUG
    out[t] = sum;
}
