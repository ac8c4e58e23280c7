// Neighbouring threads write neighbouring bytes and halves, alone and as vectors.
//
// launch: grid=2 block=32
// args: u8[64]=iota u8[64]=uninit u16[64]=uninit u8[64]=uninit
// bug: none
// expect 1: u8 63 62 61 60 59 58 57 56 55 54 53 52 51 50 49 48 47 46 45 44 43 42 41 40 39 38 37 36 35 34 33 32 31
// expect 1: u8 30 29 28 27 26 25 24 23 22 21 20 19 18 17 16 15 14 13 12 11 10 9 8 7 6 5 4 3 2 1 0
// expect 2: u16 0 257 514 771 1028 1285 1542 1799 2056 2313 2570 2827 3084 3341 3598 3855 4112 4369 4626 4883 5140
// expect 2: u16 5397 5654 5911 6168 6425 6682 6939 7196 7453 7710 7967 8224 8481 8738 8995 9252 9509 9766 10023
// expect 2: u16 10280 10537 10794 11051 11308 11565 11822 12079 12336 12593 12850 13107 13364 13621 13878 14135
// expect 2: u16 14392 14649 14906 15163 15420 15677 15934 16191
// expect 3: u8 1 3 3 5 5 7 7 9 9 11 11 13 13 15 15 17 17 19 19 21 21 23 23 25 25 27 27 29 29 31 31 33 33 35 35 37
// expect 3: u8 37 39 39 41 41 43 43 45 45 47 47 49 49 51 51 53 53 55 55 57 57 59 59 61 61 63 63 65

extern "C" __global__ void widen(const unsigned char* in, unsigned char* copy, unsigned short* wide, uchar2* pairs) {
    int i = blockIdx.x * 32 + threadIdx.x;
    copy[i] = in[63 - i];
    wide[i] = in[i] * 257;
    if (i % 2 == 0) pairs[i / 2] = make_uchar2(in[i] + 1, in[i + 1] + 2);
}
