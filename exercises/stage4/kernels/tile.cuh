// Tiles of the backward kernels: rows in shared memory, and what a thread computes of a tile.
//
// A block owns some rows, of k and v or of q and dO, and those of the other two pass by. A tile of
// scores has a row for each that the block owns, and a column for each that passes by. Of N rows a
// thread has ROWS = N / TY, the rows ty() + TY * r, and of M columns M / TX, the columns
// tx() + TX * n.

#pragma once

struct alignas(16) Vector {
    float x[4];
};

constexpr int TX = 16;                          // threads that share a row of scores
constexpr int TY = THREADS / TX;
constexpr int CHUNKS = HEAD_DIM / 4;            // vectors of a row of a tensor
constexpr int PIECES = (CHUNKS + TX - 1) / TX;  // those of a thread: tx() + TX * c
static_assert(HEAD_DIM % 4 == 0 && THREADS % CHUNKS == 0, "a thread loads vectors of one column");

// A warp has 2 rows of scores. Lanes i and i ^ 1 have the same row, lanes i and i ^ 2 the same
// column: so a load of 16 bytes, by row or by column, takes 2 wavefronts where others take 4.
__device__ __forceinline__ int tx() {
    return threadIdx.x % 32 / 4 * 2 + threadIdx.x % 2;
}
__device__ __forceinline__ int ty() {
    return threadIdx.x / 32 * 2 + threadIdx.x / 2 % 2;
}

// N rows of a tensor. A row is an odd number of vectors: lanes that read a column read all banks.
template <int N>
using Rows = Vector[N][CHUNKS | 1];

// A weight for each score of a tile. The two rows that a warp stores lie 16 banks apart.
template <int N, int M>
using Weights = float[N][M | 16];

// Loads N rows of a packed matrix, from row `first` on. Those from row `end` on become zeros.
template <int N>
__device__ __forceinline__ void load(Rows<N>& smem, const Vector* matrix, int first, int end) {
    const int row = threadIdx.x / CHUNKS;
    const int column = threadIdx.x % CHUNKS;
    const Vector* source = matrix + static_cast<long long>(first + row) * CHUNKS + column;
#pragma unroll 4
    for (int r = 0; r < N; r += THREADS / CHUNKS) {
        smem[row + r][column] = first + row + r < end ? source[r * CHUNKS] : Vector{};
    }
}

// product += own * other^T: the dot products of a thread's rows and columns.
template <int ROWS, int COLUMNS>
__device__ __forceinline__ void multiply(
    float (&product)[ROWS][COLUMNS], const Rows<ROWS * TY>& own, const Rows<COLUMNS * TX>& other
) {
#pragma unroll 4
    for (int c = 0; c < CHUNKS; c++) {
        Vector own_reg[ROWS];
        for (int r = 0; r < ROWS; r++) {
            own_reg[r] = own[ty() + TY * r][c];
        }
        for (int n = 0; n < COLUMNS; n++) {
            const Vector other_reg = other[tx() + TX * n][c];
            for (int e = 0; e < 4 * ROWS; e++) {
                product[e % ROWS][n] += own_reg[e % ROWS].x[e / ROWS] * other_reg.x[e / ROWS];
            }
        }
    }
}

// sum += weights * other: a thread's rows and vectors of the sum. The weights of these rows were
// stored by the thread's own warp.
template <int ROWS, int M>
__device__ __forceinline__ void accumulate(
    Vector (&sum)[ROWS][PIECES], const Weights<ROWS * TY, M>& weights, const Rows<M>& other
) {
#pragma unroll 4
    for (int j = 0; j < M; j += 4) {
        Vector weight_reg[ROWS];
        for (int r = 0; r < ROWS; r++) {
            weight_reg[r] = reinterpret_cast<const Vector&>(weights[ty() + TY * r][j]);
        }
        for (int x = 0; x < 4; x++) {
            for (int c = 0; c < PIECES && tx() + TX * c < CHUNKS; c++) {
                const Vector other_reg = other[j + x][tx() + TX * c];
                for (int e = 0; e < 4 * ROWS; e++) {
                    sum[e / 4][c].x[e % 4] += weight_reg[e / 4].x[x] * other_reg.x[e % 4];
                }
            }
        }
    }
}

// Stores factor * sum in the rows of a packed matrix that lie before row `end`.
template <int ROWS>
__device__ __forceinline__ void store(
    Vector* matrix, const Vector (&sum)[ROWS][PIECES], float factor, int first, int end
) {
    for (int r = 0; r < ROWS; r++) {
        const long long row = first + ty() + TY * r;
        for (int c = 0; c < PIECES && tx() + TX * c < CHUNKS && row < end; c++) {
            Vector scaled = sum[r][c];
            for (float& x : scaled.x) {
                x *= factor;
            }
            matrix[row * CHUNKS + tx() + TX * c] = scaled;
        }
    }
}
