// Points of three coordinates are kept as float4, and the fourth is used although nobody set it.
//
// launch: grid=1 block=32
// args: f32[96]=iota f32[32]=zeros
// bug: uninitialised shared

extern "C" __global__ void sums(const float* in, float* out) {
    __shared__ float4 points[32];
    int t = threadIdx.x;
    points[t].x = in[3 * t];
    points[t].y = in[3 * t + 1];
    points[t].z = in[3 * t + 2];
    __syncthreads();
    float4 p = points[31 - t];  // BUG
    out[t] = p.x + p.y + p.z + p.w;
}
