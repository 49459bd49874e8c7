"""Kinks, ties, bounds and poles: points where a derivative jumps, is infinite or has two choices."""

import math

import torch
import torch.nn.functional as F

from case import Op

INF = math.inf


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
