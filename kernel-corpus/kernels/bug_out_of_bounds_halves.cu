// Rows of 16-bit numbers: the row's length is given in bytes and used in elements.
//
// launch: grid=2 block=32
// args: u16[64]=iota u16[64]=zeros i32=64
// bug: out of bounds

extern "C" __global__ void copy_rows(const unsigned short* in, unsigned short* out, int row_bytes) {
    int at = blockIdx.x * row_bytes + threadIdx.x;
    out[at] = in[at];  // BUG
}
