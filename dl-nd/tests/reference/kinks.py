"""Kinks, ties, bounds and poles: points where a derivative jumps, is infinite or has two choices."""

import math

import torch
import torch.nn.functional as F

import case

INF = math.inf


def Op(name):
    return case.Op(name, kink=True)


def kinks():
    tensor = torch.tensor
    for low, high in [(0.0, 1.0), (0.0, None), (None, 1.0), (1.0, -1.0), (0.5, 0.5)]:
        x = tensor([-1.0, 0.0, 0.5, 1.0, 2.0, -INF, INF])
        Op("clamp").case(lambda x: torch.clamp(x, low, high), x, min=low, max=high, second=False)
    for name, function in [("sqrt", torch.sqrt), ("ln", torch.log), ("rsqrt", torch.rsqrt), ("recip", torch.reciprocal)]:
        Op(name).case(function, tensor([0.0, 4.0]))
    Op("log1p").case(torch.log1p, tensor([-1.0, 0.0]))
    for name, function in [("neg", torch.neg), ("abs", torch.abs), ("exp", torch.exp), ("expm1", torch.expm1)]:
        Op(name).case(function, tensor([-INF, 0.0, -0.0]))
    for name, function in [("sigmoid", torch.sigmoid), ("tanh", torch.tanh), ("softplus", F.softplus)]:
        Op(name).case(function, tensor([-INF, 0.0, INF]))
    for name, function in [("erf", torch.erf), ("ndtr", torch.special.ndtr)]:
        Op(name).case(function, tensor([-INF, 0.0, INF]), second=False)
    for name, function in [("sign", torch.sign), ("floor", torch.floor)]:
        Op(name).case(function, tensor([-1.0, 0.0, 1.0, 0.5]))
    for name, function in [("relu", torch.relu), ("square", torch.square)]:
        Op(name).case(function, tensor([-1.0, 0.0, -0.0, 0.5]))
    Op("leaky_relu").case(lambda x: F.leaky_relu(x, 0.25), tensor([-INF, 0.0, INF]), number=0.25, second=False)
    Op("elu").case(lambda x: F.elu(x, 0.25), tensor([-INF, 0.0, INF]), number=0.25, second=False)

    Op("xlogy").case(torch.xlogy, tensor([0.0, 0.0, 0.0, 1.0]), tensor([2.0, -1.0, 0.5, 0.0]), second=False)
    Op("div").case(torch.div, tensor([1.0, -1.0, 0.0]), tensor([0.0, 0.0, 2.0]), second=False)
    Op("rem").case(torch.remainder, tensor([0.0, 3.0, -3.0, 6.0]), tensor([3.0, 3.0, 3.0, -3.0]))
    for exponent in [0.5, 1.5, -1.0]:
        Op("pow").case(lambda x: torch.pow(x, exponent), tensor([0.0, 1.0]), right=exponent, second=False)
    for name, function in [("min", torch.minimum), ("max", torch.maximum)]:
        a, b = tensor([[0.0], [INF], [-INF]]), tensor([0.0, INF, -INF])
        Op(name).case(function, a, b, second=False)

    for name, function in [("amax", torch.amax), ("amin", torch.amin)]:
        x = tensor([[INF, INF, 0.0], [-INF, -INF, 0.0], [0.0, -0.0, 0.0]])
        Op(name).case(lambda x: function(x, 1), x, axes=[1], keep=False, second=False)
    for p in [0.5, 1.0, 3.0, INF]:
        for x in [[0.0, 0.0], [0.0, 1.0, -1.0]]:
            Op("norm_p").case(
                lambda x: torch.linalg.vector_norm(x, p),
                tensor(x),
                axes=None,
                keep=False,
                p=str(p) if p == INF else p,
                second=False,
            )
    for name, function in [("var", torch.var), ("std", torch.std)]:
        x = tensor([[2.0, 2.0, 2.0], [1.0, 2.0, 4.0]])
        Op(name).case(
            lambda x: function(x, 1, correction=1), x, axes=[1], keep=False, correction=1, second=name == "var"
        )
    x = tensor([[-INF, 0.5, 1.0], [1.0, -INF, -INF]])
    Op("logsumexp").case(lambda x: torch.logsumexp(x, 1), x, axes=[1], keep=False)
    for name, function in [("softmax", F.softmax), ("log_softmax", F.log_softmax)]:
        Op(name).case(lambda x: function(x, 1), x, axis=1, second=name == "softmax")

    for axes, shape in [("1d", (1, 1, 4)), ("2d", (1, 1, 2, 4))]:
        op, kernel = Op("max_pool" + axes), [2] * int(axes[0])
        settings = dict(stride=kernel, padding=[0] * len(kernel), dilation=[1] * len(kernel), ceil=False)
        x = tensor([1.0, 1.0, 3.0, 2.0, 1.0, 1.0, 3.0, 3.0])[: math.prod(shape)].reshape(shape)
        function = getattr(F, "max_pool" + axes)
        op.case(lambda x: function(x, kernel, *settings.values()), x, kernel=kernel, **settings)

    e = tensor([-1.0, 1.0, 0.0, 2.0, -2.0])
    Op("huber").case(
        lambda x, y: F.huber_loss(x, y, reduction="none"), e, torch.zeros(5), reduction="none", delta=1.0
    )
    Op("l1").case(
        lambda x, y: F.l1_loss(x, y, reduction="none"), e, tensor([-1.0, 0.0, 0.0, 2.0, 2.0]), reduction="none", second=False
    )
    Op("mse").case(lambda x, y: F.mse_loss(x, y, reduction="none"), e, e, reduction="none")
    logits, labels = tensor([[-INF, 0.5, 1.0], [1.0, -INF, -INF]]), torch.tensor([1, 0])
    for ignored in [None, 1]:
        Op("cross_entropy").case(
            lambda x: F.cross_entropy(x, labels, ignore_index=-100 if ignored is None else ignored),
            logits,
            labels=labels,
            weight=None,
            ignore_index=ignored,
            reduction="mean",
            label_smoothing=0.0,
        )
    more()


def more():
    tensor = torch.tensor
    for name, function in [("ceil", torch.ceil), ("round", torch.round), ("floor", torch.floor)]:
        Op(name).case(function, tensor([-1.5, -1.0, -0.5, -0.0, 0.5, 1.0, 1.5, 2.5, INF]))
    for name, function in [("asin", torch.asin), ("acos", torch.acos), ("atanh", torch.atanh)]:
        Op(name).case(function, tensor([-1.0, 1.0, 2.0, 0.5]), second=False)
    Op("acosh").case(torch.acosh, tensor([1.0, 0.5, 2.0]), second=False)
    Op("entr").case(torch.special.entr, tensor([0.0, -1.0, 0.5]), second=False)
    for name, function in [("atan", torch.atan), ("asinh", torch.asinh), ("log_sigmoid", F.logsigmoid)]:
        Op(name).case(function, tensor([-INF, -0.0, INF]), second=False)
    for name, function in [("ln", torch.log), ("sqrt", torch.sqrt)]:
        Op(name).case(function, tensor([-1.0, -0.0, 0.0, INF]), second=False)
    Op("rsqrt").case(torch.rsqrt, tensor([-1.0, 0.0, INF]), second=False)
    Op("log1p").case(torch.log1p, tensor([-2.0, -1.0, INF]), second=False)
    Op("recip").case(torch.reciprocal, tensor([-0.0, 0.0, -INF, INF]), second=False)

    Op("rem").case(torch.remainder, tensor([2.5, INF, 7.0, -7.0]), tensor([INF, 2.0, -3.5, 3.5]), second=False)
    a, b = tensor([1.0, -1.0, 0.0, -2.5, 1.0]), tensor([0.0, 0.0, 0.0, INF, -INF])
    Op("rem").case(torch.remainder, a, b, flat=True)
    Op("div").case(torch.div, tensor([0.0, 1.0, INF]), tensor([INF, -INF, 2.0]), second=False)
    a, b = tensor([0.0, 0.0, 0.0, 0.0, 0.0]), tensor([2.0, 1.0, 0.5, 0.0, -1.0])
    Op("pow").case(torch.pow, a, b, second=False)
    Op("pow").case(torch.pow, tensor([-2.0, -2.0, -1.0]), tensor([0.5, 2.0, 0.0]), flat=True)
    a, b = tensor([-INF, -INF, INF, 0.5]), tensor([-INF, 1.0, 0.0, 0.5])
    Op("logaddexp").case(torch.logaddexp, a, b, second=False)

    ties = tensor([[1.0, 2.0, 2.0, 1.0], [3.0, 3.0, 3.0, 0.0]])
    Op("sort").case(lambda x: torch.sort(x, dim=1, stable=True).values, ties, axis=1, descending=False)
    Op("sort").case(lambda x: torch.sort(x, dim=1, descending=True, stable=True).values, ties, axis=1, descending=True)
    for name, function in [("cummax", torch.cummax), ("cummin", torch.cummin)]:
        Op(name).case(lambda x: function(x, 1).values, ties, axis=1, second=False)
    for name, function in [("max_with_indices", torch.max), ("min_with_indices", torch.min)]:
        Op(name).case(lambda x: function(x, 1).values, ties, axis=1)
    for name, function in [("argmax", torch.argmax), ("argmin", torch.argmin)]:
        Op(name).case(lambda x: function(x, 1).double(), ties, axis=1, flat=True)
    Op("prod").case(lambda x: torch.prod(x, 1), tensor([[0.0, 2.0, 0.0], [0.0, 3.0, 2.0]]), axes=[1], keep=False)
    Op("cumprod").case(lambda x: torch.cumprod(x, 1), tensor([[0.0, 2.0, 0.0], [3.0, 0.0, 2.0]]), axis=1)
    Op("norm").case(
        lambda x: torch.linalg.vector_norm(x, dim=1), tensor([[0.0, 0.0]]), axes=[1], keep=False, p=2, second=False
    )
    Op("cosine_similarity").case(
        lambda a, b: torch.cosine_similarity(a, b, 1),
        tensor([[0.0, 0.0], [1.0, 2.0]]),
        tensor([[1.0, 2.0], [2.0, 1.0]]),
        axis=1,
        second=False,
    )

    shape = (1, 1, 2, 2, 4)
    x = tensor([1.0, 1.0, 3.0, 2.0, 1.0, 1.0, 3.0, 3.0] * 2).reshape(shape)
    settings = dict(stride=[2] * 3, padding=[0] * 3, dilation=[1] * 3, ceil=False)
    Op("max_pool3d").case(lambda x: F.max_pool3d(x, [2] * 3, *settings.values()), x, kernel=[2] * 3, **settings)
    for axes in [1, 2, 3]:
        function, size = getattr(F, f"adaptive_max_pool{axes}d"), [1] * (axes - 1) + [3]
        Op(f"adaptive_max_pool{axes}d").case(lambda x: function(x, size), x.reshape((1, 1) + (1,) * (axes - 1) + (16,)), size=size)

    row = tensor([[2.0, 2.0, 2.0], [1.0, 2.0, 4.0]])
    Op("layer_norm").case(lambda x: F.layer_norm(x, (3,), eps=0.25), row, axes=1, eps=0.25)
    Op("group_norm").case(lambda x: F.group_norm(x, 1, eps=0.25), row, groups=1, eps=0.25)
    Op("batch_norm").case(lambda x: F.batch_norm(x, None, None, training=True, eps=0.25), row.T.contiguous(), eps=0.25)
    Op("rms_norm").case(lambda x: F.rms_norm(x, (3,), eps=0.25), row - 2, axes=1, eps=0.25)
