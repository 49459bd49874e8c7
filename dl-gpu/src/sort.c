
// The indices that sort the lanes of `[before, len, after]` along the second axis, the first
// `count` of them. A thread counts the elements before its own, which gives the place of its index.
typedef struct {
    ulong of, to, before, len, after, count;
    long descending;
} Sort;
int dl_less(T a, T b) { return isnan(b) ? !isnan(a) : a < b; } // NaN is the largest
DL_KERNEL dl_sort(DL_GLOBAL const T *of, DL_GLOBAL ulong *to, DL_TABLE) {
    Sort s = *DL_ARGUMENT(Sort);
    ulong i = DL_INDEX;
    if (i >= s.before * s.len * s.after) return;
    ulong block = i / s.after / s.len, own = i / s.after % s.len, column = i % s.after, rank = 0;
    DL_GLOBAL const T *lane = of + s.of + block * s.len * s.after + column;
    T x = lane[own * s.after];
    for (ulong k = 0; k < s.len; ++k) {
        T other = lane[k * s.after];
        int is_less = dl_less(other, x), is_more = dl_less(x, other);
        rank += (s.descending ? is_more : is_less) || (!is_less && !is_more && k < own) ? 1 : 0;
    }
    if (rank < s.count) to[s.to + (block * s.count + rank) * s.after + column] = own;
}
