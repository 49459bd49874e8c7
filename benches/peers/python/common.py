"""Common code of the Python programs: input numbers, timing, output.

`../common` is the equivalent in Rust.
"""
import itertools
import statistics
import sys
import time
import traceback

import numpy as np

# samples of guessNextNumber, and its initial weights
SAMPLES = [((0.0, 0.1, 0.2), 0.3), ((0.3, 0.6, 0.9), 1.2), ((1.3, 1.5, 1.7), 1.9), ((0.2, 0.5, 0.8), 1.1)]
WEIGHTS = (0.1, 0.2, 0.3, 0.0)
# m, k, n
PRODUCTS = [(64, 64, 64), (256, 256, 256), (1024, 1024, 1024), (16, 3072, 64)]


class Numbers:
    """Counter-based uniform random numbers (splitmix64): the n-th array of a seed is equal in all programs."""

    def __init__(self, seed):
        self.at = np.uint64(seed) << np.uint64(32)

    def __call__(self, shape, bound=1.0):
        with np.errstate(over="ignore"):
            self.at += np.uint64(1) << np.uint64(24)
            z = (self.at + np.arange(np.prod(shape), dtype=np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
            z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            z ^= z >> np.uint64(31)
        unit = (z >> np.uint64(40)).astype(np.float32) / np.float32(8388608.0) - np.float32(1.0)
        return (unit * np.float32(bound)).reshape(shape)

    def weight(self, inputs, outputs):
        return self((inputs, outputs), 1.0 / np.sqrt(np.float32(inputs)))

    def paper(self, columns):
        """Mini-batches, and the weights of columns, coarse classifier and fine classifiers."""
        images = [self((16, 3072)) for _ in range(20)]
        columns = [[self.weight(3072, 64), self.weight(64, 64)] for _ in range(columns)]
        coarse = self.weight(64, 20)
        fine = [[self.weight(64, 64), self.weight(64, 64), self.weight(64, 5)] for _ in range(20)]
        return images, columns, coarse, fine


def coarse_labels(batch):
    return np.full(16, batch)


def fine_labels(batch):
    return (batch * 7 + np.arange(16) * 3) % 5


def labels(samples):
    return np.arange(samples) * 7 % 10


def tree(seed, leaves=16):
    """A random binary tree, children before parents: indices (left, right) of an inner node, or (None, index of the leaf)."""
    random, leaf, nodes = seed * 2654435761 % 2**32, itertools.count(), []

    def grow(leaves):
        nonlocal random
        if leaves == 1:
            nodes.append((None, next(leaf)))
        else:
            random = (random * 1664525 + 1013904223) % 2**32
            left = 1 + (random >> 8) % (leaves - 1)
            left_at = grow(left)
            nodes.append((left_at, grow(leaves - left)))
        return len(nodes) - 1

    grow(leaves)
    return nodes


class Bench:
    """Measures the workloads of one library on a given number of threads: `program THREADS LIBRARY [workload…] [--quick]`."""

    def __init__(self):
        threads, self.library, *rest = sys.argv[1:]
        self.threads = int(threads)
        self.repeats, self.seconds = (1, 0.01) if "--quick" in rest else (5, 0.3)
        self.chosen = [word for word in rest if word != "--quick"]

    def run(self, workload, measure, *arguments):
        """Runs a workload if it is selected. A failure is reported and does not stop the others."""
        if not self.chosen or workload in self.chosen:
            try:
                measure(*arguments)
            except Exception:
                traceback.print_exc()
                print(f"FAIL {workload},{self.threads},{self.library}", file=sys.stderr, flush=True)

    def seconds_per_call(self, f):
        """The median time of a call over the repeats, after a warm-up of at least three calls."""
        start, warm = time.perf_counter(), 0
        while warm < 3 or time.perf_counter() - start < self.seconds:
            f()
            warm += 1

        def timed(calls):
            start = time.perf_counter()
            for _ in range(calls):
                f()
            return (time.perf_counter() - start) / calls

        calls = max(1, int(self.seconds / max(timed(2), 1e-9)))
        return statistics.median(timed(calls) for _ in range(self.repeats))

    def training(self, workload, variant, step, suffix=""):
        """Training steps per second. `step` returns the loss; the first and the tenth are printed for comparison."""
        losses = [float(step()) for _ in range(10)]
        self.check(workload, variant, [losses[0], losses[9]], suffix)
        self.row(workload, variant, 1 / self.seconds_per_call(step), "it/s", suffix)

    def operations(self, workload, variant, operations, f, suffix=""):
        self.check(workload, variant, f(), suffix)
        self.row(workload, variant, self.seconds_per_call(f) * 1e9 / operations, "ns/op", suffix)

    def milliseconds(self, workload, variant, f):
        self.row(workload, variant, self.seconds_per_call(f) * 1e3, "ms")

    def products(self, m, k, n, f):
        self.row("w4", f"{m}x{k}x{n}", 2e-9 * m * k * n / self.seconds_per_call(f), "GFLOP/s")

    def latency(self, workload, variant, f):
        """Microseconds of single calls: the median and the 99th percentile."""
        start = time.perf_counter()
        while time.perf_counter() - start < self.seconds:
            f()
        times, start = [], time.perf_counter()
        while len(times) < 200 or time.perf_counter() - start < self.seconds * self.repeats:
            before = time.perf_counter()
            f()
            times.append(time.perf_counter() - before)
        times.sort()
        self.row(workload, variant + ";median", times[len(times) // 2] * 1e6, "us")
        self.row(workload, variant + ";p99", times[len(times) * 99 // 100] * 1e6, "us")

    def row(self, workload, variant, value, unit, suffix=""):
        print(f"{workload},{variant},{self.threads},{self.library}{suffix},{value:.6f},{unit}", flush=True)

    def check(self, workload, variant, results, suffix=""):
        """Prints results by which the libraries are checked against each other."""
        results = " ".join(f"{float(result):.6f}" for result in results)
        print(f"CHECK {workload},{variant},{self.threads},{self.library}{suffix},{results}", file=sys.stderr, flush=True)
