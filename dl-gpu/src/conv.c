
// Convolutions: y = w · p, where the patches p have a row for each tap and a column for each
// position of the window. Blocks of rows and columns, and with them the order of the sums, are
// those of the host's kernels: see dl-nd, kernels/conv.rs.
typedef struct {
    ulong left, right, to, batch, groups, inputs, outputs, by_samples, by_rows;
    Region axes[3]; // with the lengths of x and of y
    int accumulators, is_pointwise;
} Conv;
#define LENGTHS(c, field) ((c)->axes[0].field * (c)->axes[1].field * (c)->axes[2].field)
#define TAPS(c) ((c)->inputs * LENGTHS(c, taps))
// An entry of the patches, of the channels x of a sample and group.
T dl_patch(const Conv *c, DL_GLOBAL const T *x, ulong row, ulong column) {
    ulong at = 0, apart = 1;
    for (int axis = 2; axis >= 0; --axis) {
        Region r = c->axes[axis];
        ulong place = column % r.outputs * r.stride + row % r.taps * r.dilation;
        if (place < r.padding || place - r.padding >= r.length) return ZERO;
        at += (place - r.padding) * apart;
        apart *= r.length;
        row /= r.taps;
        column /= r.outputs;
    }
    return x[row * apart + at];
}
// A chain of multiply-adds, or an inner product in accumulators.
#define SUM_OF_PRODUCTS(sum, from, to, is_inner, a, b) { \
    sum = ZERO; \
    if (is_inner) for (int lane = 0; lane < c.accumulators; ++lane) lanes[lane] = ZERO; \
    for (ulong k = from; k < to; ++k) { \
        int lane = (int)((k - (from)) % (c.accumulators > 0 ? c.accumulators : 1)); \
        if (is_inner) lanes[lane] = fma(a, b, lanes[lane]); \
        else sum = fma(a, b, sum); \
    } \
    if (is_inner) { \
        for (int left = c.accumulators / 2; left > 0; left /= 2) \
            for (int lane = 0; lane < left; ++lane) lanes[lane] = lanes[lane] + lanes[lane + left]; \
        sum = lanes[0]; \
    } }
DL_KERNEL dl_conv_output(DL_GLOBAL const T *x, DL_GLOBAL const T *w, DL_GLOBAL T *y, DL_TABLE) {
    Conv c = *DL_ARGUMENT(Conv);
    ulong i = DL_INDEX, positions = LENGTHS(&c, outputs), taps = TAPS(&c), channels = c.groups * c.outputs;
    if (i >= c.batch * channels * positions) return;
    ulong position = i % positions, channel = i / positions % channels, sample = i / positions / channels;
    ulong part = sample * c.groups + channel / c.outputs, width = min(positions - position / 64 * 64, (ulong)64);
    x += c.left + part * c.inputs * LENGTHS(&c, length);
    w += c.right + channel * taps;
    T sum = ZERO, lanes[64];
    for (ulong first = 0; first < taps; first += 512) {
        ulong end = min(first + 512, taps);
        int is_inner = c.accumulators > 0 && end - first > 1 && width == 1 && (!c.is_pointwise || positions == 1);
        T block;
        SUM_OF_PRODUCTS(block, first, end, is_inner, w[k], dl_patch(&c, x, k, position))
        sum = first == 0 ? block : sum + block;
    }
    y[c.to + i] = dl_stored(sum);
}
DL_KERNEL dl_conv_weight(DL_GLOBAL const T *x, DL_GLOBAL const T *y, DL_GLOBAL T *w, DL_TABLE) {
    Conv c = *DL_ARGUMENT(Conv);
    ulong i = DL_INDEX, positions = LENGTHS(&c, outputs), taps = TAPS(&c), elements = LENGTHS(&c, length);
    if (i >= c.groups * c.outputs * taps) return;
    ulong tap = i % taps, output = i / taps % c.outputs, group = i / taps / c.outputs;
    ulong rows = (taps + c.by_rows - 1) / c.by_rows, start = tap / rows * rows;
    rows = min(rows, taps - start);
    rows = min(rows - (tap - start) / 512 * 512, (ulong)512);
    T total = ZERO, lanes[64];
    for (ulong some = 0; some < c.by_samples; ++some) {
        T sum = ZERO;
        int is_first = 1;
        for (ulong sample = some * c.batch / c.by_samples; sample < (some + 1) * c.batch / c.by_samples; ++sample) {
            ulong part = sample * c.groups + group;
            DL_GLOBAL const T *xs = x + c.left + part * c.inputs * elements;
            DL_GLOBAL const T *ys = y + c.right + (part * c.outputs + output) * positions;
            for (ulong first = 0; first < positions; first += 256) {
                ulong end = min(first + 256, positions);
                int is_inner = c.accumulators > 0 && end - first > 1 && (rows == 1 || c.outputs == 1);
                T block;
                SUM_OF_PRODUCTS(block, first, end, is_inner, dl_patch(&c, xs, tap, k), ys[k])
                sum = is_first ? block : sum + block;
                is_first = 0;
            }
        }
        total = some == 0 ? sum : total + sum;
    }
    w[c.to + i] = dl_stored(total);
}
DL_KERNEL dl_conv_input(DL_GLOBAL const T *y, DL_GLOBAL const T *w, DL_GLOBAL T *x, DL_TABLE) {
    Conv c = *DL_ARGUMENT(Conv);
    ulong i = DL_INDEX, positions = LENGTHS(&c, outputs), taps = TAPS(&c), elements = LENGTHS(&c, length);
    if (i >= c.batch * c.groups * c.inputs * elements) return;
    ulong input = i / elements % c.inputs, part = i / elements / c.inputs, kernel_taps = LENGTHS(&c, taps);
    y += c.left + part * c.outputs * positions;
    w += c.right + part % c.groups * c.outputs * taps + input * kernel_taps;
    T sum = ZERO;
    // the patches of a block of positions are added tap by tap
    ulong block = 0, none = ~(ulong)0, next = none;
    do {
        next = none;
        for (ulong tap = 0; tap < kernel_taps; ++tap) {
            ulong at = i % elements, rest = tap, position = 0, apart = 1;
            for (int axis = 2; axis >= 0 && position != none; --axis) {
                Region r = c.axes[axis];
                ulong place = at % r.length + r.padding, offset = rest % r.taps * r.dilation;
                int fits = place >= offset && (place - offset) % r.stride == 0;
                fits = fits && (place - offset) / r.stride < r.outputs;
                position = fits ? position + (place - offset) / r.stride * apart : none;
                apart *= r.outputs;
                at /= r.length;
                rest /= r.taps;
            }
            if (position == none || position / 64 < block) continue;
            if (position / 64 > block) {
                next = min(next, position / 64);
                continue;
            }
            int is_inner = c.accumulators > 0 && c.outputs > 1 && taps == 1 && positions == 1;
            sum = sum + (is_inner ? dl_inner(w, y, c.outputs, c.accumulators)
                                  : dl_chains(w + tap, taps, y + position, positions, c.outputs, ZERO, 0));
        }
        block = next;
    } while (next != none);
    x[c.to + i] = dl_stored(sum);
}
