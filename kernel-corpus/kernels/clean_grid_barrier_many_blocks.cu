// A barrier between 64 small blocks, twice: each reads the results of all others in between.
//
// launch: grid=64 block=32
// args: i32[64]=iota i32[64]=uninit u32[1]=zeros i32[64]=uninit
// bug: none
// expect 1: i32 85344 85343 85342 85341 85340 85339 85338 85337 85336 85335 85334 85333 85332 85331 85330 85329
// expect 1: i32 85328 85327 85326 85325 85324 85323 85322 85321 85320 85319 85318 85317 85316 85315 85314 85313
// expect 1: i32 85312 85311 85310 85309 85308 85307 85306 85305 85304 85303 85302 85301 85300 85299 85298 85297
// expect 1: i32 85296 85295 85294 85293 85292 85291 85290 85289 85288 85287 85286 85285 85284 85283 85282 85281
// expect 3: i32 85344 85344 85344 85344 85344 85344 85344 85344 85344 85344 85344 85344 85344 85344 85344 85344
// expect 3: i32 85344 85344 85344 85344 85344 85344 85344 85344 85344 85344 85344 85344 85344 85344 85344 85344
// expect 3: i32 85344 85344 85344 85344 85344 85344 85344 85344 85344 85344 85344 85344 85344 85344 85344 85344
// expect 3: i32 85344 85344 85344 85344 85344 85344 85344 85344 85344 85344 85344 85344 85344 85344 85344 85344

__device__ void grid_sync(unsigned* arrived, unsigned goal) {
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        atomicAdd(arrived, 1u);
        while (*static_cast<volatile unsigned*>(arrived) < goal) {}
        __threadfence();
    }
    __syncthreads();
}

extern "C" __global__ void three_phases(const int* in, int* squares, unsigned* arrived, int* out) {
    int t = threadIdx.x, b = blockIdx.x, sum = 0;
    if (t == 0) squares[b] = in[b] * in[b];
    grid_sync(arrived, gridDim.x);
    for (int i = t; i < 64; i += 32) sum += squares[i];
    for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, d);
    grid_sync(arrived, 2 * gridDim.x);
    if (t == 0) {
        squares[b] = sum - b;
        out[b] = sum;
    }
}
