"""Losses."""

import itertools

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


def ctc():
    """The CTC loss, by its definition: the sum over all alignments. PyTorch has no second derivative."""
    op = Op("ctc")

    def torch_loss(x, targets, input_lengths, **settings):
        labels = torch.tensor([label for target in targets for label in target], dtype=torch.int64)
        lengths = torch.tensor([len(target) for target in targets])
        return F.ctc_loss(x.transpose(0, 1), labels, torch.tensor(input_lengths), lengths, **settings)

    def loss(x, targets, input_lengths, blank, reduction, zero_infinity):
        losses = []
        for x_i, target, length in zip(x, targets, input_lengths):
            alignments = [
                path
                for path in itertools.product(range(x.shape[2]), repeat=length)
                if [label for label, _ in itertools.groupby(path) if label != blank] == target
            ]
            sums = [sum((x_i[time, label] for time, label in enumerate(path)), 0 * x.sum()) for path in alignments]
            if sums:
                losses.append(-torch.logsumexp(torch.stack(sums), 0))
            else:
                losses.append(0 * x.sum() + (0.0 if zero_infinity else torch.inf))
        losses = torch.stack(losses)
        if reduction == "none":
            return losses
        if reduction == "sum":
            return losses.sum()
        return (losses / torch.tensor([max(len(target), 1) for target in targets])).mean()

    def gradient(function, x, *args, **settings):
        x = x.clone().requires_grad_()
        return torch.autograd.grad(function(x.log_softmax(-1), *args, **settings).sum(), x)[0]

    for shape, targets, input_lengths, more in [
        ((1, 1, 2), [[1]], None, {}),
        ((1, 1, 2), [[]], None, {}),
        ((1, 3, 2), [[]], None, dict(reduction="sum")),
        ((2, 4, 3), [[1, 2], [2]], None, {}),
        ((2, 4, 3), [[1, 1], [2, 2]], None, dict(reduction="none")),
        ((3, 4, 3), [[1, 2, 1], [], [2]], [4, 2, 3], {}),
        ((3, 4, 3), [[1, 2, 1], [], [2]], [4, 2, 3], dict(reduction="sum")),
        ((3, 4, 3), [[0, 1], [1, 1], [0]], [3, 4, 1], dict(blank=2, reduction="none")),
        ((2, 5, 3), [[0, 2, 2], [2]], None, dict(blank=1)),
        ((2, 3, 3), [[1, 1], [1, 2]], [2, 2], dict(zero_infinity=True)),
        ((3, 3, 3), [[1, 2, 1, 2], [2, 2], [1]], [3, 3, 2], dict(zero_infinity=True, reduction="none")),
        ((2, 3, 3), [[1, 1], [1, 2]], [2, 2], dict(reduction="none", flat=True)),
        ((2, 3, 3), [[1, 1, 2], [1, 2]], None, dict(reduction="mean", flat=True)),
        ((2, 3, 2), [[1, 1, 1, 1, 1], []], [3, 1], dict(zero_infinity=True, reduction="sum")),
        ((1, 6, 2), [[1, 1, 1]], None, {}),
    ]:
        flat, input_lengths = more.pop("flat", False), input_lengths or [shape[1]] * shape[0]
        settings = dict(blank=0, reduction="mean", zero_infinity=False) | more
        x = op.numbers(*shape, low=-3, high=0)
        torch.testing.assert_close(loss(x, targets, input_lengths, **settings), torch_loss(x, targets, input_lengths, **settings))
        if not flat:
            gradients = [gradient(f, x, targets, input_lengths, **settings) for f in (loss, torch_loss)]
            torch.testing.assert_close(*gradients)
        op.case(
            lambda x: loss(x, targets, input_lengths, **settings),
            x,
            flat=flat,
            targets=targets,
            input_lengths=input_lengths,
            **settings,
        )
    # longer sequences, after a log-softmax
    for shape, lengths, input_lengths, more in [
        ((3, 40, 6), [12, 0, 19], [40, 35, 38], {}),
        ((4, 60, 5), [30, 1, 60, 24], [60, 60, 59, 50], dict(reduction="none", zero_infinity=True)),
        ((2, 33, 4), [8, 7], [33, 32], dict(reduction="sum", blank=3)),
    ]:
        settings = dict(blank=0, reduction="mean", zero_infinity=False) | more
        labels = [label for label in range(shape[2]) if label != settings["blank"]]
        targets = [[op.random.choice(labels) for _ in range(length)] for length in lengths]
        op.case(
            lambda x: torch_loss(x.log_softmax(-1), targets, input_lengths, **settings),
            op.numbers(*shape),
            second=False,
            softmax=True,
            targets=targets,
            input_lengths=input_lengths,
            **settings,
        )
