// Records in an array of a thread, some without a weight, are moved whole and chosen by an index.
//
// launch: grid=1 block=32
// args: i32[64]=iota i32[32]=zeros
// bug: none
// expect 1: i32 0 2 4 6 4 6 8 10 8 10 12 14 12 14 16 18 16 18 20 22 20 22 24 26 24 26 28 30 28 30 32 34

struct alignas(8) Record {
    int key;
    int weight;
};

extern "C" __global__ void choose(const int* in, int* out) {
    Record records[4];
    int t = threadIdx.x;
    for (int i = 0; i < 4; i++) {
        records[i].key = in[t + i];
        if (i % 2 == 0) records[i].weight = in[t + 4 * i];
    }
    int a = in[t] % 4, b = (in[t] + 1) % 4;
    Record first = records[a];
    records[a] = records[b];
    records[b] = first;
    Record last = records[in[t + 1] % 4];
    out[t] = last.key;
}
