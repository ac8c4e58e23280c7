// Rows of a table: token embedding, plus a learned position embedding if there is one.
//
// Idea: x[i] = tokens_table[tokens[i]] + positions_table[positions[i]]. Tokens and positions are
// read from device memory, so a CUDA graph can be replayed with others.
//
// Grid:   x = n, one block per token.
// Block:  any size; the threads stride over the columns.
// Shared: none.
// Reads:  tokens, positions, a row of each table per token. Writes: x.
// A token or position that has no row gives a row of NaN: a kernel cannot report it, and must
// not read outside the table.
// Constants: ELEMENT (f32, f16, bf16), of both tables.
//
// launch: grid=4 block=64
// define: ELEMENT=bf16
// args: f32[400]=uninit i32[4]={3,0,9,3} i32[4]={2,3,4,5} bf16[1000]=random bf16[800]=random i32=10
// args: i32=8 i32=100

#include "stage5-decode/library/cache.cuh"

// ANCHOR: kernel
extern "C" __global__ void embed(
    float* x,                     // [n, columns] f32
    const int* tokens,            // [n] i32
    const int* positions,         // [n] i32; not read without a table of them
    const Bits* token_table,      // [vocab, columns]
    const Bits* position_table,   // [context, columns], or null
    int vocab, int context, int columns
) {
    const bool positioned = position_table != nullptr;
    const int token = tokens[blockIdx.x];
    const int position = positioned ? positions[blockIdx.x] : 0;
    const bool valid = 0 <= token && token < vocab && (!positioned || (0 <= position && position < context));
    const Bits* token_row = token_table + static_cast<long long>(valid ? token : 0) * columns;
    const Bits* position_row = position_table + static_cast<long long>(valid ? position : 0) * columns;
    float* x_row = x + static_cast<long long>(blockIdx.x) * columns;

    // ANCHOR: write
    for (int c = threadIdx.x; c < columns; c += blockDim.x) {
        float value = ELEMENT::widen(token_row[c]);
        if (positioned) {
            value += ELEMENT::widen(position_row[c]);
        }
        x_row[c] = valid ? value : __uint_as_float(0x7fffffffu);  // NaN
    }
    // ANCHOR_END: write
}
// ANCHOR_END: kernel
