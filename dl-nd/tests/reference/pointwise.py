"""Pointwise operations with broadcasting."""

import math

import torch
import torch.nn.functional as F

from case import Op


SHAPES = [(), (3,), (2, 3), (2, 1, 3), (0, 2), (2, 2, 1, 2)]

PAIRS = [
    ((), ()),
    ((3,), ()),
    ((2, 3), (3,)),
    ((2, 1, 3), (4, 1)),
    ((1,), (2, 2)),
    ((2, 3), (2, 3)),
    ((2, 1), (0,)),
    ((1, 1), ()),
    ((3, 2, 2), (3, 2, 2)),
]


def numbers():
    everywhere = dict(low=-2, high=2)
    positive = dict(low=0.125, high=3)
    off_zero = dict(low=-2, high=2, kinks=[0])
    unary = {
        "neg": (torch.neg, everywhere, []),
        "abs": (torch.abs, off_zero, []),
        "sign": (torch.sign, off_zero, []),
        "exp": (torch.exp, everywhere, [-30.0, 30.0]),
        "ln": (torch.log, positive, [1e-10, 1e10]),
        "log1p": (torch.log1p, dict(low=-0.75, high=2), [1e-10, -1e-10]),
        "expm1": (torch.expm1, everywhere, [1e-10, -1e-10]),
        "sqrt": (torch.sqrt, positive, [1e-10, 1e10]),
        "rsqrt": (torch.rsqrt, positive, [1e-6, 1e6]),
        "recip": (torch.reciprocal, off_zero, [1e-6, -1e6]),
        "square": (torch.square, everywhere, [1e-10, 1e10]),
        "sin": (torch.sin, everywhere, [1e-10, 50.0]),
        "cos": (torch.cos, everywhere, [50.0]),
        "tan": (torch.tan, dict(low=-1.25, high=1.25), [1e-10, 4.0]),
        "tanh": (torch.tanh, everywhere, [1e-10, 40.0, -40.0]),
        "sigmoid": (torch.sigmoid, everywhere, [-40.0, 40.0]),
        "relu": (torch.relu, off_zero, []),
        "gelu": (F.gelu, everywhere, [-4.0, 20.0, -40.0]),
        "gelu_tanh": (lambda x: F.gelu(x, approximate="tanh"), everywhere, [-2.5]),
        "silu": (F.silu, everywhere, [-40.0, 40.0]),
        "softplus": (lambda x: F.softplus(x, threshold=700), everywhere, [-40.0, 30.0, 100.0]),
        "floor": (torch.floor, dict(low=-2, high=2, kinks=range(-2, 3)), []),
        "ceil": (torch.ceil, dict(low=-2, high=2, kinks=range(-2, 3)), []),
        "round": (torch.round, dict(low=-2, high=2, kinks=[k + 0.5 for k in range(-2, 2)]), [0.5, 1.5, -2.5]),
        "asin": (torch.asin, dict(low=-0.9, high=0.9), []),
        "acos": (torch.acos, dict(low=-0.9, high=0.9), []),
        "atan": (torch.atan, everywhere, [1e-10, 50.0]),
        "sinh": (torch.sinh, everywhere, [1e-10, -20.0]),
        "cosh": (torch.cosh, everywhere, [20.0]),
        "asinh": (torch.asinh, everywhere, [1e-10, 50.0]),
        "acosh": (torch.acosh, dict(low=1.25, high=3), [50.0]),
        "atanh": (torch.atanh, dict(low=-0.9, high=0.9), []),
        "log_sigmoid": (F.logsigmoid, everywhere, []),
        "entr": (torch.special.entr, positive, [1e-10, 1e10]),
        "ndtr": (torch.special.ndtr, everywhere, [-3.0, 9.0]),
        "erf": (torch.erf, everywhere, [1e-10, 4.0, -10.0]),
    }
    for name, (function, points, extremes) in unary.items():
        op = Op(name)
        for shape in SHAPES:
            op.case(function, op.numbers(*shape, **points))
        for x in extremes:
            op.case(function, torch.tensor([x]))

    # points where the derivative jumps
    for name, function in [("abs", torch.abs), ("relu", torch.relu)]:
        Op(name).case(function, torch.tensor([0.0, 1.0, -1.0]), second=False)

    # points where cancellation leaves no correct digits in the second derivatives of PyTorch
    # or rounding leaves none in those of the library
    for name, extremes in {
        "gelu_tanh": [20.0, -40.0],
        "asin": [1e-10],
        "acos": [1e-10],
        "atanh": [1e-10],
        "log_sigmoid": [-40.0, 40.0],
    }.items():
        for x in extremes:
            Op(name).case(unary[name][0], torch.tensor([x]), second=False)

    # operations with a number as argument
    for name, function, values, kinks in [
        ("leaky_relu", lambda x, slope: F.leaky_relu(x, slope), [0.01, 0.2, 1.5], [0]),
        ("elu", lambda x, alpha: F.elu(x, alpha), [1.0, 0.5, 2.0], [0]),
    ]:
        op = Op(name)
        for i, shape in enumerate(SHAPES):
            number = values[i % 3]
            op.case(lambda x: function(x, number), op.numbers(*shape, kinks=kinks), number=number)
        op.case(lambda x: function(x, 0.5), torch.tensor([0.0, 1.0, -1.0]), number=0.5, second=False)
    Op("elu").case(lambda x: F.elu(x, 1.0), torch.tensor([-1e-10]), number=1.0)

    op = Op("clamp")
    for (low, high), shape in zip(
        [(-0.5, 1.0), (-0.5, None), (None, 0.5), (0.0, 0.25), (-1.0, 0.5), (-0.5, 0.5)], SHAPES
    ):
        kinks = [k for k in (low, high) if k is not None]
        op.case(lambda x: torch.clamp(x, low, high), op.numbers(*shape, kinks=kinks), min=low, max=high)


def remainder_operands(op, left, right):
    """Operands with quotients that are not close to an integer."""
    while True:
        b = op.numbers(*right, kinks=[-0.5, -0.25, 0, 0.25, 0.5])
        a = op.numbers(*left, low=-4, high=4)
        quotient = a / b
        if ((quotient - quotient.round()).abs() > 0.02).all():
            return a, b


def pairs():
    functions = {
        "add": torch.add,
        "sub": torch.sub,
        "mul": torch.mul,
        "div": torch.div,
        "rem": torch.remainder,
        "pow": torch.pow,
        "min": torch.minimum,
        "max": torch.maximum,
        "xlogy": torch.xlogy,
        "logaddexp": torch.logaddexp,
    }
    for name, function in functions.items():
        op = Op(name)
        for left, right in PAIRS:
            a, b = op.numbers(*left), op.numbers(*right)
            if name == "div":
                b = op.numbers(*right, kinks=[0])
            if name == "rem":
                a, b = remainder_operands(op, left, right)
            if name == "pow":
                a = op.numbers(*left, low=0.25)
            if name == "xlogy":
                b = op.numbers(*right, low=0.25)
            if name in ("min", "max"):
                # left operands are odd multiples of 1/64, right ones are even: no ties
                a, b = (a * 32).round() / 32 + 1 / 64, (b * 32).round() / 32
            op.case(function, a, b)
        if name == "xlogy":
            op.case(function, torch.tensor([0.0, 0.0, 0.5]), torch.tensor([0.5, 2.0, 1.0]), second=False)
            continue
        number = 0.765625
        for shape in [(), (2, 3)]:
            x = op.numbers(*shape, low=0.25, kinks=[number])
            if name == "rem":
                x = remainder_operands(op, shape, ())[0].abs() + 1 / 128
            op.case(lambda x: function(x, torch.tensor(number)), x, right=number)
            if name == "rem":
                x = op.numbers(*shape, low=0.8, high=2)
            op.case(lambda x: function(torch.tensor(number), x), x, left=number)

    op = Op("pow")
    for exponent in [2.0, 3.0, -1.0, -2.0, 0.0, 1.0]:
        op.case(lambda x: torch.pow(x, exponent), op.numbers(2, 2, kinks=[0]), right=exponent)
    for exponent in [0.5, -0.5, 2.5]:
        op.case(lambda x: torch.pow(x, exponent), op.numbers(3, low=0.25), right=exponent)
    for exponent in [0.0, 1.0, 2.0, 3.0]:
        op.case(lambda x: torch.pow(x, exponent), torch.tensor([0.0, 1.5, -0.5]), right=exponent)
    op.case(torch.pow, torch.tensor([0.0, 0.0, 2.0]), torch.tensor([2.0, 3.0, 0.0]), second=False)
    op.case(torch.pow, torch.tensor([-2.0, -0.5, -1.0]), torch.tensor([2.0, 3.0, -1.0]), flat=True)

    # equal operands share the gradient
    for name in ["min", "max"]:
        op = Op(name)
        op.case(functions[name], torch.tensor([1.0, 2.0, -3.0]), torch.tensor([1.0, 0.0, -3.0]))
        op.case(lambda x: functions[name](x, torch.tensor(0.5)), torch.tensor([0.5, 1.0, 0.0]), right=0.5)

    inf, nan = math.inf, math.nan
    for name, a, b in [
        ("div", [1.0, -1.0, 0.0, 1.0], [0.0, 0.0, 0.0, inf]),
        ("max", [nan, 1.0, inf, -inf], [1.0, nan, 1.0, 1.0]),
        ("min", [nan, 1.0, inf, -inf], [1.0, nan, 1.0, 1.0]),
    ]:
        Op(name).case(functions[name], torch.tensor(a), torch.tensor(b), flat=True)
    for name, function, x in [
        ("ln", torch.log, [0.0, -1.0, inf]),
        ("sqrt", torch.sqrt, [0.0, -1.0, inf]),
        ("recip", torch.reciprocal, [0.0, -inf, nan]),
        ("relu", torch.relu, [nan, -inf, inf]),
        ("sigmoid", torch.sigmoid, [-inf, inf, nan]),
        ("tanh", torch.tanh, [-inf, inf, nan]),
        ("softplus", F.softplus, [-inf, inf, nan]),
        ("erf", torch.erf, [-inf, inf, nan]),
        ("sign", torch.sign, [0.0, -inf, inf]),
        ("exp", torch.exp, [-inf, inf, nan]),
    ]:
        Op(name).case(function, torch.tensor(x), flat=True)

    op = Op("where_")
    for left, right, mask in [
        ((), (), ()),
        ((2, 3), (2, 3), (2, 3)),
        ((3,), (2, 1), (2, 3)),
        ((2, 2), (2, 2), (2,)),
        ((), (4,), (4,)),
        ((0, 2), (2,), (1,)),
        ((2, 1, 2), (3, 1), (2, 1, 1)),
    ]:
        drawn = op.mask(*mask)
        op.case(lambda a, b: torch.where(drawn, a, b), op.numbers(*left), op.numbers(*right), mask=drawn)
    drawn = op.mask(4)
    op.case(lambda a, b: torch.where(drawn, a * a, b), op.numbers(4), op.numbers(4), mask=drawn, squared=True)

    for name in ["equal", "not_equal", "less", "less_equal", "greater", "greater_equal"]:
        op, compare = Op(name), torch.eq if name == "equal" else getattr(torch, name)
        for left, right in [((), ()), ((6,), (6,)), ((2, 3), (3,)), ((2, 1, 3), (4, 1)), ((0,), (1,))]:
            a, b = (torch.round(op.numbers(*shape)) for shape in (left, right))
            op.case(lambda a, b: compare(a, b).double(), a, b, flat=True)
        op.case(
            lambda a: compare(a, torch.tensor(1.0)).double(),
            torch.tensor([0.5, 1.0, 2.0, nan]),
            flat=True,
            right=1.0,
        )
