// Every thread fences before the barrier; behind it thread 0 counts for the block. The
// last block adds the rows.
//
// launch: grid=5 block=64
// args: i32[320]=uninit u32[1]=zeros i32[64]=uninit
// bug: none
// expect 2: i32 1315 1310 1305 1300 1295 1290 1285 1280 1275 1270 1265 1260 1255 1250 1245 1240 1235 1230 1225 1220
// expect 2: i32 1215 1210 1205 1200 1195 1190 1185 1180 1175 1170 1165 1160 1155 1150 1145 1140 1135 1130 1125 1120
// expect 2: i32 1115 1110 1105 1100 1095 1090 1085 1080 1075 1070 1065 1060 1055 1050 1045 1040 1035 1030 1025 1020
// expect 2: i32 1015 1010 1005 1000

extern "C" __global__ void columns(int* rows, unsigned* done, int* out) {
    __shared__ bool last;
    int t = threadIdx.x, b = blockIdx.x;
    rows[b * 64 + 63 - t] = b * 100 + t;
    __threadfence();
    __syncthreads();  // all threads have fenced before thread 0 counts
    if (t == 0) last = atomicAdd(done, 1u) == gridDim.x - 1;
    __syncthreads();
    if (!last) return;
    __threadfence();
    int sum = 0;
    for (int other = 0; other < gridDim.x; other++) sum += rows[other * 64 + t];
    out[t] = sum;
}
