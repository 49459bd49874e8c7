// The kernels for elements T that are built once: sums, folds, and products. The order of every sum
// is the host's: see the crate dl-nd, device/work.rs.

#define RUN 128
// The sum of at most 128 terms that are `apart` apart.
T dl_short_sum(DL_GLOBAL const T *x, int len, ulong apart, int in_eights) {
    T sum = ZERO;
    int at = 0;
    if (in_eights) {
        T sums[8] = {ZERO, ZERO, ZERO, ZERO, ZERO, ZERO, ZERO, ZERO};
        for (; at + 8 <= len; at += 8)
            for (int lane = 0; lane < 8; ++lane) sums[lane] = sums[lane] + x[(at + lane) * apart];
        for (int lane = 0; lane < 4; ++lane) sum = sum + (sums[lane] + sums[lane + 4]);
    }
    for (; at < len; ++at) sum = sum + x[at * apart];
    return sum;
}
// A sum of leaves as a binary counter: sums[slot] is that of 2^slot leaves.
#define PUSH(leaf) { \
    T pushed = leaf; \
    int slot = 0; \
    for (ulong bits = leaves++; bits & 1; bits >>= 1) pushed = sums[slot++] + pushed; \
    sums[slot] = pushed; }
T dl_total(const T *sums, ulong leaves, T rest) {
    T sum = rest;
    for (int slot = 0; leaves >> slot; ++slot)
        if ((leaves >> slot) & 1) sum = sums[slot] + sum;
    return sum;
}
// The pairwise sum of runs, each of which is summed in turn.
T dl_sum_of_runs(DL_GLOBAL const T *x, ulong len, ulong apart) {
    T sums[48], rest = ZERO;
    ulong leaves = 0;
    for (ulong at = 0; at < len; at += RUN) {
        int here = (int)min(len - at, (ulong)RUN);
        T run = dl_short_sum(x + at * apart, here, apart, 0);
        if (here == RUN) PUSH(run) else rest = run;
    }
    return dl_total(sums, leaves, rest);
}
typedef struct {
    ulong of, to, before, len, after;
    long order; // in turn, in eights, in runs
} Sum;
// A thread sums the terms of one result. More than 128 are halved, from left to right, on a stack.
DL_KERNEL dl_sum(DL_GLOBAL const T *of, DL_GLOBAL T *to, DL_TABLE) {
    Sum sum = *DL_ARGUMENT(Sum);
    ulong i = DL_INDEX;
    if (i >= sum.before * sum.after) return;
    DL_GLOBAL const T *x = of + sum.of + (i / sum.after * sum.len * sum.after + i % sum.after);
    if (sum.order == 2) {
        to[sum.to + i] = dl_stored(dl_sum_of_runs(x, sum.len, sum.after));
        return;
    }
    ulong lens[80];
    T sums[48];
    int left = 1, done = 0;
    lens[0] = sum.len;
    while (left > 0) {
        ulong len = lens[--left];
        if (len == 0) { // both halves are there
            --done;
            sums[done - 1] = sums[done - 1] + sums[done];
        } else if (len <= RUN) {
            sums[done++] = dl_short_sum(x, (int)len, sum.after, sum.order == 1);
            x += len * sum.after;
        } else {
            lens[left++] = 0;
            lens[left++] = len - len / 2;
            lens[left++] = len / 2;
        }
    }
    to[sum.to + i] = sums[0];
}

T dl_run(DL_GLOBAL const T *x, int len) {
    T sums[32];
    for (int lane = 0; lane < 32; ++lane) sums[lane] = ZERO;
    for (int at = 0; at < len; ++at) sums[at & 31] = sums[at & 31] + x[at];
    for (int left = 16; left >= 4; left /= 2)
        for (int lane = 0; lane < left; ++lane) sums[lane] = sums[lane] + sums[lane + left];
    return (sums[0] + sums[2]) + (sums[1] + sums[3]);
}
#define CHUNK 4096
typedef struct {
    ulong of, to, len;
} SumAll;
// The sums of chunks of 32 runs, which are whole subtrees but for the last one.
DL_KERNEL dl_chunk_sums(DL_GLOBAL const T *of, DL_GLOBAL T *to, DL_TABLE) {
    SumAll s = *DL_ARGUMENT(SumAll);
    ulong i = DL_INDEX, start = i * CHUNK;
    if (start >= s.len) return;
    ulong end = min(start + CHUNK, s.len), leaves = 0;
    T sums[8], rest = ZERO;
    for (ulong at = start; at < end; at += RUN) {
        int here = (int)min(end - at, (ulong)RUN);
        T run = dl_run(of + s.of + at, here);
        if (here == RUN) PUSH(run) else rest = run;
    }
    to[s.to + i] = dl_total(sums, leaves, rest);
}
// The sum of the chunks, of which the last one is incomplete unless their length divides `len`.
DL_KERNEL dl_sum_of_chunks(DL_GLOBAL const T *of, DL_GLOBAL T *to, DL_TABLE) {
    SumAll s = *DL_ARGUMENT(SumAll);
    if (DL_INDEX > 0) return;
    ulong chunks = s.len / CHUNK, leaves = 0;
    T sums[48];
    for (ulong i = 0; i < chunks; ++i) PUSH(of[s.of + i])
    to[s.to] = dl_stored(dl_total(sums, leaves, s.len % CHUNK ? of[s.of + chunks] : ZERO));
}

typedef struct {
    ulong of, to, before, rows, after, part;
    long op;
} Fold;
T dl_folded(int op, T a, T b) { return op == 0 ? a * b : op == 1 ? dl_above(a, b) : dl_below(a, b); }
DL_KERNEL dl_fold(DL_GLOBAL const T *of, DL_GLOBAL T *to, DL_TABLE) {
    Fold fold = *DL_ARGUMENT(Fold);
    ulong i = DL_INDEX, parts = (fold.rows + fold.part - 1) / fold.part;
    if (i >= fold.before * parts * fold.after) return;
    ulong part = i / fold.after % parts, first = part * fold.part, rows = min(fold.part, fold.rows - first);
    DL_GLOBAL const T *x = of + fold.of + ((i / fold.after / parts * fold.rows + first) * fold.after + i % fold.after);
    T all = x[0];
    if (fold.after == 1 && rows >= 32) {
        T lanes[32];
        for (int lane = 0; lane < 32; ++lane) lanes[lane] = x[lane];
        for (ulong at = 32; at < rows; ++at) lanes[at & 31] = dl_folded((int)fold.op, lanes[at & 31], x[at]);
        for (int left = 16; left > 0; left /= 2)
            for (int lane = 0; lane < left; ++lane) lanes[lane] = dl_folded((int)fold.op, lanes[lane], lanes[lane + left]);
        all = lanes[0];
    } else {
        for (ulong row = 1; row < rows; ++row) all = dl_folded((int)fold.op, all, x[row * fold.after]);
    }
    to[fold.to + i] = dl_stored(all);
}

// The strides of `a` are those of its batch axes, rows and terms, of `b` batch axes, columns,
// terms.
typedef struct {
    Shape shape; // of the batch axes
    ulong rows, depth, columns, a_row, a_term, b_column, b_term, row, to;
    Place a, b;
    int with_row, relu, accumulators, unused;
} Product;
T dl_inner(DL_GLOBAL const T *x, DL_GLOBAL const T *y, ulong len, int accumulators) {
    T sums[64];
    for (int lane = 0; lane < accumulators; ++lane) sums[lane] = ZERO;
    for (ulong at = 0; at < len; ++at) {
        int lane = (int)(at % accumulators);
        sums[lane] = fma(x[at], y[at], sums[lane]);
    }
    for (int left = accumulators / 2; left > 0; left /= 2)
        for (int lane = 0; lane < left; ++lane) sums[lane] = sums[lane] + sums[lane + left];
    return sums[0];
}
#define PART 512
// The terms of at most 16 parts of equal length, each a chain of fused multiply-adds. `row` is
// added to the first part.
T dl_chains(DL_GLOBAL const T *a, ulong a_term, DL_GLOBAL const T *b, ulong b_term, ulong depth, T row, int with_row) {
    ulong parts = (depth + PART - 1) / PART, each = depth / parts, longer = depth % parts, at = 0;
    T sum = row;
    for (ulong part = 0; part < parts; ++part) {
        ulong end = at + each + (part < longer ? 1 : 0);
        T chain = ZERO;
        for (; at < end; ++at) chain = fma(a[at * a_term], b[at * b_term], chain);
        sum = part == 0 && !with_row ? chain : sum + chain;
    }
    return sum;
}
DL_KERNEL dl_product(DL_GLOBAL const T *a, DL_GLOBAL const T *b, DL_GLOBAL const T *rows, DL_GLOBAL T *to, DL_TABLE) {
    DL_GLOBAL const Product *p = DL_ARGUMENT(Product);
    ulong i = DL_INDEX, each = p->rows * p->columns;
    if (i >= p->shape.len * each) return;
    ulong pair = i / each, row = i % each / p->columns, column = i % p->columns;
    DL_GLOBAL const T *x = a + dl_at(&p->shape, &p->a, pair) + (long)row * (long)p->a_row;
    DL_GLOBAL const T *y = b + dl_at(&p->shape, &p->b, pair) + (long)column * (long)p->b_column;
    T addend = p->with_row ? rows[p->row + column] : ZERO;
    ulong lens[80];
    T sums[48];
    ulong longest = p->accumulators ? 4096 : 16 * PART;
    int left = 1, done = 0, with_row = p->with_row && !p->accumulators;
    lens[0] = p->depth;
    if (p->depth == 0) {
        left = 0;
        done = 1;
        sums[0] = with_row ? addend : ZERO;
    }
    while (left > 0) {
        ulong len = lens[--left];
        if (len == 0) {
            --done;
            sums[done - 1] = sums[done - 1] + sums[done];
        } else if (len <= longest) {
            sums[done++] = p->accumulators ? dl_inner(x, y, len, p->accumulators)
                                          : dl_chains(x, p->a_term, y, p->b_term, len, addend, with_row);
            with_row = 0;
            x += (long)len * (long)p->a_term;
            y += (long)len * (long)p->b_term;
        } else {
            ulong start = (len / 2 + PART - 1) / PART * PART;
            lens[left++] = 0;
            lens[left++] = len - start;
            lens[left++] = start;
        }
    }
    T value = p->with_row && p->accumulators ? addend + sums[0] : sums[0];
    if (p->relu) value = dl_stored(dl_u_relu(value));
    to[p->to + i] = value;
}
