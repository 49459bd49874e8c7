"""Reductions: sums, extrema, norms; and matrix products."""

import math

import torch

from case import Op, as_json


REDUCED = [
    ((), None),
    ((4,), None),
    ((4,), [0]),
    ((2, 3), [0]),
    ((2, 3), [-1]),
    ((2, 3), [0, 1]),
    ((2, 3, 2), [1]),
    ((2, 3, 2), [0, 2]),
    ((2, 3, 2), [-2, 0]),
    ((2, 1, 2, 2), [-1, 1]),
]


def reduce(function, x, axes, keep):
    return function(x, tuple(range(x.dim())) if axes is None else tuple(axes), keep)


def product(x, axes, keep):
    for axis in sorted((axis % max(x.dim(), 1) for axis in axes), reverse=True):
        x = torch.prod(x, axis, keepdim=keep)
    return x


def reductions():
    functions = {
        "sum": lambda x, axes, keep: torch.sum(x, axes, keepdim=keep),
        "mean": lambda x, axes, keep: torch.mean(x, axes, keepdim=keep),
        "amax": lambda x, axes, keep: torch.amax(x, axes, keepdim=keep),
        "amin": lambda x, axes, keep: torch.amin(x, axes, keepdim=keep),
        "logsumexp": lambda x, axes, keep: torch.logsumexp(x, axes, keepdim=keep),
        "prod": product,
    }
    for name, function in functions.items():
        op = Op(name)
        for i, (shape, axes) in enumerate(REDUCED):
            for keep in [False, True] if i in (3, 7) else [i % 2 == 0]:
                x = op.numbers(*shape, distinct=name.startswith("am"), kinks=[0] if name == "prod" else [])
                op.case(lambda x: reduce(function, x, axes, keep), x, axes=axes, keep=keep)
        if name in ("sum", "prod"):
            for shape, axes in [((0,), [0]), ((2, 0), [1]), ((2, 0), None)]:
                op.case(lambda x: reduce(function, x, axes, False), op.numbers(*shape), axes=axes, keep=False)
        op.case(lambda x: reduce(function, x, [1], False), op.numbers(0, 2), axes=[1], keep=False)
    # equal elements share the gradient
    for name in ["amax", "amin"]:
        x = torch.tensor([[1.0, 3.0, 3.0], [5.0, 5.0, 5.0], [-1.0, -1.0, 2.0]])
        for axes, keep in [([1], False), (None, False), ([0], True)]:
            Op(name).case(lambda x: reduce(functions[name], x, axes, keep), x, axes=axes, keep=keep)
    op = Op("prod")
    for x in [
        [[2.0, 0.0, 1.5], [0.5, 1.0, -2.0]],
        [[0.0, 0.0, 1.5], [0.0, 1.0, -2.0]],
        [[0.0, 0.0, 0.0], [1.0, 0.5, 0.0]],
    ]:
        op.case(lambda x: torch.prod(x, 1), torch.tensor(x), axes=[1], keep=False)
    op = Op("logsumexp")
    for x in [[1000.0, 999.0, -1000.0], [-1000.0, -1001.5, -999.0]]:
        op.case(lambda x: torch.logsumexp(x, 0), torch.tensor(x), axes=[0], keep=False)
    op.case(lambda x: torch.logsumexp(x, 0), torch.tensor([-math.inf, 0.5, 1.0]), axes=[0], keep=False, second=False)

    for name, function in [("var", torch.var), ("std", torch.std)]:
        op = Op(name)
        # at least three elements: the standard deviation of two has no second derivative
        for i, (shape, axes) in enumerate(
            [
                ((4,), None),
                ((4,), [0]),
                ((3, 2), [0]),
                ((2, 3), [-1]),
                ((2, 3), [0, 1]),
                ((2, 3, 2), [1]),
                ((2, 1, 2, 2), [-1, 2]),
                ((2, 3, 2), [-2, 0]),
                ((3, 1, 2), [0, 1]),
            ]
        ):
            for correction in [0, 1] if i % 2 == 0 else [i // 2 % 2]:
                keep = (i + correction) % 2 == 0
                x = op.numbers(*shape, distinct=True)
                op.case(
                    lambda x: function(x, axes if axes is None else tuple(axes), correction=correction, keepdim=keep),
                    x,
                    axes=axes,
                    keep=keep,
                    correction=correction,
                )

    euclidean, others = Op("norm"), Op("norm_p")
    euclidean.case(
        lambda x: torch.linalg.vector_norm(x, dim=1),
        torch.tensor([[0.0, 0.0], [3.0, -4.0]]),
        axes=[1],
        keep=False,
        p=2,
        second=False,
    )
    for p, away in [(2.0, []), (1.0, [0]), (3.0, [0]), (math.inf, [0]), (2.5, [0]), (4.0, [])]:
        op = euclidean if p == 2 else others
        for i, (shape, axes) in enumerate([((4,), None), ((2, 3), [1]), ((3, 2, 2), [0, -1])]):
            if not math.isfinite(p) and i == 2:
                continue
            x = op.numbers(*shape, kinks=away)
            if not math.isfinite(p):
                x = op.numbers(*shape, low=0.125, distinct=True) * (op.mask(*shape).double() * 2 - 1)
            keep = i == 1
            op.case(
                lambda x: torch.linalg.vector_norm(x, p, dim=axes, keepdim=keep),
                x,
                axes=axes,
                keep=keep,
                p=as_json(p),
                second=math.isfinite(p),
            )

    for name, function in [("argmax", torch.argmax), ("argmin", torch.argmin)]:
        op = Op(name)
        for shape, axis in [((4,), 0), ((2, 3), 0), ((2, 3), -1), ((3, 2, 2), 1), ((3, 1), 1), ((0, 2), 1)]:
            op.case(lambda x: function(x, axis).double(), op.numbers(*shape, distinct=True), flat=True, axis=axis)

    op = Op("cumsum")
    for shape, axis in [
        ((4,), 0),
        ((2, 3), 0),
        ((2, 3), -1),
        ((2, 3, 2), 1),
        ((0, 2), 0),
        ((1,), 0),
        ((2, 2, 1, 2), -3),
    ]:
        op.case(lambda x: torch.cumsum(x, axis), op.numbers(*shape), axis=axis)


def products():
    op = Op("matmul")
    for left, right in [
        ((3,), (3,)),
        ((2, 3), (3,)),
        ((3,), (3, 2)),
        ((2, 3), (3, 4)),
        ((1, 1), (1, 1)),
        ((2, 0), (0, 3)),
        ((0, 3), (3, 2)),
        ((0,), (0,)),
        ((2, 2, 3), (2, 3, 2)),
        ((2, 2, 3), (3, 2)),
        ((2, 3), (2, 3, 2)),
        ((2, 1, 2, 3), (3, 3, 1)),
        ((2, 2, 3), (3,)),
        ((3,), (2, 3, 2)),
        ((1, 2, 2), (3, 2, 2)),
        ((0, 2, 3), (3, 2)),
        ((2, 1, 1, 2), (1, 2, 2, 1)),
    ]:
        op.case(torch.matmul, op.numbers(*left), op.numbers(*right))

    affine = lambda x, w, b: torch.nn.functional.linear(x, w.t(), b)
    for op, function in [
        (Op("linear"), affine),
        (Op("linear_relu"), lambda x, w, b: affine(x, w, b).relu()),
    ]:
        for rows, inputs, outputs in [
            ((2,), 3, 4),
            ((5,), 2, 1),
            ((), 3, 2),
            ((2, 3), 2, 3),
            ((1,), 1, 2),
            ((0,), 2, 3),
            ((3,), 0, 2),
            ((1, 2, 2), 4, 2),
        ]:
            op.case(function, op.numbers(*rows, inputs), op.numbers(inputs, outputs), op.numbers(outputs))
    op = Op("dot")
    for length in [3, 1, 0, 5]:
        op.case(torch.dot, op.numbers(length), op.numbers(length))
    op = Op("outer")
    for m, n in [(2, 3), (1, 1), (3, 0), (4, 2)]:
        op.case(torch.outer, op.numbers(m), op.numbers(n))

    op = Op("einsum")
    for expression, *shapes in [
        ("ij,jk->ik", (2, 3), (3, 2)),
        ("ij,jk", (2, 3), (3, 2)),
        ("ij->ji", (2, 3)),
        ("ij->j", (2, 3)),
        ("ij->", (2, 3)),
        ("i,i->", (3,), (3,)),
        ("i,j->ij", (2,), (3,)),
        ("i,j->ji", (2,), (3,)),
        ("ij,ij->ij", (2, 3), (2, 3)),
        ("bij,bjk->bik", (2, 2, 3), (2, 3, 1)),
        ("bhqd,bhkd->bhqk", (1, 2, 2, 3), (1, 2, 3, 3)),
        ("ijk,kl->ijl", (2, 2, 3), (3, 2)),
        ("ij,kj,lk->il", (2, 3), (2, 3), (2, 2)),
        ("ij,j,j->i", (2, 3), (3,), (3,)),
        ("ii->i", (3, 3)),
        ("ii->", (3, 3)),
        ("iij->ij", (2, 2, 3)),
        ("i,->i", (3,), ()),
        ("ijk->kij", (2, 1, 3)),
        ("...ij,...jk->...ik", (2, 2, 3), (3, 2)),
        ("...i,i->...", (2, 2, 3), (3,)),
        ("ij,jk->ik", (2, 0), (0, 3)),
        ("ij,kl->", (2, 2), (1, 3)),
        ("ij,ik->jk", (3, 2), (3, 2)),
        ("ij,jk->ik", (2, 1), (3, 2)),
        ("...i->i", (2, 3)),
        ("i...,i...->...", (2, 3), (2, 3)),
        ("a...b->b...a", (2, 3, 2)),
        ("...i,...i->...", (2, 1, 3), (2, 3)),
    ]:
        op.case(
            lambda *x: torch.einsum(expression, *x), *[op.numbers(*shape) for shape in shapes], expression=expression
        )
