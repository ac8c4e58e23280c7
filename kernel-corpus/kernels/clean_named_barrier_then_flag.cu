// Two of three warps meet at a named barrier; then one thread fences, and sets a flag that
// the other block waits for.
//
// launch: grid=2 block=96
// args: i32[64]=zeros i32[1]=zeros i32[64]=zeros
// bug: none
// expect 2: i32 190 187 184 181 178 175 172 169 166 163 160 157 154 151 148 145 142 139 136 133 130 127 124 121 118
// expect 2: i32 115 112 109 106 103 100 97 94 91 88 85 82 79 76 73 70 67 64 61 58 55 52 49 46 43 40 37 34 31 28 25
// expect 2: i32 22 19 16 13 10 7 4 1

extern "C" __global__ void publish(int* data, int* flag, int* out) {
    int t = threadIdx.x;
    if (blockIdx.x == 0) {
        if (t < 64) {
            data[t] = 3 * t;
            asm volatile("bar.sync 1, 64;" ::: "memory");
            if (t == 0) {
                __threadfence();
                *(volatile int*)flag = 1;
            }
        }
    } else {
        if (t == 0) {
            while (*(volatile int*)flag == 0) {}
            __threadfence();
        }
        __syncthreads();
        if (t < 64) out[t] = data[63 - t] + 1;
    }
}
