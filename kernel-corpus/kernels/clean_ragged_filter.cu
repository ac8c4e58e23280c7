// A filter of seven taps in device memory: the compiler loads them in two groups of four words, and
// marks the last word, which lies behind the array's end, as unused.
//
// launch: grid=2 block=64
// args: f32[134]=iota f32[128]=uninit
// bug: none
// expect 1: f32 24 32 40 48 56 64 72 80 88 96 104 112 120 128 136 144 152 160 168 176 184 192 200 208 216 224 232
// expect 1: f32 240 248 256 264 272 280 288 296 304 312 320 328 336 344 352 360 368 376 384 392 400 408 416 424 432
// expect 1: f32 440 448 456 464 472 480 488 496 504 512 520 528 536 544 552 560 568 576 584 592 600 608 616 624 632
// expect 1: f32 640 648 656 664 672 680 688 696 704 712 720 728 736 744 752 760 768 776 784 792 800 808 816 824 832
// expect 1: f32 840 848 856 864 872 880 888 896 904 912 920 928 936 944 952 960 968 976 984 992 1000 1008 1016 1024
// expect 1: f32 1032 1040

__device__ __align__(16) float taps[7] = {1.0f, -2.0f, 3.0f, 4.0f, 3.0f, -2.0f, 1.0f};

extern "C" __global__ void filter(const float* in, float* out) {
    int i = blockIdx.x * 64 + threadIdx.x;
    float sum = 0.0f;
#pragma unroll
    for (int k = 0; k < 7; k++) sum += taps[k] * in[i + k];
    out[i] = sum;
}
