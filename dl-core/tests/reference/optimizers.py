"""Weights after steps of PyTorch's optimizers, in double precision: what `tests/optimizers.rs` here and `tests/embedding.rs` of dl-nd compare with.

    python3 optimizers.py    # with torch 2.8; writes optimizers.txt, here and for dl-nd

A line is the name of a case, the number of steps taken, and the weights.
"""

from pathlib import Path
from torch import float64, nn, optim, tensor

HERE = Path(__file__).parent


def dense(optimizer):
    """A loss of three weights, 20 steps."""
    w = tensor([0.7, -1.3, 2.1], dtype=float64, requires_grad=True)
    optimizer = optimizer([w])
    for step in range(1, 21):
        x, y, z = w[0], w[1], w[2]
        loss = (x * y - 1.0) ** 2 + (y * z + 0.5) ** 2 + (z - x) ** 2
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 5 == 0 or step == 1:
            yield step, w.tolist()


def sparse(optimizer):
    """A table of 5 rows, of which a step sees two or three, one of them twice."""
    start = [[0.1 * row - 0.25, 0.3 - 0.07 * row] for row in range(5)]
    table = nn.Embedding.from_pretrained(tensor(start, dtype=float64), freeze=False, sparse=True)
    optimizer = optimizer(table.parameters())
    for step in range(1, 21):
        out = table(tensor([3 * step % 5, (step * step + 1) % 5, 3 * step % 5, 4]))
        loss = (out * out * out).sum() + (out * tensor([0.5, -1.5], dtype=float64)).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 5 == 0:
            yield step, table.weight.flatten().tolist()


def write(path, cases):
    lines = (f"{name} {step} {' '.join(map(repr, numbers))}\n" for name, rows in cases.items() for step, numbers in rows)
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(lines))


write(HERE / "optimizers.txt", {
    "sgd": dense(lambda w: optim.SGD(w, lr=0.02)),
    "momentum": dense(lambda w: optim.SGD(w, lr=0.02, momentum=0.9)),
    "adagrad": dense(lambda w: optim.Adagrad(w, lr=0.1)),
    "adagrad-settings": dense(lambda w: optim.Adagrad(w, lr=0.1, initial_accumulator_value=0.5, eps=1e-3)),
    "adam": dense(lambda w: optim.Adam(w, lr=0.05)),
    "adam-settings": dense(lambda w: optim.Adam(w, lr=0.05, betas=(0.8, 0.95), eps=1e-3)),
})
write(HERE / "../../../dl-nd/tests/reference/optimizers.txt", {
    "sgd": sparse(lambda w: optim.SGD(w, lr=0.05)),
    "adagrad": sparse(lambda w: optim.Adagrad(w, lr=0.1)),
    # so small that it does not matter where it is added
    "adam": sparse(lambda w: optim.SparseAdam(w, lr=0.05, eps=1e-20)),
})
