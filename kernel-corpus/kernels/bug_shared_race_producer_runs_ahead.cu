// Warp 0 fills a slot, warp 1 empties it; nothing tells warp 0 that the slot is empty again.
//
// launch: grid=1 block=64
// args: i32[128]=iota i32[128]=zeros
// bug: shared race

__device__ void full() { asm volatile("bar.sync 1, 64;" ::: "memory"); }

extern "C" __global__ void pipeline(const int* in, int* out) {
    __shared__ int slot[32];
    int lane = threadIdx.x % 32;
    for (int i = 0; i < 4; i++) {
        if (threadIdx.x < 32) {
            slot[lane] = in[i * 32 + lane];  // BUG
            full();
        } else {
            full();
            out[i * 32 + lane] = slot[lane] + 1;
        }
    }
}
