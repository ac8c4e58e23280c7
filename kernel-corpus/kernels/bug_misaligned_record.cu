// Packed records of twelve bytes with an eight-byte field.
//
// launch: grid=1 block=8
// args: u32[24]=iota u64[8]=zeros
// bug: misaligned

extern "C" __global__ void unpack(const unsigned char* records, unsigned long long* out) {
    const unsigned char* record = records + 12 * threadIdx.x;
    out[threadIdx.x] = *reinterpret_cast<const unsigned long long*>(record);  // BUG
}
