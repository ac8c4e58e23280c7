// Records in an array of a thread, some without a weight, are exchanged; then a weight that
// was set nowhere is used.
//
// launch: grid=1 block=32
// args: i32[64]=iota i32[32]=zeros
// bug: uninitialised local

struct alignas(8) Record {
    int key;
    int weight;
};

extern "C" __global__ void choose(const int* in, int* out) {
    Record records[4];
    int t = threadIdx.x;
    for (int i = 0; i < 4; i++) {
        records[i].key = in[t + i];
        if (i < 2) records[i].weight = in[t + 4 * i];
    }
    int a = in[t] % 4, b = (in[t] + 2) % 4;
    Record first = records[a];
    records[a] = records[b];
    records[b] = first;
    Record chosen = records[in[t + 2] % 4];
    out[t] = chosen.key + chosen.weight;  // BUG
}
