// While the block sums one row, the next is in flight to the other buffer: one group
// stays behind at each wait.
//
// arch: compute_80
// launch: grid=2 block=64
// args: f32[1024]=iota f32[128]=uninit
// bug: none
// expect 1: f32 2296 2288 2280 2272 2264 2256 2248 2240 2232 2224 2216 2208 2200 2192 2184 2176 2168 2160 2152 2144
// expect 1: f32 2136 2128 2120 2112 2104 2096 2088 2080 2072 2064 2056 2048 2040 2032 2024 2016 2008 2000 1992 1984
// expect 1: f32 1976 1968 1960 1952 1944 1936 1928 1920 1912 1904 1896 1888 1880 1872 1864 1856 1848 1840 1832 1824
// expect 1: f32 1816 1808 1800 1792 6392 6384 6376 6368 6360 6352 6344 6336 6328 6320 6312 6304 6296 6288 6280 6272
// expect 1: f32 6264 6256 6248 6240 6232 6224 6216 6208 6200 6192 6184 6176 6168 6160 6152 6144 6136 6128 6120 6112
// expect 1: f32 6104 6096 6088 6080 6072 6064 6056 6048 6040 6032 6024 6016 6008 6000 5992 5984 5976 5968 5960 5952
// expect 1: f32 5944 5936 5928 5920 5912 5904 5896 5888

// Copies 4 bytes.
__device__ void copy4(float* to, const float* from) {
    unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(at), "l"(from) : "memory");
}
__device__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> __device__ void wait_group() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }

extern "C" __global__ void column_sums(const float* in, float* out) {
    __shared__ float tile[2][64];
    int t = threadIdx.x, first = blockIdx.x * 512;
    copy4(&tile[0][t], &in[first + t]);
    commit();
    float sum = 0.0f;
    for (int row = 0; row < 8; row++) {
        // The last group is empty.
        if (row < 7) copy4(&tile[(row + 1) % 2][t], &in[first + (row + 1) * 64 + t]);
        commit();
        wait_group<1>();
        __syncthreads();  // so that the row of all threads is there
        sum += tile[row % 2][63 - t];
        __syncthreads();  // so that no thread overwrites what another still reads
    }
    out[blockIdx.x * 64 + t] = sum;
}
