// Threads beyond the end fill their part of the tile with zeros, and return behind the barrier.
//
// launch: grid=1 block=64
// args: i32[40]=iota i32[40]=uninit i32=40
// bug: none
// expect 1: i32 28 36 44 52 60 68 76 84 92 100 108 116 124 132 140 148 156 164 172 180 188 196 204 212 220 228 236
// expect 1: i32 244 252 260 268 276 284 252 219 185 150 114 77 39

extern "C" __global__ void windows(const int* in, int* out, int n) {
    __shared__ int tile[64];
    int t = threadIdx.x;
    tile[t] = t < n ? in[t] : 0;
    __syncthreads();
    if (t >= n) return;
    int sum = 0;
    for (int j = 0; j < 8; j++) sum += tile[(t + j) % 64];
    out[t] = sum;
}
