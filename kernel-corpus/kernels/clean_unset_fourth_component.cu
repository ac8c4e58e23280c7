// Points of three coordinates are kept as float4, loaded whole, moved and stored: nobody
// sets or uses the fourth.
//
// launch: grid=1 block=32
// args: f32[96]=iota f32[32]=zeros f32[128]=uninit
// bug: none
// expect 1: f32 98 104 110 116 122 128 134 140 146 152 158 164 170 176 182 188 194 200 206 212 218 224 230 236 242
// expect 1: f32 248 254 260 266 272 278 284

extern "C" __global__ void reverse(const float* in, float* sums, float4* out) {
    __shared__ float4 points[32], moved[32];
    int t = threadIdx.x;
    points[t].x = in[3 * t];
    points[t].y = in[3 * t + 1];
    points[t].z = in[3 * t + 2];
    __syncthreads();
    float4 p = points[31 - t];
    p.x += 1.0f;
    p.w *= 2.0f;
    moved[t] = p;
    __syncthreads();
    p = moved[31 - t];
    sums[t] = p.x + p.y + p.z;
    out[t] = p;
    __syncthreads();
    float4 other = out[31 - t];
    sums[t] += other.x;
}
