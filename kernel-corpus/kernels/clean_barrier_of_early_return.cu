// A warp with nothing to add meets the others once and returns; the others
// have a barrier of their own.
//
// launch: grid=1 block=96
// args: i32[96]=iota i32[64]=zeros i32=64
// bug: none
// expect 1: i32 95 96 97 98 99 100 101 102 103 104 105 106 107 108 109 110 111 112 113 114 115 116 117 118 119 120
// expect 1: i32 121 122 123 124 125 126 127 128 129 130 131 132 133 134 135 136 137 138 139 140 141 142 143 144 145
// expect 1: i32 146 147 148 149 150 151 152 153 154 155 156 157 158

extern "C" __global__ void add(const int* in, int* out, int n) {
    __shared__ int tile[96];
    int t = threadIdx.x;
    tile[t] = in[t];
    if (t >= n) {
        __syncthreads();
        return;
    }
    int x = 2 * in[t];
    __syncthreads();
    out[t] = x + tile[95 - t];
}
