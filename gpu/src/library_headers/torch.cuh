// PyTorch's types of elements, with its numbers. Each of its headers has this text.
#ifndef GPU_LIBRARY_HEADERS_TORCH
#define GPU_LIBRARY_HEADERS_TORCH
namespace c10 {
using Half = __half;
using BFloat16 = __nv_bfloat16;
enum class ScalarType : signed char {
    Byte, Char, Short, Int, Long, Half, Float, Double, ComplexHalf, ComplexFloat, ComplexDouble, Bool, QInt8, QUInt8, QInt32,
    BFloat16, Float8_e5m2 = 23, Float8_e4m3fn = 24
};
constexpr ScalarType kByte = ScalarType::Byte, kUInt8 = kByte, kChar = ScalarType::Char, kInt8 = kChar;
constexpr ScalarType kShort = ScalarType::Short, kInt16 = kShort, kInt = ScalarType::Int, kInt32 = kInt;
constexpr ScalarType kLong = ScalarType::Long, kInt64 = kLong, kBool = ScalarType::Bool;
constexpr ScalarType kHalf = ScalarType::Half, kFloat16 = kHalf, kBFloat16 = ScalarType::BFloat16;
constexpr ScalarType kFloat = ScalarType::Float, kFloat32 = kFloat, kDouble = ScalarType::Double, kFloat64 = kDouble;
}
namespace at {
using namespace c10;
}
namespace torch {
using namespace c10;
}
#endif
