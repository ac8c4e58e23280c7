// Appends a token to the cache of each sequence, and adds up the cached tokens.
//
// Symptom: short texts are fine. When a text is longer than the cache, it begins to repeat itself.
//
// Idea: a cache of 4 slots keeps the last 4 tokens of a sequence: token j is in slot j % 4, so a
// new one replaces the oldest. Lengths count the new token already.
//
// launch: grid=1 block=32
// args: f32[8]={1,2,3,4,1,2,9,9} i32[2]={5,3} f32[2]={5,3} f32[2]=uninit i32=2
// expect 0: f32 5 2 3 4 1 2 3 9
// expect 3: f32 14 6

extern "C" __global__ void ring(
    float* cache,        // [sequences, 4] f32
    const int* lengths,  // [sequences] i32: tokens of each sequence, the new one included
    const float* tokens, // [sequences] f32: the new one of each
    float* sums,         // [sequences] f32
    int sequences
) {
    const int b = threadIdx.x;
    if (b >= sequences) return;
    float* slots = cache + 4 * b;
    const int length = lengths[b];
    slots[(length - 1) % 4] = tokens[b];
    float sum = 0.0f;
    for (int slot = 0; slot < min(length, 4); slot++) sum += slots[slot];
    sums[b] = sum;
}
