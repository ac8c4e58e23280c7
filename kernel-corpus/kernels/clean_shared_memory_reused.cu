// A tile of floats becomes, after a barrier, one of bytes.
//
// launch: grid=1 block=64
// args: f32[64]=iota u8[64]=uninit f32[64]=uninit
// bug: none
// expect 1: u8 31 31 30 30 29 29 28 28 27 27 26 26 25 25 24 24 23 23 22 22 21 21 20 20 19 19 18 18 17 17 16 16 15
// expect 1: u8 15 14 14 13 13 12 12 11 11 10 10 9 9 8 8 7 7 6 6 5 5 4 4 3 3 2 2 1 1 0 0
// expect 2: f32 31.5 31 30.5 30 29.5 29 28.5 28 27.5 27 26.5 26 25.5 25 24.5 24 23.5 23 22.5 22 21.5 21 20.5 20 19.5
// expect 2: f32 19 18.5 18 17.5 17 16.5 16 15.5 15 14.5 14 13.5 13 12.5 12 11.5 11 10.5 10 9.5 9 8.5 8 7.5 7 6.5 6
// expect 2: f32 5.5 5 4.5 4 3.5 3 2.5 2 1.5 1 0.5 0

extern "C" __global__ void reuse(const float* in, unsigned char* bytes, float* out) {
    __shared__ float tile[64];
    int t = threadIdx.x;
    tile[t] = in[t] * 0.5f;
    __syncthreads();
    float x = tile[63 - t];
    __syncthreads();
    unsigned char* small = reinterpret_cast<unsigned char*>(tile);
    small[t] = static_cast<unsigned char>(x);
    __syncthreads();
    bytes[t] = small[t ^ 1];
    out[t] = x;
}
