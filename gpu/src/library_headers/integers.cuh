typedef signed char int8_t; typedef unsigned char uint8_t;
typedef signed short int16_t; typedef unsigned short uint16_t;
typedef signed int int32_t; typedef unsigned int uint32_t;
typedef signed long long int64_t; typedef unsigned long long uint64_t;
typedef int64_t intptr_t; typedef uint64_t uintptr_t; typedef int64_t intmax_t; typedef uint64_t uintmax_t;
namespace std {
using ::int8_t; using ::uint8_t; using ::int16_t; using ::uint16_t;
using ::int32_t; using ::uint32_t; using ::int64_t; using ::uint64_t;
using ::uintptr_t; using ::intptr_t;
}
#define UINT8_MAX 255
#define INT8_MAX 127
#define INT8_MIN (-128)
#define UINT16_MAX 65535
#define INT16_MAX 32767
#define INT16_MIN (-32768)
#define UINT32_MAX 4294967295u
#define INT32_MAX 2147483647
#define INT32_MIN (-2147483647 - 1)
#define UINT64_MAX 18446744073709551615ull
#define INT64_MAX 9223372036854775807ll
#define INT64_MIN (-9223372036854775807ll - 1)
