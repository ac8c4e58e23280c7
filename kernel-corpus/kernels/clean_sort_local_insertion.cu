// Each thread sorts five values in local memory.
//
// launch: grid=1 block=16
// args: i32[80]=iota i32[80]=uninit
// bug: none
// expect 1: i32 0 3 6 7 10 1 2 5 8 9 0 3 4 7 10 1 2 5 6 9 0 3 4 7 8 2 5 6 9 10 0 1 4 7 8 2 3 6 9 10 0 1 4 5 8 2 3 6
// expect 1: i32 7 10 1 4 5 8 9 0 3 6 7 10 1 2 5 8 9 0 3 4 7 10 1 2 5 6 9 0 3 4 7 8

extern "C" __global__ void sort(const int* in, int* out) {
    int keys[5], t = threadIdx.x;
    for (int n = 0; n < 5; n++) {
        int key = in[5 * t + n] * 7 % 11, at = n;
        for (; at > 0 && keys[at - 1] > key; at--) keys[at] = keys[at - 1];
        keys[at] = key;
    }
    for (int i = 0; i < 5; i++) out[5 * t + i] = keys[i];
}
