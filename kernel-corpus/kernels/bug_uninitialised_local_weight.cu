// A thread keeps points of three coordinates, some with a weight, in an array of its own, and
// reads one weight too many.
//
// launch: grid=1 block=32
// args: i32[36]=iota i32[32]=zeros i32=20
// bug: uninitialised local

extern "C" __global__ void choose(const int* in, int* out, int weighted) {
    int4 points[4];
    int t = threadIdx.x;
    int4 p;
    p.x = in[t];
    p.y = in[t + 1];
    p.z = in[t + 2];
    if (t < weighted) p.w = in[t + 3];
    points[in[t] % 4] = p;
    const volatile int* chosen = &points[t % 4].x;
    out[t] = chosen[0] + chosen[1] + chosen[2];
    if (t <= weighted) out[t] += chosen[3];  // BUG
}
