"""Reference values and gradients of tensor operations, from PyTorch in double precision.

    python operations.py > operations.jsonl

Written with Python 3.11 and PyTorch 2.15.0 (CPU). Every operation draws from its own generator,
seeded with its name. A second run therefore gives the same file, and a new case does not change
the cases of other operations.

Each line of the file is a case:

- `op`, `args`: the operation, and its arguments other than operands;
- `inputs`: the operands, multiples of 1/64 where possible, so that they are exact in single
  precision, too;
- `output`: the value;
- `cotangent`: the loss is `sum(output * cotangent)`;
- `gradients`: the gradients of the loss, one for each operand;
- `directions`, `second`: `second` are the gradients of `sum(gradients * directions)`, second
  derivatives of the loss.

A tensor is stored as its `shape` and its elements in row-major order, `data`. An operand may have a
memory layout: `axes` are its axes from outermost to innermost, `steps` the distances between
neighbours along each axis, negative for reverse order. Numbers without a JSON representation
(infinity, NaN) are strings.
"""

import sys

import torch

import kinks
import losses
import movement
import networks
import order
import pointwise
import reductions

FAMILIES = [
    pointwise.numbers,
    pointwise.pairs,
    reductions.reductions,
    reductions.products,
    movement.movement,
    movement.selection,
    order.scans,
    order.order,
    order.pads,
    networks.convolutions,
    networks.pools,
    networks.normalisation,
    networks.attentions,
    losses.losses,
    losses.ctc,
    kinks.kinks,
]

if __name__ == "__main__":
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    print(f"PyTorch {torch.__version__}", file=sys.stderr)
    for family in FAMILIES:
        family()
