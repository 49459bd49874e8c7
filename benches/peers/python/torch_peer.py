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
    for columns in (1, 2, 4):
        BENCH.run("w1", paper_batched, columns)
        BENCH.run("w1", paper, columns)


if __name__ == "__main__":
    main()
