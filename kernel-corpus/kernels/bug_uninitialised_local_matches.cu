// Positions of matches are listed; the list's first place is used even if it is empty.
//
// launch: grid=1 block=32
// args: i32[64]=iota i32[32]=zeros
// bug: uninitialised local

extern "C" __global__ void first_match(const int* in, int* out) {
    int found[4];
    int t = threadIdx.x, count = 0;
    #pragma unroll 1
    for (int i = 0; i < 64; i++) {
        if (in[i] % 16 == t && count < 4) found[count++] = i;
    }
    out[t] = found[in[0]];  // BUG
}
