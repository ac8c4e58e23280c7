// Appends the keys and values of n new tokens to the cache, behind the `cached` tokens that it holds.
//
// Idea: one block per token. It copies the k and v parts of a row [q | k | v], in which the heads lie side by side, to a
// cache with one array per head.
//
// Grid:    x = n blocks, one per token.
// Block:   any size; the threads stride over the H * D columns of a part.
// Shared:  none.
// Reads:   the k and v parts of qkv. Writes: rows cached .. cached + n of each head of k_cache and v_cache.
// The host has checked that cached + n is at most context. The queries stay where they are, because attention takes
// strides and reads them only once.
//
// launch: grid=3 block=32
// args: f32[320]=zeros f32[320]=zeros f32[288]=iota u32=2 u32=16 u32=4 u32=10

// ANCHOR: kernel
extern "C" __global__ void append_kv(float* k_cache,    // [H, context, D] f32
                                     float* v_cache,    // [H, context, D] f32
                                     const float* qkv,  // [n, 3 * H * D] f32
                                     unsigned H, unsigned D, unsigned cached, unsigned context) {
    const size_t token = blockIdx.x;
    const unsigned C = H * D;
    const float* k_row = qkv + token * 3 * C + C;
    const float* v_row = k_row + C;

    // ANCHOR: write
    for (unsigned c = threadIdx.x; c < C; c += blockDim.x) {
        const size_t h = c / D;
        const size_t d = c % D;
        const size_t cache_index = (h * context + cached + token) * D + d;
        k_cache[cache_index] = k_row[c];
        v_cache[cache_index] = v_row[c];
    }
    // ANCHOR_END: write
}
// ANCHOR_END: kernel
