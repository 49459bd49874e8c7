"""Compares the measurements: `table.py FOLDER [--new] [--keep] [--markdown]`. Fails if two libraries compute different results.

With `--new`, the rows of the last run first replace all earlier ones, or, with `--keep`, those of the same
name. There is a row for each round of a run.

A figure is the median over the rounds, a ratio the median of the ratios within a round, because the
measurements of one round are taken within a minute, under similar conditions. If two libraries have
different numbers of rounds, it is the ratio of their figures.

The figure of a library is that of its better build. The best peer is the one with the worst ratio for this
library, among those that build their graph in each step: variants that are batched by hand, or compiled as
a whole, are shown in the rows only.
"""
import csv
import re
import statistics
import sys
from collections import defaultdict
from pathlib import Path

# units in which larger is better
RATES = {"it/s", "GFLOP/s"}
NO_PEERS = ("dl", "limit", "gemm")
INFORMATION = ("-batched", "-precompiled")
TOLERANCE = 1e-3
# losses that are known to differ, and why
EXCUSED = {("w6", "candle"): "the gradient of its max_pool2d is scaled by the share of maxima"}

# workload, pattern of the variant, the minimal ratio to the limit on one thread and on two
LIMIT_GOALS = [
    ("w1", ".*;skip", 0.6, 0.5),
    ("w1", ".*;noskip", 0.5, 0.5),
    ("w3", ".*", 0.5, 0.5),
    ("w4", "1000 .*", 0.85, 0.85),
    ("w4", ".*", 0.95, 0.95),
    ("w5", "mlp", 0.85, 0.85),
    ("w6", "conv", 0.5, 0.5),
    ("w7", ".*", 0.2, 0.2),
]
# the minimal ratio to the best library with one of these name prefixes, where given
PEER_GOALS = {"w8": (2.0, "PyTorch and JAX", ("torch", "jax"))}
# absolute goals: a minimal rate, a maximal time in nanoseconds
ABSOLUTE_GOALS = {"w2a": 1e6, "w2b": 60.0, "w2c": 60.0}


def rounds_in(file):
    """The values of all rounds, by row and unit."""
    rounds = defaultdict(list)
    for *name, value, unit in csv.reader(file):
        rounds[(*name, unit)].append(float(value))
    return rounds


def take_over(folder, keep):
    """Replaces earlier rows by those of the last run: all rows, or those of the same name."""
    rows = {}
    if not (folder / "run.csv").exists():
        sys.exit("nothing was measured")
    if keep and (folder / "rows.csv").exists():
        with open(folder / "rows.csv") as file:
            rows = rounds_in(file)
    with open(folder / "run.csv") as file:
        rows.update(rounds_in(file))
    with open(folder / "rows.csv", "w", newline="") as file:
        written = ([*name, value, unit] for (*name, unit), values in rows.items() for value in values)
        csv.writer(file, lineterminator="\n").writerows(written)
    (folder / "run.csv").unlink()


def read(folder):
    """Rows as {(workload, variant, threads): {library: the values of its rounds}}, with their units."""
    table, units = defaultdict(dict), {}
    with open(folder / "rows.csv") as file:
        for (workload, variant, threads, library, unit), values in rounds_in(file).items():
            key, name = (workload, variant, int(threads)), library.split("@")[0]
            units[key] = unit
            table[key][name] = better(unit, table[key].get(name), values)
    return table, units


def better(unit, a, b):
    """The better of two builds."""
    return b if a is None or ratio(unit, statistics.median(b), statistics.median(a)) > 1 else a


def ratio(unit, ours, theirs):
    """The ratio by which this library is faster, or smaller, than the other."""
    return ours / theirs if unit in RATES else theirs / ours


def ratio_of_rounds(unit, ours, theirs):
    """The median of this ratio over the rounds."""
    if len(ours) != len(theirs):
        return ratio(unit, statistics.median(ours), statistics.median(theirs))
    return statistics.median(ratio(unit, *pair) for pair in zip(ours, theirs))


def best_peer(unit, values):
    """Name and rounds of the peer with the worst ratio for this library, or of the best peer if this library has no row."""
    peers = {name: value for name, value in values.items() if name not in NO_PEERS and not name.endswith(INFORMATION)}
    ours = values.get("dl", [1.0])
    return min(peers.items(), key=lambda peer: ratio_of_rounds(unit, ours, peer[1])) if peers else None


def verdicts(key, unit, values, limit, peer):
    """The goal, and whether it is reached."""
    workload, variant, threads = key
    ours = values.get("dl")
    if ours is None:
        return
    for goal_workload, pattern, *least in LIMIT_GOALS:
        if workload == goal_workload and re.fullmatch(pattern, variant) and limit:
            least = least[min(threads, 2) - 1]
            yield f"{least:g} of the limit", ratio_of_rounds(unit, ours, limit) >= least
            break
    if workload in ABSOLUTE_GOALS:
        goal = ABSOLUTE_GOALS[workload]
        yield f"{number(goal)} {unit}", ratio(unit, statistics.median(ours), goal) >= 1
    if peer and not variant.endswith("p99"):
        yield "1 of the best peer", ratio_of_rounds(unit, ours, peer[1]) >= 1
        if workload in PEER_GOALS:
            times, names, beginnings = PEER_GOALS[workload]
            some = best_peer(unit, {name: value for name, value in values.items() if name.startswith(("dl", *beginnings))})
            yield f"{times:g} of {names}", some is not None and ratio_of_rounds(unit, ours, some[1]) >= times


def number(value):
    if value is None:
        return "–"
    if value >= 1e6:
        return f"{value / 1e6:.2f} M"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def lines(table, units):
    for key in sorted(table):
        workload, variant, threads = key
        values, unit = table[key], units[key]
        ours, limit, peer = values.get("dl"), values.get("limit", values.get("gemm")), best_peer(unit, values)
        found = list(verdicts(key, unit, values, limit, peer))
        missed = [goal for goal, reached in found if not reached]
        yield [
            f"{workload} {variant}",
            str(threads),
            unit,
            number(ours and statistics.median(ours)),
            number(limit and statistics.median(limit)),
            f"{number(statistics.median(peer[1]))} ({peer[0]})" if peer else "–",
            f"{ratio_of_rounds(unit, ours, limit):.2f}" if ours and limit else "–",
            f"{ratio_of_rounds(unit, ours, peer[1]):.2f}" if ours and peer else "–",
            ("missed: " + ", ".join(missed)) if missed else ("reached" if found else ""),
        ]


HEADS = ["workload", "threads", "unit", "dl", "limit", "best peer", "of the limit", "of the best peer", "goal"]


def show(rows, markdown):
    if markdown:
        print("| " + " | ".join(HEADS) + " |\n|" + "---|" * len(HEADS))
        for row in rows:
            print("| " + " | ".join(row) + " |")
        return
    widths = [max(len(row[at]) for row in [HEADS, *rows]) for at in range(len(HEADS))]
    for row in [HEADS, *rows]:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())


def disagreements(folder):
    """Results that differ from those of this library, or, if it has none, from those of the first."""
    results = defaultdict(dict)
    for line in (folder / "log.txt").read_text().splitlines():
        if line.startswith("CHECK "):
            workload, variant, threads, library, values = line.removeprefix("CHECK ").split(",")
            results[workload, variant][library, threads] = [float(value) for value in values.split()]
    for (workload, variant), of in sorted(results.items()):
        (name, _), expected = next((item for item in of.items() if item[0][0] == "dl"), next(iter(of.items())))
        for (library, threads), found in of.items():
            excuse = EXCUSED.get((workload, library.split("@")[0]))
            pairs = list(zip(found, expected, strict=True))[: 1 if excuse else None]
            # NaN never agrees
            if not all(abs(a - b) <= TOLERANCE * max(1, abs(b)) for a, b in pairs):
                yield f"{workload} {variant}: {library} on {threads} has {found}, {name} has {expected}"


def main():
    folder, markdown = Path(sys.argv[1]), "--markdown" in sys.argv
    if "--new" in sys.argv:
        take_over(folder, "--keep" in sys.argv)
    show(list(lines(*read(folder))), markdown)
    failures = [line for line in (folder / "log.txt").read_text().splitlines() if line.startswith("FAIL")]
    different = list(disagreements(folder))
    for problem in failures + different:
        print(problem, file=sys.stderr)
    sys.exit(1 if different else 0)


if __name__ == "__main__":
    main()
