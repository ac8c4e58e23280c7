// Argmax of values that travel with their index. Entries without a candidate have
// no index, and never win.
//
// launch: grid=1 block=64
// args: f32[50]=iota f32[1]=zeros i32[1]=zeros i32=50
// bug: none
// expect 1: f32 288
// expect 2: i32 48

struct Best {
    float value;
    int index;
};

extern "C" __global__ void argmax(const float* in, float* value, int* index, int n) {
    __shared__ Best best[64];
    int t = threadIdx.x;
    best[t].value = -1.0f;
    if (t < n) {
        best[t].value = in[t] * (t % 7);
        best[t].index = t;
    }
    __syncthreads();
    for (int step = 32; step > 0; step /= 2) {
        if (t < step) {
            Best a = best[t], b = best[t + step];
            best[t] = b.value > a.value ? b : a;
        }
        __syncthreads();
    }
    if (t == 0) {
        *value = best[0].value;
        *index = best[0].index;
    }
}
