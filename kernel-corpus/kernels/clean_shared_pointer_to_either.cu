// Two buffers change their parts in each round, and a function walks through one or the
// other, each from end to end.
//
// launch: grid=1 block=32
// args: i32[32]=iota i32[32]=uninit i32=3
// bug: none
// expect 1: i32 2000 3984 2002 3986 2004 3988 2006 3990 2008 3992 2010 3994 2012 3996 2014 3998 2016 4000 2018 4002
// expect 1: i32 2020 4004 2022 4006 2024 4008 2026 4010 2028 4012 2030 4014

__device__ __noinline__ int sum(const int* from, int n) {
    int sum = 0;
    for (const int* p = from; p < from + n; p++) sum += *p;
    return sum;
}

extern "C" __global__ void rounds(const int* in, int* out, int n) {
    __shared__ int even[32];
    __shared__ int odd[32];
    __shared__ struct {
        int low[16];
        int high[16];
    } parts;
    int t = threadIdx.x;
    even[t] = in[t];
    int* from = even;
    int* to = odd;
    for (int round = 0; round < n; round++) {
        __syncthreads();
        to[t] = from[t] + from[(t + 1) % 32];
        int* last = from;
        from = to;
        to = last;
    }
    reinterpret_cast<int*>(&parts)[t] = t;
    __syncthreads();
    out[t] = sum(t % 2 ? odd : even, 32) + parts.low[t / 2] + parts.high[t / 2];
}
