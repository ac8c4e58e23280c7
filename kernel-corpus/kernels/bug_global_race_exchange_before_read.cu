// The warps of a block exchange through device memory, with no barrier between
// the stores and the loads.
//
// launch: grid=2 block=128
// args: i32[256]=iota i32[256]=zeros i32[256]=zeros
// bug: global race

extern "C" __global__ void reverse(const int* in, int* between, int* out) {
    int t = threadIdx.x, base = blockIdx.x * 128;
    between[base + t] = in[base + t] + 1;
    out[base + t] = between[base + 127 - t];  // BUG
}
