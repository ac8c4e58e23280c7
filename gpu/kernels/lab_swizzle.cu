// A tile of 8 x 8 f16, loaded by ldmatrix from rows of 128 bytes whose vectors of 16 bytes change
// places.
//
// Idea: vector c of row r lies at place c ^ r / divisor % 8. The book's page on swizzles asks how
// many wavefronts the load takes.
// Grid: 1. Block: 32 threads, one warp.
// Shared: 1,024 bytes, static.
// Writes: out, two f16 of the tile in each word.
//
// launch: grid=1 block=32
// args: u32[32]=uninit i32=1
// expect 0: u32 0 0 0 0 8 8 8 8 16 16 16 16 24 24 24 24 32 32 32 32 40 40 40 40 48 48 48 48 56 56 56 56

extern "C" __global__ void lab_swizzle(unsigned* out,  // [32] u32
                                       int divisor) {  // 1 to 8: rows in a row with the same places
    __shared__ uint4 rows[8][8];
    const int r = threadIdx.x % 8;
    for (int c = threadIdx.x / 8; c < 8; c += 4) {
        const unsigned number = 8 * r + c;
        rows[r][c ^ r / divisor % 8] = make_uint4(number, number, number, number);
    }
    __syncwarp();  // so that no row is loaded before all lanes have stored their vectors
    // Lanes 0 to 7 name the places of vector 0.
    const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(&rows[r][r / divisor % 8]));
    unsigned tile;
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(tile) : "r"(address) : "memory");
    out[threadIdx.x] = tile;
}
