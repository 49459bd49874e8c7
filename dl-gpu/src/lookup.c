
// Elements at the indices of one axis, along which `of` does not move and neighbours are `apart`.
typedef struct {
    Shape shape;
    Place of, at, to;
    long apart;
    ulong length;
    long lowest; // whether −∞, instead of 0, is at an index beyond the end
} Gather;
DL_KERNEL dl_gather(DL_GLOBAL const T *of, DL_GLOBAL const ulong *at, DL_GLOBAL T *to, DL_TABLE) {
    DL_GLOBAL const Gather *g = DL_ARGUMENT(Gather);
    ulong i = DL_INDEX;
    if (i >= g->shape.len) return;
    ulong index = at[dl_at(&g->shape, &g->at, i)];
    T missing = g->lowest ? -(T)INFINITY : ZERO;
    to[dl_at(&g->shape, &g->to, i)] =
        index < g->length ? of[dl_at(&g->shape, &g->of, i) + (long)index * g->apart] : missing;
}

// Additions at the indices of one axis, along which `at` and `parts` do not move. A thread adds the
// terms of one sum. More than 128 are added in turn, in halves or in runs.
typedef struct {
    Shape shape; // of the sums
    Place to, at, parts;
    ulong count;
    long at_apart, parts_apart;
    int axis, order;
} Scatter;
#define IS_OWN(k) (at[(long)(k) * s->at_apart] == own)
#define TERM(k) parts[(long)(k) * s->parts_apart]
DL_KERNEL dl_scatter(DL_GLOBAL const ulong *at, DL_GLOBAL const T *parts, DL_GLOBAL T *to, DL_TABLE) {
    DL_GLOBAL const Scatter *s = DL_ARGUMENT(Scatter);
    ulong i = DL_INDEX;
    if (i >= s->shape.len) return;
    ulong own = dl_index(&s->shape, s->axis, i), terms = 0;
    to += dl_at(&s->shape, &s->to, i);
    at += dl_at(&s->shape, &s->at, i);
    parts += dl_at(&s->shape, &s->parts, i);
    for (ulong k = 0; k < s->count; ++k) terms += IS_OWN(k) ? 1 : 0;
    if (terms == 0) return;
    T sum = *to, sums[48];
    if (terms <= RUN || s->order == 0) {
        for (ulong k = 0; k < s->count; ++k)
            if (IS_OWN(k)) sum = sum + TERM(k);
    } else if (s->order == 1) {
        ulong lens[80], k = 0;
        int left = 1, done = 0;
        lens[0] = terms;
        while (left > 0) {
            ulong len = lens[--left];
            if (len == 0) { // both halves are there
                --done;
                sums[done - 1] = sums[done - 1] + sums[done];
            } else if (len <= RUN) {
                T part = k == 0 ? sum : ZERO;
                for (; len > 0; ++k)
                    if (IS_OWN(k)) {
                        part = part + TERM(k);
                        --len;
                    }
                sums[done++] = part;
            } else {
                lens[left++] = 0;
                lens[left++] = len - len / 2;
                lens[left++] = len / 2;
            }
        }
        sum = sums[0];
    } else {
        T run = ZERO;
        ulong leaves = 0;
        int here = 0;
        for (ulong k = 0; k < s->count; ++k) {
            if (!IS_OWN(k)) continue;
            run = run + TERM(k);
            if (++here < RUN) continue;
            PUSH(run)
            run = ZERO;
            here = 0;
        }
        sum = sum + dl_total(sums, leaves, run);
    }
    *to = dl_stored(sum);
}
