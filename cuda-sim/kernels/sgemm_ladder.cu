// C = A · B, in the steps of public tutorials: each kernel does what its comment says on top of the
// one before. MODEL.md holds their modelled times against published ones.
//
// All matrices are row-major, and their sizes multiples of the tiles. Neighbouring words of shared
// memory are loaded as one vector where ptxas makes one of single loads in an unrolled loop,
// because the simulator counts PTX.

__device__ float4& vector(float& first) { return reinterpret_cast<float4&>(first); }
__device__ float4 vector(const float& first) { return reinterpret_cast<const float4&>(first); }

// `N` words of shared memory in a row.
template <int N>
__device__ void load_row(float (&words)[N], const float& first) {
    for (int i = 0; i < N; i += 4) {
        float4 four = vector((&first)[i]);
        words[i] = four.x;
        words[i + 1] = four.y;
        words[i + 2] = four.z;
        words[i + 3] = four.w;
    }
}

// Threads of a warp have neighbouring rows: each loads words of A that lie k apart.
// grid: (m / 32, n / 32); block: (32, 32)
extern "C" __global__ void sgemm_naive(const float* a,  // [m, k] f32
                                       const float* b,  // [k, n] f32
                                       float* c,        // [m, n] f32
                                       int n, int k) {
    int row = blockIdx.x * 32 + threadIdx.x;
    int column = blockIdx.y * 32 + threadIdx.y;
    float sum = 0.0f;
    for (int i = 0; i < k; ++i) sum += a[row * k + i] * b[i * n + column];
    c[row * n + column] = sum;
}

// Threads of a warp have neighbouring columns.
// grid: (n / 32, m / 32); block: (32, 32)
extern "C" __global__ void sgemm_coalesced(const float* a,  // [m, k] f32
                                           const float* b,  // [k, n] f32
                                           float* c,        // [m, n] f32
                                           int n, int k) {
    int row = blockIdx.y * 32 + threadIdx.y;
    int column = blockIdx.x * 32 + threadIdx.x;
    float sum = 0.0f;
    for (int i = 0; i < k; ++i) sum += a[row * k + i] * b[i * n + column];
    c[row * n + column] = sum;
}

// Tiles of 32 × 32 in shared memory.
// grid: (n / 32, m / 32); block: (32, 32)
extern "C" __global__ void sgemm_shared(const float* a,  // [m, k] f32
                                        const float* b,  // [k, n] f32
                                        float* c,        // [m, n] f32
                                        int n, int k) {
    __shared__ alignas(16) float a_smem[32][32];
    __shared__ float b_smem[32][32];
    int x = threadIdx.x, y = threadIdx.y;
    int row = blockIdx.y * 32 + y;
    int column = blockIdx.x * 32 + x;
    float sum = 0.0f;
    for (int tile = 0; tile < k; tile += 32) {
        a_smem[y][x] = a[row * k + tile + x];
        b_smem[y][x] = b[(tile + y) * n + column];
        __syncthreads();  // both tiles are whole
        for (int i = 0; i < 32; i += 4) {
            float left[4];
            load_row(left, a_smem[y][i]);
            for (int j = 0; j < 4; ++j) sum += left[j] * b_smem[i + j][x];
        }
        __syncthreads();  // all have read them
    }
    c[row * n + column] = sum;
}

// A thread computes 8 rows of one column, in tiles of 64 × 64 × 8.
// grid: (n / 64, m / 64); block: 512
extern "C" __global__ void sgemm_column(const float* a,  // [m, k] f32
                                        const float* b,  // [k, n] f32
                                        float* c,        // [m, n] f32
                                        int n, int k) {
    __shared__ alignas(16) float a_smem[64][8];
    __shared__ float b_smem[8][64];
    int t = threadIdx.x;
    int x = t % 64, y = t / 64;
    a += blockIdx.y * 64 * k;
    b += blockIdx.x * 64;
    c += blockIdx.y * 64 * n + blockIdx.x * 64;
    float sums[8] = {};
    for (int tile = 0; tile < k; tile += 8) {
        a_smem[t / 8][t % 8] = a[t / 8 * k + tile + t % 8];
        b_smem[y][x] = b[(tile + y) * n + x];
        __syncthreads();  // both tiles are whole
        float right[8];
        for (int i = 0; i < 8; ++i) right[i] = b_smem[i][x];
        for (int r = 0; r < 8; ++r) {
            float left[8];
            load_row(left, a_smem[y * 8 + r][0]);
            for (int i = 0; i < 8; ++i) sums[r] += left[i] * right[i];
        }
        __syncthreads();  // all have read them
    }
    for (int r = 0; r < 8; ++r) c[(y * 8 + r) * n + x] = sums[r];
}

// A thread computes 8 × 8 elements, in tiles of 128 × 128 × 8.
// grid: (n / 128, m / 128); block: 256
extern "C" __global__ void __launch_bounds__(256, 1) sgemm_square(const float* a,  // [m, k] f32
                                                                  const float* b,  // [k, n] f32
                                                                  float* c,        // [m, n] f32
                                                                  int n, int k) {
    __shared__ float a_smem[128][8];
    __shared__ alignas(16) float b_smem[8][128];
    int t = threadIdx.x;
    int x = t % 16, y = t / 16;
    a += blockIdx.y * 128 * k;
    b += blockIdx.x * 128;
    c += blockIdx.y * 128 * n + blockIdx.x * 128;
    float sums[8][8] = {};
    for (int tile = 0; tile < k; tile += 8) {
        for (int r = t / 8; r < 128; r += 32) a_smem[r][t % 8] = a[r * k + tile + t % 8];
        for (int r = t / 128; r < 8; r += 2) b_smem[r][t % 128] = b[(tile + r) * n + t % 128];
        __syncthreads();  // both tiles are whole
        for (int i = 0; i < 8; ++i) {
            float left[8], right[8];
            for (int r = 0; r < 8; ++r) left[r] = a_smem[y * 8 + r][i];
            load_row(right, b_smem[i][x * 8]);
            for (int r = 0; r < 8; ++r)
                for (int s = 0; s < 8; ++s) sums[r][s] += left[r] * right[s];
        }
        __syncthreads();  // all have read them
    }
    for (int r = 0; r < 8; ++r)
        for (int s = 0; s < 8; ++s) c[(y * 8 + r) * n + x * 8 + s] = sums[r][s];
}

// How the tile of B lies in shared memory.
enum Layout {
    ROWS,        // as in B
    LINEARISED,  // the 16 words that the threads of a row load together lie side by side
    PADDED,      // as in B, each row 5 words longer
};

// A is transposed on its way to shared memory, and vectors of four words are moved
// wherever they lie in a row.
template <int BK, Layout LAYOUT>
__device__ void vectors(const float* a, const float* b, float* c, int n, int k) {
    constexpr int ROW = LAYOUT == PADDED ? 133 : 128;
    __shared__ alignas(16) float a_smem[BK][128];
    __shared__ alignas(16) float b_smem[BK][ROW];
    int t = threadIdx.x;
    int x = t % 16, y = t / 16;
    a += blockIdx.y * 128 * k;
    b += blockIdx.x * 128;
    c += blockIdx.y * 128 * n + blockIdx.x * 128;
    float sums[8][8] = {};
    int a_row = t / (BK / 4), a_column = t % (BK / 4) * 4;
    int b_row = t / 32, b_column = t % 32 * 4;
    for (int tile = 0; tile < k; tile += BK) {
        for (int r = a_row; r < 128; r += 1024 / BK) {
            float4 four = vector(a[r * k + tile + a_column]);
            a_smem[a_column][r] = four.x;
            a_smem[a_column + 1][r] = four.y;
            a_smem[a_column + 2][r] = four.z;
            a_smem[a_column + 3][r] = four.w;
        }
        for (int r = b_row; r < BK; r += 8) {
            float4 four = vector(b[(tile + r) * n + b_column]);
            if (LAYOUT == ROWS) {
                vector(b_smem[r][b_column]) = four;
                continue;
            }
            float words[4] = {four.x, four.y, four.z, four.w};
            for (int i = 0; i < 4; ++i) {
                int column = b_column + i;
                if (LAYOUT == LINEARISED) column = column % 8 * 16 + column / 8;
                b_smem[r][column] = words[i];
            }
        }
        __syncthreads();  // both tiles are whole
        for (int i = 0; i < BK; ++i) {
            float left[8], right[8];
            for (int r = 0; r < 8; ++r) left[r] = a_smem[i][y * 8 + r];
            for (int s = 0; s < 8; ++s) {
                right[s] = b_smem[i][LAYOUT == LINEARISED ? s * 16 + x : x * 8 + s];
            }
            for (int r = 0; r < 8; ++r)
                for (int s = 0; s < 8; ++s) sums[r][s] += left[r] * right[s];
        }
        __syncthreads();  // all have read them
    }
    for (int r = 0; r < 8; ++r)
        for (int s = 0; s < 8; s += 4) {
            vector(c[(y * 8 + r) * n + x * 8 + s]) =
                float4{sums[r][s], sums[r][s + 1], sums[r][s + 2], sums[r][s + 3]};
        }
}

// grid: (n / 128, m / 128); block: 256
extern "C" __global__ void __launch_bounds__(256) sgemm_vectors(const float* a, const float* b, float* c, int n, int k) {
    vectors<8, ROWS>(a, b, c, n, k);
}

extern "C" __global__ void __launch_bounds__(256) sgemm_linearised(const float* a, const float* b, float* c, int n, int k) {
    vectors<8, LINEARISED>(a, b, c, n, k);
}

extern "C" __global__ void __launch_bounds__(256) sgemm_padded(const float* a, const float* b, float* c, int n, int k) {
    vectors<8, PADDED>(a, b, c, n, k);
}

// Tiles of 128 × 128 × 16.
extern "C" __global__ void __launch_bounds__(256) sgemm_deeper(const float* a, const float* b, float* c, int n, int k) {
    vectors<16, ROWS>(a, b, c, n, k);
}
