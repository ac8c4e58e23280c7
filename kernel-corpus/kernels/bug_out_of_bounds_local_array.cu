// A window of four in local memory, indexed modulo five.
//
// launch: grid=1 block=32
// args: i32[32]=iota i32[32]=zeros
// bug: out of bounds

extern "C" __global__ void window(const int* in, int* out) {
    int last[4] = {0, 0, 0, 0};
    int t = threadIdx.x;
    for (int i = 0; i <= t; i++) {
        last[in[i] % 5] = i;  // BUG
    }
    out[t] = last[0] + last[1] + last[2] + last[3];
}
