// Only the leader sets its variable before it is broadcast, as in NVIDIA's programming guide;
// no other lane's is read.
//
// launch: grid=1 block=64
// args: i32[2]={40,50} i32[64]=uninit
// bug: none
// expect 1: i32 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63 64 65 66 67 68 69 70 71 50
// expect 1: i32 51 52 53 54 55 56 57 58 59 60 61 62 63 64 65 66 67 68 69 70 71 72 73 74 75 76 77 78 79 80 81

extern "C" __global__ void broadcast(const int* in, int* out) {
    int lane = threadIdx.x % 32, value;
    if (lane == 0) value = in[threadIdx.x / 32];
    value = __shfl_sync(0xffffffffu, value, 0);
    out[threadIdx.x] = value + lane;
}
