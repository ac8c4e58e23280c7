// A scan that starts anew at flagged elements, by shuffles and a ballot.
//
// launch: grid=1 block=32
// args: i32[32]=ones i32[32]={1,0,0,0,0,1,0,0,0,0,0,0,1,1,0,0,0,0,0,0,0,0,0,0,1,0,0,0,0,0,0,1}
// args: i32[32]=uninit
// bug: none
// expect 2: i32 1 2 3 4 5 1 2 3 4 5 6 7 1 1 2 3 4 5 6 7 8 9 10 11 1 2 3 4 5 6 7 1

extern "C" __global__ void scan(const int* in, const int* starts, int* out) {
    int lane = threadIdx.x, x = in[lane];
    unsigned heads = __ballot_sync(0xffffffffu, starts[lane]) & (0xffffffffu >> (31 - lane));
    int first = heads ? 31 - __clz(heads) : 0;
    for (int d = 1; d < 32; d *= 2) {
        int left = __shfl_up_sync(0xffffffffu, x, d);
        if (lane - d >= first) x += left;
    }
    out[lane] = x;
}
