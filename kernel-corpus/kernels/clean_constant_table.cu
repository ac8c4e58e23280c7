// Coefficients in constant memory, indexed by the value.
//
// launch: grid=1 block=32
// args: i32[32]=iota i32[32]=uninit
// bug: none
// expect 1: i32 0 -2 60 1200 4 -10 180 2800 8 -18 300 4400 12 -26 420 6000 16 -34 540 7600 20 -42 660 9200 24 -50
// expect 1: i32 780 10800 28 -58 900 12400

__constant__ int weights[4] = {1, -2, 30, 400};
extern "C" __global__ void weigh(const int* in, int* out) {
    int x = in[threadIdx.x];
    out[threadIdx.x] = x * weights[x % 4];
}
