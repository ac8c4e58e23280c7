// Lanes of a warp exchange a row with only shuffles and votes between. CUDA documents
// no memory order for these, but every GPU runs the shared accesses of a warp in
// order, and code relies on it.
//
// launch: grid=1 block=64
// args: i32[64]=iota i32[64]=uninit
// bug: none
// expect 1: i32 11616 11617 11618 11619 11620 11621 11622 11623 11624 11625 11626 11627 11628 11629 11630 11631
// expect 1: i32 10000 10001 10002 10003 10004 10005 10006 10007 10008 10009 10010 10011 10012 10013 10014 10015 8080
// expect 1: i32 8081 8082 8083 8084 8085 8086 8087 8088 8089 8090 8091 8092 8093 8094 8095 6464 6465 6466 6467 6468
// expect 1: i32 6469 6470 6471 6472 6473 6474 6475 6476 6477 6478 6479

extern "C" __global__ void reverse(const int* in, int* out) {
    __shared__ int rows[2][32];
    int lane = threadIdx.x % 32;
    int* row = rows[threadIdx.x / 32];
    int x = in[threadIdx.x];
    row[lane] = x;
    int first = __shfl_sync(0xffffffffu, x, 0);
    int y = row[31 - lane] + first;
    bool even = __any_sync(0xffffffffu, y == 0);
    row[lane] = y;
    unsigned half = lane < 16 ? 0x0000ffffu : 0xffff0000u;
    int last = __shfl_sync(half, y, 15, 16);
    out[threadIdx.x] = row[lane ^ 15] + 100 * last + 10000 * even;
}
