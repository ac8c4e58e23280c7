// The lanes with an element vote among themselves; the others name the whole warp in the same vote.
//
// launch: grid=1 block=64
// args: i32[52]=iota i32[64]=zeros i32=52
// bug: different masks

extern "C" __global__ void any_large(const int* in, int* out, int n) {
    int t = threadIdx.x, first = t / 32 * 32, here = n - first < 32 ? n - first : 32;
    unsigned with_element = here < 32 ? (1u << here) - 1 : 0xffffffffu;
    unsigned mask = t < n ? with_element : 0xffffffffu;
    out[t] = __any_sync(mask, t < n && in[t] > 40);  // BUG
}
