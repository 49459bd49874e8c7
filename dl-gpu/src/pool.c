
// The elements of an axis under a window, or of one of equal bins without taps.
typedef struct {
    ulong taps, stride, padding, dilation, length, outputs;
} Region;
typedef struct {
    ulong of, to, channels;
    Region regions[3];
} Maxima;
typedef struct {
    ulong first, end, step;
} Range;
Range dl_range(Region r, ulong at) {
    Range range = {at * r.length / r.outputs, ((at + 1) * r.length + r.outputs - 1) / r.outputs, 1};
    if (r.taps > 0) {
        ulong start = at * r.stride, before = r.padding > start ? r.padding - start : 0;
        ulong end = start + r.dilation * (r.taps - 1) + 1;
        range.first = start + (before + r.dilation - 1) / r.dilation * r.dilation - r.padding;
        range.end = end > r.padding ? min(end - r.padding, r.length) : 0;
        range.step = r.dilation;
    }
    return range;
}
// The position of the first maximum, or of the last NaN, of each window in its channel.
DL_KERNEL dl_maxima(DL_GLOBAL const T *of, DL_GLOBAL ulong *to, DL_TABLE) {
    Maxima m = *DL_ARGUMENT(Maxima);
    ulong i = DL_INDEX, each = m.regions[0].outputs * m.regions[1].outputs * m.regions[2].outputs;
    if (i >= m.channels * each) return;
    ulong height = m.regions[1].length, width = m.regions[2].length, at = i % each, found = ~(ulong)0;
    of += m.of + i / each * m.regions[0].length * height * width;
    Range columns = dl_range(m.regions[2], at % m.regions[2].outputs);
    at /= m.regions[2].outputs;
    Range lines = dl_range(m.regions[1], at % m.regions[1].outputs);
    Range planes = dl_range(m.regions[0], at / m.regions[1].outputs);
    T max = ZERO;
    for (ulong plane = planes.first; plane < planes.end; plane += planes.step)
        for (ulong line = lines.first; line < lines.end; line += lines.step)
            for (ulong column = columns.first; column < columns.end; column += columns.step) {
                ulong here = (plane * height + line) * width + column;
                T x = of[here];
                if (x > max || isnan(x) || found == ~(ulong)0) {
                    max = x;
                    found = here;
                }
            }
    to[m.to + i] = found;
}

// A sparse matrix times the lanes of `[before, length, inner]`: `starts` has the first term of each
// row and the places of the terms, `factors` the divisor of each row and the factors of the terms.
typedef struct {
    ulong of, to, starts, factors, before, length, outputs, inner;
} Rows;
T dl_row(DL_GLOBAL const T *x, DL_GLOBAL const ulong *places, DL_GLOBAL const T *factors, ulong terms, ulong inner,
         T divisor) {
    ulong lens[80], k = 0;
    T sums[48];
    int left = 1, done = 0;
    lens[0] = terms;
    while (left > 0) {
        ulong len = lens[--left];
        if (len == ~(ulong)0) { // both halves are there
            --done;
            sums[done - 1] = sums[done - 1] + sums[done];
        } else if (len <= RUN) {
            T sum = ZERO;
            for (; len > 0; --len, ++k) sum = sum + factors[k] / divisor * x[places[k] * inner];
            sums[done++] = sum;
        } else {
            lens[left++] = ~(ulong)0;
            lens[left++] = len - len / 2;
            lens[left++] = len / 2;
        }
    }
    return sums[0];
}
DL_KERNEL dl_rows(DL_GLOBAL const T *of, DL_GLOBAL const ulong *starts, DL_GLOBAL const T *factors, DL_GLOBAL T *to,
                  DL_TABLE) {
    Rows r = *DL_ARGUMENT(Rows);
    ulong i = DL_INDEX, each = r.outputs * r.inner;
    if (i >= r.before * each) return;
    ulong row = i % each / r.inner;
    starts += r.starts;
    factors += r.factors;
    DL_GLOBAL const T *x = of + r.of + i / each * r.length * r.inner + i % r.inner;
    ulong first = starts[row], terms = starts[row + 1] - first;
    DL_GLOBAL const ulong *places = starts + r.outputs + 1 + first;
    T divisor = factors[row], sum = dl_row(x, places, factors + r.outputs + first, terms, r.inner, ONE) / divisor;
    if (divisor != ONE && !isfinite(sum))
        sum = dl_row(x, places, factors + r.outputs + first, terms, r.inner, divisor);
    to[r.to + i] = dl_stored(sum);
}
