
// Scans of `[before, len, after]` along the second axis, a lane by a thread.
typedef struct {
    ulong of, with, to, before, len, after;
    int op, from_end, initial, unused;
} Scan;
// ln(exp(sum) + exp(x)), with the error of the last rounding
#define ADD_EXP(sum, error, x) { \
    int above = sum >= x; \
    T high = above ? sum : x, rise = dl_u_softplus((above ? x : sum) - high) - (above ? error : ZERO); \
    T next = high + rise; \
    error = isfinite(next) ? (next - high) - rise : ZERO; \
    sum = isfinite(next) ? next : dl_b_logaddexp(sum, x); }
DL_KERNEL dl_scan(DL_GLOBAL const T *of, DL_GLOBAL const T *with, DL_GLOBAL T *to, DL_TABLE) {
    Scan s = *DL_ARGUMENT(Scan);
    ulong i = DL_INDEX;
    if (i >= s.before * s.after) return;
    ulong first = i / s.after * s.len * s.after + i % s.after;
    DL_GLOBAL ulong *indices = (DL_GLOBAL ulong *)to + s.to;
    of += s.of + first;
    with += s.with + first;
    to += s.to + first;
    int largest = s.op == 4 || s.op == 6;
    T sum = s.op == 3 || largest ? -(T)INFINITY : s.op > 3 ? (T)INFINITY : ZERO, error = ZERO;
    if (s.op >= 6) sum = of[0];
    ulong found = 0;
#ifdef DL_DOUBLE
    double state = s.initial;
#endif
    for (ulong step = 0; step < s.len; ++step) {
        ulong at = s.from_end ? s.len - 1 - step : step;
        T x = of[at * s.after];
        switch (s.op) {
            case 0: { // a sum and the sum of its rounding errors
                T next = sum + x, lost = fabs(sum) >= fabs(x) ? (sum - next) + x : (x - next) + sum;
                error = isfinite(lost) ? error + lost : error;
                sum = next;
                to[at * s.after] = dl_stored(next + error);
                break;
            }
#ifdef DL_DOUBLE
            case 1:
                state = (double)with[at * s.after] + (double)x * state;
                to[at * s.after] = dl_stored((T)state);
                break;
            case 2:
                state = (double)with[at * s.after] + (state == 0.0 ? state : state * (double)x);
                to[at * s.after] = dl_stored((T)state);
                break;
#endif
            case 3:
                ADD_EXP(sum, error, x)
                to[at * s.after] = dl_stored(sum);
                break;
            default: {
                int above = largest ? x > sum : x < sum, beats = above || (isnan(x) && !isnan(sum));
                if (s.op < 6) beats = above || x == sum || isnan(x);
                sum = beats ? x : sum;
                found = beats ? at : found;
                if (s.op < 6) indices[first + at * s.after] = found;
            }
        }
    }
    if (s.op >= 6) indices[i] = found;
}
