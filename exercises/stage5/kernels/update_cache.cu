// Appends keys and values of new tokens to a cache.
//
// The lengths count the new tokens already: the first counts[b] of the n rows of sequence b
// become its last counts[b] tokens. So row i of sequence b becomes token lengths[b] -
// counts[b] + i. Rows from counts[b] on are padding, and are not copied. All other tokens of
// the cache stay as they are.
//
// Grid and block: launch() in src/update_cache.rs.
//
// `cargo gpu check exercises/stage5/kernels/update_cache.cu` looks for races and bad
// accesses in this launch:
// launch: grid=5 block=128
// args: f32[720]=random f32[720]=random f32[3840]=zeros f32[3840]=zeros i32[2]={5,16} i32[2]={3,2}
// args: i32=3 i32=3 i32=16 i32=40 i32=18

extern "C" __global__ void __launch_bounds__(128) update_cache(
    const float* k,      // [B, H_kv, n, D] f32
    const float* v,      // [B, H_kv, n, D] f32
    float* k_cache,      // [B, H_kv, max_seq, D] f32
    float* v_cache,      // [B, H_kv, max_seq, D] f32
    const int* lengths,  // [B] i32: tokens of each sequence, the new ones included
    const int* counts,   // [B] i32: how many of the n rows are tokens
    int kv_heads, int n, int max_seq, int head_dim,
    int rows             // B * H_kv * n
) {
    // TODO, task update_cache: which row is this thread's or warp's, and where does it go?
}
