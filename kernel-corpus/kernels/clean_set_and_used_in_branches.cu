// A variable is set in one branch and used in another with the same condition, across a barrier.
//
// launch: grid=2 block=64
// args: f32[100]=iota f32[100]=uninit i32=100
// bug: none
// expect 1: f32 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36
// expect 1: f32 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63 0 1 2 3 4 5 6 7 8 9
// expect 1: f32 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35

extern "C" __global__ void centred(const float* in, float* out, int n) {
    __shared__ float tile[64];
    int t = threadIdx.x, i = blockIdx.x * 64 + t;
    float x;
    if (i < n) {
        x = in[i];
        tile[t] = x;
    }
    __syncthreads();
    if (i < n) out[i] = x - tile[0];
}
