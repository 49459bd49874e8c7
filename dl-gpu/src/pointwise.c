// The table of pointwise operations, for the elements T of a kernel. E(name) is an elementary
// function.
#define unary(name, value) T dl_u_##name(T x) { return value; }
#define binary(name, value) T dl_b_##name(T a, T b) { return value; }
#define HALF ((T)0.5)
T dl_cdf(T x) { return HALF * E(erfc)(x * (T)-0.70710678118654752440); }
T dl_weighted(T weight, T x) { return weight == ZERO ? weight : weight * x; }
unary(neg, -x)
unary(abs, fabs(x))
unary(sign, x == ZERO || isnan(x) ? x : copysign(ONE, x))
unary(floor, floor(x))
unary(ceil, ceil(x))
unary(round, rint(x))
unary(exp, E(exp)(x))
unary(expm1, E(exp_m1)(x))
unary(ln, E(ln)(x))
unary(log1p, E(ln_1p)(x))
unary(sqrt, sqrt(x))
unary(rsqrt, ONE / sqrt(x))
unary(square, x * x)
unary(recip, ONE / x)
unary(sin, E(sin)(x))
unary(cos, E(cos)(x))
unary(tan, E(tan)(x))
unary(asin, E(asin)(x))
unary(acos, E(acos)(x))
unary(atan, E(atan)(x))
unary(sinh, sinh(x))
unary(cosh, cosh(x))
unary(tanh, E(tanh)(x))
unary(asinh, asinh(x))
T dl_u_acosh(T x) {
    T above = x - ONE;
    return E(ln_1p)(above + sqrt(above) * sqrt(x + ONE));
}
unary(atanh, copysign(HALF * E(ln_1p)((fabs(x) + fabs(x)) / (ONE - fabs(x))), x))
unary(erf, E(erf)(x))
unary(ndtr, dl_cdf(x))
unary(sigmoid, E(logistic)(x))
unary(relu, x <= ZERO ? ZERO : x)
unary(gelu, dl_weighted(dl_cdf(x), x))
unary(gelu_tanh, dl_weighted(E(logistic)(x * ((T)GELU_LINEAR + (T)GELU_CUBIC * (x * x))), x))
unary(silu, dl_weighted(E(logistic)(x), x))
T dl_above(T a, T b) { return a > b || isnan(a) ? a : b; }
T dl_below(T a, T b) { return a < b || isnan(a) ? a : b; }
unary(softplus, fmax(x, ZERO) + E(ln_1p)(E(exp)(-fabs(x))))
unary(log_sigmoid, fmin(x, ZERO) - E(ln_1p)(E(exp)(-fabs(x))))
unary(entr, x > ZERO ? -x * E(ln)(x) : x < ZERO ? -(T)INFINITY : fabs(x))
binary(add, a + b)
binary(sub, a - b)
binary(mul, a * b)
binary(div, a / b)
T dl_b_rem(T a, T b) {
    T rest = fmod(a, b);
    return rest == ZERO ? copysign(rest, b) : (rest < ZERO) != (b < ZERO) ? rest + b : rest;
}
binary(min, dl_below(a, b))
binary(max, dl_above(a, b))
binary(at_least, dl_above(a, b))
binary(at_most, dl_below(a, b))
binary(pow, E(pow)(a, b))
binary(leaky_relu, a > ZERO ? a : b * a)
binary(elu, a > ZERO ? a : b * E(exp_m1)(a))
binary(xlogy, a == ZERO && !isnan(b) ? a : a * E(ln)(b))
T dl_b_logaddexp(T a, T b) {
    T size = fabs(a - b);
    return dl_above(a, b) + E(ln_1p)(E(exp)(a == b ? ZERO : -size));
}
binary(above, a > b ? ONE : a == b ? HALF : a < b ? ZERO : a + b)
binary(gate, b <= ZERO ? ZERO : a)
binary(kink, a > ZERO ? ONE : b)
binary(strong_mul, a == ZERO ? a : a * b)
binary(strong_div, a == ZERO ? a : a / b)
binary(both_strong_mul, a == ZERO || b == ZERO ? ZERO : a * b)
binary(pow_slope, b == ZERO ? b : b * E(pow)(a, b - ONE))
binary(pow_log, a == ZERO && b >= ZERO ? a : E(pow)(a, b) * E(ln)(a))
