// The mean of the values that each query sees. Query i is token nk - nq + i, and sees itself
// and all tokens before it.
//
// Symptom: a model with this kernel learns, but never as well as the published one. Its first
// query sees one token too few.
//
// Idea: a thread has a query.
//
// launch: grid=1 block=32
// args: f32[6]=iota f32[4]=uninit i32=4 i32=6
// expect 1: f32 1 1.5 2 2.5

extern "C" __global__ void causal_mean(
    const float* v,  // [nk] f32
    float* o,        // [nq] f32
    int nq, int nk   // nq <= nk
) {
    const int i = threadIdx.x;
    if (i >= nq) return;
    float sum = 0.0f;
    int seen = 0;
    for (int j = 0; j < nk && j <= i + (nk - nq); j++) {
        sum += v[j];
        seen++;
    }
    o[i] = sum / seen;
}
