// Points of three coordinates, some with a weight, are stored whole: what nobody set
// is stored, and never read.
//
// launch: grid=1 block=32
// args: i32[35]=iota i32[128]=uninit i32[32]=zeros i32[32]=zeros i32=20
// bug: none
// expect 2: i32 96 93 90 87 84 81 78 75 72 69 66 63 82 78 74 70 66 62 58 54 50 46 42 38 34 30 26 22 18 14 10 6
// expect 3: i32 96 93 90 87 84 81 78 75 72 69 66 63 82 78 74 70 66 62 58 54 50 46 42 38 34 30 26 22 18 14 10 6

extern "C" __global__ void reverse(const int* in, int4* points, int* near, int* far, int weighted) {
    __shared__ int4 tile[32];
    int t = threadIdx.x;
    int4 p;
    p.x = in[t];
    p.y = in[t + 1];
    p.z = in[t + 2];
    if (t < weighted) p.w = in[t + 3];
    tile[t] = p;
    points[t] = p;
    __syncthreads();
    const volatile int* other = &tile[31 - t].x;
    near[t] = other[0] + other[1] + other[2];
    if (31 - t < weighted) near[t] += other[3];
    other = &points[31 - t].x;
    far[t] = other[0] + other[1] + other[2];
    if (31 - t < weighted) far[t] += other[3];
}
