"""PyTorch: `python torch_peer.py THREADS torch-eager|torch-compile [workload…] [--quick]`."""
import itertools

import numpy as np
import torch
from torch.nn import Parameter
from torch.nn import functional as F

from common import PRODUCTS, SAMPLES, WEIGHTS, Bench, Numbers, coarse_labels, fine_labels, labels, tree

BENCH = Bench()
COMPILED = BENCH.library.startswith("torch-compile")


def compiled(f):
    return torch.compile(f) if COMPILED else f


def tensor(array):
    return torch.from_numpy(np.ascontiguousarray(array))


class Dense:
    """Weights are stored as [outputs, inputs], like those of `nn.Linear`."""

    def __init__(self, weight):
        self.weight, self.bias = Parameter(tensor(weight.T)), Parameter(torch.zeros(weight.shape[1]))
        self.parameters = [self.weight, self.bias]

    def __call__(self, x):
        return F.linear(x, self.weight, self.bias)


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.01, fused=True)


def trainer(parameters, loss, batches):
    optimizer, turns = sgd(parameters), itertools.cycle(batches)

    def step():
        optimizer.zero_grad(set_to_none=True)
        error = loss(*next(turns))
        error.backward()
        optimizer.step()
        return error.detach()

    return step


class Net:
    def __init__(self, columns):
        images, columns, coarse, fine = Numbers(1).paper(columns)
        self.images = [tensor(batch) for batch in images]
        self.columns = [(Dense(first), Dense(second)) for first, second in columns]
        self.coarse, self.fine_weights = Dense(coarse), fine
        self.fine = [tuple(Dense(weight) for weight in weights) for weights in fine]
        self.batches = [(x, tensor(coarse_labels(b)), tensor(fine_labels(b)), b) for b, x in enumerate(self.images)]
        self.shared_parameters = [p for column in self.columns for dense in column for p in dense.parameters] + self.coarse.parameters
        self.parameters = self.shared_parameters + [p for fine in self.fine for dense in fine for p in dense.parameters]

    def features(self, x):
        total = None
        for first, second in self.columns:
            seen = F.relu(second(F.relu(first(x))))
            total = seen if total is None else total + seen
        return total

    def fine_logits(self, number, features):
        first, second, last = self.fine[number]
        return last(F.relu(second(F.relu(first(features)))))


def paper(columns):
    net = Net(columns)

    def loss_of_all(x, coarse, fine):
        features = net.features(x)
        loss = F.cross_entropy(net.coarse(features), coarse)
        for number in range(20):
            loss = loss + F.cross_entropy(net.fine_logits(number, features), fine)
        return loss

    loss = compiled(loss_of_all)
    BENCH.training("w1", f"cols={columns};noskip", trainer(net.parameters, lambda x, coarse, fine, _: loss(x, coarse, fine), net.batches))

    net = Net(columns)
    # the branch stays in Python; weights are arguments, so that all fine classifiers share one compiled function
    shared = compiled(lambda x, coarse: (lambda h: (h, F.cross_entropy(net.coarse(h), coarse)))(net.features(x)))
    one = compiled(
        lambda h, fine, w0, b0, w1, b1, w2, b2: F.cross_entropy(
            F.linear(F.relu(F.linear(F.relu(F.linear(h, w0, b0)), w1, b1)), w2, b2), fine
        )
    )

    def loss_of_one(x, coarse, fine, number):
        features, loss = shared(x, coarse)
        return loss + one(features, fine, *[p for dense in net.fine[number] for p in dense.parameters])

    step = trainer(net.parameters, loss_of_one, net.batches)
    BENCH.training("w1", f"cols={columns};skip", step)


def paper_batched(columns):
    """All fine classifiers batched by hand, for information."""
    net = Net(columns)
    weights = [Parameter(tensor(np.stack([fine[at] for fine in net.fine_weights]))) for at in range(3)]
    biases = [Parameter(torch.zeros(20, 1, weight.shape[2])) for weight in weights]

    def loss(x, coarse, fine, _):
        features = net.features(x)
        y = features.unsqueeze(0).expand(20, 16, 64)
        y = F.relu(torch.baddbmm(biases[0], y, weights[0]))
        y = F.relu(torch.baddbmm(biases[1], y, weights[1]))
        y = torch.baddbmm(biases[2], y, weights[2])
        fine = F.cross_entropy(y.reshape(320, 5), fine.repeat(20), reduction="sum") / 16
        return F.cross_entropy(net.coarse(features), coarse) + fine

    loss = compiled(loss)
    batches = [(x, coarse, fine, None) for x, coarse, fine, _ in net.batches]
    step = trainer(net.shared_parameters + weights + biases, loss, batches)
    BENCH.training("w1", f"cols={columns};noskip", step, "-batched")


def scalars():
    weights = [torch.tensor(weight, requires_grad=True) for weight in WEIGHTS]

    def loss(w0, w1, w2, bias, x0, x1, x2, answer):
        difference = w0 * x0 + w1 * x1 + w2 * x2 + bias - answer
        return difference * difference

    samples = [(*x, y) for x, y in SAMPLES]
    if COMPILED:
        samples = [tuple(torch.tensor(number) for number in sample) for sample in samples]
    loss = compiled(loss)
    BENCH.training("w2a", "guessNextNumber", trainer(weights, lambda *sample: loss(*weights, *sample), samples))
    if COMPILED:
        return

    def chain():
        x, w = torch.tensor(1.0, requires_grad=True), torch.tensor(1.00001, requires_grad=True)
        y = x
        for _ in range(10_000):
            y = y * w
        y.backward()
        return y.detach(), x.grad, w.grad

    def diamonds():
        x = torch.tensor(-0.5, requires_grad=True)
        y = x
        for _ in range(1_000):
            y = y * y + y
        y.backward()
        return y.detach(), x.grad

    BENCH.operations("w2b", "chain10000", 10_000, chain)
    BENCH.operations("w2c", "diamond1000", 2_000, diamonds)


def pointwise():
    numbers = Numbers(3)
    operands = [tensor(numbers((1 << 20,))).requires_grad_() for _ in range(4)]
    total = compiled(lambda a, b, c, d: torch.sum(torch.tanh(a * b + c * d) * torch.exp(-a)))

    def evaluate():
        for operand in operands:
            operand.grad = None
        value = total(*operands)
        value.backward()
        return value.detach()

    BENCH.check("w3", "elementwise1M", [evaluate(), operands[0].grad.sum()])
    BENCH.milliseconds("w3", "elementwise1M", evaluate)


def products():
    if COMPILED:
        return
    for m, k, n in PRODUCTS:
        numbers = Numbers(4)
        a, b, result = tensor(numbers((m, k))), tensor(numbers((k, n))), torch.empty(m, n)
        BENCH.products(m, k, n, lambda: torch.mm(a, b, out=result))
        BENCH.check("w4", f"{m}x{k}x{n}", [result.sum()])


def mlp():
    numbers = Numbers(5)
    batches = [(tensor(numbers((128, 784))), tensor(labels(128))) for _ in range(4)]
    first, second, last = [Dense(numbers.weight(*shape)) for shape in ((784, 512), (512, 512), (512, 10))]
    loss = compiled(lambda x, y: F.cross_entropy(last(F.relu(second(F.relu(first(x))))), y))
    parameters = first.parameters + second.parameters + last.parameters
    BENCH.training("w5", "mlp", trainer(parameters, loss, batches))


def conv():
    numbers = Numbers(6)
    batches = [(tensor(numbers((32, 3, 32, 32))), tensor(labels(32))) for _ in range(4)]
    first = Parameter(tensor(numbers((32, 3, 3, 3), 1 / np.sqrt(np.float32(27)))))
    second = Parameter(tensor(numbers((64, 32, 3, 3), 1 / np.sqrt(np.float32(288)))))
    first_bias, second_bias = Parameter(torch.zeros(32)), Parameter(torch.zeros(64))
    output = Dense(numbers.weight(4096, 10))

    def loss(x, y):
        x = F.max_pool2d(F.relu(F.conv2d(x, first, first_bias, padding=1)), 2)
        x = F.max_pool2d(F.relu(F.conv2d(x, second, second_bias, padding=1)), 2)
        return F.cross_entropy(output(x.flatten(1)), y)

    parameters = [first, first_bias, second, second_bias] + output.parameters
    BENCH.training("w6", "conv", trainer(parameters, compiled(loss), batches))


def tree_lstm():
    # `torch.compile` would recompile for each tree
    if COMPILED:
        return
    numbers, hidden = Numbers(7), 64
    words = tensor(numbers((16, hidden))).split(1)
    leaf = Dense(numbers.weight(hidden, 3 * hidden))
    inner = Parameter(tensor(numbers.weight(hidden, 3 * hidden).T))
    forget, output = Dense(numbers.weight(hidden, hidden)), Dense(numbers.weight(hidden, 5))

    def loss(nodes, label):
        states = []
        for left, right in nodes:
            if left is None:
                into, out, new = leaf(words[right]).chunk(3, 1)
                cell = torch.sigmoid(into) * torch.tanh(new)
            else:
                (hl, cl), (hr, cr) = states[left], states[right]
                into, out, new = F.linear(hl + hr, inner, leaf.bias).chunk(3, 1)
                remembered = torch.sigmoid(forget(hl)) * cl + torch.sigmoid(forget(hr)) * cr
                cell = torch.sigmoid(into) * torch.tanh(new) + remembered
            states.append((torch.sigmoid(out) * torch.tanh(cell), cell))
        return F.cross_entropy(output(states[-1][0]), label)

    parameters = leaf.parameters + [inner] + forget.parameters + output.parameters
    trees = itertools.cycle([tree(seed) for seed in range(1, 65)])
    targets = itertools.cycle([torch.tensor([label]) for label in range(5)])
    BENCH.training("w7", "treelstm", trainer(parameters, loss, zip(trees, targets)))


@torch.inference_mode()
def prediction():
    net = Net(1)
    shared = compiled(lambda x: (lambda h: (h, net.coarse(h).sum(0).argmax()))(net.features(x)))
    one = compiled(lambda h, w0, b0, w1, b1, w2, b2: F.linear(F.relu(F.linear(F.relu(F.linear(h, w0, b0)), w1, b1)), w2, b2))

    def classify(x):
        features, number = shared(x)
        number = number.item()
        return number, one(features, *[p for dense in net.fine[number] for p in dense.parameters])

    single = [image for batch in net.images for image in batch.split(1)]
    for variant, inputs in (("batch=1", single), ("batch=16", net.images)):
        outcomes = [classify(x) for x in inputs[:20]]
        BENCH.check("w8", variant, [sum(number for number, _ in outcomes), sum(y.double().sum() for _, y in outcomes)])
        turns = itertools.cycle(inputs)
        BENCH.latency("w8", variant, lambda: classify(next(turns)))


class Block:
    """A transformer block, its norm before (GPT-2) or after (BERT) each of its two branches."""

    def __init__(self, numbers, width, norm_first):
        self.project = Dense(numbers((3 * width, width), 1 / np.sqrt(np.float32(width))).T)
        self.joined = Dense(numbers.weight(width, width))
        self.first, self.second = Dense(numbers.weight(width, 4 * width)), Dense(numbers.weight(4 * width, width))
        self.norms = [[Parameter(torch.ones(width)), Parameter(torch.zeros(width))] for _ in range(2)]
        self.width, self.norm_first = width, norm_first
        layers = [self.project, self.joined, self.first, self.second]
        self.parameters = [p for layer in layers for p in layer.parameters] + self.norms[0] + self.norms[1]

    def norm(self, number, x):
        return F.layer_norm(x, (self.width,), *self.norms[number])

    def attend(self, x, causal):
        batch, length, width = x.shape
        q, k, v = self.project(x).view(batch, length, 3, width // 32, 32).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
        return self.joined(y.transpose(1, 2).reshape(batch, length, width))

    def feed(self, x):
        return self.second(F.gelu(self.first(x)))

    def __call__(self, x, causal=False):
        if self.norm_first:
            x = x + self.attend(self.norm(0, x), causal)
            return x + self.feed(self.norm(1, x))
        x = self.norm(0, x + self.attend(x, causal))
        return self.norm(1, x + self.feed(x))


class Transformer:
    def __init__(self, numbers, words, layers, width, norm_first):
        self.words, self.positions = (Parameter(tensor(numbers((rows, width)))) for rows in (words, 256))
        self.blocks = [Block(numbers, width, norm_first) for _ in range(layers)]
        self.norms, self.width = [Parameter(torch.ones(width)), Parameter(torch.zeros(width))], width
        self.parameters = [self.words, self.positions] + [p for b in self.blocks for p in b.parameters] + self.norms

    def embed(self, ids):
        return F.embedding(ids, self.words) + self.positions[: ids.shape[1]]

    def norm(self, x):
        return F.layer_norm(x, (self.width,), *self.norms)


def text(batch, length, start, words):
    at = np.arange(start, start + batch * length, dtype=np.int64)
    return tensor((17 * at * at % words).reshape(batch, length))


@torch.inference_mode()
def encoder():
    net = Transformer(Numbers(9), 1009, 6, 384, norm_first=False)

    def encode(ids):
        x = net.norm(net.embed(ids))
        for block in net.blocks:
            x = block(x)
        return F.normalize(x.mean(1))

    encode = compiled(encode)
    for batch, length in ((1, 16), (1, 64), (1, 256), (32, 16), (32, 64), (32, 256)):
        ids, variant = text(batch, length, 0, 1009), f"encode {batch}x{length}"
        BENCH.check("w9", variant, encode(ids).flatten()[:4])
        BENCH.milliseconds("w9", variant, lambda: encode(ids))


def gpt():
    for width, length in ((128, 128), (128, 256), (256, 128), (256, 256)):
        numbers = Numbers(10)
        net = Transformer(numbers, 251, 4, width, norm_first=True)
        output = Parameter(tensor(numbers.weight(width, 251).T))
        batches = [(text(8, length, n * 8 * length, 251), text(8, length, n * 8 * length + 1, 251)) for n in range(4)]

        def loss(ids, following):
            x = net.embed(ids)
            for block in net.blocks:
                x = block(x, causal=True)
            return F.cross_entropy(F.linear(net.norm(x), output).view(-1, 251), following.view(-1))

        step = trainer(net.parameters + [output], compiled(loss), batches)
        BENCH.training("w10", f"gpt {width}x{length}", step)


@torch.inference_mode()
def generation():
    """Keys and values of the past are written into tensors of the final length."""
    # `torch.compile` would recompile for each length
    if COMPILED:
        return
    width, hidden, words, layers, heads, prompt, tokens = 256, 704, 256, 6, 8, 16, 256
    depth, numbers = width // heads, Numbers(11)
    table, ones = tensor(numbers((words, width))), torch.ones(width)
    shapes = {name: (width, width) for name in "qkvo"} | {"gate": (width, hidden), "up": (width, hidden), "down": (hidden, width)}
    blocks = [{name: tensor(numbers.weight(*shape).T) for name, shape in shapes.items()} for _ in range(layers)]
    output = tensor(numbers.weight(width, words).T)
    angles = torch.arange(prompt + tokens)[:, None] * 10_000.0 ** (-torch.arange(depth // 2) / (depth // 2))
    cos, sin = angles.cos(), angles.sin()

    def rotated(x, start, end):
        left, right = x.chunk(2, -1)
        c, s = cos[start:end], sin[start:end]
        return torch.cat([left * c - right * s, right * c + left * s], -1)

    def step(ids, start, keys, values):
        x, end = table[ids], start + len(ids)
        for number, block in enumerate(blocks):
            h = F.rms_norm(x, (width,), ones, 1e-6)
            q, k, v = (F.linear(h, block[name]).view(-1, heads, depth).transpose(0, 1) for name in "qkv")
            keys[number][:, start:end], values[number][:, start:end] = rotated(k, start, end), v
            past = (keys[number][None, :, :end], values[number][None, :, :end])
            y = F.scaled_dot_product_attention(rotated(q, start, end)[None], *past, is_causal=start == 0)[0]
            x = x + F.linear(y.transpose(0, 1).reshape(-1, width), block["o"])
            h = F.rms_norm(x, (width,), ones, 1e-6)
            x = x + F.linear(F.silu(F.linear(h, block["gate"])) * F.linear(h, block["up"]), block["down"])
        return F.linear(F.rms_norm(x[-1], (width,), ones, 1e-6), output)

    def generate():
        keys, values = ([torch.zeros(heads, prompt + tokens, depth) for _ in blocks] for _ in range(2))
        ids, start, found = torch.arange(prompt) * 7 % words, 0, []
        for _ in range(tokens):
            scores = step(ids, start, keys, values)
            start += len(ids)
            ids = scores.argmax()[None]
            found.append(ids)
        return torch.cat(found), scores

    found, scores = generate()
    BENCH.check("w11", "token", [found[:16].sum(), scores.double().sum()])
    BENCH.row("w11", "token", BENCH.seconds_per_call(generate) / tokens * 1e6, "us")


def main():
    torch.set_num_threads(BENCH.threads)
    torch.set_num_interop_threads(1)
    BENCH.run("w2", scalars)
    BENCH.run("w3", pointwise)
    BENCH.run("w4", products)
    BENCH.run("w5", mlp)
    BENCH.run("w6", conv)
    BENCH.run("w7", tree_lstm)
    BENCH.run("w8", prediction)
    BENCH.run("w9", encoder)
    BENCH.run("w10", gpt)
    BENCH.run("w11", generation)
    for columns in (1, 2, 4):
        BENCH.run("w1", paper_batched, columns)
        BENCH.run("w1", paper, columns)


if __name__ == "__main__":
    main()
