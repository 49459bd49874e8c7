"""Scans, sorting, selection by masks, and padding with elements of the tensor."""

import torch
import torch.nn.functional as F

from case import Op

ALONG = [((4,), 0), ((2, 3), 0), ((2, 3), -1), ((2, 3, 2), 1), ((0, 2), 0), ((1,), 0), ((2, 2, 1, 2), -3)]


def scans():
    for name, function in [("cumprod", torch.cumprod), ("logcumsumexp", torch.logcumsumexp)]:
        op = Op(name)
        for shape, axis in ALONG:
            op.case(lambda x: function(x, axis), op.numbers(*shape), axis=axis, second=shape != (1,))
    op = Op("cumprod")
    for x, axis in [([2.0, 0.0, 3.0, -1.5], 0), ([0.0, 0.5, 0.0, 2.0], 0), ([[0.0, 1.5], [-0.5, 0.0]], 1)]:
        op.case(lambda x: torch.cumprod(x, axis), torch.tensor(x), axis=axis)
    Op("logcumsumexp").case(lambda x: torch.logcumsumexp(x, 0), torch.tensor([900.0, -900.0, 901.0]), axis=0, flat=True)
    for name, function in [("cummax", torch.cummax), ("cummin", torch.cummin)]:
        op = Op(name)
        for shape, axis in ALONG:
            op.case(lambda x: function(x, axis).values, op.numbers(*shape, distinct=True), axis=axis)
            if 0 not in shape:
                ties = op.integers(*shape, below=3).double()
                op.case(lambda x: function(x, axis).values, ties, axis=axis, second=False)
                op.case(lambda x: function(x, axis).indices.double(), ties, axis=axis, indices=True, flat=True)


def order():
    for descending in [False, True]:
        sort = lambda x, axis: torch.sort(x, dim=axis, descending=descending, stable=True)
        for shape, axis in ALONG:
            args = dict(axis=axis, descending=descending)
            op = Op("sort")
            op.case(lambda x: sort(x, axis).values, op.numbers(*shape, distinct=True), **args)
            op = Op("argsort")
            op.case(lambda x: sort(x, axis).indices.double(), op.integers(*shape, below=4).double(), flat=True, **args)
    op = Op("topk")
    for shape, axis, k in [((4,), 0, 2), ((2, 3), 0, 1), ((2, 3), -1, 3), ((2, 3, 2), 1, 2), ((3,), 0, 0)]:
        x = op.numbers(*shape, distinct=True)
        op.case(lambda x: torch.topk(x, k, axis).values, x, axis=axis, k=k)
        op.case(lambda x: torch.topk(x, k, axis).indices.double(), x, axis=axis, k=k, indices=True, flat=True)
    for name, function in [("max_with_indices", torch.max), ("min_with_indices", torch.min)]:
        op = Op(name)
        for shape, axis in [((4,), 0), ((2, 3), 0), ((2, 3), -1), ((2, 3, 2), 1)]:
            x = op.numbers(*shape, distinct=True)
            op.case(lambda x: function(x, axis).values, x, axis=axis)
            op.case(lambda x: function(x, axis).indices.double(), x, axis=axis, indices=True, flat=True)

    op = Op("masked_select")
    for shape, mask in [((4,), (4,)), ((2, 3), (2, 3)), ((2, 3), (3,)), ((2, 3, 2), (3, 1)), ((0, 2), (2,)), ((), ())]:
        drawn = op.mask(*mask)
        op.case(lambda x: torch.masked_select(x, drawn), op.numbers(*shape), mask=drawn)

    op = Op("cosine_similarity")
    for shape, axis in [((3,), 0), ((2, 3), 1), ((2, 3), 0), ((2, 3, 2), -2)]:
        away = dict(low=0.25)
        a, b = op.numbers(*shape, **away), op.numbers(*shape, **away)
        op.case(lambda a, b: torch.cosine_similarity(a, b, axis), a, b, axis=axis)

    op = Op("embedding_padded")
    for rows, width, ids, padding in [(4, 3, (5,), 1), (3, 2, (2, 3), 0), (2, 2, (1, 2, 2), 1)]:
        index = op.integers(*ids, below=rows)
        op.case(
            lambda weight: F.embedding(index, weight, padding_idx=padding),
            op.numbers(rows, width),
            index=index,
            padding=padding,
            second=False,
        )


def pads():
    op = Op("pad_with")
    for mode in ["reflect", "replicate", "circular"]:
        for shape, last in [((1, 2, 4), [[1, 2]]), ((1, 1, 3, 4), [[2, 1], [3, 0]]), ((2, 1, 3, 2, 3), [[0, 2], [1, 1], [2, 0]])]:
            flat = [n for pad in reversed(last) for n in pad]
            pads = [[0, 0]] * 2 + last
            op.case(lambda x: F.pad(x, flat, mode=mode), op.numbers(*shape), pads=pads, mode=mode)
