// A grid and a block in three dimensions, ragged in each.
//
// launch: grid=2,2,2 block=4,2,3
// args: i32[105]=uninit i32=7 i32=3 i32=5
// bug: none
// expect 0: i32 0 1 2 3 4 5 6 10 11 12 13 14 15 16 20 21 22 23 24 25 26 100 101 102 103 104 105 106 110 111 112 113
// expect 0: i32 114 115 116 120 121 122 123 124 125 126 200 201 202 203 204 205 206 210 211 212 213 214 215 216 220
// expect 0: i32 221 222 223 224 225 226 300 301 302 303 304 305 306 310 311 312 313 314 315 316 320 321 322 323 324
// expect 0: i32 325 326 400 401 402 403 404 405 406 410 411 412 413 414 415 416 420 421 422 423 424 425 426

extern "C" __global__ void coordinates(int* out, int nx, int ny, int nz) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    int z = blockIdx.z * blockDim.z + threadIdx.z;
    if (x < nx && y < ny && z < nz) out[(z * ny + y) * nx + x] = 100 * z + 10 * y + x;
}
