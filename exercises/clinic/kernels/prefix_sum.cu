// The prefix sums of 64 numbers: y[i] = x[0] + … + x[i].
//
// Symptom: the first 32 results are always right. Of the others some are wrong in
// one launch of a hundred.
//
// Idea: in round r, each element adds the one 2^r places before it. After 6
// rounds every sum is complete.
//
// launch: grid=1 block=64
// args: f32[64]=ones f32[64]=uninit
// expect 1: f32 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32
// expect 1: f32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63 64

extern "C" __global__ void prefix_sum(
    const float* x,  // [64] f32
    float* y         // [64] f32
) {
    __shared__ float sum_smem[64];
    const int i = threadIdx.x;
    sum_smem[i] = x[i];
    __syncthreads();  // so that no thread reads an element before it is stored
    for (int distance = 1; distance < 64; distance *= 2) {
        if (i >= distance) sum_smem[i] += sum_smem[i - distance];
        __syncthreads();  // so that no thread begins the next round before this one is complete
    }
    y[i] = sum_smem[i];
}
