// Conversion between the two formats.
#ifdef DL_DOUBLE
#define DL_CAST(name, A, B) \
DL_KERNEL name(DL_GLOBAL const A *of, DL_GLOBAL B *to, Shape shape, Place from, Place at) { \
    ulong i = DL_INDEX; \
    if (i < shape.len) to[dl_at(&shape, &at, i)] = (B)of[dl_at(&shape, &from, i)]; \
}
DL_CAST(dl_cast_float_double, float, double)
DL_CAST(dl_cast_double_float, double, float)
#endif
