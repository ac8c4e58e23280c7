// Rows of 30 in a buffer of device memory with rows of 32, loaded four at a time: the padding
// is loaded, and not used.
//
// launch: grid=2 block=32
// args: f32[240]=iota f32[256]=uninit f32[64]=zeros
// bug: none
// expect 2: f32 6 22 38 54 70 86 102 57 126 142 158 174 190 206 222 117 246 262 278 294 310 326 342 177 366 382 398
// expect 2: f32 414 430 446 462 237 486 502 518 534 550 566 582 297 606 622 638 654 670 686 702 357 726 742 758 774
// expect 2: f32 790 806 822 417 846 862 878 894 910 926 942 477

extern "C" __global__ void row_sums(const float* in, float* padded, float* out) {
    int t = threadIdx.x, b = blockIdx.x;
    in += 120 * b;
    padded += 128 * b;
    for (int i = t; i < 120; i += 32) padded[i / 30 * 32 + i % 30] = in[i];
    __syncthreads();
    float4 v = *reinterpret_cast<const float4*>(padded + 4 * t);
    bool last = t % 8 == 7;
    out[32 * b + t] = v.x + v.y + (last ? 0.0f : v.z + v.w);
}
