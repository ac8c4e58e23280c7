// A block reads its shared memory, waits for two others that read theirs in another pattern, and
// only then writes its own.
//
// launch: grid=3 block=32
// args: i32[96]=uninit i32[1]=zeros
// bug: none
// expect 0: i32 3168 3165 3162 3159 3156 3153 3150 3147 3144 3141 3138 3135 3132 3129 3126 3123 3120 3117 3114 3111
// expect 0: i32 3108 3105 3102 3099 3096 3093 3090 3087 3084 3081 3078 3075 3 102 201 300 399 498 597 696 795 894
// expect 0: i32 993 1092 1191 1290 1389 1488 1587 1686 1785 1884 1983 2082 2181 2280 2379 2478 2577 2676 2775 2874
// expect 0: i32 2973 3072 3 102 201 300 399 498 597 696 795 894 993 1092 1191 1290 1389 1488 1587 1686 1785 1884
// expect 0: i32 1983 2082 2181 2280 2379 2478 2577 2676 2775 2874 2973 3072

extern "C" __global__ void wait(int* out, int* arrived) {
    __shared__ int tile[1058];
    int t = threadIdx.x, sum = 0;
    for (int i = t; i < 1058; i += 32) tile[i] = i;
    __syncwarp();
    int place = blockIdx.x == 0 ? 1024 + t : 33 * t;
    for (int i = 0; i < 3; i++) sum += tile[place + i];
    if (blockIdx.x == 0) {
        while (*(volatile int*)arrived < 2) {}
        tile[33 * (t + 1) % 1056] = sum;
        __syncwarp();
        sum = tile[33 * (32 - t) % 1056];
    } else if (t == 0) {
        atomicAdd(arrived, 1);
    }
    out[blockIdx.x * 32 + t] = sum;
}
