// What kernels of all elements T have: their arguments, where elements are, their formats, and
// comparisons.

// A launch runs instances of a kernel with the same memory. The table has an argument for each. A
// kernel copies an argument of numbers, and reads one with shapes and places where it lies.
#define DL_TABLE DL_GLOBAL const char *dl_table, ulong dl_start
#define DL_ARGUMENT(Type) ((DL_GLOBAL const Type *)(dl_table + dl_start) + DL_INSTANCE)

#define ZERO ((T)0)
#define ONE ((T)1)
#ifdef DL_NAN
// A stored NaN has the bits of the host's.
T dl_stored(T x) { return isnan(x) ? DL_NAN : x; }
#else
T dl_stored(T x) { return x; }
#endif

// Where the elements of an operand or a result are: if step is not negative, neighbours in
// row-major order are that far apart. The format is 0 for T.
typedef struct {
    ulong offset;
    int step;
    int strides[DL_AXES];
    int format;
} Place;
typedef struct {
    ulong len;
    ulong rank;
    uint shape[DL_AXES];
} Shape;
ulong dl_at(DL_GLOBAL const Shape *shape, DL_GLOBAL const Place *place, ulong i) {
    if (place->step >= 0) return place->offset + i * place->step;
    long at = place->offset;
    for (int axis = (int)shape->rank - 1; axis >= 0; --axis) {
        at += (long)(i % shape->shape[axis]) * place->strides[axis];
        i /= shape->shape[axis];
    }
    return at;
}
ulong dl_index(DL_GLOBAL const Shape *shape, int axis, ulong i) {
    for (int last = (int)shape->rank - 1; last > axis; --last) i /= shape->shape[last];
    return i % shape->shape[axis];
}
// The element at this place, converted from its format.
#define DL_AS(A) ((DL_GLOBAL A *)memory)[at]
T dl_load(DL_GLOBAL T *memory, int format, ulong at) {
    switch (format) {
        case 0: return memory[at];
        case 1: return (T)DL_AS(uchar);
        case 2: return (T)DL_AS(int);
        case 3: return (T)DL_AS(long);
        case 4: return (T)DL_AS(ulong);
        case 5: return (T)DL_AS(float);
#ifdef DL_DOUBLE
        case 6: return (T)DL_AS(double);
#endif
        default: return ZERO;
    }
}
void dl_store(DL_GLOBAL T *memory, int format, ulong at, T x) {
    switch (format) {
        case 0: memory[at] = dl_stored(x); break;
        case 1: DL_AS(uchar) = (uchar)x; break;
        case 2: DL_AS(int) = (int)x; break;
        case 3: DL_AS(long) = (long)x; break;
        case 4: DL_AS(ulong) = (ulong)x; break;
        case 5: DL_AS(float) = (float)dl_stored(x); break;
#ifdef DL_DOUBLE
        case 6: DL_AS(double) = (double)dl_stored(x); break;
#endif
    }
}

#define comparison(name, holds) T dl_c_##name(T a, T b) { return holds ? ONE : ZERO; }
comparison(Less, a < b)
comparison(LessEqual, a <= b)
comparison(Greater, a > b)
comparison(GreaterEqual, a >= b)
comparison(Equal, a == b)
comparison(NotEqual, a != b)
comparison(Both, a != ZERO && b != ZERO)
comparison(Either, a != ZERO || b != ZERO)
