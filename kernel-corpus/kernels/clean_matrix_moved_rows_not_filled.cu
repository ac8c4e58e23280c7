// A matrix of eight rows, of which five are filled, goes through registers to another tile.
//
// arch: compute_90
// launch: grid=1 block=32
// args: u16[40]=iota u16[40]=uninit
// bug: none
// expect 1: u16 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36
// expect 1: u16 37 38 39

extern "C" __global__ void moves(const unsigned short* in, unsigned short* out) {
    __shared__ alignas(16) unsigned short from[64], to[64];
    int t = threadIdx.x;
    for (int i = t; i < 40; i += 32) from[i] = in[i];
    __syncwarp();
    unsigned pair, row = 16 * (t % 8);
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];"
                 : "=r"(pair) : "r"(static_cast<unsigned>(__cvta_generic_to_shared(from)) + row) : "memory");
    asm volatile("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%0], {%1};"
                 ::"r"(static_cast<unsigned>(__cvta_generic_to_shared(to)) + row), "r"(pair) : "memory");
    __syncwarp();
    for (int i = t; i < 40; i += 32) out[i] = to[i];
}
