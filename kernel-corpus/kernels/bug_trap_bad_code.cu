// An error path asks for a trap.
//
// launch: grid=2 block=32
// args: i32[64]=iota i32[64]=zeros
// bug: trap

extern "C" __global__ void decode(const int* codes, int* out) {
    int i = blockIdx.x * 32 + threadIdx.x, code = codes[i];
    if (code == 37) __trap();  // BUG
    out[i] = code * 2;
}
