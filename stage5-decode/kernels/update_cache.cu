// Appends keys and values of new tokens to a cache.
//
// Idea: a warp moves one row of k and one of v; its lanes lie along the columns, so that each
// access fills whole sectors.
//
// Grid:   x = ceil(B * H_kv * n / 4).
// Block:  (128). A lane moves every 32nd column.
// Shared: none.
// Reads:  k, v, lengths, counts. Writes: the new rows of k_cache and v_cache.
// What limits it now: nothing but the launch; a step has few new rows.
//
// launch: grid=5 block=128
// args: f32[720]=random f32[720]=random f32[3840]=zeros f32[3840]=zeros i32[2]={5,16} i32[2]={3,2}
// args: i32=3 i32=3 i32=16 i32=40 i32=18

// ANCHOR: kernel
extern "C" __global__ void __launch_bounds__(128) update_cache(
    const float* k,      // [B, H_kv, n, D] f32
    const float* v,      // [B, H_kv, n, D] f32
    float* k_cache,      // [B, H_kv, max_seq, D] f32
    float* v_cache,      // [B, H_kv, max_seq, D] f32
    const int* lengths,  // [B] i32: tokens of each sequence, the new ones included
    const int* counts,   // [B] i32: how many of the n rows are tokens
    int kv_heads,        // H_kv
    int n,
    int max_seq,
    int head_dim,        // D
    int rows             // B * H_kv * n
) {
    const int row = blockIdx.x * 4 + threadIdx.x / 32;  // (b * H_kv + h) * n + i
    if (row >= rows) {
        return;
    }
    const int i = row % n;
    const int head = row / n;  // b * H_kv + h
    const int b = head / kv_heads;
    if (i >= counts[b]) {
        return;  // padding
    }
    const int j = lengths[b] - counts[b] + i;
    const long long from = static_cast<long long>(row) * head_dim;
    const long long to = (static_cast<long long>(head) * max_seq + j) * head_dim;
    for (int d = threadIdx.x % 32; d < head_dim; d += 32) {
        k_cache[to + d] = k[from + d];
        v_cache[to + d] = v[from + d];
    }
}
// ANCHOR_END: kernel
