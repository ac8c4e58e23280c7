// c = a + b: the smallest kernel, to try a device from end to end.
//
// grid: ceil(n / BLOCK) blocks; block: BLOCK threads, one element each; shared memory: none
// reads a, b; writes c
//
// launch: grid=4 block=256
// args: f32[1000]=iota f32[1000]=ones f32[1000]=uninit i32=1000

#ifndef BLOCK
#define BLOCK 256
#endif

extern "C" __global__ void vector_add(const float* a,  // [n] f32
                                      const float* b,  // [n] f32
                                      float* c,        // [n] f32
                                      int n) {
    int i = blockIdx.x * BLOCK + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
