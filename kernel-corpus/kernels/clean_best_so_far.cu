// The best so far is only looked at once there is one: `!found || x > best`
// reads no unset variable.
//
// launch: grid=1 block=32
// args: i32[96]=iota i32[32]=uninit i32=3
// bug: none
// expect 1: i32 -1 292 -1 271 72 250 172 350 272 -1 251 52 351 152 330 252 -1 352 32 331 132 310 232 -1 332 12 311
// expect 1: i32 112 290 212 -1 312

extern "C" __global__ void best_odd(const int* in, int* out, int n) {
    int t = threadIdx.x, best, steps;
    bool found = false;
    for (int i = 0; i < n; i++) {
        int x = in[t + 32 * i] * 5 % 37;
        if (x % 2 == 1 && (!found || x > best)) {
            best = x;
            steps = i;
            found = true;
        }
    }
    out[t] = found ? 10 * best + steps : -1;
}
