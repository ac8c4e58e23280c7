// The best value so far is undefined until the first one is found, and some threads find none.
//
// launch: grid=1 block=32
// args: i32[64]=iota i32[32]=zeros i32[1]=zeros
// bug: uninitialised register

extern "C" __global__ void last_multiple(const int* in, int* out, int* hits) {
    int t = threadIdx.x, best;
    for (int i = 1; i < 64; i++) {
        if (in[i] % (3 * t + 2) == 0) {
            best = in[i];
            atomicAdd(hits, 1);
        }
    }
    out[t] = best + 1;  // BUG
}
