// Records of 12 bytes, field by field; each block swaps two fields of its own.
//
// launch: grid=2 block=16
// args: i32[96]=iota
// bug: none
// expect 0: i32 2 1 1 5 4 7 8 7 13 11 10 19 14 13 25 17 16 31 20 19 37 23 22 43 26 25 49 29 28 55 32 31 61 35 34 67
// expect 0: i32 38 37 73 41 40 79 44 43 85 47 46 91 50 49 97 53 52 103 56 55 109 59 58 115 62 61 121 65 64 127 68 67
// expect 0: i32 133 71 70 139 74 73 145 77 76 151 80 79 157 83 82 163 86 85 169 89 88 175 92 91 181 95 94 187

struct Record {
    int x, y, z;
};
extern "C" __global__ void swap_fields(Record* records) {
    Record& r = records[blockIdx.x * 16 + threadIdx.x];
    int x = r.x;
    r.x = r.z;
    r.z = x + r.y;
}
