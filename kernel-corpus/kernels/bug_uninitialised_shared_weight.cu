// Points of three coordinates, some with a weight, are stored whole, and one
// weight too many is read.
//
// launch: grid=1 block=32
// args: i32[35]=iota i32[32]=zeros i32=20
// bug: uninitialised shared

extern "C" __global__ void reverse(const int* in, int* out, int weighted) {
    __shared__ int4 tile[32];
    int t = threadIdx.x;
    int4 p;
    p.x = in[t];
    p.y = in[t + 1];
    p.z = in[t + 2];
    if (t < weighted) p.w = in[t + 3];
    tile[t] = p;
    __syncthreads();
    const volatile int* other = &tile[31 - t].x;
    out[t] = other[0] + other[1] + other[2];
    if (31 - t <= weighted) out[t] += other[3];  // BUG
}
