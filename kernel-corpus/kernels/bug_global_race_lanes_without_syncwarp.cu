// The lanes of a warp exchange through device memory, with no __syncwarp()
// between the store and the load.
//
// launch: grid=2 block=32
// args: i32[64]=iota i32[64]=zeros i32[64]=zeros
// bug: global race

extern "C" __global__ void reverse(const int* in, int* between, int* out) {
    int t = threadIdx.x, base = blockIdx.x * 32;
    between[base + t] = in[base + t] * 2;
    out[base + t] = between[base + 31 - t];  // BUG
}
