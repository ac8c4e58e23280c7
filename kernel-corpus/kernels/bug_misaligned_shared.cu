// A vector load at a sliding position of a tile in shared memory.
//
// launch: grid=1 block=32
// args: f32[64]=iota f32[32]=zeros
// bug: misaligned

extern "C" __global__ void moving_sum(const float* in, float* out) {
    __shared__ __align__(16) float tile[64];
    int t = threadIdx.x;
    tile[t] = in[t];
    tile[t + 32] = in[t + 32];
    __syncwarp();
    float4 v = *reinterpret_cast<const float4*>(tile + t);  // BUG
    out[t] = v.x + v.y + v.z + v.w;
}
