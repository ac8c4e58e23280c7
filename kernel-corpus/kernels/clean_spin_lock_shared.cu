// Locks in shared memory, one a bucket; warps push to lists whose lengths do
// not depend on the order.
//
// launch: grid=1 block=64
// args: i32[64]=iota i32[4]=uninit i32[4]=uninit
// bug: none
// expect 1: i32 19 18 18 9
// expect 2: i32 603 558 576 279

extern "C" __global__ void buckets(const int* in, int* lengths, int* sums) {
    __shared__ int lock[4], length[4], sum[4];
    int t = threadIdx.x;
    if (t < 4) lock[t] = length[t] = sum[t] = 0;
    __syncthreads();
    int bucket = in[t] % 7 % 4;
    for (bool done = false; !done;) {
        if (atomicCAS(&lock[bucket], 0, 1) == 0) {
            __threadfence_block();
            length[bucket] += 1;
            sum[bucket] += in[t];
            __threadfence_block();
            atomicExch(&lock[bucket], 0);
            done = true;
        }
    }
    __syncthreads();
    if (t < 4) {
        lengths[t] = length[t];
        sums[t] = sum[t];
    }
}
