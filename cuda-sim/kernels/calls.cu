// Calls that a compiler cannot inline: through pointers and tables, virtual ones,
// recursive ones, and malloc.

typedef int (*Operation)(int, int);

__device__ __noinline__ int sum(int a, int b) { return a + b; }
__device__ __noinline__ int difference(int a, int b) { return a - b; }
__device__ __noinline__ int product(int a, int b) { return a * b; }
__device__ __noinline__ int square(int a) { return a * a; }

__device__ Operation operations[3] = {sum, difference, product};
__constant__ Operation constants[2] = {product, sum};
__device__ int (*one)(int) = square;

// Each thread takes its own function from the tables.
extern "C" __global__ void pointers(int* out) {
    int t = threadIdx.x;
    Operation chosen = t < 7 ? difference : sum;
    out[t] = operations[t % 3](t, 5) + 1000 * constants[t % 2](t, 3) + 100000 * chosen(t, 1) + one(t);
}

// A function that takes a function, which it calls by a pointer.
__device__ __noinline__ int twice(Operation f, int a) { return f(f(a, 2), 3); }

extern "C" __global__ void higher_order(int* out) {
    int t = threadIdx.x;
    out[t] = twice(operations[t / 4 % 3], t);
}

// `place` is 0 for a null pointer, else for a pointer to a function of another kind.
extern "C" __global__ void no_function(int* out, unsigned long long place) {
    if (threadIdx.x == 3) {
        out[0] = reinterpret_cast<Operation>(place)(1, 2);
    }
    out[threadIdx.x] = 0;
}

struct Shape {
    int size;
    __device__ explicit Shape(int size) : size(size) {}
    __device__ virtual int area(int scale) const = 0;
};

struct Square : Shape {
    __device__ explicit Square(int size) : Shape(size) {}
    __device__ int area(int scale) const override { return scale * size * size; }
};

struct Strip : Shape {
    int width;
    __device__ Strip(int size, int width) : Shape(size), width(width) {}
    __device__ int area(int scale) const override { return scale * size * width; }
};

extern "C" __global__ void virtual_calls(int* out) {
    int t = threadIdx.x;
    Square square(t);
    Strip strip(t, 7);
    const Shape* shape = t % 3 == 0 ? static_cast<const Shape*>(&square) : &strip;
    out[t] = shape->area(2);
}

// The array of each level is its own.
__device__ __noinline__ int descend(int n, int seed) {
    int own[4];
    for (int i = 0; i < 4; i++) own[i] = seed * n + i;
    if (n == 0) return seed;
    int below = descend(n - 1, seed + 1);
    return below + own[n & 3];
}

extern "C" __global__ void one_recursive_call(int* out, int most) {
    out[threadIdx.x] = descend(threadIdx.x % most, threadIdx.x);
}

__device__ __noinline__ int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }

extern "C" __global__ void two_recursive_calls(int* out, int most) {
    out[threadIdx.x] = fibonacci(threadIdx.x % most);
}

__device__ int is_odd(int n);
__device__ __noinline__ int is_even(int n) { return n == 0 ? 1 : is_odd(n - 1); }
__device__ __noinline__ int is_odd(int n) { return n == 0 ? 0 : is_even(n - 1); }

extern "C" __global__ void mutual_recursion(int* out) { out[threadIdx.x] = is_even(threadIdx.x % 20); }

__device__ int apply(int n, int kind);
__device__ __noinline__ int down(int n, int kind) { return n <= 0 ? kind : 1 + apply(n - 1, kind); }
__device__ __noinline__ int across(int n, int kind) { return n <= 0 ? -kind : 2 + apply(n - 2, kind); }
__device__ int (*steps[2])(int, int) = {down, across};
__device__ __noinline__ int apply(int n, int kind) { return steps[n & 1](n, kind); }

// Functions that call each other through a table.
extern "C" __global__ void recursion_through_pointers(int* out, int most) {
    out[threadIdx.x] = apply(threadIdx.x % most, 100);
}

extern "C" __global__ void allocates(int* out, int n) {
    out[threadIdx.x] = n;
    if (n == 0) return;
    int* own = static_cast<int*>(malloc(n * sizeof(int)));
    own[0] = n;
    out[threadIdx.x] += own[0];
    free(own);
}
