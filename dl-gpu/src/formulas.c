// The elementary functions in the arithmetic of the host, for one format: R is the type, U the
// unsigned integer of its size, F(name) names a function, L(number) is a constant. Every operation
// of the crate dl-math stands here in the same order.
R F(with_sign_of)(R x, R of) { return FROM(BITS(x) ^ (BITS(of) & SIGN)); }
R F(power_of_two)(R e) { return FROM(BITS(e) << (DIGITS - 1)); }
R F(first)(R e) { return FROM((BITS(e) >> 1) << (DIGITS - 1)); }
R F(second)(R e) { return FROM((BITS(e) - (BITS(e) >> 1)) << (DIGITS - 1)); }
R F(exponent)(R x) {
    return FROM(((BITS(x) + (BITS(L(1.0)) - ROOT)) >> (DIGITS - 1)) | BITS(INTEGER)) - (INTEGER + BIAS);
}
R F(fraction)(R x) {
    return FROM(((BITS(x) + (BITS(L(1.0)) - ROOT)) & ((((U)1) << (DIGITS - 1)) - 1)) + ROOT);
}
// exp(x + rest), where sum is x + rest: the exponent, the high part and its correction
#define REDUCED(x, rest, sum, round) \
    R exponent = fma(sum, LOG2_E, round), k = exponent - round; \
    R high = fma(-k, LN_2_HIGH, x), correction = fma(k, LN_2_LOW, -(rest)), reduced = high - correction
#define LOW(rest) fma(reduced * reduced, F(exp_tail)(reduced), rest)
R F(exp)(R x) {
    x = x > EXP_TO ? EXP_TO : x;
    x = x < EXP_FROM ? EXP_FROM : x;
    REDUCED(x, L(0.0), x, ROUND);
    R sum = L(1.0) + high, rounded_off = (L(1.0) - sum) + high, low = LOW(rounded_off - correction);
    R first = F(first)(exponent), second = F(second)(exponent);
    return fma(low, first, sum * first) * second;
}
R F(exp_m1)(R x) {
    REDUCED(x, L(0.0), x, ROUND_HALF);
    R scale = F(power_of_two)(exponent);
    R power = scale - L(0.5), part = scale * high, sum = power + part, rounded_off = part - (sum - power);
    R y = sum + fma(scale, LOW(-correction), rounded_off);
    y = x < -L(64.0) ? -L(1.0) : x > EXP_TO ? (R)INFINITY : y + y;
    return fabs(x) < TINY ? x : y;
}
R F(ln_reduced)(R k, R f, R rest) {
    R s = f / (L(2.0) + f), z = s * s, half_square = L(0.5) * f * f;
    R tail = fma(s, fma(z, F(ln_tail)(z), half_square), fma(k, LN_2_LOW, rest));
    return fma(k, LN_2_HIGH, f - (half_square - tail));
}
R F(ln_special)(R x, R y) {
    R end = x > L(0.0) ? x : x == L(0.0) ? -(R)INFINITY : (R)NAN;
    return x > L(0.0) && x <= LARGEST ? y : end;
}
R F(ln)(R x) {
    int is_small = x < SMALLEST;
    R scaled = is_small ? x * SUBNORMAL_SCALE : x, exponent = F(exponent)(scaled), fraction = F(fraction)(scaled);
    exponent = is_small ? exponent - (R)DIGITS : exponent;
    return F(ln_special)(x, F(ln_reduced)(exponent, fraction - L(1.0), L(0.0)));
}
R F(ln_1p)(R x) {
    R sum = L(1.0) + x, exponent = F(exponent)(sum), fraction = F(fraction)(sum);
    int large = x > L(1.0), near = exponent == L(0.0);
    R rounded_off = (large ? L(1.0) : x) - (sum - (large ? x : L(1.0)));
    R y = F(ln_reduced)(exponent, near ? x : fraction - L(1.0), near ? L(0.0) : rounded_off / sum);
    return fabs(x) < TINY ? x : F(ln_special)(sum, y);
}
R F(tanh)(R x) {
    R a = fabs(x) > L(32.0) ? L(32.0) : fabs(x), twice = a + a;
    R exponent = fma(a, -(LOG2_E + LOG2_E), ROUND_HALF), r = fma(ROUND_HALF - exponent, LN_2, -twice);
    R scale = F(power_of_two)(exponent), m = fma(r * r, F(exp_tail)(r), r);
    return F(with_sign_of)(fma(-scale, m, L(0.5) - scale) / fma(scale, m, L(0.5) + scale), x);
}
R F(logistic)(R x) {
    R e = F(exp)(-fabs(x));
    return (x >= L(0.0) ? L(1.0) : e) / (L(1.0) + e);
}
R F(erf_near)(R x) { return fma(x, F(erf_tail)(x * x), x); }
R F(erfc_far)(R x) {
    x = x > ERFC_END ? ERFC_END : x;
    R cut = FROM(BITS(x) & (~(U)0 << (DIGITS / 2 + 1)));
    REDUCED(-(cut * cut), (cut - x) * (cut + x), -(x * x), ROUND);
    R t = (x - L(3.0)) / (x + L(3.0)), tail = t * F(erfc_scaled)(t), scaled = ERFC_FIRST + tail;
    R rounded_off = ((ERFC_FIRST - scaled) + tail) + ERFC_FIRST_LOW, low = LOW(-correction);
    R whole = (scaled + fma(scaled, high + low, rounded_off)) / (x + L(0.5));
    return whole * F(first)(exponent) * F(second)(exponent);
}
R F(erf)(R x) {
    R far = F(with_sign_of)(L(1.0) - F(erfc_far)(fabs(x)), x);
    return fabs(x) < L(1.0) ? F(erf_near)(x) : far;
}
R F(erfc)(R x) {
    R far = F(erfc_far)(fabs(x));
    far = x < L(0.0) ? L(2.0) - far : far;
    return fabs(x) < L(0.8) ? L(1.0) - F(erf_near)(x) : far;
}
