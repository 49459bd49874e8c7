"""The coefficients in `coefficients.rs` of the elementary functions: near-minimax polynomials through Chebyshev points, by mpmath.

Writes the file to standard output.
"""

import numpy
from mpmath import chebyfit, erf, erfc, exp, expm1, log, mp, mpf, nstr, sqrt

mp.dps = 60
TINY = mpf(10) ** -12
# the `x` where `t = (x − A) / (x + A)` is 0, and the smallest `x` for which `erfc_scaled` is used
A, FIRST = 3, mpf("0.75")


def exp_tail(r):
    """`(eʳ − 1 − r) / r²`"""
    return (expm1(r) - r) / r**2 if abs(r) > TINY else mpf(1) / 2 + r / 6 + r**2 / 24


def ln_tail(z):
    """`(ln((1 + s) / (1 − s)) − 2 s) / (s z)`, where `z = s²`"""
    s = sqrt(z)
    return (log((1 + s) / (1 - s)) - 2 * s) / (s * z) if z > TINY else mpf(2) / 3 + 2 * z / 5 + 2 * z**2 / 7


def erf_tail(z):
    """`erf(x) / x − 1`, where `z = x²`"""
    x = sqrt(z)
    return erf(x) / x - 1 if z > TINY**4 else 2 / sqrt(mp.pi) - 1


def erfc_scaled(t):
    """`exp(x²) erfc(x) (x + ½)`, where `t = (x − 3) / (x + 3)`"""
    x = A * (1 + t) / (1 - t)
    return exp(x * x) * erfc(x) * (x + mpf(1) / 2)


def fits(last):
    """Every function with its interval; at `last` the complementary error function rounds to 0."""
    half = log(2) / 2 * mpf("1.0001")
    s = (sqrt(2) - 1) / (sqrt(2) + 1)
    return {
        "exp_tail": (exp_tail, [-half, half]),
        "ln_tail": (ln_tail, [0, s * s]),
        "erf_tail": (erf_tail, [0, 1]),
        "erfc_scaled": (erfc_scaled, [(FIRST - A) / (FIRST + A), (last - A) / (last + A)]),
    }


COUNTS = {"exp_tail": (6, 11), "ln_tail": (4, 7), "erf_tail": (7, 12), "erfc_scaled": (10, 21)}

print("//! The coefficients of the polynomials: `tests/reference/elementary_fit.py` writes this file.\n")
print("use super::arithmetic::MulAdd;\nuse super::polynomial::polynomial;")
for index, (kind, last) in enumerate([(numpy.float32, mpf("10.1")), (numpy.float64, mpf("27.3"))]):
    name = kind.__name__.replace("float", "f")
    number = lambda c: repr(float(str(kind(nstr(c, 30)))))
    print(f"\npub(super) mod {name} {{\n    use super::{{MulAdd, polynomial}};")
    for function, (f, interval) in fits(last).items():
        coefficients, error = chebyfit(f, interval, COUNTS[function][index], error=True)
        coefficients.reverse()
        print()
        doc = f.__doc__
        if function == "erfc_scaled":
            first = coefficients.pop(0)
            low = number(first - mpf(number(first)))
            print(f"    /// The first coefficient of `erfc_scaled`, in two parts.")
            print(f"    pub(in super::super) const ERFC_SCALED: [{name}; 2] = [{number(first)}, {low}];\n")
            doc += ", less its first coefficient, over t"
        print(f"    /// {doc}, with an error below {nstr(error * mpf('1.05'), 2)}.")
        print(f"    #[inline(always)]\n    pub(in super::super) fn {function}<M: MulAdd>(x: {name}) -> {name} {{")
        print(f"        polynomial!(M x; {', '.join(map(number, coefficients))})\n    }}")
    print("}")
