// The fourth component of points is set nowhere. Points are moved as a whole,
// and it is used behind that.
//
// launch: grid=1 block=32
// args: f32[96]=iota f32[32]=zeros
// bug: uninitialised shared

extern "C" __global__ void weights(const float* in, float* out) {
    __shared__ float4 points[32], moved[32];
    int t = threadIdx.x;
    points[t].x = in[3 * t];
    points[t].y = in[3 * t + 1];
    points[t].z = in[3 * t + 2];
    __syncthreads();
    moved[t] = points[31 - t];
    __syncthreads();
    float4 p = moved[31 - t];
    out[t] = (p.x + p.y + p.z) * p.w;  // BUG
}
