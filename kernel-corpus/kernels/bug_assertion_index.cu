// An assertion on an index that a value of the input breaks.
//
// launch: grid=1 block=8
// args: i32[8]={0,3,1,2,9,4,5,6} f32[8]=iota f32[8]=zeros
// bug: assertion

extern "C" __global__ void gather(const int* index, const float* in, float* out) {
    int i = index[threadIdx.x];
    assert(i >= 0 && i < 8);  // BUG
    out[threadIdx.x] = in[i];
}
