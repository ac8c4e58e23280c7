// A matrix product, one thread per element, guarded on both sides.
//
// launch: grid=2,2 block=8,8
// args: f32[99]=iota f32[81]=iota f32[99]=uninit i32=11 i32=9 i32=9
// bug: none
// expect 2: f32 1836 1872 1908 1944 1980 2016 2052 2088 2124 4752 4869 4986 5103 5220 5337 5454 5571 5688 7668 7866
// expect 2: f32 8064 8262 8460 8658 8856 9054 9252 10584 10863 11142 11421 11700 11979 12258 12537 12816 13500 13860
// expect 2: f32 14220 14580 14940 15300 15660 16020 16380 16416 16857 17298 17739 18180 18621 19062 19503 19944
// expect 2: f32 19332 19854 20376 20898 21420 21942 22464 22986 23508 22248 22851 23454 24057 24660 25263 25866
// expect 2: f32 26469 27072 25164 25848 26532 27216 27900 28584 29268 29952 30636 28080 28845 29610 30375 31140
// expect 2: f32 31905 32670 33435 34200 30996 31842 32688 33534 34380 35226 36072 36918 37764

extern "C" __global__ void gemm(const float* a, const float* b, float* c, int m, int n, int k_size) {
    int col = blockIdx.x * 8 + threadIdx.x, row = blockIdx.y * 8 + threadIdx.y;
    if (row >= m || col >= n) return;
    float sum = 0.0f;
    for (int k = 0; k < k_size; k++) sum += a[row * k_size + k] * b[k * n + col];
    c[row * n + col] = sum;
}
