// Each block leaves a row and sets its own flag, with no fence between them; block 0 waits for all
// flags and adds the rows.
//
// launch: grid=6 block=64
// args: i32[384]=zeros u32[6]=zeros i32[64]=zeros
// bug: global race

extern "C" __global__ void columns(int* rows, unsigned* ready, int* out) {
    int t = threadIdx.x, b = blockIdx.x;
    rows[b * 64 + t] = b * t;  // BUG
    __syncthreads();
    if (t == 0) atomicExch(&ready[b], 1u);
    if (b > 0) return;
    if (t < gridDim.x) {
        while (atomicAdd(&ready[t], 0u) == 0) {}
        __threadfence();
    }
    __syncthreads();
    int sum = 0;
    for (int other = 0; other < gridDim.x; other++) sum += rows[other * 64 + t];
    out[t] = sum;
}
