// A block may be 64 threads deep at most.
//
// launch: grid=1 block=1,1,65
// args: f32[65]=zeros
// bug: launch limit

extern "C" __global__ void fill(float* out) {
    out[threadIdx.z] = 1.0f;
}
