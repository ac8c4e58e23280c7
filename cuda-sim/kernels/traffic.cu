// Ways to move memory, each with counts that can be derived by hand: what the
// profiler is held against.
//
// grid: any number of blocks; block: (THREADS, 1, 1), one thread for each of n elements, the last
// block ragged; shared memory: none. Loads and stores stand on lines of their own, so that each
// line's counts are known too.

constexpr int THREADS = 256;

__device__ __forceinline__ int element() {
    return blockIdx.x * THREADS + threadIdx.x;
}

// Neighbouring threads copy neighbouring words.
extern "C" __global__ void copy(const float* in,  // [n] f32
                                float* out,       // [n] f32
                                int n) {
    int i = element();
    if (i >= n) return;
    float x = in[i];  // copy: load
    out[i] = x;       // copy: store
}

// The same, one word further on: a warp's words begin in the middle of a sector.
extern "C" __global__ void copy_offset(const float* in,  // [n + 1] f32
                                       float* out,       // [n] f32
                                       int n) {
    int i = element();
    if (i >= n) return;
    out[i] = in[i + 1];
}

// Neighbouring threads load words that are `stride` apart.
extern "C" __global__ void copy_strided(const float* in,  // [n * stride] f32
                                        float* out,       // [n] f32
                                        int n, int stride) {
    int i = element();
    if (i >= n) return;
    float x = in[i * stride];  // strided: load
    out[i] = x;                // strided: store
}

// Four words per thread.
extern "C" __global__ void copy_vectors(const float4* in,  // [n, 4] f32
                                        float4* out,       // [n, 4] f32
                                        int n) {
    int i = element();
    if (i >= n) return;
    out[i] = in[i];
}

// One byte per thread.
extern "C" __global__ void copy_bytes(const unsigned char* in,  // [n] u8
                                      unsigned char* out,       // [n] u8
                                      int n) {
    int i = element();
    if (i >= n) return;
    out[i] = in[i];
}

// All threads of a block load one word.
extern "C" __global__ void broadcast(const float* in,  // [blocks] f32
                                     float* out,       // [n] f32
                                     int n) {
    int i = element();
    if (i >= n) return;
    out[i] = in[blockIdx.x];
}

// Half of each warp loads from one array, half from another.
extern "C" __global__ void two_arrays(const float* a,  // [n] f32
                                      const float* b,  // [n] f32
                                      float* out,      // [n] f32
                                      int n) {
    int i = element();
    if (i >= n) return;
    const float* from = threadIdx.x % 32 < 16 ? a : b;
    out[i] = from[i];
}

// y += a * x, in f64.
extern "C" __global__ void axpy(double a,
                                const double* x,  // [n] f64
                                double* y,        // [n] f64
                                int n) {
    int i = element();
    if (i >= n) return;
    y[i] = a * x[i] + y[i];
}

// Each thread's loop is as long as its number modulo 4 says: the warp splits, and
// meets again before it stores.
extern "C" __global__ void uneven_loop(float* out,  // [n] f32
                                       float factor, int n) {
    int i = element();
    if (i >= n) return;
    float x = 1.0f;
#pragma unroll 1
    for (int k = 0; k < threadIdx.x % 4; ++k) x = x * factor + 1.0f;  // uneven: loop
    out[i] = x;                                                       // uneven: store
}

// Threads with odd numbers store to one array, the others to another.
extern "C" __global__ void two_ways(float* even,  // [n / 2, rounded up] f32
                                    float* odd,   // [n / 2] f32
                                    int n) {
    int i = element();
    if (i >= n) return;
    if (threadIdx.x % 2 != 0) {
        odd[i / 2] = 1.0f;  // two ways: odd
    } else {
        even[i / 2] = 2.0f;  // two ways: even
    }
}

// An array that cannot lie in registers, because its index is not known.
extern "C" __global__ void local_array(const int* index,  // [n] i32, from 0 to 7
                                       float* out,        // [n] f32
                                       int n) {
    int i = element();
    if (i >= n) return;
    float values[8];
#pragma unroll 1
    for (int k = 0; k < 8; ++k) values[k] = static_cast<float>(i + k);  // local: store
    out[i] = values[index[i]];
}
