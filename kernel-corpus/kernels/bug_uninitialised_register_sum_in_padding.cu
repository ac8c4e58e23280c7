// The fourth component of a vector is not padding: it was computed from a
// variable that was not set.
//
// launch: grid=1 block=32
// args: i32[35]=iota i32[128]=zeros i32=20
// bug: uninitialised register

extern "C" __global__ void gather(const int* in, int4* points, int weighted) {
    int t = threadIdx.x, weight;
    if (t < weighted) weight = in[t + 3];
    points[t] = make_int4(in[t], in[t + 1], in[t + 2], weight + t);  // BUG
}
