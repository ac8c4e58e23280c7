// Bytes in global memory, four threads to a word; the last block reads the
// first of the first block's.
//
// launch: grid=4 block=64
// args: u8[256]=zeros u8[1]=zeros
// bug: global race

extern "C" __global__ void first(unsigned char* row, unsigned char* out) {
    int i = blockIdx.x * 64 + threadIdx.x;
    row[i] = i;  // BUG
    if (i == 192) out[0] = row[0];  // BUG
}
