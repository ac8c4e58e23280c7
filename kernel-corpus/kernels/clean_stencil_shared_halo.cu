// A three-point stencil with a halo that is zero at the ends.
//
// launch: grid=2 block=64
// args: f32[128]=iota f32[128]=uninit
// bug: none
// expect 1: f32 1 4 8 12 16 20 24 28 32 36 40 44 48 52 56 60 64 68 72 76 80 84 88 92 96 100 104 108 112 116 120 124
// expect 1: f32 128 132 136 140 144 148 152 156 160 164 168 172 176 180 184 188 192 196 200 204 208 212 216 220 224
// expect 1: f32 228 232 236 240 244 248 252 256 260 264 268 272 276 280 284 288 292 296 300 304 308 312 316 320 324
// expect 1: f32 328 332 336 340 344 348 352 356 360 364 368 372 376 380 384 388 392 396 400 404 408 412 416 420 424
// expect 1: f32 428 432 436 440 444 448 452 456 460 464 468 472 476 480 484 488 492 496 500 504 380

extern "C" __global__ void blur(const float* in, float* out) {
    __shared__ float tile[66];
    int t = threadIdx.x, i = blockIdx.x * 64 + t;
    tile[t + 1] = in[i];
    if (t == 0) tile[0] = i > 0 ? in[i - 1] : 0.0f;
    if (t == 63) tile[65] = i < 127 ? in[i + 1] : 0.0f;
    __syncthreads();
    out[i] = tile[t] + 2.0f * tile[t + 1] + tile[t + 2];
}
