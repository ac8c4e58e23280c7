// A product of a 16 by 16 and a 16 by 8 matrix on a tensor core: asynchronous copies, loads
// of matrices, one product.
//
// arch: compute_80
// launch: grid=1 block=32
// args: f16[256]=iota f16[128]=iota f32[128]=uninit
// bug: none
// expect 2: f32 1240 3160 5080 7000 8920 10840 12760 14680 3160 9176 15192 21208 27224 33240 39256 45272 5080 15192
// expect 2: f32 25304 35416 45528 55640 65752 75864 7000 21208 35416 49624 63832 78040 92248 106456 8920 27224 45528
// expect 2: f32 63832 82136 100440 118744 137048 10840 33240 55640 78040 100440 122840 145240 167640 12760 39256
// expect 2: f32 65752 92248 118744 145240 171736 198232 14680 45272 75864 106456 137048 167640 198232 228824 16600
// expect 2: f32 51288 85976 120664 155352 190040 224728 259416 18520 57304 96088 134872 173656 212440 251224 290008
// expect 2: f32 20440 63320 106200 149080 191960 234840 277720 320600 22360 69336 116312 163288 210264 257240 304216
// expect 2: f32 351192 24280 75352 126424 177496 228568 279640 330712 381784 26200 81368 136536 191704 246872 302040
// expect 2: f32 357208 412376 28120 87384 146648 205912 265176 324440 383704 442968 30040 93400 156760 220120 283480
// expect 2: f32 346840 410200 473560

// Copies 16 bytes.
__device__ void copy16(unsigned to, const unsigned short* from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}
__device__ void wait_all() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// a: rows of the left matrix; b: columns of the right one.
extern "C" __global__ void product(const unsigned short* a, const unsigned short* b, float* out) {
    __shared__ alignas(16) unsigned short left[256], right[128];
    int t = threadIdx.x;
    unsigned of_left = static_cast<unsigned>(__cvta_generic_to_shared(left));
    unsigned of_right = static_cast<unsigned>(__cvta_generic_to_shared(right));
    copy16(of_left + 16 * t, a + 8 * t);
    if (t < 16) copy16(of_right + 16 * t, b + 8 * t);
    wait_all();
    __syncthreads();  // so that the rows of all threads are there
    unsigned x[4], y[2];
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(of_left + 32 * (t % 16) + 16 * (t / 16)) : "memory");
    // The addresses of lanes 16 to 31 are not read.
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                 : "=r"(y[0]), "=r"(y[1]) : "r"(of_right + 32 * (t % 8) + 16 * (t / 8)) : "memory");
    float d[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
    float* to = out + t / 4 * 8 + t % 4 * 2;
    to[0] = d[0], to[1] = d[1], to[64] = d[2], to[65] = d[3];
}
