// A name of GNU's library that programs use before C++20, which has std::bit_width.
namespace std {
template <class T> __host__ __device__ constexpr int __bit_width(T x) {
    int bits = 0;
    for (; x != 0; x >>= 1) ++bits;
    return bits;
}
}
