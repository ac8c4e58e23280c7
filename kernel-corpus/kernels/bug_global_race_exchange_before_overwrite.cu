// The warps of a block exchange through device memory in rounds. Nothing keeps the next round's
// stores behind the loads.
//
// launch: grid=2 block=128
// args: i32[256]=iota i32[256]=zeros i32[256]=zeros
// bug: global race

extern "C" __global__ void smooth(const int* in, int* between, int* out) {
    int t = threadIdx.x, base = blockIdx.x * 128, x = in[base + t];
    for (int round = 0; round < 3; round++) {
        between[base + t] = x;
        __syncthreads();  // the whole row is there before it is read
        x += between[base + (t + 32) % 128];  // BUG
    }
    out[base + t] = x;
}
