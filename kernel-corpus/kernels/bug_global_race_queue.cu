// A queue whose tail is moved by a load and a store.
//
// launch: grid=4 block=32
// args: i32[1]=zeros i32[8]=zeros
// bug: global race

extern "C" __global__ void push(int* tail, int* items) {
    if (threadIdx.x == 0) {
        int at = *tail;  // UPDATE // BUG
        *tail = at + 1;
        atomicExch(&items[at], blockIdx.x + 1);
    }
}
