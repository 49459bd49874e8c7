// Elementary functions. The formulas are those of the crate dl-math, in the order of its
// operations, so that the bits of a result are the host's.
#ifdef DL_DOUBLE
#define R double
#define U ulong
#define F(name) dl_##name##_double
#define L(x) x
#define BITS(x) DL_DOUBLE_BITS(x)
#define FROM(x) DL_DOUBLE_OF(x)
#define SIGN 0x8000000000000000ul
#define DIGITS 53
#define BIAS L(1023.0)
#define INTEGER L(4503599627370496.0)
#define ROOT 0x3fe6a09e667f3bcdul
#define ROUND L(6755399441057790.0)
#define ROUND_HALF L(6755399441056766.0)
#define LOG2_E L(1.4426950408889634)
#define LN_2 L(0.6931471805599453)
#define LN_2_HIGH L(0.6931471803691238)
#define LN_2_LOW L(1.9082149292705877e-10)
#define EXP_FROM -L(746.0)
#define EXP_TO L(710.0)
#define ERFC_END L(28.0)
#define ERFC_FIRST L(0.6265040291348648)
#define ERFC_FIRST_LOW L(2.5874467169908176e-17)
#define TINY L(5.551115123125783e-17)
#define SUBNORMAL_SCALE L(9007199254740992.0)
#define SMALLEST DBL_MIN
#define LARGEST DBL_MAX
R F(exp_tail)(R x) {
    R x2 = x * x;
    R x4 = x2 * x2;
    return fma(x4, fma(x4, fma(x2, L(2.0914686968086876e-09), fma(x, L(2.5105217004720745e-08),
        L(2.75572736431103e-07))), fma(x2, fma(x, L(2.7557255400206422e-06), L(2.4801587325547743e-05)),
        fma(x, L(0.00019841269874820627), L(0.0013888888888883748)))), fma(x2, fma(x,
        L(0.008333333333326136), L(0.04166666666666667)), fma(x, L(0.1666666666666667), L(0.5))));
}
R F(ln_tail)(R x) {
    R x2 = x * x;
    R x4 = x2 * x2;
    return fma(x4, fma(x2, L(0.14616449685043406), fma(x, L(0.15331721600556042),
        L(0.18182889125261723))), fma(x2, fma(x, L(0.2222221113479508), L(0.28571428625975487)), fma(x,
        L(0.39999999999899505), L(0.666666666666667))));
}
R F(erf_tail)(R x) {
    R x2 = x * x;
    R x4 = x2 * x2;
    return fma(x4, fma(x4, fma(x2, fma(x, -L(7.795898827002142e-10), L(1.3720064546777686e-08)), fma(x,
        -L(1.6208483801871705e-07), L(1.6447424703317362e-06))), fma(x2, fma(x,
        -L(1.492473690741966e-05), L(0.00012055294904839707)), fma(x, -L(0.0008548325975389692),
        L(0.0052239776071164225)))), fma(x2, fma(x, -L(0.02686617064323777), L(0.11283791670945006)),
        fma(x, -L(0.37612638903183543), L(0.12837916709551256))));
}
R F(erfc_scaled)(R x) {
    R x2 = x * x;
    R x4 = x2 * x2;
    R x8 = x4 * x4;
    return fma(x8, fma(x8, fma(x2, fma(x, -L(5.2477233793210914e-09), L(5.351235948815972e-08)), fma(x,
        -L(3.3569622813402775e-08), -L(3.242018934777423e-07))), fma(x4, fma(x2, fma(x,
        L(1.5395364367182392e-07), L(1.7508076330952807e-06)), fma(x, -L(3.5684856128319175e-07),
        -L(1.0056841606062654e-05))), fma(x2, fma(x, L(2.4728363506851995e-06),
        L(6.255137192468334e-05)), fma(x, -L(5.2579660285681924e-05), -L(0.0003899163986886115))))),
        fma(x4, fma(x2, fma(x, L(0.0009443451627409075), L(0.0012646959319310561)), fma(x,
        -L(0.011885257458724915), L(0.03415401367080576))), fma(x2, fma(x, -L(0.059636831707663415),
        L(0.06482257935140713)), fma(x, -L(0.02378114717672532), -L(0.06781055306229077)))));
}
#include FORMULAS
R F(sine_tail)(R x) {
    R x2 = x * x;
    return fma(x2, fma(x2, -L(1.0 / 39916800.0), fma(x, L(1.0 / 362880.0), -L(1.0 / 5040.0))), fma(x,
        L(1.0 / 120.0), -L(1.0 / 6.0)));
}
R F(cosine_tail)(R x) {
    R x2 = x * x;
    return fma(x2, fma(x2, fma(x, L(1.0 / 479001600.0), -L(1.0 / 3628800.0)), fma(x, L(1.0 / 40320.0),
        -L(1.0 / 720.0))), fma(x, L(1.0 / 24.0), -L(0.5)));
}
R F(arc_over)(R x) {
    R x2 = x * x;
    return fma(x2, fma(x2, fma(x, L(3.479331075960212e-5), L(7.915349942898145e-4)), fma(x,
        -L(4.005553450067941e-2), L(2.0121253213486293e-1))), fma(x, -L(3.255658186224009e-1),
        L(1.6666666666666666e-1)));
}
R F(arc_under)(R x) {
    R x2 = x * x;
    return fma(x2, fma(x2, L(7.703815055590194e-2), fma(x, -L(6.882839716054533e-1),
        L(2.0209457602335057))), fma(x, -L(2.403394911734414), L(1.0)));
}
R F(arctangent_tail)(R x) {
    R x2 = x * x;
    R x4 = x2 * x2;
    return fma(x4, fma(x4, fma(x2, -L(1.6285820115365782e-2), fma(x, L(3.6531572744216916e-2),
        -L(4.976877994615932e-2))), fma(x2, fma(x, L(5.8335701337905735e-2), -L(6.661073137387531e-2)),
        fma(x, L(7.69187620504483e-2), -L(9.090887133436507e-2)))), fma(x2, fma(x,
        L(1.1111110405462356e-1), -L(1.4285714272503466e-1)), fma(x, L(1.9999999999876483e-1),
        -L(3.333333333333293e-1))));
}
// The circular functions of f32 and their inverses, in f64.
void dl_reduced(float of, double *quarter, double *sine, double *cosine) {
    // 1 / 2π in parts of 28 bits
    const double turns[7] = {
        42722829.0 * 0x1p-28, 194220293.0 * 0x1p-56, 78114973.0 * 0x1p-84, 99908941.0 * 0x1p-112,
        58131309.0 * 0x1p-140, 145057359.0 * 0x1p-168, 17711367.0 * 0x1p-196,
    };
    double rests[7], sum = 0.0, x = of;
    for (int i = 0; i < 7; ++i) {
        double t = x * turns[i];
        rests[i] = t - rint(t);
        sum += rests[i];
    }
    double quarters = rint(4.0 * sum), rest = -0.25 * quarters;
    for (int i = 0; i < 7; ++i) rest += rests[i];
    double angle = rest * 6.283185307179586, z = angle * angle;
    *quarter = quarters - 4.0 * floor(0.25 * quarters);
    *sine = fma(angle * z, F(sine_tail)(z), angle);
    *cosine = fma(z, F(cosine_tail)(z), 1.0);
}
float dl_sin_float(float x) {
    double quarter, sine, cosine;
    dl_reduced(x, &quarter, &sine, &cosine);
    double size = quarter == 1.0 || quarter == 3.0 ? cosine : sine;
    return fabs(x) < 2.44140625e-4f ? x : (float)(quarter >= 2.0 ? -size : size);
}
float dl_cos_float(float x) {
    double quarter, sine, cosine;
    dl_reduced(x, &quarter, &sine, &cosine);
    double size = quarter == 1.0 || quarter == 3.0 ? sine : cosine;
    return (float)(quarter == 1.0 || quarter == 2.0 ? -size : size);
}
float dl_tan_float(float x) {
    double quarter, sine, cosine;
    dl_reduced(x, &quarter, &sine, &cosine);
    int odd = quarter == 1.0 || quarter == 3.0;
    double tangent = (odd ? -cosine : sine) / (odd ? sine : cosine);
    return fabs(x) < 2.44140625e-4f ? x : (float)tangent;
}
double dl_arc(float of) {
    double x = of, size = fabs(x);
    int far = size > 0.5;
    double z = far ? 0.5 - 0.5 * size : size * size, root = far ? sqrt(z) : size;
    double near = fma(root, z * F(arc_over)(z) / F(arc_under)(z), root);
    return copysign(far ? 1.5707963267948966 - (near + near) : near, x);
}
float dl_asin_float(float x) { return (float)dl_arc(x); }
float dl_acos_float(float x) { return (float)(1.5707963267948966 - dl_arc(x)); }
float dl_atan_float(float of) {
    double x = of, size = fabs(x);
    int middle = size > 0.41421356237309505, far = size > 2.414213562373095;
    double t = (far ? -1.0 : middle ? size - 1.0 : size) / (far ? size : middle ? size + 1.0 : 1.0), z = t * t;
    double start = far ? 1.5707963267948966 : middle ? 0.7853981633974483 : 0.0;
    return (float)copysign(start + fma(t * z, F(arctangent_tail)(z), t), x);
}
// Powers of f32: simple exponents by products, quotients and roots in f64, others by exp(y ln x).
double dl_root(float x) { return sqrt((double)(x == -INFINITY ? INFINITY : x + 0.0f)); }
float dl_pow_float(float a, float b) {
    double w = a, r = 1.0 / w;
    if (b == -3.0f) return (float)(r * r * r);
    if (b == -2.0f) return (float)(r * r);
    if (b == -1.0f) return 1.0f / a;
    if (b == 0.0f) return 1.0f;
    if (b == 1.0f) return a;
    if (b == 2.0f) return a * a;
    if (b == 3.0f) return (float)(w * w * w);
    if (b == 4.0f) return (float)((w * w) * (w * w));
    if (b == -1.5f || b == -0.5f || b == 0.5f || b == 1.5f) {
        double root = dl_root(a), back = 1.0 / root;
        return (float)(b == -1.5f ? back * back * back : b == -0.5f ? back : b == 0.5f ? root : root * root * root);
    }
    double y = b, half_y = 0.5 * y;
    float size = (float)dl_exp_double(y * dl_ln_double(fabs(w)));
    int whole = floor(y) == y, odd = whole && floor(half_y) != half_y;
    float power = odd && (DL_FLOAT_BITS(a) >> 31) ? -size : size;
    power = a < 0.0f && a > -INFINITY && !whole ? NAN : power;
    return a == 1.0f || b == 0.0f || (a == -1.0f && isinf(b)) ? 1.0f : power;
}
#define double_by(name) double dl_##name##_double(double x) { return name(x); }
double_by(sin) double_by(cos) double_by(tan) double_by(asin) double_by(acos) double_by(atan)
double dl_pow_double(double a, double b) {
    return b == 0.0 ? 1.0 : b == 1.0 ? a : b == 2.0 ? a * a : b == -1.0 ? 1.0 / a : pow(a, b);
}
#include UNDEFINED
#else
float dl_sin_float(float x) { return sin(x); }
float dl_cos_float(float x) { return cos(x); }
float dl_tan_float(float x) { return tan(x); }
float dl_asin_float(float x) { return asin(x); }
float dl_acos_float(float x) { return acos(x); }
float dl_atan_float(float x) { return atan(x); }
float dl_pow_float(float a, float b) { return pow(a, b); }
#endif
#define R float
#define U uint
#define F(name) dl_##name##_float
#define L(x) x##f
#define BITS(x) DL_FLOAT_BITS(x)
#define FROM(x) DL_FLOAT(x)
#define SIGN 0x80000000u
#define DIGITS 24
#define BIAS L(127.0)
#define INTEGER L(8388608.0)
#define ROOT 0x3f3504f3u
#define ROUND L(12583166.0)
#define ROUND_HALF L(12583038.0)
#define LOG2_E L(1.44269504)
#define LN_2 L(0.693147180)
#define LN_2_HIGH L(0.69314575)
#define LN_2_LOW L(1.4286068e-6)
#define EXP_FROM -L(104.5)
#define EXP_TO L(89.0)
#define ERFC_END L(11.0)
#define ERFC_FIRST L(0.626504)
#define ERFC_FIRST_LOW L(2.871926e-08)
#define TINY L(2.98023223876953125e-8)
#define SUBNORMAL_SCALE L(16777216.0)
#define SMALLEST FLT_MIN
#define LARGEST FLT_MAX
R F(exp_tail)(R x) {
    R x2 = x * x;
    return fma(x2, fma(x2, fma(x, L(0.00019890991), L(0.001393365)), fma(x, L(0.0083333105),
        L(0.041666467))), fma(x, L(0.16666667), L(0.5)));
}
R F(ln_tail)(R x) {
    R x2 = x * x;
    return fma(x2, fma(x, L(0.23330468), L(0.28550822)), fma(x, L(0.40000123), L(0.6666667)));
}
R F(erf_tail)(R x) {
    R x2 = x * x;
    R x4 = x2 * x2;
    return fma(x4, fma(x2, L(7.875875e-05), fma(x, -L(0.00080168643), L(0.0051890872))), fma(x2, fma(x,
        -L(0.026854211), L(0.11283594)), fma(x, -L(0.37612626), L(0.12837917))));
}
R F(erfc_scaled)(R x) {
    R x2 = x * x;
    R x4 = x2 * x2;
    return fma(x4, fma(x4, -L(0.0003259631), fma(x2, fma(x, L(0.0009023422), L(0.0012404519)), fma(x,
        -L(0.011873182), L(0.034157947)))), fma(x2, fma(x, -L(0.05963827), L(0.06482232)), fma(x,
        -L(0.023781087), -L(0.06781055))));
}
#include FORMULAS
#include UNDEFINED
