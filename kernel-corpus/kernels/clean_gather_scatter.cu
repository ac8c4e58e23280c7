// A permutation and its inverse: every element is written once, by some block.
//
// launch: grid=2 block=32
// args: i32[64]=iota i32[64]=uninit i32[64]=uninit
// bug: none
// expect 1: i32 0 19 38 57 12 31 50 5 24 43 62 17 36 55 10 29 48 3 22 41 60 15 34 53 8 27 46 1 20 39 58 13 32 51 6
// expect 1: i32 25 44 63 18 37 56 11 30 49 4 23 42 61 16 35 54 9 28 47 2 21 40 59 14 33 52 7 26 45
// expect 2: i32 0 38 76 114 24 62 100 10 48 86 124 34 72 110 20 58 96 6 44 82 120 30 68 106 16 54 92 2 40 78 116 26
// expect 2: i32 64 102 12 50 88 126 36 74 112 22 60 98 8 46 84 122 32 70 108 18 56 94 4 42 80 118 28 66 104 14 52 90

extern "C" __global__ void permute(const int* in, int* there, int* back) {
    int i = blockIdx.x * 32 + threadIdx.x;
    there[i * 27 % 64] = in[i];
    back[i] = in[i * 19 % 64] * 2;
}
