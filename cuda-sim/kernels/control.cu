// Control flow that threads of a warp, warps of a block and blocks of a grid take differently.
//
// grid, block and shared memory: as each test launches them

// Loops within loops, whose bounds differ by thread; break, continue, switch and an early return.
extern "C" __global__ void diverging_loops(int* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int sum = 0;
    for (int a = 0; a < i % 7; ++a) {
        if (a == 5) break;
        for (int b = i % 3; b < 9; b += 2) {
            if ((a + b + i) % 4 == 0) continue;
            switch ((a * b + i) % 6) {
                case 0: sum += 1; break;
                case 1: sum += 10;
                case 2: sum += 100; break;
                case 3:
                    if (sum > 500) {
                        out[i] = -sum;
                        return;
                    }
                    sum *= 2;
                    break;
                case 4: sum -= b; break;
                default: sum ^= a;
            }
        }
    }
    out[i] = sum;
}

// Each thread loops a different number of times; then the warp is whole again and sums by shuffles.
extern "C" __global__ void shuffle_after_divergence(int* out) {
    int i = threadIdx.x, steps = 0;
    for (unsigned x = i * 7 + 1; x != 1; x = x % 2 ? 3 * x + 1 : x / 2) ++steps;
    if (i % 2) steps += 1000;
    for (int d = 16; d > 0; d /= 2) steps += __shfl_xor_sync(0xffffffff, steps, d);
    out[i] = steps;
}

// A lock that every thread of every block takes once.
extern "C" __global__ void spin_lock(int* lock, int* plain) {
    bool done = false;
    while (!done) {
        if (atomicCAS(lock, 0, 1) == 0) {
            __threadfence();
            volatile int* counter = plain;
            *counter = *counter + 1;
            __threadfence();
            atomicExch(lock, 0);
            done = true;
        }
    }
}

// The same lock, taken in a loop that only the winner leaves: needs threads of a warp
// that progress on their own.
extern "C" __global__ void lock_without_branches(int* lock, int* plain) {
    while (atomicCAS(lock, 0, 1) != 0) {}
    __threadfence();
    volatile int* counter = plain;
    *counter = *counter + 1;
    __threadfence();
    atomicExch(lock, 0);
}

// The block that finishes last sums what all blocks wrote.
extern "C" __global__ void last_block_sums(const int* x, int n, int* partial, unsigned* finished, int* out) {
    __shared__ int sums[256];
    __shared__ bool last;
    int t = threadIdx.x, sum = 0;
    for (int i = blockIdx.x * blockDim.x + t; i < n; i += gridDim.x * blockDim.x) sum += x[i];
    sums[t] = sum;
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (t < half) sums[t] += sums[t + half];
        __syncthreads();
    }
    if (t == 0) {
        partial[blockIdx.x] = sums[0];
        __threadfence();
        last = atomicInc(finished, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && t == 0) {
        int all = 0;
        for (unsigned b = 0; b < gridDim.x; ++b) all += ((volatile int*)partial)[b];
        *out = all;
    }
}

// Block b waits for the word of block b + 1, so blocks that start early wait for late ones.
extern "C" __global__ void chain_of_blocks(volatile int* ready, int* value) {
    int b = blockIdx.x;
    if (threadIdx.x == 0) {
        if (b + 1 < gridDim.x) {
            while (ready[b + 1] == 0) {}
            __threadfence();
            value[b] = ((volatile int*)value)[b + 1] + b;
        } else {
            value[b] = b;
        }
        __threadfence();
        ready[b] = 1;
    }
}

// Every index of a three-dimensional grid of three-dimensional blocks.
extern "C" __global__ void three_dimensions(int* out) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    int z = blockIdx.z * blockDim.z + threadIdx.z;
    out[(z * gridDim.y * blockDim.y + y) * gridDim.x * blockDim.x + x] = x + 100 * y + 10000 * z;
}

// Static and dynamic shared memory side by side, 1024 threads.
extern "C" __global__ void two_kinds_of_shared_memory(int* out) {
    extern __shared__ int rest[];
    __shared__ int fixed[1024];
    __shared__ char bytes[3];
    int t = threadIdx.x;
    fixed[t] = t;
    rest[blockDim.x - 1 - t] = 2 * t;
    if (t < 3) bytes[t] = t + 1;
    __syncthreads();
    out[t] = fixed[(t + 33) % blockDim.x] + rest[t] * 10000 + bytes[t % 3] * 100000000;
}

struct Pair {
    int a;
    double b;
    char c[5];
};

__device__ __noinline__ Pair stepped(Pair p, int x) {
    p.a += x;
    p.b *= 0.5;
    p.c[x & 3] = x;
    return p;
}

__device__ __noinline__ int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }

// A function with structures, a local array that is indexed at run time,
// 128-bit and 64-bit arithmetic.
extern "C" __global__ void functions_and_arrays(long long* out, Pair p, unsigned long long k) {
    int t = threadIdx.x;
    Pair q = stepped(stepped(p, t), t + 1);
    int own[16];
    for (int i = 0; i < 16; ++i) own[i] = i * i + t;
    unsigned long long product = __umul64hi(k * (t + 1), k) / (t + 3) % 1000003;
    out[t] = q.a + (long long)(q.b * 8) + q.c[1] + own[(t * 5) & 15] * 1000ll + (long long)product * 100000;
}

extern "C" __global__ void recursion(int* out) { out[threadIdx.x] = fibonacci(out[threadIdx.x]); }

// Mathematical functions of the compiler's own library.
extern "C" __global__ void mathematics(double* out, const double* x) {
    int t = threadIdx.x;
    double a = x[t];
    float f = (float)a;
    double* row = out + 12 * t;
    row[0] = sinf(f);
    row[1] = expf(f);
    row[2] = logf(fabsf(f));
    row[3] = powf(fabsf(f), 1.7f);
    row[4] = tanhf(f);
    row[5] = erff(f);
    row[6] = cosf(f * 1e6f);
    row[7] = sin(a);
    row[8] = exp(a);
    row[9] = log(fabs(a));
    row[10] = atan2(a, 0.3);
    row[11] = cbrt(a);
}

extern "C" __global__ void prints(int* out) { out[0] = printf("%d of %s: %5.2f|%-4d|%04x|%g\n", out[1], "corpus", 2.5, 7, 255, 0.1); }
