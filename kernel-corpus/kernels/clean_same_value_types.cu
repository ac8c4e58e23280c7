// Many threads of many blocks store one value to one place: of 16 and 64 bits, and as vectors;
// and so in shared memory.
//
// launch: grid=3 block=64
// args: u16[4]=zeros f64[2]=zeros i32[8]=zeros u16[8]=zeros f64[192]=uninit
// bug: none
// expect 0: u16 0 7 0 0
// expect 1: f64 0 2.5
// expect 2: i32 0 0 0 0 1 2 3 4
// expect 3: u16 0 0 5 6 5 6 0 0
// expect 4: f64 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5
// expect 4: f64 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5
// expect 4: f64 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5
// expect 4: f64 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5
// expect 4: f64 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5
// expect 4: f64 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5
// expect 4: f64 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5
// expect 4: f64 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5
// expect 4: f64 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5
// expect 4: f64 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5 49.5

struct __align__(16) Four { int x, y, z, w; };
struct __align__(4) Pair { unsigned short x, y; };

extern "C" __global__ void agree(unsigned short* half, double* wide, Four* four, Pair* pair, double* out) {
    __shared__ unsigned short shared_half;
    __shared__ double shared_wide;
    __shared__ Four shared_four;
    half[1] = 7;
    wide[1] = 2.5;
    four[1] = Four{1, 2, 3, 4};
    pair[1 + threadIdx.x % 2] = Pair{5, 6};
    shared_half = 9;
    shared_wide = 0.5;
    shared_four = Four{10, 20, 30, 40};
    __syncthreads();
    out[blockIdx.x * 64 + threadIdx.x] = shared_half + shared_wide + shared_four.w;
}
