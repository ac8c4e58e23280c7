// In each step of a tree the lanes that still add name each other, and the others name themselves.
//
// launch: grid=1 block=32
// args: i32[32]=iota i32[1]=zeros
// bug: different masks

extern "C" __global__ void sum(const int* in, int* out) {
    int lane = threadIdx.x, x = in[lane];
    for (int d = 16; d > 0; d /= 2) {
        unsigned mask = lane < d ? 0xffffffffu >> (32 - 2 * d) : 1u << lane;
        x += __shfl_down_sync(mask, x, lane < d ? d : 0);  // BUG
    }
    if (lane == 0) out[0] = x;
}
