// Dropout by Philox 4x32-10: random numbers that are a function of a key and a counter, so any
// thread can compute those of any weight. [Salmon et al., "Parallel Random Numbers: As Easy as 1,
// 2, 3", SC 2011] `Dropout` in stage1-reference says the same in Rust.

#pragma once

// Passed by value; `DropoutArgument` in stage2-naive-cuda is the same struct.
struct Dropout {
    unsigned long long seed;    // the key
    unsigned long long offset;  // of the counters: that of the first matrix
    unsigned threshold;         // a weight is kept if its word is not below
    float scale;                // factor of a weight that is kept
};

// Whether the weights of four neighbouring keys are kept: bit w is key 4 * quad + w of query i.
// `matrix` is b * H + h.
__device__ __forceinline__ unsigned kept_keys(const Dropout& dropout, long long matrix, int i, int quad) {
    const unsigned long long number = dropout.offset + matrix;
    unsigned counter[4] = {
        static_cast<unsigned>(quad), static_cast<unsigned>(i),
        static_cast<unsigned>(number), static_cast<unsigned>(number >> 32),
    };
    unsigned key[2] = {static_cast<unsigned>(dropout.seed), static_cast<unsigned>(dropout.seed >> 32)};
#pragma unroll
    for (int round = 0; round < 10; round++) {
        const unsigned long long first = counter[0] * 0xD2511F53ull;
        const unsigned long long second = counter[2] * 0xCD9E8D57ull;
        counter[0] = static_cast<unsigned>(second >> 32) ^ counter[1] ^ key[0];
        counter[1] = static_cast<unsigned>(second);
        counter[2] = static_cast<unsigned>(first >> 32) ^ counter[3] ^ key[1];
        counter[3] = static_cast<unsigned>(first);
        key[0] += 0x9E3779B9u;
        key[1] += 0xBB67AE85u;
    }
    unsigned kept = 0;
#pragma unroll
    for (int w = 0; w < 4; w++) {
        kept |= (counter[w] >= dropout.threshold ? 1u : 0u) << w;
    }
    return kept;
}

// Whether the weight of query i and key j is kept.
__device__ __forceinline__ bool is_kept(const Dropout& dropout, long long matrix, int i, int j) {
    return kept_keys(dropout, matrix, i, j / 4) >> j % 4 & 1;
}
