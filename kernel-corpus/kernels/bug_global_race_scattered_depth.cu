// Two blocks mark the vertices that they reach with their own depth, and reach some vertices both.
//
// launch: grid=2 block=32
// args: i32[48]=zeros
// bug: global race

extern "C" __global__ void visit(int* visited) {
    int i = blockIdx.x * 32 + threadIdx.x, v = i * 5 % 48, depth = 1 + blockIdx.x;
    visited[v] = depth;  // BUG
}
