// The first twenty lanes shuffle among themselves; a lane whose source would be absent keeps out.
//
// launch: grid=1 block=32
// args: i32[20]=iota i32[20]=uninit
// bug: none
// expect 1: i32 300 401 502 603 704 805 906 1007 1108 1209 1310 1411 1512 1613 1714 1815 1916 1717 1818 1919

extern "C" __global__ void shift(const int* in, int* out) {
    int lane = threadIdx.x;
    if (lane < 20) {
        int x = in[lane];
        int from = lane + 3 < 20 ? lane + 3 : lane;
        out[lane] = x + 100 * __shfl_sync(0x000fffffu, x, from);
    }
}
