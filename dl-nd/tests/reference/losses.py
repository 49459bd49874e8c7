"""Losses."""

import torch
import torch.nn.functional as F

from case import Op


def losses():
    op = Op("cross_entropy")
    for shape, settings in [
        ((3, 4), {}),
        ((3, 4), dict(reduction="sum")),
        ((3, 4), dict(reduction="none")),
        ((1, 2), {}),
        ((3, 1), {}),
        ((3, 3), dict(label_smoothing=0.25)),
        ((3, 3), dict(label_smoothing=0.5, reduction="none")),
        ((3, 3), dict(weighted=True)),
        ((3, 3), dict(weighted=True, reduction="sum")),
        ((3, 3), dict(weighted=True, reduction="none")),
        ((4, 3), dict(ignored=True)),
        ((4, 3), dict(ignored=True, reduction="sum")),
        ((4, 3), dict(ignored=True, reduction="none", weighted=True)),
        ((4, 3), dict(ignored=True, weighted=True, label_smoothing=0.125)),
        ((2, 3, 2), {}),
        ((2, 3, 2), dict(reduction="none", weighted=True)),
    ]:
        labels = op.integers(shape[0], *shape[2:], below=shape[1])
        if "ignored" in settings:
            settings["ignore_index"] = labels[0].item()
            labels[1] = (labels[0] + 1) % shape[1]
        common = dict(reduction=settings.get("reduction", "mean"), label_smoothing=settings.get("label_smoothing", 0.0))
        weight = op.numbers(shape[1], low=0.25) if "weighted" in settings else None
        ignored = settings.get("ignore_index")
        op.case(
            lambda x: F.cross_entropy(x, labels, weight, ignore_index=-100 if ignored is None else ignored, **common),
            op.numbers(*shape),
            labels=labels,
            weight=weight,
            ignore_index=ignored,
            **common,
        )
    labels = op.integers(2, below=3)
    op.case(
        lambda x: F.cross_entropy(x, labels),
        torch.tensor([[1e4, 0.0, -1e4], [-1e4, 1e4, 9999.0]]),
        labels=labels,
        weight=None,
        ignore_index=None,
        reduction="mean",
        label_smoothing=0.0,
    )
    labels = torch.tensor([255, 2, 255, 0])
    op.case(
        lambda x: F.cross_entropy(x, labels, ignore_index=255),
        op.numbers(4, 3),
        labels=labels,
        weight=None,
        ignore_index=255,
        reduction="mean",
        label_smoothing=0.0,
    )
    for shape, settings in [
        ((3, 4), {}),
        ((2, 3), dict(reduction="sum")),
        ((2, 3), dict(reduction="none")),
        ((2, 3), dict(label_smoothing=0.25)),
        ((2, 3), dict(weighted=True)),
    ]:
        common = dict(reduction=settings.get("reduction", "mean"), label_smoothing=settings.get("label_smoothing", 0.0))
        weight = op.numbers(shape[1], low=0.25) if "weighted" in settings else None
        op.case(
            lambda x, y: F.cross_entropy(x, y, weight, **common),
            op.numbers(*shape),
            op.numbers(*shape, low=0.125, high=1),
            weight=weight,
            **common,
        )

    op = Op("nll")
    for shape, settings in [
        ((3, 4), {}),
        ((3, 4), dict(reduction="sum")),
        ((3, 4), dict(reduction="none")),
        ((3, 3), dict(weighted=True)),
        ((4, 3), dict(ignored=True)),
        ((4, 3), dict(ignored=True, weighted=True, reduction="none")),
    ]:
        labels = op.integers(shape[0], below=shape[1])
        if "ignored" in settings:
            settings["ignore_index"] = labels[0].item()
            labels[1] = (labels[0] + 1) % shape[1]
        reduction, ignored = settings.get("reduction", "mean"), settings.get("ignore_index")
        weight = op.numbers(shape[1], low=0.25) if "weighted" in settings else None
        op.case(
            lambda x: F.nll_loss(
                x, labels, weight, ignore_index=-100 if ignored is None else ignored, reduction=reduction
            ),
            op.numbers(*shape, low=-3, high=0),
            labels=labels,
            weight=weight,
            ignore_index=ignored,
            reduction=reduction,
        )

    shapes = [((), "mean"), ((4,), "sum"), ((2, 3), "mean"), ((2, 3), "none"), ((2, 1, 2), "sum"), ((0, 2), "sum")]

    def apart(op, shape, kinks):
        """Pairs of operands with differences away from the kinks."""
        target = op.numbers(*shape)
        return target + op.numbers(*shape, kinks=kinks), target

    for name, function, kinks in [("mse", F.mse_loss, []), ("l1", F.l1_loss, [0])]:
        op = Op(name)
        for shape, reduction in shapes:
            op.case(lambda x, y: function(x, y, reduction=reduction), *apart(op, shape, kinks), reduction=reduction)
    Op("l1").case(
        F.l1_loss, torch.tensor([0.5, 1.0, -1.0]), torch.tensor([0.5, 0.0, 0.0]), reduction="mean", second=False
    )
    op = Op("huber")
    for (shape, reduction), delta in zip(shapes, [1.0, 1.0, 0.5, 1.5, 1.0, 1.0]):
        pair = apart(op, shape, [-delta, 0, delta])
        op.case(
            lambda x, y: F.huber_loss(x, y, reduction=reduction, delta=delta), *pair, reduction=reduction, delta=delta
        )
    op = Op("bce_with_logits")
    for shape, reduction in shapes:
        pair = op.numbers(*shape, kinks=[0]), op.numbers(*shape, low=0, high=1)
        op.case(lambda x, y: F.binary_cross_entropy_with_logits(x, y, reduction=reduction), *pair, reduction=reduction)
    for shape in [(3,), (2, 3)]:
        weight = op.numbers(3, low=0.25)
        op.case(
            lambda x, y: F.binary_cross_entropy_with_logits(x, y, pos_weight=weight),
            op.numbers(*shape, kinks=[0]),
            op.numbers(*shape, low=0, high=1),
            reduction="mean",
            pos_weight=weight,
        )
    op.case(
        lambda x, y: F.binary_cross_entropy_with_logits(x, y, reduction="none"),
        torch.tensor([100.0, -100.0, 90.0]),
        torch.tensor([1.0, 0.25, 0.5]),
        reduction="none",
    )
    op = Op("kl_div")
    for shape, reduction in [
        ((), "mean"),
        ((4,), "sum"),
        ((2, 3), "mean"),
        ((2, 3), "none"),
        ((2, 3), "batchmean"),
        ((2, 1, 2), "sum"),
        ((0, 2), "sum"),
    ]:
        pair = op.numbers(*shape, low=-3, high=0), op.numbers(*shape, low=0.125, high=1)
        op.case(lambda x, y: F.kl_div(x, y, reduction=reduction), *pair, reduction=reduction, log_target=False)
    op.case(
        lambda x, y: F.kl_div(x, y, reduction="none"),
        op.numbers(3, low=-3, high=0),
        torch.tensor([0.0, 0.5, 1.0]),
        reduction="none",
        log_target=False,
        flat=True,
    )
    pair = op.numbers(2, 3, low=-3, high=0), op.numbers(2, 3, low=-3, high=0)
    op.case(lambda x, y: F.kl_div(x, y, reduction="sum", log_target=True), *pair, reduction="sum", log_target=True)
