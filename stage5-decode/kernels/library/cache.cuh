// The cache: its element type, its vectors, and where its rows lie. ELEMENT is f32, f16 or bf16.

#pragma once

#include "prelude.cuh"
#include "problem.cuh"

// ANCHOR: element
struct f32 {
    using Bits = unsigned;
    static __device__ __forceinline__ float widen(Bits bits) { return __uint_as_float(bits); }
    static __device__ __forceinline__ Bits narrow(float x) { return __float_as_uint(x); }
};

struct f16 {
    using Bits = unsigned short;
    static __device__ __forceinline__ float widen(Bits bits) { return cvt_f32_f16(bits); }
    static __device__ __forceinline__ Bits narrow(float x) { return cvt_rn_f16_f32(x); }
};

struct bf16 {
    using Bits = unsigned short;
    static __device__ __forceinline__ float widen(Bits bits) { return f32_from_bf16(bits); }
    static __device__ __forceinline__ Bits narrow(float x) { return bf16_from_f32(x); }
};

using Bits = ELEMENT::Bits;
// ANCHOR_END: element

// Neighbouring elements of a row, which one instruction loads: BYTES bytes, at an address
// that is a multiple of BYTES.
template <int BYTES>
struct alignas(BYTES) Chunk {
    static constexpr int ELEMENTS = BYTES / sizeof(Bits);

    Bits bits[ELEMENTS];
};

// ANCHOR: place
// Where the rows of one sequence and head lie in k, and alike in v. A contiguous cache is [B, H_kv,
// max_seq, D]. The pages of a paged one are [pages, H_kv, page_size, D], and token j is row j %
// page_size of page pages[j / page_size].
struct Rows {
    Cache cache;
    const int* pages;  // of the sequence, or null
    long long first;   // offset of the head: in the cache, or in each page

    __device__ Rows(const int* table, int batch, int head, const Cache& cache)
        : cache(cache),
          pages(table == nullptr ? nullptr : table + static_cast<long long>(batch) * cache.columns),
          first(table == nullptr ? (static_cast<long long>(batch) * cache.kv_heads + head) * cache.max_seq * cache.head_dim
                                 : static_cast<long long>(head) * cache.page_size * cache.head_dim) {}

    // The offset of token j, in elements.
    __device__ __forceinline__ long long operator[](int j) const {
        long long row = j;
        int paged = pages != nullptr;
        asm volatile("" : "+r"(paged));  // opaque: else the compiler makes two copies of every loop, with pages and without
        if (paged) {
            const unsigned page = static_cast<unsigned>(j) / cache.page_size;
            row += (static_cast<long long>(pages[page]) * cache.kv_heads - page) * cache.page_size;
        }
        return first + row * cache.head_dim;
    }
};
// ANCHOR_END: place
