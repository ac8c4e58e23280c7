// Block after block passes a value on: data, fence, flag; flag, fence, data.
//
// launch: grid=5 block=32
// args: i32[32]=iota i32[160]=uninit i32[5]=zeros
// bug: none
// expect 1: i32 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 31 30 29 28
// expect 1: i32 27 26 25 24 23 22 21 20 19 18 17 16 15 14 13 12 11 10 9 8 7 6 5 4 3 2 1 2 3 4 5 6 7 8 9 10 11 12 13
// expect 1: i32 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 33 32 31 30 29 28 27 26 25 24 23 22
// expect 1: i32 21 20 19 18 17 16 15 14 13 12 11 10 9 8 7 6 5 4 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22
// expect 1: i32 23 24 25 26 27 28 29 30 31 32 33 34 35

extern "C" __global__ void chain(const int* in, int* data, volatile int* ready) {
    int t = threadIdx.x, b = blockIdx.x, x = in[t];
    if (b > 0) {
        if (t == 0) {
            while (ready[b - 1] == 0) {}
            __threadfence();
        }
        __syncthreads();
        x = data[(b - 1) * 32 + 31 - t] + 1;
    }
    data[b * 32 + t] = x;
    __threadfence();
    __syncthreads();
    if (t == 0) ready[b] = 1;
}
