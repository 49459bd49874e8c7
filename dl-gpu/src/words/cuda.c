// The words in which dialects of C for devices differ: here those of CUDA C++. Functions must be
// compiled for the device (`-default-device`), without contraction (`--fmad=false`).
typedef unsigned char uchar;
typedef unsigned int uint;
typedef unsigned long ulong;
#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fffffff)
#define FLT_MIN 1.17549435e-38f
#define FLT_MAX 3.40282347e+38f
#define DBL_MIN 2.2250738585072014e-308
#define DBL_MAX 1.7976931348623157e+308
// A multiprocessor needs to hold one group only, so that registers are not saved and spilled.
#define DL_KERNEL extern "C" __global__ void __launch_bounds__(DL_GROUP, 1)
#define DL_GLOBAL
#define DL_LOCAL __shared__
#define DL_INDEX ((ulong)blockIdx.x * DL_GROUP + threadIdx.x)
#define DL_INSTANCE ((ulong)blockIdx.y)
#define DL_LANE threadIdx.x
#define DL_BARRIER __syncthreads()
#define DL_FLOAT_BITS(x) __float_as_uint(x)
#define DL_FLOAT(bits) __uint_as_float(bits)
#define DL_DOUBLE_BITS(x) ((ulong)__double_as_longlong(x))
#define DL_DOUBLE_OF(bits) __longlong_as_double((long long)(bits))
