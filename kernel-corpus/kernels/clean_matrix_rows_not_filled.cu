// A tile of 16 rows, of which 11 are filled, times one of 8 columns, of which 6 are. The other sums
// are not used.
//
// arch: compute_80
// launch: grid=1 block=32
// args: f16[176]=iota f16[96]=iota f32[66]=uninit
// bug: none
// expect 2: f32 1240 3160 5080 7000 8920 10840 3160 9176 15192 21208 27224 33240 5080 15192 25304 35416 45528 55640
// expect 2: f32 7000 21208 35416 49624 63832 78040 8920 27224 45528 63832 82136 100440 10840 33240 55640 78040
// expect 2: f32 100440 122840 12760 39256 65752 92248 118744 145240 14680 45272 75864 106456 137048 167640 16600
// expect 2: f32 51288 85976 120664 155352 190040 18520 57304 96088 134872 173656 212440 20440 63320 106200 149080
// expect 2: f32 191960 234840

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
                 : "r"(of_left + 32 * (t % 16) + 16 * (t / 16)) : "memory");
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                 : "=r"(y[0]), "=r"(y[1]) : "r"(of_right + 32 * (t % 8) + 16 * (t / 8 % 2)) : "memory");
    float d[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
    for (int i = 0; i < 4; i++) {
        int row = t / 4 + i / 2 * 8, column = t % 4 * 2 + i % 2;
        if (row < 11 && column < 6) out[6 * row + column] = d[i];
    }
}
