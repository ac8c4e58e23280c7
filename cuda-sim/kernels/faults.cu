// Kernels with one mistake each: what the simulator must find, at the line where it is.
//
// grid: one block; block: 32 threads; shared memory: none

// The last thread stores behind the end.
extern "C" __global__ void out_of_bounds_store(float* out,  // [n] f32
                                               int n) {
    int i = n - 31 + threadIdx.x;
    out[i] = 1.0f;
}

// A vector load from an address that is a multiple of 4 only.
extern "C" __global__ void misaligned_load(const float* in,  // [n] f32
                                           float* out) {     // [32, 4] f32
    float4 v = *reinterpret_cast<const float4*>(in + 1);
    out[threadIdx.x] = v.x + v.y + v.z + v.w;
}

// Correct by itself; the host passes memory that it has freed.
extern "C" __global__ void reads_first(const float* in,  // [1] f32
                                       float* out) {     // [32] f32
    out[threadIdx.x] = in[0];
}

// Waits for a word that nobody writes.
extern "C" __global__ void endless_loop(volatile int* flag) {  // [1] i32
    while (*flag == 0) {
    }
}

// A video instruction, which no compiler emits by itself.
extern "C" __global__ void unknown_instruction(unsigned* out) {  // [32] u32
    unsigned d;
    asm volatile("vmad.u32.u32.u32 %0, %1, %2, %3;" : "=r"(d) : "r"(threadIdx.x), "r"(7), "r"(0));
    out[threadIdx.x] = d;
}

// Only some threads reach the barrier.
extern "C" __global__ void divergent_barrier(int* out) {  // [32] i32
    if (threadIdx.x < 7) {
        __syncthreads();
        out[threadIdx.x] = 1;
    }
    __syncthreads();
    out[threadIdx.x] += 1;
}

// The mask names a lane that went the other way.
extern "C" __global__ void missing_lane(int* out) {  // [32] i32
    int x = threadIdx.x;
    if (threadIdx.x != 5) x = __shfl_xor_sync(0xffffffff, x, 1);
    __syncwarp();
    out[threadIdx.x] = x;
}

template <typename T>
__device__ void reverse_unordered(T* row, T* out) {
    row[threadIdx.x] = out[threadIdx.x];
    out[threadIdx.x] = row[31 - threadIdx.x];
}

// Each thread reads what another has just written, in elements of `bytes` bytes,
// and nothing orders them.
extern "C" __global__ void unordered(void* out,    // [32] of `bytes` bytes
                                     int bytes) {  // 1, 2, 4, 8 or 16
    __shared__ float4 row[32];
    row[threadIdx.x] = make_float4(0, 0, 0, 0);
    __syncthreads();
    if (bytes == 1) reverse_unordered((unsigned char*)row, (unsigned char*)out);
    if (bytes == 2) reverse_unordered((short*)row, (short*)out);
    if (bytes == 4) reverse_unordered((float*)row, (float*)out);
    if (bytes == 8) reverse_unordered((double*)row, (double*)out);
    if (bytes == 16) reverse_unordered((float4*)row, (float4*)out);
}
