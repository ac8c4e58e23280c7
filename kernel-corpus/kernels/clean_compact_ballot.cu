// Elements that pass a test move together: a ballot gives each its place in the warp,
// shared sums that of the warp.
//
// launch: grid=1 block=128
// args: i32[128]=iota i32[128]=zeros i32[1]=uninit
// bug: none
// expect 1: i32 0 1 5 6 10 11 15 16 20 21 25 26 30 31 35 36 40 41 45 46 50 51 55 56 60 61 65 66 70 71 75 76 80 81 85
// expect 1: i32 86 90 91 95 96 100 101 105 106 110 111 115 116 120 121 125 126 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
// expect 1: i32 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
// expect 1: i32 0 0 0 0 0 0 0
// expect 2: i32 52

extern "C" __global__ void compact(const int* in, int* out, int* count) {
    __shared__ int kept[4];
    int t = threadIdx.x, lane = t % 32, warp = t / 32, x = in[t];
    bool keep = x % 5 < 2;
    unsigned votes = __ballot_sync(0xffffffffu, keep);
    if (lane == 0) kept[warp] = __popc(votes);
    __syncthreads();
    int at = __popc(votes & ((1u << lane) - 1));
    for (int w = 0; w < warp; w++) at += kept[w];
    if (keep) out[at] = x;
    if (t == 127) *count = at + keep;
}
