// Blelloch's exclusive scan: up the tree, down the tree.
//
// launch: grid=1 block=32
// args: i32[64]=iota i32[64]=uninit
// bug: none
// expect 1: i32 0 0 1 3 6 10 15 21 28 36 45 55 66 78 91 105 120 136 153 171 190 210 231 253 276 300 325 351 378 406
// expect 1: i32 435 465 496 528 561 595 630 666 703 741 780 820 861 903 946 990 1035 1081 1128 1176 1225 1275 1326
// expect 1: i32 1378 1431 1485 1540 1596 1653 1711 1770 1830 1891 1953

extern "C" __global__ void scan(const int* in, int* out) {
    __shared__ int tree[64];
    int t = threadIdx.x;
    tree[2 * t] = in[2 * t];
    tree[2 * t + 1] = in[2 * t + 1];
    int offset = 1;
    for (int nodes = 32; nodes > 0; nodes /= 2, offset *= 2) {
        __syncthreads();
        if (t < nodes) tree[offset * (2 * t + 2) - 1] += tree[offset * (2 * t + 1) - 1];
    }
    if (t == 0) tree[63] = 0;
    for (int nodes = 1; nodes < 64; nodes *= 2) {
        offset /= 2;
        __syncthreads();
        if (t < nodes) {
            int left = offset * (2 * t + 1) - 1, right = offset * (2 * t + 2) - 1;
            int sum = tree[left];
            tree[left] = tree[right];
            tree[right] += sum;
        }
    }
    __syncthreads();
    out[2 * t] = tree[2 * t];
    out[2 * t + 1] = tree[2 * t + 1];
}
