// A matrix of eight rows, of which five are filled, goes through registers to another tile, and six
// of its rows are used.
//
// arch: compute_90
// launch: grid=1 block=32
// args: u16[40]=iota u16[48]=uninit
// bug: uninitialised shared

extern "C" __global__ void moves(const unsigned short* in, unsigned short* out) {
    __shared__ alignas(16) unsigned short from[64], to[64];
    int t = threadIdx.x;
    for (int i = t; i < 40; i += 32) from[i] = in[i];
    __syncwarp();
    unsigned pair, row = 16 * (t % 8);
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];"
                 : "=r"(pair) : "r"(static_cast<unsigned>(__cvta_generic_to_shared(from)) + row) : "memory");  // BUG
    asm volatile("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%0], {%1};"
                 ::"r"(static_cast<unsigned>(__cvta_generic_to_shared(to)) + row), "r"(pair) : "memory");
    __syncwarp();
    for (int i = t; i < 48; i += 32) out[i] = to[i];  // BUG
}
