"""JAX: `python jax_peer.py THREADS jax [workload…] [--quick]`. JAX uses as many threads as cores are available (`taskset`)."""
import itertools
import os
from functools import partial

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from common import PRODUCTS, SAMPLES, WEIGHTS, Bench, Numbers, coarse_labels, fine_labels, labels, tree

BENCH = Bench()


def dense(weight):
    return jnp.asarray(weight), jnp.zeros(weight.shape[1], jnp.float32)


def of(layer, x):
    return x @ layer[0] + layer[1]


def relu(x):
    return jnp.maximum(x, 0)


def cross_entropy(logits, y):
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits, -1), y[:, None], 1))


def trainer(loss):
    """A compiled step from (weights, batch) to (new weights, loss)."""

    @partial(jax.jit, donate_argnums=0)
    def train(weights, *batch):
        value, gradients = jax.value_and_grad(loss)(weights, *batch)
        return jax.tree.map(lambda w, g: w - 0.01 * g, weights, gradients), value

    return train


def stepper(loss, weights, batches):
    train, state, turns = trainer(loss), [weights], itertools.cycle(batches)

    def step():
        state[0], value = train(state[0], *next(turns))
        return value.block_until_ready()

    return step


def integers(array):
    return jnp.asarray(array, jnp.int32)


def features(columns, x):
    return sum(relu(of(second, relu(of(first, x)))) for first, second in columns)


def fine_logits(layers, h):
    first, second, last = layers
    return of(last, relu(of(second, relu(of(first, h)))))


def net(columns):
    images, columns, coarse, fine = Numbers(1).paper(columns)
    shared = [(dense(first), dense(second)) for first, second in columns], dense(coarse)
    fine = [tuple(dense(weight) for weight in weights) for weights in fine]
    batches = [(jnp.asarray(x), integers(coarse_labels(b)), integers(fine_labels(b))) for b, x in enumerate(images)]
    return shared, fine, batches


def paper(columns):
    def coarse_loss(shared, x, coarse):
        h = features(shared[0], x)
        return h, cross_entropy(of(shared[1], h), coarse)

    def loss_of_all(weights, x, coarse, fine):
        h, loss = coarse_loss(weights[0], x, coarse)
        return loss + sum(cross_entropy(fine_logits(layers, h), fine) for layers in weights[1])

    def loss_of_one(weights, x, coarse, fine):
        h, loss = coarse_loss(weights[0], x, coarse)
        return loss + cross_entropy(fine_logits(weights[1], h), fine)

    def loss_batched(weights, x, coarse, fine):
        h, loss = coarse_loss(weights[0], x, coarse)
        return loss + jnp.sum(jax.vmap(lambda layers: cross_entropy(fine_logits(layers, h), fine))(weights[1]))

    shared, fine, batches = net(columns)
    BENCH.training("w1", f"cols={columns};noskip", stepper(loss_of_all, (shared, fine), batches))
    shared, fine, batches = net(columns)
    stacked = jax.tree.map(lambda *each: jnp.stack(each), *fine)
    BENCH.training("w1", f"cols={columns};noskip", stepper(loss_batched, (shared, stacked), batches), "-batched")

    shared, fine, batches = net(columns)
    train, turns = trainer(loss_of_one), itertools.cycle(range(20))

    # the host selects the weights for the compiled step
    def step():
        nonlocal shared
        number = next(turns)
        (shared, fine[number]), value = train((shared, fine[number]), *batches[number])
        return value.block_until_ready()

    BENCH.training("w1", f"cols={columns};skip", step)


def scalars():
    def loss(w, x, y):
        difference = w[0] * x[0] + w[1] * x[1] + w[2] * x[2] + w[3] - y
        return difference * difference

    samples = [([jnp.float32(number) for number in x], jnp.float32(y)) for x, y in SAMPLES]
    BENCH.training("w2a", "guessNextNumber", stepper(loss, [jnp.float32(weight) for weight in WEIGHTS], samples))

    # loops are compiled once: a run builds no graph
    def chain(x, w):
        return lax.scan(lambda y, _: (y * w, None), x, None, length=10_000)[0]

    def diamonds(x):
        return lax.scan(lambda y, _: (y * y + y, None), x, None, length=1_000)[0]

    chain = jax.jit(jax.value_and_grad(chain, argnums=(0, 1)))
    diamonds = jax.jit(jax.value_and_grad(diamonds))

    def run_chain():
        value, gradients = jax.block_until_ready(chain(jnp.float32(1.0), jnp.float32(1.00001)))
        return value, *gradients

    BENCH.operations("w2b", "chain10000", 10_000, run_chain, "-precompiled")
    BENCH.operations("w2c", "diamond1000", 2_000, lambda: jax.block_until_ready(diamonds(jnp.float32(-0.5))), "-precompiled")


def pointwise():
    numbers = Numbers(3)
    operands = [jnp.asarray(numbers((1 << 20,))) for _ in range(4)]
    total = lambda a, b, c, d: jnp.sum(jnp.tanh(a * b + c * d) * jnp.exp(-a))
    f = jax.jit(jax.value_and_grad(total, argnums=(0, 1, 2, 3)))
    value, (by_a, *_) = f(*operands)
    BENCH.check("w3", "elementwise1M", [value, by_a.sum()])
    BENCH.milliseconds("w3", "elementwise1M", lambda: jax.block_until_ready(f(*operands)))


def products():
    product = jax.jit(lambda a, b: a @ b)
    for m, k, n in PRODUCTS:
        numbers = Numbers(4)
        a, b = jnp.asarray(numbers((m, k))), jnp.asarray(numbers((k, n)))
        BENCH.check("w4", f"{m}x{k}x{n}", [product(a, b).sum()])
        BENCH.products(m, k, n, lambda: product(a, b).block_until_ready())


def mlp():
    numbers = Numbers(5)
    batches = [(jnp.asarray(numbers((128, 784))), integers(labels(128))) for _ in range(4)]
    weights = [dense(numbers.weight(*shape)) for shape in ((784, 512), (512, 512), (512, 10))]
    loss = lambda layers, x, y: cross_entropy(fine_logits(layers, x), y)
    BENCH.training("w5", "mlp", stepper(loss, weights, batches))


def conv():
    """Channels last, as JAX prefers them; the rows of the dense layer are permuted to match."""
    numbers = Numbers(6)
    batches = [(jnp.asarray(numbers((32, 3, 32, 32)).transpose(0, 2, 3, 1)), integers(labels(32))) for _ in range(4)]
    first = numbers((32, 3, 3, 3), 1 / np.sqrt(np.float32(27))).transpose(2, 3, 1, 0)
    second = numbers((64, 32, 3, 3), 1 / np.sqrt(np.float32(288))).transpose(2, 3, 1, 0)
    output = numbers.weight(4096, 10).reshape(64, 8, 8, 10).transpose(1, 2, 0, 3).reshape(4096, 10)
    weights = [(jnp.asarray(first), jnp.zeros(32)), (jnp.asarray(second), jnp.zeros(64)), dense(output)]

    def layer(weights, x):
        y = lax.conv_general_dilated(x, weights[0], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        return lax.reduce_window(relu(y + weights[1]), -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")

    def loss(weights, x, y):
        return cross_entropy(of(weights[2], layer(weights[1], layer(weights[0], x)).reshape(32, -1)), y)

    BENCH.training("w6", "conv", stepper(loss, weights, batches))


def tree_lstm():
    """The tree is data: all leaves at once, then a loop over the 15 inner nodes. Compiled once for all trees."""
    numbers, hidden = Numbers(7), 64
    words = jnp.asarray(numbers((16, hidden)))
    leaf = dense(numbers.weight(hidden, 3 * hidden))
    inner = jnp.asarray(numbers.weight(hidden, 3 * hidden))
    forget, output = dense(numbers.weight(hidden, hidden)), dense(numbers.weight(hidden, 5))

    def children(nodes):
        """Indices of the children of all inner nodes; leaves come first, by their index."""
        places, left, right = [], [], []
        for l, r in nodes:
            places.append(r if l is None else 16 + len(left))
            if l is not None:
                left.append(places[l])
                right.append(places[r])
        return integers(left), integers(right)

    def cell(gates, remembered=0.0):
        into, out, new = jnp.split(gates, 3, -1)
        c = jax.nn.sigmoid(into) * jnp.tanh(new) + remembered
        return jax.nn.sigmoid(out) * jnp.tanh(c), c

    def loss(weights, left, right, label):
        leaf, inner, forget, output = weights
        h, c = cell(of(leaf, words))
        states = jnp.zeros((31, hidden)).at[:16].set(h), jnp.zeros((31, hidden)).at[:16].set(c)

        def node(states, places):
            (hs, cs), (l, r, at) = states, places
            forgets = jax.nn.sigmoid(of(forget, hs[l])) * cs[l] + jax.nn.sigmoid(of(forget, hs[r])) * cs[r]
            h, c = cell((hs[l] + hs[r]) @ inner + leaf[1], forgets)
            return (hs.at[at].set(h), cs.at[at].set(c)), None

        (hs, _), _ = lax.scan(node, states, (left, right, jnp.arange(16, 31)))
        return -jax.nn.log_softmax(of(output, hs[30]))[label]

    trees = itertools.cycle([children(tree(seed)) for seed in range(1, 65)])
    targets = itertools.cycle([jnp.int32(label) for label in range(5)])
    batches = ((left, right, label) for (left, right), label in zip(trees, targets))
    train, weights = trainer(loss), (leaf, inner, forget, output)

    def step():
        nonlocal weights
        weights, value = train(weights, *next(batches))
        return value.block_until_ready()

    BENCH.training("w7", "treelstm", step, "-scan")


def prediction():
    shared, fine, batches = net(1)
    coarse = jax.jit(lambda shared, x: (lambda h: (h, of(shared[1], h).sum(0).argmax()))(features(shared[0], x)))
    one = jax.jit(fine_logits)

    def classify(x):
        h, number = coarse(shared, x)
        number = int(number)
        return number, one(fine[number], h).block_until_ready()

    images = [x for x, _, _ in batches]
    single = [x[at : at + 1] for x in images for at in range(16)]
    for variant, inputs in (("batch=1", single), ("batch=16", images)):
        outcomes = [classify(x) for x in inputs[:20]]
        BENCH.check("w8", variant, [sum(number for number, _ in outcomes), sum(np.asarray(y, np.float64).sum() for _, y in outcomes)])
        turns = itertools.cycle(inputs)
        BENCH.latency("w8", variant, lambda: classify(next(turns)))


def main():
    for columns in (1, 2, 4):
        BENCH.run("w1", paper, columns)
    BENCH.run("w2", scalars)
    BENCH.run("w3", pointwise)
    BENCH.run("w4", products)
    BENCH.run("w5", mlp)
    BENCH.run("w6", conv)
    BENCH.run("w7", tree_lstm)
    BENCH.run("w8", prediction)


if __name__ == "__main__":
    main()
