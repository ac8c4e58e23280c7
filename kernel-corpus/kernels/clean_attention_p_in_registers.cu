// O = (Q K^T) V with no softmax: the scores are rounded to f16 and stay in registers as A of the
// second product.
//
// arch: compute_90a
// launch: grid=32 block=128 kernel=fill pass=0,1,2
// launch: grid=1 block=128 kernel=attention pass=3,4,5,6
// args: f16[4096]=uninit f16[4096]=uninit f16[4096]=uninit
// args: tensormap{0,64x64,box=64x64,swizzle=128} tensormap{1,64x64,box=64x64,swizzle=128}
// args: tensormap{2,64x64,box=64x64,swizzle=128} i32[128]=zeros
// bug: none
// expect 6: i32 65210 40139 -53880 -41334 62121 130 -19038 -107280 73963 -159229 109695 39588 103963 -9069 -73737
// expect 6: i32 74085 -118135 -19986 11358 25842 -105593 -26556 -15057 85434 -81529 174571 40659 -76335 65210 40139
// expect 6: i32 -53880 -41334 73963 -159229 109695 39588 103963 -9069 -73737 74085 -118135 -19986 11358 25842
// expect 6: i32 -105593 -26556 -15057 85434 -81529 174571 40659 -76335 65210 40139 -53880 -41334 62121 130 -19038
// expect 6: i32 -107280 73963 -159229 109695 39588 -118135 -19986 11358 25842 -105593 -26556 -15057 85434 -81529
// expect 6: i32 174571 40659 -76335 65210 40139 -53880 -41334 62121 130 -19038 -107280 73963 -159229 109695 39588
// expect 6: i32 103963 -9069 -73737 74085 -118135 -19986 11358 25842 -81529 174571 40659 -76335 65210 40139 -53880
// expect 6: i32 -41334 62121 130 -19038 -107280 73963 -159229 109695 39588 103963 -9069 -73737 74085 -118135 -19986
// expect 6: i32 11358 25842 -105593 -26556 -15057 85434 -81529 174571 40659 -76335

#include "wgmma.cuh"

extern "C" __global__ void fill(f16* q, f16* k, f16* v) {
    int i = blockIdx.x * 128 + threadIdx.x;
    q[i] = sample(i);
    k[i] = sample(2 * i + 1);
    v[i] = sample(3 * i + 2);
}

extern "C" __global__ void attention(const __grid_constant__ TensorMap q, const __grid_constant__ TensorMap k,
                                     const __grid_constant__ TensorMap v, int* out) {
    __shared__ alignas(1024) f16 q_tile[64 * 64], k_tile[64 * 64], v_tile[64 * 64];
    __shared__ Barrier full;
    int t = threadIdx.x;
    if (t == 0) {
        mbarrier_init(&full, 1);
        fence_mbarrier_init();
        mbarrier_arrive_expect_tx(&full, sizeof(q_tile) + sizeof(k_tile) + sizeof(v_tile));
        tensor_load(q_tile, q, 0, 0, &full);
        tensor_load(k_tile, k, 0, 0, &full);
        tensor_load(v_tile, v, 0, 0, &full);
    }
    __syncthreads();
    mbarrier_wait(&full, 0);
    float scores[32] = {};
    pin(scores);
    wgmma_fence();
    for (int d = 0; d < 64; d += 16) wgmma_m64n64k16(scores, swizzled_tile(q_tile + d), swizzled_tile(k_tile + d));
    wgmma_commit_group();
    wgmma_wait_group<0>();
    pin(scores);

    // Results 8j to 8j + 7 of a thread are its elements of A in columns 16j to 16j + 15.
    unsigned p[4][4];
    for (int j = 0; j < 4; j++) {
        for (int i = 0; i < 4; i++) p[j][i] = pair(scores[8 * j + 2 * i], scores[8 * j + 2 * i + 1]);
        pin(p[j]);
    }
    float sums[32] = {};
    pin(sums);
    wgmma_fence();
    for (int j = 0; j < 4; j++) wgmma_m64n64k16_transposed_b(sums, p[j], swizzled_tile(v_tile + 16 * j * 64));
    wgmma_commit_group();
    wgmma_wait_group<0>();
    pin(sums);
    int folded = 0;
    for (int i = 0; i < 32; i++) folded += (i + 1) * int(sums[i]);
    out[t] = folded;
}
