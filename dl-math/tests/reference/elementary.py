"""Writes `elementary.csv`: values of the elementary functions, by mpmath.

A line holds a function, the bits of an operand, the bits of the number nearest to the value, and the difference of the value from that number,
in units in the last place.
"""

import math
import random
import struct
from pathlib import Path

import mpmath
from mpmath import mp, mpf

mp.prec = 2400
random.seed(20)

LEAST, TINY = 5e-324, 2.2250738585072014e-308
NEAR_0 = [(1e-300, 1e-200), (1e-20, 1e-9), (1e-9, 1e-3), (1e-3, 0.1)]
# a function, intervals (of absolute values, if it is defined on both sides of 0), and difficult points
FUNCTIONS = {
    "exp": (mpmath.exp, [*NEAR_0, (0.1, 1), (1, 40), (40, 708), (700, 709.78)], [709.782712893384, 708.3964185322641]),
    "exp_m1": (mpmath.expm1, [*NEAR_0, (0.1, 1), (0.3, 2), (1, 40), (40, 709.78)], [709.782712893384]),
    "ln": (mpmath.log, [(LEAST, TINY), (1e-300, 1e-5), (0.01, 0.5), (0.5, 0.99), (0.99, 1.01), (1.01, 2), (2, 100), (100, 1e308)], []),
    "ln_1p": (mpmath.log1p, [*NEAR_0, (0.1, 0.999), (0.25, 0.5), (1, 100), (100, 1e308)], [-0.9999999999999999]),
    "tanh": (mpmath.tanh, [*NEAR_0, (0.1, 0.5), (0.5, 0.6), (0.6, 3), (3, 20)], []),
    "logistic": (lambda x: 1 / (1 + mpmath.exp(-x)), [*NEAR_0, (0.1, 1), (1, 5), (5, 40), (40, 708)], [-709.5, -744]),
    "erf": (mpmath.erf, [*NEAR_0, (0.1, 0.9), (0.9, 1.1), (1.1, 3), (3, 6)], []),
    "erfc": (mpmath.erfc, [*NEAR_0, (0.1, 0.75), (0.75, 0.9), (0.9, 4), (4, 26)], [26.5, 26.6, 27, 27.2]),
}
COUNT = 40


def unit(y):
    """The unit in the last place of a number of this magnitude, for mpmath."""
    return mpf(2) ** (max(math.frexp(y)[1], -1021) - 53)


def operands(name, intervals, hard):
    for low, high in intervals:
        for _ in range(COUNT):
            if high / low > 1000:
                x = low * math.exp(random.random() * (math.log(high) - math.log(low)))
            else:
                x = random.uniform(low, high)
            yield x
            if name != "ln" and not (name == "ln_1p" and x >= 1):
                yield -x
    yield from hard
    yield from [LEAST, 3e-320, TINY]
    if name != "ln":
        yield from [-LEAST, -3e-320, -TINY]
    if name == "exp":
        yield from [-708.5, -720.0, -744.0, -745.1]


def bits(x):
    return struct.pack(">d", x).hex()


with Path(__file__).with_suffix(".csv").open("w") as out:
    for name, (function, intervals, hard) in FUNCTIONS.items():
        for x in operands(name, intervals, hard):
            value = function(mpf(x))
            y = float(value)
            if math.isinf(y):
                continue
            rest = (value - mpf(y)) / unit(y)
            out.write(f"{name},{bits(x)},{bits(y)},{float(rest):.3f}\n")
