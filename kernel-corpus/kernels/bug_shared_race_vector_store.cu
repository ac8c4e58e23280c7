// Rows are stored as float4 and read column by column, with no barrier between.
//
// launch: grid=1 block=64
// args: f32[256]=iota f32[64]=zeros
// bug: shared race

extern "C" __global__ void column_sums(const float4* in, float* out) {
    __shared__ float4 rows[64];
    int t = threadIdx.x;
    rows[t] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    __syncthreads();
    rows[t] = in[t];
    const float* flat = reinterpret_cast<const float*>(rows);
    float sum = 0.0f;
    for (int i = 0; i < 4; i++) sum += flat[i * 64 + t];  // BUG
    out[t] = sum;
}
