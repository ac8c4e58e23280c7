// The largest element and its place by shuffles; the smaller index wins among equals.
//
// launch: grid=2 block=32
// args: i32[64]={3,7,1,7,0,2,5,5,6,1,2,3,7,7,0,1,2,3,4,5,6,0,0,0,1,1,1,2,2,2,3,3,9,1,9,4,4,4,4,4,8,8,8,8,1,2,3,4,5,6,7,8,9,9,9,0,0,0,0,0,1,1,1,1}
// args: i32[4]=uninit
// bug: none
// expect 1: i32 7 1 9 0

extern "C" __global__ void argmax(const int* in, int* out) {
    int at = threadIdx.x, best = in[blockIdx.x * 32 + at];
    for (int d = 16; d > 0; d /= 2) {
        int other = __shfl_xor_sync(0xffffffffu, best, d), there = __shfl_xor_sync(0xffffffffu, at, d);
        if (other > best || (other == best && there < at)) {
            best = other;
            at = there;
        }
    }
    if (threadIdx.x == 0) {
        out[2 * blockIdx.x] = best;
        out[2 * blockIdx.x + 1] = at;
    }
}
