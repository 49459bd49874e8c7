"""The rows of `benches/operations.rs` in PyTorch: `operations.py THREADS [--quick] [word…]`.

`operations.py --table OURS THEIRS` joins the output of both, as Markdown.
"""
import statistics
import sys
import time


def table(ours, theirs):
    """Median ratios, PyTorch's time over ours, each of a round; a round is one run of both programs."""
    def rounds(path):
        times = {}
        for line in open(path):
            name, kind, nanoseconds = line.strip().split(",")
            times.setdefault((name, kind), []).append(float(nanoseconds))
        return times

    ours, theirs = rounds(ours), rounds(theirs)
    print("| operation | value, µs | PyTorch / ours | gradient, µs | PyTorch / ours |\n|---|---|---|---|---|")
    for name in dict.fromkeys(name for name, _ in ours):
        cells = []
        for kind in ("value", "gradient"):
            mine, other = ours.get((name, kind)), theirs.get((name, kind))
            ratio = statistics.median(b / a for a, b in zip(mine, other)) if mine and other else None
            cells += [f"{statistics.median(mine) / 1e3:,.0f}" if mine else "–", f"{ratio:.2f}" if ratio else "–"]
        print(f"| `{name}` | {' | '.join(cells)} |")


if sys.argv[1] == "--table":
    table(*sys.argv[2:4])
    sys.exit()

import torch
import torch.nn.functional as F

threads, *words = sys.argv[1:]
quick = "--quick" in words
words = [word for word in words if not word.startswith("--")]
torch.set_num_threads(int(threads))
torch.manual_seed(1)


def nanoseconds(call):
    times, start = [], time.perf_counter()
    while len(times) < 5 or time.perf_counter() - start < (0.001 if quick else 0.15) and len(times) < 10_000:
        before = time.perf_counter()
        call()
        times.append(time.perf_counter() - before)
    return statistics.median(times[2:]) * 1e9


def row(name, x, op, gradient=True):
    if words and not any(word in name for word in words):
        return
    with torch.no_grad():
        print(f"{name},value,{nanoseconds(lambda: op(x)):.0f}", flush=True)
    if not gradient:
        return
    x = x.clone().requires_grad_()

    def step():
        x.grad = None
        y = op(x)
        (y if y.dim() == 0 else y.sum()).backward()

    print(f"{name},gradient,{nanoseconds(step):.0f}", flush=True)


def uniform(*shape, low=-1.0, high=1.0):
    return torch.empty(shape).uniform_(low, high)


def indices(*shape, count):
    return (torch.arange(torch.Size(shape).numel()) * 7919 % count).reshape(shape)


N = 2048
x, p, q = uniform(N, N), uniform(N, N, low=0.5, high=2.0), uniform(N, N, low=0.5, high=2.0)
unary = dict(neg=torch.neg, abs=torch.abs, sign=torch.sign, floor=torch.floor, exp=torch.exp, expm1=torch.expm1, ln=torch.log,
             log1p=torch.log1p, sqrt=torch.sqrt, rsqrt=torch.rsqrt, square=torch.square, recip=torch.reciprocal, sin=torch.sin,
             cos=torch.cos, tan=torch.tan, tanh=torch.tanh, erf=torch.erf, ndtr=torch.special.ndtr, sigmoid=torch.sigmoid,
             relu=torch.relu, gelu=F.gelu, gelu_tanh=lambda x: F.gelu(x, approximate="tanh"), silu=F.silu, softplus=F.softplus)
for name, op in unary.items():
    row(name, p if name in ("ln", "log1p", "sqrt", "rsqrt", "recip") else x, op, name not in ("sign", "floor"))
binary = dict(add=torch.add, sub=torch.sub, mul=torch.mul, div=torch.div, rem=torch.remainder, min=torch.minimum,
              max=torch.maximum, pow=torch.pow, xlogy=torch.xlogy)
for name, op in binary.items():
    row(name, p, lambda x: op(x, q))
row("leaky_relu", x, lambda x: F.leaky_relu(x, 0.1))
row("elu", x, lambda x: F.elu(x, 0.1))
for b in ("2", "3", "-1", "0.5", "2.5"):
    row(f"pow {b}", p, lambda x: torch.pow(x, float(b)))
row("clamp", x, lambda x: torch.clamp(x, -0.5, 0.5))
mask, other = x > 0, p < q
row("where_", x, lambda x: torch.where(mask, x, q))
row("where_ number", x, lambda x: torch.where(mask, x, 0.0))
for name in ("less", "less_equal", "greater", "greater_equal", "eq", "not_equal"):
    row({"eq": "equal"}.get(name, name), p, lambda x: getattr(torch, name)(x, q), False)
row("less number", p, lambda x: torch.less(x, 1.0), False)
row("logical_not", x, lambda _: mask.logical_not(), False)
row("logical_and", x, lambda _: mask.logical_and(other), False)
row("logical_or", x, lambda _: mask.logical_or(other), False)
row("cast", x, lambda x: x.to(torch.float64), False)
row("to_floats", x, lambda _: mask.to(torch.float32), False)

r = uniform(N, N, low=0.5, high=1.5)
reductions = dict(sum=torch.sum, mean=torch.mean, prod=torch.prod, amax=torch.amax, amin=torch.amin,
                  norm=torch.linalg.vector_norm, logsumexp=torch.logsumexp)
for name, op in reductions.items():
    row(name, r, (lambda x: op(x, (0, 1))) if name in ("amax", "amin", "logsumexp") else op)
    for axis in (0, 1):
        row(f"{name} {axis}", r, lambda x: op(x, dim=axis))
row("norm_p", r, lambda x: torch.linalg.vector_norm(x, 3.0))
row("var 1", r, lambda x: torch.var(x, 1))
row("std 1", r, lambda x: torch.std(x, 1))
for axis in (0, 1):
    row(f"argmax {axis}", r, lambda x: torch.argmax(x, axis), False)
    row(f"cumsum {axis}", r, lambda x: torch.cumsum(x, axis))
row("argmin 1", r, lambda x: torch.argmin(x, 1), False)
a, b, bias = uniform(512, 512), uniform(512, 512), uniform(512)
row("matmul", a, lambda a: a @ b)
for name, shape in (("matmul 4x4", (20_000, 4, 4)), ("matmul 32x32", (500, 32, 32))):
    right = uniform(*shape)
    row(name, uniform(*shape), lambda a: a @ right)
row("linear", a, lambda a: F.linear(a, b, bias))
row("linear_relu", a, lambda a: F.linear(a, b, bias).relu())
u, v = uniform(1 << 20), uniform(N)
row("dot", uniform(1 << 20), lambda x: torch.dot(x, u))
row("outer", uniform(N), lambda x: torch.outer(x, v))
row("einsum", a, lambda a: torch.einsum("ik,kj->ij", a, b))

row("reshape", x, lambda x: x.reshape(N // 2, 2 * N))
row("flatten", x, lambda x: x.flatten())
row("flatten_rows", x, lambda x: x.flatten(1))
row("t", x, lambda x: x.permute(1, 0))
row("transpose", x, lambda x: x.transpose(0, 1))
row("permute", x, lambda x: x.permute(1, 0))
row("squeeze", uniform(1, N, N), lambda x: x.squeeze(0))
row("unsqueeze", x, lambda x: x.unsqueeze(0))
row("expand", uniform(1, N), lambda x: x.expand(N, N))
row("lift", x, lambda x: x[None])
row("slice", x, lambda x: x[1:, ::2])
row("slice_axis", x, lambda x: torch.narrow(x, 0, 1, N - 1))
row("row", x, lambda x: x[1])
row("at", x, lambda x: x[1, 0])
row("split", x, lambda x: torch.split(x, N // 2)[1])
row("chunk", x, lambda x: torch.chunk(x, 2, 1)[1])
row("flip", x, lambda x: x.flip(1))
row("pad", x, lambda x: F.pad(x, (1, 1, 1, 1)))
row("concat", x, lambda x: torch.concat([x, x], 1))
row("stack", x, lambda x: torch.stack([x, x]))
row("roll", x, lambda x: x.roll(5, 1))
row("tril", x, lambda x: x.tril())
row("triu", x, lambda x: x.triu())
row("diag", uniform(N), torch.diag)
row("diagonal", x, torch.diagonal)
ids, places = indices(N, count=N), indices(N, N, count=N)
for axis in (0, 1):
    row(f"index_select {axis}", x, lambda x: x.index_select(axis, ids))
    row(f"gather {axis}", x, lambda x: x.gather(axis, places))
    row(f"scatter_add {axis}", x, lambda x: x.scatter_add(axis, places, q))
many = indices(65_536, count=10_000)
row("embedding", uniform(10_000, 64), lambda x: F.embedding(many, x))
each = [torch.tensor([i * 7 % 1_000]) for i in range(200)]
row("embedding 200 times", uniform(1_000, 64), lambda x: sum(F.embedding(i, x).sum() for i in each))

x1, x2, x3 = uniform(16, 32, 1024), uniform(16, 32, 32, 32), uniform(4, 16, 16, 16, 16)
w1, w2, w3 = uniform(32, 32, 3), uniform(32, 32, 3, 3), uniform(16, 16, 3, 3, 3)
modes = {1: "linear", 2: "bilinear", 3: "trilinear"}
for n, x_n, w, size in ((1, x1, w1, 2048), (2, x2, w2, 64), (3, x3, w3, 32)):
    row(f"conv{n}d", x_n, lambda x: getattr(F, f"conv{n}d")(x, w, padding=1))
    row(f"conv_transpose{n}d", x_n, lambda x: getattr(F, f"conv_transpose{n}d")(x, w, padding=1))
    row(f"max_pool{n}d", x_n, lambda x: getattr(F, f"max_pool{n}d")(x, 2))
    row(f"avg_pool{n}d", x_n, lambda x: getattr(F, f"avg_pool{n}d")(x, 2))
    row(f"adaptive_avg_pool{n}d", x_n, lambda x: getattr(F, f"adaptive_avg_pool{n}d")(x, 7))
    row(f"upsample_{modes[n]}", x_n, lambda x: F.interpolate(x, size=[size] * n, mode=modes[n]))
row("batch_norm", x2, lambda x: F.batch_norm(x, None, None, training=True))
row("group_norm", x2, lambda x: F.group_norm(x, 4))
row("layer_norm", x, lambda x: F.layer_norm(x, (N,)))
row("rms_norm", x, lambda x: F.rms_norm(x, (N,), eps=1e-5))
row("dropout", x, lambda x: F.dropout(x, 0.5))
for axis in (0, 1):
    row(f"softmax {axis}", x, lambda x: torch.softmax(x, axis))
    row(f"log_softmax {axis}", x, lambda x: torch.log_softmax(x, axis))
k = uniform(8, 8, 256, 64)
row("scaled_dot_product_attention", uniform(8, 8, 256, 64), lambda q: F.scaled_dot_product_attention(q, k, k))
y = uniform(N, N, low=0.0)
row("cross_entropy", x, lambda x: F.cross_entropy(x, ids))
row("nll", x, lambda x: F.nll_loss(x, ids))
for name, loss in (("mse", F.mse_loss), ("l1", F.l1_loss), ("huber", F.huber_loss),
                   ("bce_with_logits", F.binary_cross_entropy_with_logits), ("kl_div", lambda x, y: F.kl_div(x, y, reduction="mean"))):
    row(name, x, lambda x: loss(x, y))
transcripts = torch.tensor([[1 + (i * 7 + j * 3) % 63 for i in range(40)] for j in range(32)])
lengths = torch.full((32,), 200), torch.full((32,), 40)
row("ctc", uniform(32, 200, 64, low=-2.0, high=0.0), lambda x: F.ctc_loss(x.transpose(0, 1), transcripts, *lengths))
