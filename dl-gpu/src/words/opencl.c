// The words in which dialects of C for devices differ: here those of OpenCL C.
#pragma OPENCL FP_CONTRACT OFF
#ifdef DL_DOUBLE
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif
#define DL_KERNEL __kernel __attribute__((reqd_work_group_size(DL_GROUP, 1, 1))) void
#define DL_GLOBAL __global
#define DL_LOCAL __local
#define DL_INDEX get_global_id(0)
#define DL_INSTANCE get_global_id(1)
#define DL_LANE get_local_id(0)
#define DL_BARRIER barrier(CLK_LOCAL_MEM_FENCE)
#define DL_FLOAT_BITS(x) as_uint(x)
#define DL_FLOAT(bits) as_float(bits)
#define DL_DOUBLE_BITS(x) as_ulong(x)
#define DL_DOUBLE_OF(bits) as_double(bits)
