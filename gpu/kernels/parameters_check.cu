// Parameters that CUDA aligns to more than an element: every field, in the order of the
// arguments, for the tests.
//
// A scalar before each vector and one after it show where CUDA puts the vector and where it ends.
//
// grid: 1 block; block: 1 thread; shared memory: none
// reads its parameters; writes out
//
// launch: grid=1 block=1
// args: f64[75]=uninit
// args: {{i8=1,i8x2={2,3},i8=4}, {i8=5,i8x3={6,7,8},i8=9}, {i8=10,i8x4={11,12,13,14},i8=15},
// args:  {u16=16,u16x2={17,18},u16=19}, {u16=20,u16x3={21,22,23},u16=24},
// args:  {u16=25,u16x4={26,27,28,29},u16=30}, {f32=31,f32x2={32,33},f32=34},
// args:  {f32=35,f32x3={36,37,38},f32=39}, {f32=40,f32x4={41,42,43,44},f32=45},
// args:  {i64=46,i64x2={47,48},i64=49}, {i64=50,i64x3={51,52,53},i64=54},
// args:  {i64=55,i64x4={56,57,58,59},i64=60}}
// args: f32x4={61,62,63,64} f64x2={65,66} alignas(16){f32=67,68,69}
// args: {i32=70,alignas(16){f32=71,72,73,74},i32=75}
// expect 0: f64 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38
// expect 0: f64 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63 64 65 66 67 68 69 70 71 72 73
// expect 0: f64 74 75

// A vector between scalars of its element type.
template <typename T, typename Vector>
struct Between {
    T before;
    Vector vector;
    T after;
};

struct Vectors {
    Between<signed char, char2> i8x2;
    Between<signed char, char3> i8x3;
    Between<signed char, char4> i8x4;
    Between<unsigned short, ushort2> u16x2;
    Between<unsigned short, ushort3> u16x3;
    Between<unsigned short, ushort4> u16x4;
    Between<float, float2> f32x2;
    Between<float, float3> f32x3;
    Between<float, float4> f32x4;
    Between<long long, longlong2> i64x2;
    Between<long long, longlong3> i64x3;
    Between<long long, longlong4> i64x4;
};

struct __align__(16) Aligned {
    float x, y, z;
};

struct __align__(16) Quad {
    float x, y, z, w;
};

struct Holder {
    int before;
    Quad quad;
    int after;
};

// Writes the fields of a Between<T, Vector> to out and gives the place behind them.
template <typename Fields>
__device__ double* write2(double* out, const Fields& f) {
    out[0] = f.before, out[1] = f.vector.x, out[2] = f.vector.y, out[3] = f.after;
    return out + 4;
}

template <typename Fields>
__device__ double* write3(double* out, const Fields& f) {
    out[0] = f.before, out[1] = f.vector.x, out[2] = f.vector.y, out[3] = f.vector.z, out[4] = f.after;
    return out + 5;
}

template <typename Fields>
__device__ double* write4(double* out, const Fields& f) {
    out[0] = f.before, out[1] = f.vector.x, out[2] = f.vector.y, out[3] = f.vector.z, out[4] = f.vector.w;
    out[5] = f.after;
    return out + 6;
}

extern "C" __global__ void parameters_check(double* out,  // [75] f64
                                            Vectors vectors, float4 quad, double2 pair, Aligned aligned, Holder holder) {
    out = write4(write3(write2(out, vectors.i8x2), vectors.i8x3), vectors.i8x4);
    out = write4(write3(write2(out, vectors.u16x2), vectors.u16x3), vectors.u16x4);
    out = write4(write3(write2(out, vectors.f32x2), vectors.f32x3), vectors.f32x4);
    out = write4(write3(write2(out, vectors.i64x2), vectors.i64x3), vectors.i64x4);
    out[0] = quad.x, out[1] = quad.y, out[2] = quad.z, out[3] = quad.w;
    out[4] = pair.x, out[5] = pair.y;
    out[6] = aligned.x, out[7] = aligned.y, out[8] = aligned.z;
    out[9] = holder.before, out[10] = holder.quad.x, out[11] = holder.quad.y, out[12] = holder.quad.z;
    out[13] = holder.quad.w, out[14] = holder.after;
}
