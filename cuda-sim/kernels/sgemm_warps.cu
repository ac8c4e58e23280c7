// C = A · B: the last steps of the ladder in `sgemm_ladder.cu`, where each
// warp has a tile of its own.

__device__ float4& vector(float& first) { return reinterpret_cast<float4&>(first); }
__device__ float4 vector(const float& first) { return reinterpret_cast<const float4&>(first); }

constexpr int BK = 16;

// Loads tiles of A, transposed, and of B, by `THREADS` threads.
template <int BM, int BN, int THREADS>
__device__ void load(const float* a, const float* b, float (*a_smem)[BM], float (*b_smem)[BN],
                     int t, int n, int k) {
    for (int r = t / 4; r < BM; r += THREADS / 4) {
        int column = t % 4 * 4;
        float4 four = vector(a[r * k + column]);
        a_smem[column][r] = four.x;
        a_smem[column + 1][r] = four.y;
        a_smem[column + 2][r] = four.z;
        a_smem[column + 3][r] = four.w;
    }
    for (int r = t / (BN / 4); r < BK; r += THREADS / (BN / 4)) {
        int column = t % (BN / 4) * 4;
        vector(b_smem[r][column]) = vector(b[r * n + column]);
    }
}

// What a thread has of its warp's tile: `ROWS` × `COLUMNS` parts of `TM` × `TN` elements, the
// parts `M` and `N` apart.
template <int ROWS, int COLUMNS, int TM, int TN, int M, int N>
struct Parts {
    float sums[ROWS * TM][COLUMNS * TN];

    template <int BM, int BN>
    __device__ void add(const float (*a_smem)[BM], const float (*b_smem)[BN], int y, int x) {
        for (int i = 0; i < BK; ++i) {
            float left[ROWS * TM], right[COLUMNS * TN];
            for (int p = 0; p < ROWS; ++p)
                for (int r = 0; r < TM; ++r) left[p * TM + r] = a_smem[i][y + p * M + r];
            for (int p = 0; p < COLUMNS; ++p)
                for (int s = 0; s < TN; ++s) right[p * TN + s] = b_smem[i][x + p * N + s];
            for (int r = 0; r < ROWS * TM; ++r)
                for (int s = 0; s < COLUMNS * TN; ++s) sums[r][s] += left[r] * right[s];
        }
    }

    __device__ void store(float* c, int n) const {
        for (int r = 0; r < ROWS * TM; ++r)
            for (int s = 0; s < COLUMNS * TN; s += 4) {
                const float* four = &sums[r][s];
                vector(c[(r / TM * M + r % TM) * n + s / TN * N + s % TN]) =
                    float4{four[0], four[1], four[2], four[3]};
            }
    }
};

// Tiles of 128 × 128 × 16 for a block, 64 × 64 for each of its four warps, 8 × 16 for a thread.
// grid: (n / 128, m / 128); block: 128
extern "C" __global__ void __launch_bounds__(128) sgemm_warps(const float* a,  // [m, k] f32
                                                              const float* b,  // [k, n] f32
                                                              float* c,        // [m, n] f32
                                                              int n, int k) {
    __shared__ alignas(16) float a_smem[BK][128];
    __shared__ alignas(16) float b_smem[BK][128];
    int t = threadIdx.x;
    int warp = t / 32, lane = t % 32;
    int y = warp / 2 * 64 + lane / 4 * 8;
    int x = warp % 2 * 64 + lane % 4 * 4;
    a += blockIdx.y * 128 * k;
    b += blockIdx.x * 128;
    Parts<1, 4, 8, 4, 64, 16> parts = {};
    for (int tile = 0; tile < k; tile += BK) {
        load<128, 128, 128>(a + tile, b + tile * n, a_smem, b_smem, t, n, k);
        __syncthreads();  // both tiles are whole
        parts.add(a_smem, b_smem, y, x);
        __syncthreads();  // all have read them
    }
    parts.store(c + (blockIdx.y * 128 + y) * n + blockIdx.x * 128 + x, n);
}

// Tiles of 128 × 256 × 16 for a block, 128 × 32 for each of its eight warps, 2 × 1 parts of 8 × 8
// for a thread. Half of the threads loads the next tile while the other half computes.
// grid: (n / 256, m / 128); block: 256; k a multiple of 32
extern "C" __global__ void __launch_bounds__(256) sgemm_two_buffers(const float* a,  // [m, k] f32
                                                                    const float* b,  // [k, n] f32
                                                                    float* c,        // [m, n] f32
                                                                    int n, int k) {
    __shared__ alignas(16) float a_smem[2][BK][128];
    __shared__ alignas(16) float b_smem[2][BK][256];
    int t = threadIdx.x;
    int warp = t / 32, lane = t % 32;
    int y = lane / 4 * 8;
    int x = warp * 32 + lane % 4 * 8;
    a += blockIdx.y * 128 * k;
    b += blockIdx.x * 256;
    bool second = t >= 128;
    auto fetch = [&](int tile, int buffer) {
        load<128, 256, 128>(a + tile, b + tile * n, a_smem[buffer], b_smem[buffer], t % 128, n, k);
    };
    Parts<2, 1, 8, 8, 64, 32> parts = {};
    if (!second) fetch(0, 0);
    __syncthreads();  // the first buffer is whole
    for (int tile = 0; tile < k; tile += 2 * BK) {
        if (!second) {
            parts.add(a_smem[0], b_smem[0], y, x);
            __syncthreads();  // the second buffer is whole
            parts.add(a_smem[1], b_smem[1], y, x);
            __syncthreads();  // the other half has read the first
            if (tile + 2 * BK < k) fetch(tile + 2 * BK, 0);
        } else {
            fetch(tile + BK, 1);
            __syncthreads();  // the second buffer is whole
            parts.add(a_smem[0], b_smem[0], y, x);
            __syncthreads();  // this half has read the first
            parts.add(a_smem[1], b_smem[1], y, x);
        }
        __syncthreads();  // the first buffer is whole, and all have read the second
    }
    parts.store(c + (blockIdx.y * 128 + y) * n + blockIdx.x * 256 + x, n);
}
