"""The workloads of `check` in PyTorch: eager, and compiled where that is possible.

Prints one line for each, in the words of `check`. Ends without an error where PyTorch is missing.
"""

import statistics
import sys
import time

try:
    import torch
except ImportError:
    print("peers: PyTorch is not installed")
    sys.exit(0)

SMALL = "--small" in sys.argv
PLACE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.backends.cuda.matmul.allow_tf32 = False


def size(full, small):
    return small if SMALL else full


def wait():
    if PLACE.type == "cuda":
        torch.cuda.synchronize()


def report(name, run, times):
    for _ in range(3):
        run()
    rounds = []
    for _ in range(7):
        wait()
        start = time.perf_counter()
        for _ in range(times):
            run()
        wait()
        rounds.append((time.perf_counter() - start) / times)
    print(f"{name} per second: {1 / statistics.median(rounds):.1f}", flush=True)


def matrix(*shape, scale=1.0):
    return (torch.rand(*shape, device=PLACE) * 2 - 1) * scale


def trained(name, weights, loss, times):
    adam = torch.optim.Adam(weights, lr=1e-3)

    def step(loss):
        adam.zero_grad()
        value = loss()
        value.backward()
        adam.step()
        return value.item()

    report(f"{name}, eager: steps", lambda: step(loss), times)
    if "--compile" in sys.argv:
        compiled = torch.compile(loss, mode="reduce-overhead")
        report(f"{name}, compiled: steps", lambda: step(compiled), times)


def mlp():
    inputs, hidden = size(3072, 64), size(512, 32)
    weights = [matrix(inputs, hidden, scale=0.02), matrix(hidden, hidden, scale=0.05), matrix(hidden, 10, scale=0.05)]
    weights = [w.requires_grad_() for w in weights]
    x, y = matrix(16, inputs), matrix(16, 10)

    def loss():
        return ((torch.relu(torch.relu(x @ weights[0]) @ weights[1]) @ weights[2] - y) ** 2).mean()

    trained("mlp", weights, loss, size(50, 3))


def tree():
    width, trees = size(256, 16), size(64, 4)
    weights = [matrix(width, width, scale=0.05).requires_grad_() for _ in range(2)]
    leaves = [matrix(1, width) for _ in range(trees * 8)]

    def loss():
        total = 0
        for start in range(0, len(leaves), 8):
            level = leaves[start : start + 8]
            while len(level) > 1:
                pairs = zip(level[::2], level[1::2])
                gates = [(torch.sigmoid(a @ weights[0] + b @ weights[1]), a, b) for a, b in pairs]
                level = [gate * a + (1 - gate) * torch.tanh(b) for gate, a, b in gates]
            total = total + level[0] ** 2
        return total.sum()

    trained("tree", weights, loss, size(5, 1))


def exits():
    width, samples = size(512, 16), size(64, 8)
    net = matrix(width, width, scale=0.05)
    inputs = [matrix(1, width) for _ in range(samples)]

    @torch.no_grad()
    def run():
        for x in inputs:
            for _ in range(8):
                x = torch.tanh(x @ net)
                if (x**2).sum() < 0:
                    break

    report("exits, eager: passes", run, size(5, 1))


def pointwise():
    a, b, c = [matrix(size(1 << 14, 64), 1024).requires_grad_() for _ in range(3)]

    def value():
        return ((torch.tanh(a * b + c) * a - torch.exp(b * 0.5)) ** 2).sum()

    def run(value):
        loss = value()
        sums = [d.sum().item() for d in torch.autograd.grad(loss, [a, b, c])]
        return loss.item(), sums

    report("pointwise, eager: passes", lambda: run(value), size(20, 2))
    if "--compile" in sys.argv:
        compiled = torch.compile(value)
        report("pointwise, compiled: passes", lambda: run(compiled), size(20, 2))


print(f"peers: PyTorch {torch.__version__} on {PLACE}")
for workload in [mlp, tree, exits, pointwise]:
    workload()
