// Two arrays of different types in dynamic shared memory, one behind the other.
//
// launch: grid=1 block=32 shared=384
// args: i32[32]=iota f64[32]=uninit
// bug: none
// expect 1: f64 962 902 844 788 734 682 632 584 538 494 452 412 374 338 304 272 242 214 188 164 142 122 104 88 74 62
// expect 1: f64 52 44 38 34 32 0

extern "C" __global__ void carve(const int* in, double* out) {
    extern __shared__ __align__(8) unsigned char pool[];
    double* squares = reinterpret_cast<double*>(pool);
    int* values = reinterpret_cast<int*>(pool + 32 * sizeof(double));
    int t = threadIdx.x;
    values[t] = in[t];
    squares[t] = static_cast<double>(in[t]) * in[t];
    __syncthreads();
    out[t] = squares[31 - t] + values[(t + 1) % 32];
}
