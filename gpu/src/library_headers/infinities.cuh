// Before its version 2.8, libcu++ has infinities and NaNs that are constants for other compilers
// than NVRTC alone, so limits is read as they read it.
#if defined(CCCL_VERSION) && CCCL_VERSION < 2008000
#undef __builtin_huge_valf
#undef __builtin_nanf
#undef __builtin_nansf
#undef __builtin_huge_val
#undef __builtin_nan
#undef __builtin_nans
#define __builtin_huge_valf() __builtin_bit_cast(float, 0x7f800000)
#define __builtin_nanf(text) __builtin_bit_cast(float, 0x7fc00000)
#define __builtin_nansf(text) __builtin_bit_cast(float, 0x7fa00000)
#define __builtin_huge_val() __builtin_bit_cast(double, 0x7ff0000000000000)
#define __builtin_nan(text) __builtin_bit_cast(double, 0x7ff8000000000000)
#define __builtin_nans(text) __builtin_bit_cast(double, 0x7ff4000000000000)
#undef _CCCL_COMPILER_NVRTC
#undef _LIBCUDACXX_COMPILER_NVRTC
#endif
