// The same with the PTX memory model's own words: st.release and ld.acquire.
//
// launch: grid=2 block=32
// args: i32[32]=iota i32[32]=uninit u32[1]=zeros i32[32]=uninit
// bug: none
// expect 3: i32 93 90 87 84 81 78 75 72 69 66 63 60 57 54 51 48 45 42 39 36 33 30 27 24 21 18 15 12 9 6 3 0

extern "C" __global__ void hand_over(const int* in, int* data, unsigned* ready, int* out) {
    int t = threadIdx.x;
    if (blockIdx.x == 0) {
        data[t] = in[t] * 3;
        __syncthreads();
        if (t == 0) asm volatile("st.release.gpu.u32 [%0], 1;" :: "l"(ready) : "memory");
    } else {
        if (t == 0) {
            unsigned set = 0;
            while (set == 0) asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(set) : "l"(ready) : "memory");
        }
        __syncthreads();
        out[t] = data[31 - t];
    }
}
