"""The rows of `benches/operations.rs` in PyTorch, in turns with that program:

    operations.py measure BENCH THREADS ROUNDS FILE [--quick] [word…]   appends to the file
    operations.py table FILE                                            as Markdown
    operations.py catalog FILE CATALOG                                  replaces the column "speed" of the catalog

A line of the file is a measurement: name, value or gradient, our nanoseconds by round, those of PyTorch. The rounds of lines with the
same name are taken together.
"""
import re
import statistics
import subprocess
import sys
import time


def measurements(path):
    """Our best time, that of PyTorch and their ratio, by name and kind: other programs only add time."""
    rounds = {}
    for line in open(path):
        name, kind, *times = line.strip().split(",")
        for all_times, times in zip(rounds.setdefault((name, kind), ([], [])), times):
            all_times += map(float, times.split())
    return {row: (min(ours), min(theirs), min(theirs) / min(ours)) for row, (ours, theirs) in rounds.items()}


def table(path):
    rows = measurements(path)
    print("| operation | value, µs | PyTorch / ours | gradient, µs | PyTorch / ours |\n|---|---|---|---|---|")
    for name in dict.fromkeys(name for name, _ in rows):
        cells = []
        for kind in ("value", "gradient"):
            ours, _, ratio = rows.get((name, kind), (None, None, None))
            cells += [f"{ours / 1e3:,.{0 if ours > 1e4 else 1}f}", f"{ratio:.2f}"] if ours else ["–", "–"]
        print(f"| `{name}` | {' | '.join(cells)} |")


def catalog(path, catalog):
    """Operations with several rows have the lowest and the highest ratio. Other cells stay."""
    ratios = {}
    for (name, kind), (*_, ratio) in measurements(path).items():
        ratios.setdefault(name.split()[0], {}).setdefault(kind, []).append(f"{ratio:.1f}" if ratio < 10 else f"{ratio:.0f}")

    def cell(line):
        kinds = ratios.get(line[1])
        if kinds is None:
            return line[0]
        both = [sorted(set(kinds[kind]), key=float) for kind in ("value", "gradient") if kind in kinds]
        return f"{line[0].rsplit('|', 2)[0]}| {', '.join('–'.join(dict.fromkeys((r[0], r[-1]))) for r in both)} |"

    text = re.sub(r"^\| `(\w+)` .*$", cell, open(catalog).read(), flags=re.M)
    open(catalog, "w").write(text)


if sys.argv[1] in ("table", "catalog"):
    {"table": table, "catalog": catalog}[sys.argv[1]](*sys.argv[2:])
    sys.exit()

import torch
import torch.nn.functional as F

bench, threads, rounds, file, *words = sys.argv[2:]
quick = "--quick" in words
ours = subprocess.Popen([bench, "--turns", *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
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


def measure(name, kind, call):
    times = [[], []]
    for _ in range(int(rounds)):
        # the threads of PyTorch spin for about 15 ms
        time.sleep(0.05)
        print(f"{name},{kind}", file=ours.stdin)
        line = ours.stdout.readline()
        if not line.startswith(f"{name},{kind},"):
            sys.exit(f"{bench} has no {kind} of `{name}` here: {line or ours.wait()}")
        times[0].append(line.strip().rsplit(",", 1)[1])
        time.sleep(0.005)
        times[1].append(f"{nanoseconds(call):.0f}")
    with open(file, "a") as to:
        print(name, kind, *map(" ".join, times), sep=",", file=to)
    print(f"{name}, {kind}: {statistics.median(float(b) / float(a) for a, b in zip(*times)):.2f}", flush=True)


def row(name, x, op, gradient=True):
    if words and not any(word in name for word in words):
        return
    with torch.no_grad():
        measure(name, "value", lambda: op(x))
    if not gradient:
        return
    x = x.clone().requires_grad_()

    def step():
        x.grad = None
        y = op(x)
        (y if y.dim() == 0 else y.sum()).backward()

    measure(name, "gradient", step)


def uniform(*shape, low=-1.0, high=1.0):
    return torch.empty(shape).uniform_(low, high)


def indices(*shape, count):
    return ((torch.arange(torch.Size(shape).numel()) * 2_654_435_761 >> 12) % count).reshape(shape)


N = 2048
x, p, q, above_one = uniform(N, N), uniform(N, N, low=0.5, high=2.0), uniform(N, N, low=0.5, high=2.0), uniform(N, N, low=1.0, high=2.0)
domains = dict.fromkeys(("ln", "log1p", "sqrt", "rsqrt", "recip", "entr"), p) | dict(acosh=above_one)
for name, op in dict(neg=torch.neg, abs=torch.abs, sign=torch.sign, floor=torch.floor, ceil=torch.ceil, round=torch.round,
                     exp=torch.exp, expm1=torch.expm1, ln=torch.log, log1p=torch.log1p, sqrt=torch.sqrt, rsqrt=torch.rsqrt,
                     square=torch.square, recip=torch.reciprocal, sin=torch.sin, cos=torch.cos, tan=torch.tan, asin=torch.asin,
                     acos=torch.acos, atan=torch.atan, sinh=torch.sinh, cosh=torch.cosh, tanh=torch.tanh, asinh=torch.asinh,
                     acosh=torch.acosh, atanh=torch.atanh, erf=torch.erf, ndtr=torch.special.ndtr, sigmoid=torch.sigmoid,
                     relu=torch.relu, gelu=F.gelu, gelu_tanh=lambda x: F.gelu(x, approximate="tanh"), silu=F.silu,
                     softplus=F.softplus, log_sigmoid=F.logsigmoid, entr=torch.special.entr).items():
    row(name, domains.get(name, x), op, name not in ("sign", "floor", "ceil", "round"))
for name, op in dict(add=torch.add, sub=torch.sub, mul=torch.mul, div=torch.div, rem=torch.remainder, min=torch.minimum,
                     max=torch.maximum, pow=torch.pow, leaky_relu=F.leaky_relu, elu=F.elu, xlogy=torch.xlogy,
                     logaddexp=torch.logaddexp).items():
    row(name, *(x, lambda x: op(x, 0.1)) if name in ("leaky_relu", "elu") else (p, lambda x: op(x, q)))
for b in ("2", "3", "-1", "0.5", "2.5"):
    row(f"pow {b}", p, lambda x: torch.pow(x, float(b)))
row("clamp", x, lambda x: torch.clamp(x, -0.5, 0.5))
mask, other = x > 0, p < q
row("where_", x, lambda x: torch.where(mask, x, q))
row("where_ number", x, lambda x: torch.where(mask, x, 0.0))
for name in ("less", "less_equal", "greater", "greater_equal", "equal", "not_equal"):
    row(name, p, lambda x: getattr(torch, {"equal": "eq"}.get(name, name))(x, q), False)
row("less number", p, lambda x: torch.less(x, 1.0), False)
row("logical_not", x, lambda _: mask.logical_not(), False)
row("logical_and", x, lambda _: mask.logical_and(other), False)
row("logical_or", x, lambda _: mask.logical_or(other), False)
row("cast", x, lambda x: x.to(torch.float64))
row("to_floats", x, lambda _: mask.to(torch.float32), False)

r, s = uniform(N, N, low=0.5, high=1.5), uniform(N, N, low=0.5, high=1.5)
for name, op in dict(sum=torch.sum, mean=torch.mean, amax=torch.amax, amin=torch.amin, norm=torch.linalg.vector_norm,
                     logsumexp=torch.logsumexp).items():
    row(name, r, (lambda x: op(x, (0, 1))) if name in ("amax", "amin", "logsumexp") else op)
    for axis in (0, 1):
        row(f"{name} {axis}", r, lambda x: op(x, dim=axis))
near_one = uniform(N, N, low=0.999, high=1.001)
row("prod", near_one, torch.prod)
row("prod 0", near_one, lambda x: torch.prod(x, 0))
row("prod 1", near_one, lambda x: torch.prod(x, 1))
row("norm_p", r, lambda x: torch.linalg.vector_norm(x, 3.0))
row("var 1", r, lambda x: torch.var(x, 1))
row("std 1", r, lambda x: torch.std(x, 1))
row("argmax 0", r, lambda x: torch.argmax(x, 0), False)
row("argmax 1", r, lambda x: torch.argmax(x, 1), False)
row("argmin 1", r, lambda x: torch.argmin(x, 1), False)
for name, op in dict(cumsum=torch.cumsum, cumprod=torch.cumprod, logcumsumexp=torch.logcumsumexp,
                     cummax=lambda x, axis: torch.cummax(x, axis)[0], cummin=lambda x, axis: torch.cummin(x, axis)[0],
                     sort=lambda x, axis: torch.sort(x, axis)[0], argsort=torch.argsort, topk=lambda x, axis: torch.topk(x, 10, axis)[0],
                     max_with_indices=lambda x, axis: torch.max(x, axis)[0], min_with_indices=lambda x, axis: torch.min(x, axis)[0],
                     cosine_similarity=lambda x, axis: F.cosine_similarity(x, s, axis)).items():
    for axis in (0, 1):
        row(f"{name} {axis}", r, lambda x: op(x, axis), name != "argsort")
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
row("item", uniform(1, 1), lambda x: x.reshape(()))
row("split", x, lambda x: torch.split(x, N // 2)[1])
row("chunk", x, lambda x: torch.chunk(x, 2, 1)[1])
row("flip", x, lambda x: x.flip(1))
row("pad", x, lambda x: F.pad(x, (1, 1, 1, 1)))
row("pad_with", x, lambda x: F.pad(x[None], (1, 1, 1, 1), mode="reflect")[0])
row("concat", x, lambda x: torch.concat([x, x], 1))
row("stack", x, lambda x: torch.stack([x, x]))
row("roll", x, lambda x: x.roll(5, 1))
row("tril", x, lambda x: x.tril())
row("triu", x, lambda x: x.triu())
row("diagonal", x, torch.diagonal)
row("diag", uniform(N), torch.diag)
ids, places = indices(N, count=N), indices(N, N, count=N)
for name, op in dict(index_select=lambda x, axis: x.index_select(axis, ids), gather=lambda x, axis: x.gather(axis, places),
                     scatter_add=lambda x, axis: x.scatter_add(axis, places, q)).items():
    for axis in (0, 1):
        row(f"{name} {axis}", x, lambda x: op(x, axis))
row("masked_select", x, lambda x: x.masked_select(mask))
many = indices(65_536, count=10_000)
row("embedding", uniform(10_000, 64), lambda x: F.embedding(many, x))
row("embedding_padded", uniform(10_000, 64), lambda x: F.embedding(many, x, padding_idx=0))
each = [torch.tensor([i * 7 % 1_000]) for i in range(200)]
row("embedding 200 times", uniform(1_000, 64), lambda x: sum(F.embedding(i, x).sum() for i in each))

x1, x2, x3 = uniform(16, 32, 1024), uniform(16, 32, 32, 32), uniform(4, 16, 16, 16, 16)
w1, w2, w3 = uniform(32, 32, 3), uniform(32, 32, 3, 3), uniform(16, 16, 3, 3, 3)
modes = {1: ["linear"], 2: ["bilinear", "bicubic"], 3: ["trilinear"]}
for n, x_n, w, size in ((1, x1, w1, 2048), (2, x2, w2, 64), (3, x3, w3, 32)):
    row(f"conv{n}d", x_n, lambda x: getattr(F, f"conv{n}d")(x, w, padding=1))
    row(f"conv_transpose{n}d", x_n, lambda x: getattr(F, f"conv_transpose{n}d")(x, w, padding=1))
    row(f"max_pool{n}d", x_n, lambda x: getattr(F, f"max_pool{n}d")(x, 2))
    row(f"avg_pool{n}d", x_n, lambda x: getattr(F, f"avg_pool{n}d")(x, 2))
    row(f"adaptive_max_pool{n}d", x_n, lambda x: getattr(F, f"adaptive_max_pool{n}d")(x, 7))
    row(f"adaptive_avg_pool{n}d", x_n, lambda x: getattr(F, f"adaptive_avg_pool{n}d")(x, 7))
    row(f"upsample_nearest{n}d", x_n, lambda x: F.interpolate(x, size=[size] * n, mode="nearest"))
    for mode in modes[n]:
        row(f"upsample_{mode}", x_n, lambda x: F.interpolate(x, size=[size] * n, mode=mode))
row("batch_norm", x2, lambda x: F.batch_norm(x, None, None, training=True))
row("group_norm", x2, lambda x: F.group_norm(x, 4))
scale, shift = uniform(32, low=0.5, high=1.5), uniform(32)
row("affine", x2, lambda x: x * scale[:, None, None] + shift[:, None, None])
row("layer_norm", x, lambda x: F.layer_norm(x, (N,)))
row("rms_norm", x, lambda x: F.rms_norm(x, (N,), eps=1e-5))
row("dropout", x, lambda x: F.dropout(x, 0.5))
for name, op in dict(softmax=torch.softmax, log_softmax=torch.log_softmax).items():
    for axis in (0, 1):
        row(f"{name} {axis}", x, lambda x: op(x, axis))
k = uniform(8, 8, 256, 64)
row("scaled_dot_product_attention", uniform(8, 8, 256, 64), lambda q: F.scaled_dot_product_attention(q, k, k))
y = uniform(N, N, low=0.0)
row("cross_entropy", x, lambda x: F.cross_entropy(x, ids))
row("nll", x, lambda x: F.nll_loss(x, ids))
for name, loss in dict(mse=F.mse_loss, l1=F.l1_loss, bce_with_logits=F.binary_cross_entropy_with_logits,
                       kl_div=lambda x, y: F.kl_div(x, y, reduction="mean"), huber=F.huber_loss).items():
    row(name, x, lambda x: loss(x, y))
transcripts = torch.tensor([[1 + (i * 7 + j * 3) % 63 for i in range(40)] for j in range(32)])
lengths = torch.full((32,), 200), torch.full((32,), 40)
row("ctc", uniform(32, 200, 64, low=-2.0, high=0.0), lambda x: F.ctc_loss(x.transpose(0, 1), transcripts, *lengths))
row("one_hot", x, lambda _: F.one_hot(ids, N), False)
w = uniform(64, 64, low=-0.1, high=0.1)
row("jacobian", uniform(64), torch.func.jacrev(lambda x: (x @ w).tanh()))
row("hessian", uniform(64), torch.func.hessian(lambda x: (x @ w).tanh().square().sum()))

ours.stdin.close()
if ours.wait() != 0:
    sys.exit(f"{bench} failed")
