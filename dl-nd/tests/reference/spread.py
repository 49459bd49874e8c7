"""Writes `spread.jsonl`: variances, standard deviations and norms of rows that are hard for floating
point: nearly equal numbers, and numbers at both ends of the range. Results are computed exactly, up
to roots of 60 digits.

    python spread.py > spread.jsonl

Needs no packages. Numbers are strings, as a reader of JSON may not round them correctly. Each line has `op`, `format` (the digits of a significand: 24 or 53), `number`
(the correction or eps), `x`, the cotangent `d`, the `value` and the `gradient` of `sum(d * value)`.
"""

import json
import math
import random
import struct
from decimal import Context, Decimal, setcontext

setcontext(Context(prec=900, Emin=-999999, Emax=999999))


LARGEST = {24: 3.4028234663852886e38, 53: 1.7976931348623157e308}


def rounded(number, digits):
    return number if digits == 53 else struct.unpack("f", struct.pack("f", number))[0]


def as_json(number):
    return repr(float(number))


def mean(numbers):
    return sum(numbers) / len(numbers)


def root(number):
    return number.sqrt(Context(prec=60, Emin=-999999, Emax=999999))


def centered(x):
    middle = mean(x)
    return [x - middle for x in x]


def variance(x, correction):
    return sum(x * x for x in centered(x)) / (len(x) - correction)


def var(x, d, correction):
    gradient = [2 * d[0] * c / (len(x) - correction) for c in centered(x)]
    return [variance(x, correction)], gradient


def std(x, d, correction):
    deviation = root(variance(x, correction))
    zero = deviation == 0
    gradient = [Decimal(0) if zero else d[0] * c / (len(x) - correction) / deviation for c in centered(x)]
    return [deviation], gradient


def normed(y, d, length, d_mean):
    along = mean([d * y for d, y in zip(d, y)])
    return y, [(d - d_mean - y * along) / length for d, y in zip(d, y)]


def layer_norm(x, d, eps):
    length = root(variance(x, 0) + eps)
    return normed([c / length for c in centered(x)], d, length, mean(d))


def rms_norm(x, d, eps):
    length = root(mean([x * x for x in x]) + eps)
    return normed([x / length for x in x], d, length, 0)


def rows(digits, random):
    big, tiny = (1e38, 1e-40) if digits == 24 else (1e308, 1e-315)
    ulp = 2.0 ** (27 - digits)  # of numbers just above 2**26
    yield [1000.1] * 3
    yield [0.1] * 7
    yield [2.0**26, 2.0**26 + ulp, 2.0**26 + 2 * ulp]
    yield [2.0**26 + ulp] * 4 + [2.0**26]
    yield [0.97 * big] * 3
    yield [1.5 * big, -1.5 * big, 0.5 * big]
    # a difference of two of these overflows, and in some rows a sum
    most = LARGEST[digits]
    yield [0.9 * most, -0.9 * most, -0.9 * most]
    yield [0.7 * most, -0.7 * most]
    yield [most, most, -most]
    yield [most / 2, -most, -most]
    yield [most, -0.5 * most] * 9
    yield [most] * 3
    yield [math.sqrt(big) * k for k in (1, 3, 2)]
    yield [math.sqrt(big) * 300.0 * k for k in (1, 3, 2, 7)]
    yield [tiny * k for k in (1, 3, 2)]
    yield [1e8 * tiny * k for k in (1, 3, 2)]
    yield [math.sqrt(tiny) * k for k in (1, 3, 2)]
    yield [1e-3 * math.sqrt(tiny) * k for k in (1, -3, 2, 5)]
    yield [0.0, 0.0, 0.0]
    yield [-1.0, 2.0, 0.5, 4.0]
    yield [1e6 + random.uniform(-1, 1) for _ in range(24)]
    yield [-3e4 + random.uniform(-1e-2, 1e-2) for _ in range(40)]
    yield [random.gauss(0, 1) for _ in range(16)]


def main():
    draw = random.Random("spread")
    for digits in (24, 53):
        for numbers in rows(digits, draw):
            x = [rounded(x, digits) for x in numbers]
            weights = [rounded(draw.uniform(-2, 2), digits) for _ in x]
            for op, settings in [(var, (0, 1)), (std, (0, 1)), (layer_norm, (1e-5, 1e-12, 0)), (rms_norm, (1e-5, 0))]:
                for number in settings:
                    if number == 0 and (op is layer_norm and len(set(x)) == 1 or op is rms_norm and not any(x)):
                        continue
                    setting = number if op in (var, std) else Decimal(rounded(number, digits))
                    d = weights[:1] if op in (var, std) else weights
                    value, gradient = op([Decimal(x) for x in x], [Decimal(d) for d in d], setting)
                    if any(abs(g) > LARGEST[digits] for g in gradient):
                        continue  # it cannot be represented
                    line = {"op": op.__name__, "format": digits, "number": number}
                    line |= {"x": [as_json(x) for x in x], "d": [as_json(d) for d in d]}
                    line |= {"value": [as_json(y) for y in value], "gradient": [as_json(g) for g in gradient]}
                    print(json.dumps(line, separators=(",", ":"), allow_nan=False))


if __name__ == "__main__":
    main()
