// Points of three coordinates, some with a weight, are stored whole, and one
// weight too many is read.
//
// launch: grid=1 block=32
// args: i32[35]=iota i32[128]=uninit i32[32]=zeros i32=20
// bug: uninitialised global

extern "C" __global__ void reverse(const int* in, int4* points, int* out, int weighted) {
    int t = threadIdx.x;
    int4 p;
    p.x = in[t];
    p.y = in[t + 1];
    p.z = in[t + 2];
    if (t < weighted) p.w = in[t + 3];
    points[t] = p;
    __syncthreads();
    const volatile int* other = &points[31 - t].x;
    out[t] = other[0] + other[1] + other[2];
    if (31 - t <= weighted) out[t] += other[3];  // BUG
}
