// Each thread finds its key among sorted numbers.
//
// launch: grid=1 block=32
// args: i32[50]=iota i32[32]=uninit i32=50
// bug: none
// expect 1: i32 0 0 1 3 5 7 9 11 13 15 17 19 21 23 25 27 29 31 33 35 37 39 41 43 45 47 49 50 50 50 50 50

extern "C" __global__ void lower_bound(const int* sorted, int* out, int n) {
    int low = 0, high = n, key = 2 * threadIdx.x - 3;
    while (low < high) {
        int middle = (low + high) / 2;
        if (sorted[middle] < key) low = middle + 1;
        else high = middle;
    }
    out[threadIdx.x] = low;
}
