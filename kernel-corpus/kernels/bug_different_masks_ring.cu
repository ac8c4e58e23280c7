// Each lane names itself and the lane that it reads: no two lanes name the same ones.
//
// launch: grid=1 block=32
// args: i32[32]=iota i32[32]=zeros
// bug: different masks

extern "C" __global__ void rotate(const int* in, int* out) {
    int lane = threadIdx.x, next = (lane + 1) % 32;
    out[lane] = __shfl_sync(1u << lane | 1u << next, in[lane], next);  // BUG
}
