// Appends keys and values of new tokens to a cache, and converts them to its element type.
//
// Idea: a warp moves one row of k and one of v. The lengths count the new tokens already: they are
// the last ones of each sequence. Only their rows are written.
//
// Grid:   x = ceil(B * H_kv * n / 4).
// Block:  (128). A lane moves every 32nd column.
// Shared: none.
// Reads:  k, v, lengths, counts, and the page table if there is one. Writes: the new
//         rows of k_cache and v_cache.
// Rounds to nearest, ties to even. Constants: ELEMENT (f32, f16, bf16).
//
// launch: grid=5 block=128
// define: ELEMENT=f16
// args: f32[720]=random f32[720]=random f16[3840]=zeros f16[3840]=zeros i32[2]={5,16} i32[2]={3,2}
// args: null
// args: {{i64=360,40,120}, {i64=360,40,120}, {i32=3,16,40,0,0}, i32=3,18,0}
#include "cache.cuh"
#include "problem.cuh"

// ANCHOR: kernel
// `Dtype` in src/dtype.rs is the same list.
enum Dtype { F32 = 0, F16 = 1, BF16 = 2 };

// Passed by value; `Update` in src/library/problem.rs is the same struct.
struct Update {
    Strides k, v;  // of the new rows [B, H_kv, n, D]
    Cache cache;
    int n;
    int rows;      // B * H_kv * n
    Dtype dtype;   // of the new rows
};

// Writes a row of k and one of v, which begin at these elements.
template <typename From>
__device__ __forceinline__ void write(
    Bits* k_target, Bits* v_target, const void* k, const void* v, long long k_row, long long v_row, int head_dim
) {
    const auto* k_source = static_cast<const typename From::Bits*>(k) + k_row;
    const auto* v_source = static_cast<const typename From::Bits*>(v) + v_row;
#pragma unroll 1
    for (int d = threadIdx.x % 32; d < head_dim; d += 32) {
        k_target[d] = ELEMENT::narrow(From::widen(k_source[d]));
        v_target[d] = ELEMENT::narrow(From::widen(v_source[d]));
    }
}

extern "C" __global__ void __launch_bounds__(128) update_cache(
    const void* k,       // [B, H_kv, n, D] f32, f16 or bf16
    const void* v,       // the same
    Bits* k_cache,       // [B, H_kv, max_seq, D], or [pages, H_kv, page_size, D]
    Bits* v_cache,       // the same
    const int* lengths,  // [B] i32: tokens of each sequence, the new ones too
    const int* counts,   // [B] i32: how many of the n are tokens of the sequence
    const int* pages,    // [B, columns] i32, or null
    Update update
) {
    const unsigned row = blockIdx.x * 4 + threadIdx.x / 32;  // beyond `rows`, it may be beyond an int
    if (row >= static_cast<unsigned>(update.rows)) {
        return;
    }
    const int i = row % update.n;
    const int head = row / update.n % update.cache.kv_heads;
    const int batch = row / update.n / update.cache.kv_heads;
    const int j = lengths[batch] - counts[batch] + i;
    if (i >= counts[batch] || j < 0 || j >= update.cache.max_seq) {
        return;  // the host has checked its copy of these numbers
    }
    const Rows rows(pages, batch, head, update.cache);
    const long long target = rows[j];
    const long long k_row = batch * update.k.batch + head * update.k.head + i * update.k.row;
    const long long v_row = batch * update.v.batch + head * update.v.head + i * update.v.row;
    switch (update.dtype) {
        case F32: write<f32>(k_cache + target, v_cache + target, k, v, k_row, v_row, update.cache.head_dim); break;
        case F16: write<f16>(k_cache + target, v_cache + target, k, v, k_row, v_row, update.cache.head_dim); break;
        case BF16: write<bf16>(k_cache + target, v_cache + target, k, v, k_row, v_row, update.cache.head_dim); break;
    }
}
// ANCHOR_END: kernel
