// Kernels for the tests of the driver: parameters, variables, shared memory, a store
// that goes where it is told.
//
// grid, block and shared memory: as each test launches them

__constant__ float coefficients[4] = {1.0f, 2.0f, 3.0f, 4.0f};
__device__ int counter = 5;

struct Mixed {
    char c;
    double d;
    short s[3];
};

extern "C" __global__ void nothing() {}

// y[i] += a * x[i] for i < n.
extern "C" __global__ void axpy(float* y, const float* x, float a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += a * x[i];
}

// Every parameter, each of its own size and alignment, as a double.
extern "C" __global__ void mixed(double* out, char c, short s, int i, long long l, float f, Mixed m, bool b) {
    double values[] = {(double)c, (double)s, (double)i, (double)l, (double)f, (double)m.c, m.d, (double)m.s[2], (double)b};
    for (int k = 0; k < 9; ++k) out[k] = values[k];
}

// out[i] = coefficients[0] + coefficients[1] x + coefficients[2] x² + coefficients[3] x³ at x = i.
extern "C" __global__ void polynomial(float* out) {
    float x = (float)threadIdx.x;
    out[threadIdx.x] = ((coefficients[3] * x + coefficients[2]) * x + coefficients[1]) * x + coefficients[0];
}

extern "C" __global__ void count() { atomicAdd(&counter, 1); }

// out[0] = sum of the thread indices of a block, through dynamic shared memory of blockDim.x ints.
extern "C" __global__ void shared_sum(int* out) {
    extern __shared__ int values[];
    values[threadIdx.x] = threadIdx.x;
    __syncthreads();
    if (threadIdx.x == 0) {
        int sum = 0;
        for (int i = 0; i < blockDim.x; ++i) sum += values[i];
        out[0] = sum;
    }
}

// 40,000 bytes of static shared memory.
extern "C" __global__ void static_shared(int* out) {
    __shared__ int values[10000];
    values[threadIdx.x] = out[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = values[blockDim.x - 1 - threadIdx.x];
}

extern "C" __global__ void __launch_bounds__(64) bounded(int* out) { out[threadIdx.x] = 1; }

// Writes wherever it is told to.
extern "C" __global__ void store(int* out, long long index) { out[index] = 1; }
