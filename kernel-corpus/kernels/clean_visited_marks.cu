// Many blocks mark scattered places, some of them the same, all with the same
// value: of 1, 2, 4 and 8 bytes.
//
// launch: grid=6 block=64
// args: u8[97]=zeros u16[97]=zeros u32[97]=zeros u64[97]=zeros
// bug: none
// expect 0: u8 1 1 1 1 1 0 1 0 1 1 0 1 1 0 0 0 1 0 1 0 0 0 1 0 1 1 0 1 0 0 0 1 1 1 0 1 1 0 0 0 0 0 0 1 1 0 0 1 1 1
// expect 0: u8 1 0 0 1 1 0 0 0 0 0 0 1 1 0 1 1 1 0 0 0 1 0 1 1 0 1 0 0 0 1 0 1 0 0 0 1 1 0 1 1 0 1 0 1 1 1 1
// expect 1: u16 1 1 1 1 1 0 1 0 1 1 0 1 1 0 0 0 1 0 1 0 0 0 1 0 1 1 0 1 0 0 0 1 1 1 0 1 1 0 0 0 0 0 0 1 1 0 0 1 1 1
// expect 1: u16 1 0 0 1 1 0 0 0 0 0 0 1 1 0 1 1 1 0 0 0 1 0 1 1 0 1 0 0 0 1 0 1 0 0 0 1 1 0 1 1 0 1 0 1 1 1 1
// expect 2: u32 1 1 1 1 1 0 1 0 1 1 0 1 1 0 0 0 1 0 1 0 0 0 1 0 1 1 0 1 0 0 0 1 1 1 0 1 1 0 0 0 0 0 0 1 1 0 0 1 1 1
// expect 2: u32 1 0 0 1 1 0 0 0 0 0 0 1 1 0 1 1 1 0 0 0 1 0 1 1 0 1 0 0 0 1 0 1 0 0 0 1 1 0 1 1 0 1 0 1 1 1 1
// expect 3: u64 1 1 1 1 1 0 1 0 1 1 0 1 1 0 0 0 1 0 1 0 0 0 1 0 1 1 0 1 0 0 0 1 1 1 0 1 1 0 0 0 0 0 0 1 1 0 0 1 1 1
// expect 3: u64 1 0 0 1 1 0 0 0 0 0 0 1 1 0 1 1 1 0 0 0 1 0 1 1 0 1 0 0 0 1 0 1 0 0 0 1 1 0 1 1 0 1 0 1 1 1 1

extern "C" __global__ void visit(unsigned char* a, unsigned short* b, unsigned* c, unsigned long long* d) {
    int i = blockIdx.x * 64 + threadIdx.x, v = i * i % 97;
    a[v] = 1;
    b[v] = 1;
    c[v] = 1;
    d[v] = 1;
}
