"""Reference values and gradients of tensor operations, from PyTorch in double precision.

    python operations.py > operations.jsonl

Written with Python 3.11 and PyTorch 2.8.0 (CPU). Every operation draws from a generator of its own, seeded with its name: a
second run gives the same file, and a new case changes the other operations in nothing.

A line of the file is a case:

- `op`, `args`: the operation, and what it is told besides its operands;
- `inputs`: the operands. Numbers are multiples of 1/64 wherever they can be, so that they are exact in single precision, too;
- `output`: the value;
- `cotangent`: the loss is `sum(output * cotangent)`;
- `gradients`: those of the loss, one for each operand;
- `directions`, `second`: the gradients of `sum(gradients * directions)`, that is, second derivatives of the loss.

A tensor is its `shape` and its elements in row-major order, `data`. An operand may say how it lies in memory: `axes` are its
axes from the outermost to the innermost, `steps` the distance of neighbours along each axis, negative when they lie in reverse
order. Numbers that JSON cannot write are strings.
"""

import sys

import torch

import losses
import movement
import networks
import pointwise
import reductions

FAMILIES = [
    pointwise.numbers,
    pointwise.pairs,
    reductions.reductions,
    reductions.products,
    movement.movement,
    movement.selection,
    networks.convolutions,
    networks.pools,
    networks.normalisation,
    networks.attentions,
    losses.losses,
]

if __name__ == "__main__":
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    print(f"PyTorch {torch.__version__}", file=sys.stderr)
    for family in FAMILIES:
        family()
