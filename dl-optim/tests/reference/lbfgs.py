"""Minimizations by PyTorch's L-BFGS, for `tests/optimizers/lbfgs.rs`.

    python3 lbfgs.py    # with torch 2.15; writes lbfgs.json here
"""

import json
import math
from pathlib import Path

import torch
from torch import nn, optim, tensor


def rosenbrock(x):
    return ((1 - x[:-1]) ** 2 + 100 * (x[1:] - x[:-1] ** 2) ** 2).sum()


def samples(count):
    """Two features and a label for each sample; the labels are not separable."""
    features = [[math.sin(1.3 * i), math.cos(0.7 * i * i)] for i in range(count)]
    labels = [1.0 if x + 0.5 * y + 0.8 * math.sin(5 * i) > 0 else 0.0 for i, (x, y) in enumerate(features)]
    return tensor(features), tensor(labels)


def logistic(w):
    features, labels = samples(40)
    scores = features.to(w.dtype) @ w[:2] + w[2]
    loss = nn.functional.binary_cross_entropy_with_logits(scores, labels.to(w.dtype))
    return loss + 0.005 * (w**2).sum()


def run(loss, start, dtype=torch.float64, iterations=100, **settings):
    w = nn.Parameter(tensor(start, dtype=dtype))
    optimizer = optim.LBFGS(
        [w], max_iter=iterations, max_eval=10**6, line_search_fn="strong_wolfe", **(dict(history_size=10) | settings)
    )
    evaluations = []

    def closure():
        optimizer.zero_grad()
        value = loss(w)
        value.backward()
        evaluations.append(value.item())
        return value

    optimizer.step(closure)
    return {
        "start": start,
        "weights": w.detach().tolist(),
        "loss": loss(w).item(),
        "iterations": optimizer.state[w]["n_iter"],
        "evaluations": len(evaluations),
    }


torch.set_default_dtype(torch.float64)
cases = {
    "rosenbrock": run(rosenbrock, [-1.2, 1.0]),
    "rosenbrock-far": run(rosenbrock, [5.0, -7.0]),
    "rosenbrock-long": run(rosenbrock, [-1.2, 1.0] * 5, history_size=3, iterations=1000),
    "rosenbrock-few": run(rosenbrock, [-1.2, 1.0], iterations=7),
    "logistic": run(logistic, [0.0, 0.0, 0.0]),
    "logistic-tolerance": run(logistic, [3.0, -4.0, 5.0], tolerance_grad=1e-3, tolerance_change=1e-6),
    "logistic-f32": run(logistic, [3.0, -4.0, 5.0], dtype=torch.float32, tolerance_grad=1e-4, tolerance_change=1e-7),
}
(Path(__file__).parent / "lbfgs.json").write_text(json.dumps(cases, indent=1) + "\n")
