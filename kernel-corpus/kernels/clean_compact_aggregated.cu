// The lanes in a branch reserve places in a queue with one atomic; the sum of squares does
// not depend on their order.
//
// launch: grid=2 block=64
// args: i32[128]=iota i32[64]=zeros i32[1]=zeros i32[1]=zeros
// bug: none
// expect 2: i32 64
// expect 3: i32 349504

extern "C" __global__ void push_odd(const int* in, int* queue, int* tail, int* check) {
    int lane = threadIdx.x % 32, x = in[blockIdx.x * 64 + threadIdx.x];
    unsigned odd = __ballot_sync(0xffffffffu, x % 2 == 1);
    if (x % 2 == 1) {
        int leader = __ffs(odd) - 1, base = 0;
        if (lane == leader) base = atomicAdd(tail, __popc(odd));
        base = __shfl_sync(odd, base, leader);
        int at = base + __popc(odd & ((1u << lane) - 1));
        queue[at] = x;
        atomicAdd(check, queue[at] * x);  // its own element
    }
}
