// Four elements at a time, and the tail one by one.
//
// launch: grid=1 block=32
// args: f32[102]=iota f32[102]=uninit i32=102
// bug: none
// expect 1: f32 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36
// expect 1: f32 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63 64 65 66 67 68 69
// expect 1: f32 70 71 72 73 74 75 76 77 78 79 80 81 82 83 84 85 86 87 88 89 90 91 92 93 94 95 96 97 98 99 100 101

extern "C" __global__ void copy(const float* in, float* out, int n) {
    int t = threadIdx.x;
    for (int i = t; i < n / 4; i += 32) {
        reinterpret_cast<float4*>(out)[i] = reinterpret_cast<const float4*>(in)[i];
    }
    for (int i = n / 4 * 4 + t; i < n; i += 32) out[i] = in[i];
}
