// A binary search that does not move when two elements are left.
//
// launch: grid=1 block=32
// args: i32[64]=iota i32[32]=zeros i32=64
// bug: endless loop

extern "C" __global__ void search(const int* sorted, int* out, int n) {
    int low = 0, high = n, key = 2 * threadIdx.x;
    while (low < high) {                          // BUG
        int middle = (low + high) / 2;            // BUG
        if (sorted[middle] <= key) low = middle;  // BUG
        else high = middle;                       // BUG
    }
    out[threadIdx.x] = low;
}
