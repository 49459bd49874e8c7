"""Reference results of PyTorch's optimizers and schedules, for `tests/optimizers` here and `tests/tensors/embedding.rs` of dl-nd.

    python3 optimizers.py    # with torch 2.8 and numpy; writes optimizers.json here, optimizers.txt for dl-nd

Lion is not in PyTorch: it is written here from algorithm 2 of Chen et al., *Symbolic discovery of optimization algorithms*, 2023.
"""

import json
import math
from pathlib import Path

import numpy as np
import torch
from torch import float32, float64, nn, optim, tensor
from torch.optim import lr_scheduler as schedule

HERE = Path(__file__).parent
STEPS = 20


def loss(a, b):
    """The loss of two weights with three and two numbers."""
    return sum((a[i] * b[i % 2] - (i + 1) / 2) ** 2 + a[i] ** 4 / 4 for i in range(3))


def numbers(*weights):
    return [number for weight in weights for number in weight.detach().tolist()]


def run(dtype, optimizer, change=None, scheduler=None, averaged=None):
    """The weights after each step; before each step, `change` is applied to the weights, which have gradients."""
    torch.set_default_dtype(dtype)  # NAdam computes the product of its momenta in the default dtype
    a = nn.Parameter(tensor([0.7, -1.3, 2.1], dtype=dtype))
    b = nn.Parameter(tensor([0.4, -0.9], dtype=dtype))
    optimizer = optimizer(a, b)
    scheduler = scheduler and scheduler(optimizer)
    model = nn.ParameterList([a, b])
    if averaged is not None:
        # the first update copies the weights
        average = optim.swa_utils.AveragedModel(model, multi_avg_fn=optim.swa_utils.get_ema_multi_avg_fn(averaged))
        average.update_parameters(model)
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss(a, b).backward()
        if change:
            change([a, b])
        optimizer.step()
        if scheduler:
            scheduler.step()
        if averaged is not None:
            average.update_parameters(model)
            yield numbers(*average.module)
        else:
            yield numbers(a, b)


class Lion:
    """Algorithm 2, in NumPy."""

    def __init__(self, weights, lr, beta1=0.9, beta2=0.99, weight_decay=0.0):
        self.weights, self.lr, self.betas, self.decay = weights, lr, (beta1, beta2), weight_decay
        self.momentum = [np.zeros_like(w.detach().numpy()) for w in weights]

    def zero_grad(self):
        for w in self.weights:
            w.grad = None

    def step(self):
        beta1, beta2 = self.betas
        for k, w in enumerate(self.weights):
            g, theta, m = w.grad.numpy(), w.detach().numpy(), self.momentum[k]
            c = beta1 * m + (1 - beta1) * g
            eta = np.sign(c) + self.decay * theta
            self.momentum[k] = beta2 * m + (1 - beta2) * g
            theta -= self.lr * eta  # in place, because it aliases the weight


def add_l1(weights):
    for w in weights:
        w.grad += 0.3 * w.detach().sign()


def decay_and_clip(weights):
    for w in weights:
        w.grad += 0.5 * w.detach()
    nn.utils.clip_grad_norm_(weights, 1.0)


def both(make, **settings):
    return lambda a, b: make([a, b], **settings)


CASES = {
    "sgd": [both(optim.SGD, lr=0.02)],
    "sgd-momentum": [both(optim.SGD, lr=0.02, momentum=0.9)],
    "sgd-dampening": [both(optim.SGD, lr=0.02, momentum=0.9, dampening=0.3)],
    "sgd-nesterov": [both(optim.SGD, lr=0.02, momentum=0.9, nesterov=True)],
    "sgd-weight-decay": [both(optim.SGD, lr=0.02, momentum=0.5, weight_decay=0.1)],
    "adagrad": [both(optim.Adagrad, lr=0.1)],
    "adagrad-settings": [both(optim.Adagrad, lr=0.1, initial_accumulator_value=0.5, eps=1e-3, weight_decay=0.1)],
    "rms-prop": [both(optim.RMSprop, lr=0.02)],
    "rms-prop-momentum": [both(optim.RMSprop, lr=0.02, alpha=0.9, eps=1e-3, momentum=0.7)],
    "rms-prop-centered": [both(optim.RMSprop, lr=0.02, centered=True)],
    "rms-prop-all": [both(optim.RMSprop, lr=0.02, alpha=0.9, momentum=0.7, centered=True, weight_decay=0.1)],
    "adadelta": [both(optim.Adadelta, lr=1.0)],
    "adadelta-settings": [both(optim.Adadelta, lr=0.7, rho=0.8, eps=1e-3, weight_decay=0.1)],
    "adam": [both(optim.Adam, lr=0.05)],
    "adam-settings": [both(optim.Adam, lr=0.05, betas=(0.8, 0.95), eps=1e-3, weight_decay=0.1)],
    "adam-amsgrad": [both(optim.Adam, lr=0.05, betas=(0.5, 0.6), amsgrad=True)],
    "adamw": [both(optim.AdamW, lr=0.05)],
    "adamw-settings": [both(optim.AdamW, lr=0.05, betas=(0.5, 0.6), eps=1e-3, weight_decay=0.3, amsgrad=True)],
    "adagrad-decay": [both(optim.Adagrad, lr=0.1, lr_decay=0.3)],
    "nadam-decoupled": [both(optim.NAdam, lr=0.05, weight_decay=0.1, decoupled_weight_decay=True)],
    "radam-decoupled": [both(optim.RAdam, lr=0.05, weight_decay=0.1, decoupled_weight_decay=True)],
    "nadam": [both(optim.NAdam, lr=0.05)],
    "nadam-settings": [both(optim.NAdam, lr=0.05, betas=(0.8, 0.95), eps=1e-3, momentum_decay=0.1, weight_decay=0.1)],
    "radam": [both(optim.RAdam, lr=0.05)],
    "radam-settings": [both(optim.RAdam, lr=0.05, betas=(0.8, 0.7), eps=1e-3, weight_decay=0.1)],
    "lion": [both(Lion, lr=0.01)],
    "lion-settings": [both(Lion, lr=0.01, beta1=0.8, beta2=0.95, weight_decay=0.5)],
    "clip-norm": [
        both(optim.SGD, lr=0.1, momentum=0.9, weight_decay=0.5),
        lambda weights: nn.utils.clip_grad_norm_(weights, 1.0),
    ],
    "clip-norm-of-decayed": [both(optim.SGD, lr=0.1, momentum=0.9), decay_and_clip],
    "clip-value": [both(optim.Adam, lr=0.05), lambda weights: nn.utils.clip_grad_value_(weights, 0.5)],
    "l1": [both(optim.SGD, lr=0.02), add_l1],
    "groups": [
        lambda a, b: optim.Adam([{"params": [a]}, {"params": [b], "lr": 0.01, "weight_decay": 0.5}], lr=0.05),
        lambda weights: nn.utils.clip_grad_norm_(weights, 1.0),
    ],
    "scheduled": [
        both(optim.Adam, lr=0.1),
        None,
        lambda optimizer: schedule.CosineAnnealingLR(optimizer, 15, eta_min=0.01),
    ],
    "ema": [both(optim.Adam, lr=0.05), None, None, 0.9],
}


def rates(lr, make, step=lambda scheduler: scheduler.step()):
    """The first fifty learning rates."""
    optimizer = optim.SGD([tensor(0.0, requires_grad=True)], lr=lr)
    scheduler = make(optimizer)
    found = []
    for _ in range(50):
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        step(scheduler)
    return found


def sequence(optimizer):
    warm_up = schedule.LinearLR(optimizer, start_factor=0.1, total_iters=10)
    decay = schedule.ExponentialLR(optimizer, 0.9)
    cosine = schedule.CosineAnnealingLR(optimizer, 25)
    return schedule.SequentialLR(optimizer, [warm_up, decay, cosine], milestones=[10, 25])


def chain(optimizer):
    warm_up = schedule.LinearLR(optimizer, start_factor=0.25, end_factor=1.0, total_iters=10)
    return schedule.ChainedScheduler([warm_up, schedule.StepLR(optimizer, 7, gamma=0.5)])


METRICS = [round(3.0 / (1 + t) + 0.4 * math.sin(2.1 * t) + (0.02 * t if t > 20 else 0), 6) for t in range(50)]


def plateau(lr, **settings):
    metrics = iter(METRICS)
    make = lambda optimizer: schedule.ReduceLROnPlateau(optimizer, **settings)
    return rates(lr, make, lambda scheduler: scheduler.step(next(metrics)))


def one_cycle(**settings):
    # PyTorch refuses the step after the last one
    steps = iter(range(49))
    step = lambda scheduler: next(steps, None) is not None and scheduler.step()
    make = lambda optimizer: schedule.OneCycleLR(optimizer, 0.5, total_steps=50, cycle_momentum=False, **settings)
    return rates(0.5, make, step)


SCHEDULES = {
    "step-decay": rates(0.5, lambda o: schedule.StepLR(o, 7, gamma=0.3)),
    "multi-step": rates(0.5, lambda o: schedule.MultiStepLR(o, [5, 12, 12, 30], gamma=0.3)),
    "exponential": rates(0.5, lambda o: schedule.ExponentialLR(o, 0.9)),
    "linear": rates(0.5, lambda o: schedule.LinearLR(o, start_factor=0.2, end_factor=0.9, total_iters=13)),
    "polynomial": rates(0.5, lambda o: schedule.PolynomialLR(o, total_iters=40, power=1.7)),
    "cosine": rates(0.5, lambda o: schedule.CosineAnnealingLR(o, 18, eta_min=0.01)),
    "restarts-1": rates(0.5, lambda o: schedule.CosineAnnealingWarmRestarts(o, 7, eta_min=0.01)),
    "restarts-2": rates(0.5, lambda o: schedule.CosineAnnealingWarmRestarts(o, 5, T_mult=2)),
    "one-cycle": one_cycle(),
    "one-cycle-settings": one_cycle(pct_start=0.25, div_factor=10.0, final_div_factor=100.0, anneal_strategy="linear"),
    "one-cycle-three-phases": one_cycle(three_phase=True),
    "lambda": rates(0.5, lambda o: schedule.LambdaLR(o, lambda t: 1 / (1 + t))),
    "sequence": rates(0.5, sequence),
    "chain": rates(0.5, chain),
    "plateau": plateau(0.5, patience=2),
    "plateau-settings": plateau(0.5, factor=0.5, patience=1, threshold=0.1, cooldown=2, min_lr=0.05),
    "plateau-max": plateau(0.5, mode="max", factor=0.7, patience=3, threshold=0.2, threshold_mode="abs"),
}


def sparse(optimizer):
    """A table of 5 rows, of which a step sees two or three, one of them twice."""
    start = [[0.1 * row - 0.25, 0.3 - 0.07 * row] for row in range(5)]
    table = nn.Embedding.from_pretrained(tensor(start, dtype=float64), freeze=False, sparse=True)
    optimizer = optimizer(table.parameters())
    for step in range(1, 21):
        out = table(tensor([3 * step % 5, (step * step + 1) % 5, 3 * step % 5, 4]))
        total = (out * out * out).sum() + (out * tensor([0.5, -1.5], dtype=float64)).sum()
        optimizer.zero_grad()
        total.backward()
        optimizer.step()
        if step % 5 == 0:
            yield step, table.weight.flatten().tolist()


SPARSE = {
    "sgd": sparse(lambda w: optim.SGD(w, lr=0.05)),
    "adagrad": sparse(lambda w: optim.Adagrad(w, lr=0.1)),
    # `eps` is so small that the place where it is added does not matter
    "adam": sparse(lambda w: optim.SparseAdam(w, lr=0.05, eps=1e-20)),
}


def lines(entries):
    """An object with an entry per line."""
    return "{\n" + ",\n".join(f"{json.dumps(name)}: {json.dumps(entry)}" for name, entry in entries.items()) + "\n}"


torch.manual_seed(0)
sections = {
    "f64": lines({name: list(run(float64, *case)) for name, case in CASES.items()}),
    "f32": lines({name: list(run(float32, *case)) for name, case in CASES.items()}),
    "schedules": lines(SCHEDULES),
    "metrics": json.dumps(METRICS),
}
(HERE / "optimizers.json").write_text("{" + ",\n".join(f'"{name}": {text}' for name, text in sections.items()) + "}\n")
rows = (f"{name} {step} {' '.join(map(repr, row))}\n" for name, case in SPARSE.items() for step, row in case)
(HERE / "../../../dl-nd/tests/reference/optimizers.txt").write_text("".join(rows))
