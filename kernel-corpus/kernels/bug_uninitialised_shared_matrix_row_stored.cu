// A tile of 16 rows, of which 11 are filled. The sums of a twelfth are stored.
//
// arch: compute_80
// launch: grid=1 block=32
// args: f16[176]=iota f16[96]=iota f32[72]=uninit
// bug: uninitialised shared

// a: 11 rows of 16; b: 6 columns of 16.
extern "C" __global__ void product(const unsigned short* a, const unsigned short* b, float* out) {
    __shared__ alignas(16) unsigned short left[256], right[128];
    int t = threadIdx.x;
    for (int i = t; i < 11 * 16; i += 32) left[i] = a[i];
    for (int i = t; i < 6 * 16; i += 32) right[i] = b[i];
    __syncthreads();
    unsigned of_left = static_cast<unsigned>(__cvta_generic_to_shared(left));
    unsigned of_right = static_cast<unsigned>(__cvta_generic_to_shared(right));
    unsigned x[4], y[2];
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(of_left + 32 * (t % 16) + 16 * (t / 16)) : "memory");  // BUG
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                 : "=r"(y[0]), "=r"(y[1]) : "r"(of_right + 32 * (t % 8) + 16 * (t / 8 % 2)) : "memory");
    float d[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
    for (int i = 0; i < 4; i++) {
        int row = t / 4 + i / 2 * 8, column = t % 4 * 2 + i % 2;
        if (row < 12 && column < 6) out[6 * row + column] = d[i];  // BUG
    }
}
