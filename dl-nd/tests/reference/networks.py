"""Convolution, pooling, normalisation and attention."""

import math

import torch
import torch.nn.functional as F

from case import Op


def convolutions():
    def conv(name, function, cases, transposed=False):
        op = Op(name)
        for x, w, settings in cases:
            axes = len(x) - 2
            settings = dict(stride=[1] * axes, padding=[0] * axes, dilation=[1] * axes, groups=1) | settings
            if transposed:
                settings = dict(output_padding=[0] * axes) | settings
            op.case(lambda x, w: function(x, w, **settings), op.numbers(*x), op.numbers(*w), **settings)

    conv(
        "conv1d",
        F.conv1d,
        [
            ((1, 1, 4), (1, 1, 2), {}),
            ((2, 2, 4), (3, 2, 2), {}),
            ((1, 2, 5), (2, 2, 3), dict(stride=[2], padding=[1])),
            ((1, 2, 6), (2, 1, 2), dict(dilation=[2], groups=2)),
            ((2, 4, 3), (2, 2, 1), dict(groups=2)),
            ((1, 1, 3), (2, 1, 3), dict(padding=[2], stride=[3])),
            ((1, 2, 1), (1, 2, 1), {}),
            ((0, 2, 4), (1, 2, 2), {}),
            ((1, 1, 7), (1, 1, 2), dict(stride=[2], dilation=[3], padding=[1])),
            ((2, 2, 5), (3, 2, 2), dict(padding="same")),
            ((1, 2, 6), (2, 1, 4), dict(padding="same", dilation=[3], groups=2)),
            ((1, 1, 3), (2, 1, 5), dict(padding="same")),
            ((1, 1, 2), (1, 1, 8), dict(padding="same", dilation=[5])),
        ],
    )
    conv(
        "conv2d",
        F.conv2d,
        [
            ((1, 1, 3, 3), (1, 1, 2, 2), {}),
            ((1, 2, 3, 4), (2, 2, 2, 2), {}),
            ((2, 1, 3, 3), (2, 1, 3, 3), dict(padding=[1, 1])),
            ((1, 2, 4, 4), (2, 2, 2, 2), dict(stride=[2, 2])),
            ((1, 2, 4, 4), (1, 2, 2, 2), dict(dilation=[2, 2])),
            ((1, 2, 3, 3), (2, 1, 2, 2), dict(groups=2, padding=[1, 0])),
            ((1, 2, 3, 3), (4, 1, 2, 2), dict(groups=2)),
            ((1, 1, 4, 3), (1, 1, 2, 1), dict(stride=[1, 2], padding=[0, 1])),
            ((1, 1, 5, 4), (1, 1, 3, 2), dict(stride=[2, 1], dilation=[1, 2], padding=[1, 1])),
            ((1, 3, 2, 2), (2, 3, 1, 1), {}),
            ((1, 1, 2, 2), (1, 1, 2, 2), {}),
            ((0, 1, 3, 3), (1, 1, 2, 2), {}),
            ((1, 2, 4, 3), (2, 2, 2, 3), dict(padding="same")),
            ((2, 2, 3, 5), (2, 1, 4, 2), dict(padding="same", dilation=[1, 3], groups=2)),
            ((1, 1, 2, 3), (1, 1, 1, 1), dict(padding="same")),
        ],
    )
    conv(
        "conv3d",
        F.conv3d,
        [
            ((1, 1, 2, 3, 3), (1, 1, 2, 2, 2), {}),
            ((1, 2, 2, 2, 2), (2, 2, 1, 2, 1), {}),
            ((1, 1, 2, 2, 3), (1, 1, 2, 2, 2), dict(padding=[1, 0, 1], stride=[2, 1, 2])),
            ((1, 2, 3, 2, 2), (2, 1, 2, 1, 1), dict(groups=2, dilation=[2, 1, 1])),
            ((2, 1, 1, 2, 2), (1, 1, 1, 1, 1), {}),
            ((1, 2, 2, 3, 3), (1, 2, 2, 1, 4), dict(padding="same")),
        ],
    )
    conv(
        "conv_transpose1d",
        F.conv_transpose1d,
        [
            ((2, 1, 3), (1, 2, 2), dict(stride=[2])),
            ((1, 2, 3), (2, 1, 3), dict(groups=2, padding=[1])),
            ((1, 1, 2), (1, 1, 2), dict(dilation=[3], stride=[2], output_padding=[2])),
        ],
        transposed=True,
    )
    conv(
        "conv_transpose3d",
        F.conv_transpose3d,
        [
            ((1, 1, 2, 1, 2), (1, 1, 1, 2, 2), {}),
            ((1, 2, 1, 2, 1), (2, 1, 2, 1, 1), dict(stride=[1, 2, 2], output_padding=[0, 1, 0])),
        ],
        transposed=True,
    )
    conv(
        "conv_transpose2d",
        F.conv_transpose2d,
        [
            ((1, 1, 2, 2), (1, 1, 2, 2), {}),
            ((1, 2, 2, 3), (2, 1, 2, 2), {}),
            ((1, 1, 2, 2), (1, 2, 2, 2), dict(stride=[2, 2])),
            ((1, 1, 3, 3), (1, 1, 3, 3), dict(padding=[1, 1], stride=[2, 1])),
            ((1, 2, 2, 2), (2, 1, 2, 2), dict(groups=2)),
            ((1, 1, 2, 2), (1, 1, 2, 2), dict(dilation=[2, 1])),
            ((2, 1, 2, 2), (1, 1, 2, 2), dict(stride=[2, 2], output_padding=[1, 0])),
            ((1, 2, 2, 2), (2, 2, 1, 1), dict(groups=2, stride=[1, 2])),
        ],
        transposed=True,
    )


def pools():
    plane = [
        ((1, 1, 4, 4), [2, 2], {}),
        ((1, 2, 3, 3), [2, 2], dict(stride=[1, 1])),
        ((2, 1, 3, 4), [3, 2], dict(stride=[1, 2], padding=[1, 0])),
        ((1, 1, 5, 5), [3, 3], dict(stride=[2, 2], padding=[1, 1])),
        ((1, 2, 2, 2), [1, 1], {}),
        ((1, 1, 3, 3), [3, 3], {}),
        ((0, 1, 2, 2), [2, 2], {}),
        ((1, 1, 5, 4), [2, 3], dict(stride=[2, 2], ceil=True)),
        ((1, 1, 4, 3), [3, 2], dict(stride=[2, 2], padding=[1, 1], ceil=True)),
    ]
    line = [
        ((2, 2, 4), [2], {}),
        ((1, 1, 5), [3], dict(stride=[2], padding=[1])),
        ((1, 2, 4), [3], dict(stride=[2], ceil=True)),
    ]
    space = [((1, 1, 2, 4, 2), [2, 2, 2], {}), ((1, 2, 2, 2, 3), [1, 2, 2], dict(stride=[1, 1, 2], padding=[0, 1, 1]))]
    families = {"1d": line, "2d": plane, "3d": space}
    for axes, cases in families.items():
        op, function = Op("max_pool" + axes), getattr(F, "max_pool" + axes)
        dilated = {
            "1d": ((1, 1, 6), [2], dict(stride=[1], dilation=[3])),
            "2d": ((1, 1, 4, 5), [2, 2], dict(stride=[1, 2], dilation=[3, 2], padding=[1, 0])),
            "3d": ((1, 1, 3, 1, 3), [2, 1, 2], dict(stride=[1, 1, 1], dilation=[2, 1, 1])),
        }
        for shape, kernel, settings in cases + [dilated[axes]]:
            ones = [1] * len(kernel)
            settings = dict(stride=kernel, padding=[0] * len(kernel), dilation=ones, ceil=False) | settings
            op.case(
                lambda x: function(x, kernel, *settings.values()),
                op.numbers(*shape, distinct=True),
                kernel=kernel,
                **settings,
            )
    for axes, cases in families.items():
        op, function = Op("avg_pool" + axes), getattr(F, "avg_pool" + axes)
        for shape, kernel, settings in cases:
            for include in [True, False] if "padding" in settings else [True]:
                settings = dict(stride=kernel, padding=[0] * len(kernel), ceil=False) | settings
                settings["count_include_pad"] = include
                op.case(
                    lambda x: function(x, kernel, *settings.values()),
                    op.numbers(*shape),
                    kernel=kernel,
                    **settings,
                )
    for x, kernel, dilation in [
        ((2, 1, 5), [2], [1]),
        ((1, 1, 6), [3], [3]),
        ((1, 2, 4, 3), [2, 3], [1, 1]),
        ((1, 1, 5, 4), [4, 2], [1, 3]),
        ((1, 1, 2, 3, 3), [2, 1, 4], [1, 1, 1]),
    ]:
        ones = [1] * len(kernel)
        both = [d * (k - 1) for k, d in zip(kernel, dilation)]
        ends = [end for total in reversed(both) for end in (total // 2, total - total // 2)]
        op, function = Op(f"max_pool{len(kernel)}d"), getattr(F, f"max_pool{len(kernel)}d")
        op.case(
            lambda x: function(F.pad(x, ends, value=-math.inf), kernel, ones, dilation=dilation),
            op.numbers(*x, distinct=True),
            kernel=kernel,
            stride=ones,
            padding="same",
            dilation=dilation,
            ceil=False,
        )
        op, function = Op(f"avg_pool{len(kernel)}d"), getattr(F, f"avg_pool{len(kernel)}d")
        for include in [True, False] if dilation == ones else []:
            mean = lambda x: function(F.pad(x, ends), kernel, ones)
            op.case(
                lambda x: mean(x) if include else mean(x) / mean(torch.ones_like(x)),
                op.numbers(*x),
                kernel=kernel,
                stride=ones,
                padding="same",
                ceil=False,
                count_include_pad=include,
            )
    for axes, cases in {
        "1d": [((1, 2, 5), [2]), ((2, 1, 3), [3]), ((1, 1, 2), [5])],
        "2d": [
            ((1, 1, 4, 4), [2, 2]),
            ((1, 2, 5, 3), [2, 2]),
            ((2, 1, 3, 3), [1, 1]),
            ((1, 1, 2, 3), [3, 4]),
            ((1, 1, 7, 2), [3, 2]),
            ((1, 2, 2, 2), [2, 2]),
        ],
        "3d": [((1, 1, 2, 3, 3), [1, 2, 2]), ((1, 2, 2, 2, 1), [2, 1, 2])],
    }.items():
        op, function = Op("adaptive_avg_pool" + axes), getattr(F, "adaptive_avg_pool" + axes)
        for shape, size in cases:
            op.case(lambda x: function(x, size), op.numbers(*shape), size=size)
    for axes, cases in {
        "1d": [((1, 2, 5), [2]), ((2, 1, 3), [3]), ((1, 1, 2), [5])],
        "2d": [((1, 1, 4, 4), [2, 2]), ((1, 2, 5, 3), [2, 2]), ((2, 1, 3, 3), [1, 1]), ((1, 1, 2, 3), [3, 4])],
        "3d": [((1, 1, 2, 3, 3), [1, 2, 2]), ((1, 2, 2, 2, 1), [2, 1, 2])],
    }.items():
        op, function = Op("adaptive_max_pool" + axes), getattr(F, "adaptive_max_pool" + axes)
        for shape, size in cases:
            op.case(lambda x: function(x, size), op.numbers(*shape, distinct=True), size=size)
        op = Op("upsample_nearest" + axes)
        for shape, size in cases:
            op.case(lambda x: F.interpolate(x, size, mode="nearest"), op.numbers(*shape), size=size)
    op = Op("upsample_bicubic")
    for align in [False, True]:
        for shape, size in [
            ((1, 1, 2, 2), [4, 4]),
            ((1, 2, 4, 3), [3, 5]),
            ((2, 1, 1, 2), [3, 4]),
            ((1, 1, 5, 4), [2, 3]),
        ]:
            op.case(
                lambda x: F.interpolate(x, size, mode="bicubic", align_corners=align),
                op.numbers(*shape),
                size=size,
                align_corners=align,
            )
    op = Op("upsample_bilinear")
    for align in [False, True]:
        for shape, size in [
            ((1, 1, 2, 2), [4, 4]),
            ((1, 2, 2, 3), [4, 3]),
            ((2, 1, 1, 2), [3, 4]),
            ((1, 1, 3, 2), [5, 3]),
            ((1, 1, 4, 4), [2, 3]),
        ]:
            op.case(
                lambda x: F.interpolate(x, size, mode="bilinear", align_corners=align),
                op.numbers(*shape),
                size=size,
                align_corners=align,
            )
    for mode, cases in {
        "linear": [((1, 2, 3), [5]), ((2, 1, 4), [3]), ((1, 1, 1), [2])],
        "trilinear": [((1, 1, 2, 2, 2), [3, 2, 4]), ((1, 1, 3, 1, 2), [2, 2, 1])],
    }.items():
        op = Op("upsample_" + mode)
        for align in [False, True]:
            for shape, size in cases:
                op.case(
                    lambda x: F.interpolate(x, size, mode=mode, align_corners=align),
                    op.numbers(*shape),
                    size=size,
                    align_corners=align,
                )


def normalisation():
    op = Op("batch_norm")
    for shape, affine, eps in [
        ((4, 2), True, 1e-5),
        ((3, 2), False, 1e-3),
        ((2, 2, 3), True, 1e-5),
        ((2, 2, 2, 2), True, 1e-5),
        ((3, 1), True, 0.5),
        ((2, 3, 1, 2), False, 1e-5),
    ]:
        channels = [op.numbers(shape[1], kinks=[0]) for _ in range(2)] if affine else []
        op.case(
            lambda x, *w: F.batch_norm(x, None, None, *w, training=True, eps=eps),
            op.numbers(*shape, distinct=True),
            *channels,
            eps=eps,
        )
    for shape, affine in [((3, 2), True), ((2, 2, 2), False), ((2, 2, 2, 1), True), ((1, 3), True)]:
        channels = [op.numbers(shape[1], kinks=[0]) for _ in range(2)] if affine else []
        mean, var = op.numbers(shape[1]), op.numbers(shape[1], low=0.25)
        op.case(
            lambda x, *w: F.batch_norm(x, mean, var, *w, training=False, eps=1e-5),
            op.numbers(*shape),
            *channels,
            eps=1e-5,
            mean=mean,
            var=var,
        )

    op = Op("layer_norm")
    for shape, axes, affine, eps in [
        ((4,), 1, False, 1e-5),
        ((2, 3), 1, True, 1e-5),
        ((2, 3), 2, True, 1e-5),
        ((2, 2, 3), 2, False, 1e-3),
        ((2, 2, 3), 1, True, 1e-5),
        ((0, 3), 1, True, 1e-5),
        ((2, 1, 2, 2), 1, True, 0.5),
    ]:
        inner = shape[-axes:]
        weights = [op.numbers(*inner, kinks=[0]) for _ in range(2)] if affine else []
        op.case(
            lambda x, *w: F.layer_norm(x, inner, *w, eps=eps),
            op.numbers(*shape, distinct=True),
            *weights,
            axes=axes,
            eps=eps,
        )
    op = Op("rms_norm")
    for shape, axes, affine, eps in [
        ((4,), 1, False, 1e-5),
        ((2, 3), 1, True, 1e-5),
        ((2, 3), 2, True, 1e-6),
        ((2, 2, 3), 2, False, 1e-3),
        ((2, 2, 3), 1, True, 1e-5),
        ((0, 3), 1, True, 1e-5),
    ]:
        inner = shape[-axes:]
        weights = [op.numbers(*inner, kinks=[0])] if affine else []
        op.case(
            lambda x, *w: F.rms_norm(x, inner, *w, eps=eps),
            op.numbers(*shape, distinct=True),
            *weights,
            axes=axes,
            eps=eps,
        )
    op = Op("group_norm")
    # a group of two elements is normalised to 1 and -1: its gradient is almost 0 unless eps is large
    for shape, groups, affine, eps in [
        ((2, 6), 2, True, 1e-5),
        ((1, 4, 2), 2, True, 1e-5),
        ((2, 2, 2, 2), 1, True, 1e-5),
        ((1, 2, 3), 2, False, 1e-5),
        ((2, 6, 1), 3, False, 0.5),
        ((1, 4, 3, 1), 4, True, 1e-3),
        ((2, 4), 2, True, 0.25),
    ]:
        channels = [op.numbers(shape[1], kinks=[0]) for _ in range(2)] if affine else []
        op.case(
            lambda x, *w: F.group_norm(x, groups, *w, eps=eps),
            op.numbers(*shape, distinct=True),
            *channels,
            groups=groups,
            eps=eps,
        )

    for name, function in [("softmax", F.softmax), ("log_softmax", F.log_softmax)]:
        op = Op(name)
        for shape, axis in [
            ((4,), 0),
            ((2, 3), 0),
            ((2, 3), 1),
            ((2, 3), -1),
            ((2, 3, 2), 1),
            ((2, 3, 2), -3),
            ((0, 2), 1),
            ((3, 1), 1),
            ((2, 1, 2, 2), -1),
        ]:
            op.case(lambda x: function(x, axis), op.numbers(*shape), axis=axis)
        op.case(lambda x: function(x, 0), torch.tensor([1e4, 9999.0, -1e4]), axis=0)
    Op("softmax").case(lambda x: F.softmax(x, 0), torch.tensor([-math.inf, 0.5, 1.0]), axis=0, second=False)


def attention(q, k, v, bias, mask, causal, scale):
    """Attention by its definition, as the kernels of PyTorch have no second derivatives."""
    scores = q @ k.transpose(-1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if causal:
        mask = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).tril()
    if bias is not None:
        scores = scores + bias
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    result = torch.softmax(scores, -1) @ v
    theirs = F.scaled_dot_product_attention(
        q, k, v, attn_mask=None if causal else mask if bias is None else bias, is_causal=causal, scale=scale
    )
    assert torch.allclose(result, theirs, rtol=1e-12, atol=1e-12)
    return result


def attentions():
    op = Op("scaled_dot_product_attention")
    for q, k, v, settings in [
        ((1, 2, 3), (1, 3, 3), (1, 3, 2), {}),
        ((1, 2, 2, 3), (1, 2, 3, 3), (1, 2, 3, 2), {}),
        ((2, 1, 3, 2), (2, 1, 3, 2), (2, 1, 3, 2), dict(causal=True)),
        ((1, 1, 2, 2), (1, 1, 4, 2), (1, 1, 4, 3), dict(causal=True)),
        ((1, 1, 3, 2), (1, 1, 2, 2), (1, 1, 2, 2), dict(causal=True)),
        ((1, 2, 3, 2), (1, 2, 3, 2), (1, 2, 3, 2), dict(masked=(3, 3))),
        ((2, 1, 2, 2), (2, 1, 3, 2), (2, 1, 3, 1), dict(masked=(2, 1, 1, 3))),
        ((1, 1, 2, 2), (1, 1, 2, 2), (1, 1, 2, 2), dict(scale=0.75)),
        ((1, 1, 1, 1), (1, 1, 1, 1), (1, 1, 1, 1), {}),
        ((0, 1, 2, 2), (0, 1, 2, 2), (0, 1, 2, 2), {}),
        ((1, 2, 2, 2), (1, 2, 3, 2), (1, 2, 3, 1), dict(bias=(2, 2, 3))),
        ((1, 1, 2, 3), (1, 1, 2, 3), (1, 1, 2, 1), dict(bias=(1, 2), scale=1.5)),
    ]:
        mask = None
        if "masked" in settings:
            mask = op.mask(*settings["masked"])
            mask[..., 0] = True
        causal, scale = settings.get("causal", False), settings.get("scale")
        operands = [q, k, v] + ([settings["bias"]] if "bias" in settings else [])
        op.case(
            lambda q, k, v, bias=None: attention(q, k, v, bias, mask, causal, scale),
            *[op.numbers(*shape) for shape in operands],
            mask=mask,
            causal=causal,
            scale=scale,
        )
