"""Writes `pointwise.csv`: values and first derivatives of the pointwise operations in PyTorch, in double precision.

    python dl-core/tests/reference/pointwise.py > dl-core/tests/reference/pointwise.csv

A line is `name,a,b,value,da,db`; `b` and `db` are empty for operations of one operand, and `db` where PyTorch takes a plain number.
"""

import torch
from torch.nn import functional

inf = float("inf")
nan = float("nan")
SIZES = [1e-9, 0.25, 0.5, 1.0, 1.5, 3.0, 5.0, 7.5, 10.0, 20.0, 40.0, 700.0, inf]
POINTS = [-size for size in reversed(SIZES)] + [0.0] + SIZES + [nan]

UNARY = {
    "neg": torch.neg,
    "abs": torch.abs,
    "sign": torch.sign,
    "floor": torch.floor,
    "exp": torch.exp,
    "expm1": torch.expm1,
    "ln": torch.log,
    "log1p": torch.log1p,
    "sqrt": torch.sqrt,
    "rsqrt": torch.rsqrt,
    "square": torch.square,
    "recip": torch.reciprocal,
    "sin": torch.sin,
    "cos": torch.cos,
    "tan": torch.tan,
    "tanh": torch.tanh,
    "erf": torch.erf,
    "ndtr": torch.special.ndtr,
    "sigmoid": torch.sigmoid,
    "relu": torch.relu,
    "gelu": functional.gelu,
    "gelu_tanh": lambda x: functional.gelu(x, approximate="tanh"),
    "silu": functional.silu,
    "softplus": functional.softplus,
    "ceil": torch.ceil,
    "round": torch.round,
    "asin": torch.asin,
    "acos": torch.acos,
    "atan": torch.atan,
    "sinh": torch.sinh,
    "cosh": torch.cosh,
    "asinh": torch.asinh,
    "acosh": torch.acosh,
    "atanh": torch.atanh,
    "log_sigmoid": functional.logsigmoid,
    "entr": torch.special.entr,
}

BINARY = {
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "div": torch.div,
    "rem": torch.remainder,
    "min": torch.minimum,
    "max": torch.maximum,
    "pow": torch.pow,
    "xlogy": torch.xlogy,
    "logaddexp": torch.logaddexp,
}

WITH_NUMBER = {
    "leaky_relu": functional.leaky_relu,
    "elu": functional.elu,
}

PAIRS = [(a, b) for a in [-40.0, -3.0, -1.0, -0.5, 0.0, 0.5, 1.0, 3.0, 20.0] for b in [-2.0, -0.75, 0.0, 0.5, 1.0, 2.0, 3.0]]


def derivative(value, of):
    if not value.requires_grad:
        return torch.zeros(())
    found = torch.autograd.grad(value, of, allow_unused=True, retain_graph=True)[0]
    return torch.zeros(()) if found is None else found


def variable(number):
    return torch.tensor(number, dtype=torch.float64, requires_grad=True)


def write(name, a, b, *results):
    results = [repr(result.item()) for result in results]
    print(",".join([name, repr(a), "" if b is None else repr(b), *results, *[""] * (3 - len(results))]))


for name, op in UNARY.items():
    for point in POINTS:
        x = variable(point)
        y = op(x)
        write(name, point, None, y, derivative(y, x))
for name, op in BINARY.items():
    for left, right in PAIRS:
        a, b = variable(left), variable(right)
        y = op(a, b)
        write(name, left, right, y, derivative(y, a), derivative(y, b))
for name, op in WITH_NUMBER.items():
    for left in POINTS:
        for number in [0.01, 0.5, 1.0, 2.0]:
            a = variable(left)
            y = op(a, number)
            write(name, left, number, y, derivative(y, a))
