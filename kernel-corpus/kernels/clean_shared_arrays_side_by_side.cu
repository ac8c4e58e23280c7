// Three arrays lie one behind the other; each is used from its first element to its last, and some
// addresses are computed from a place behind the end.
//
// launch: grid=1 block=64
// args: i32[64]=iota i32[64]=uninit
// bug: none
// expect 1: i32 4651 5547 4397 5297 4151 5055 3913 4821 3683 4595 3461 4377 3247 4167 3041 3965 2843 3771 2653 3585
// expect 1: i32 2471 3407 2297 3237 2131 3075 1973 2921 1823 2775 1681 2637 1547 2507 1421 2385 1303 2271 1193 2165
// expect 1: i32 1091 2067 997 1977 911 1895 833 1821 763 1755 701 1697 647 1647 601 1605 563 1571 533 1545 511 1527
// expect 1: i32 498 1520

extern "C" __global__ void arrays(const int* in, int* out) {
    __shared__ int values[64];
    __shared__ int squares[64];
    __shared__ int sums[2];
    int t = threadIdx.x;
    values[t] = in[t];
    squares[63 - t] = in[t] * in[t];
    if (t < 2) sums[t] = 0;
    __syncthreads();
    atomicAdd(&sums[t / 32], values[t]);
    const int* end = values + 64;
    int window = 0;
    for (int i = 1; i <= 3; i++) window += t + i <= 64 ? end[-t - i] : 0;
    __syncthreads();
    out[t] = window + squares[t] + sums[t % 2];
}
