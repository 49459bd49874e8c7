"""Cases of a reference file: draw operands, compute the results with PyTorch, write a line."""

import json
import math
import random

import torch


def as_json(number):
    if isinstance(number, bool):
        return int(number)
    if not math.isfinite(number):
        return str(number)
    whole = number == int(number) and (number != 0 or math.copysign(1, number) > 0) and abs(number) < 1e15
    return int(number) if whole else number


def tensor_as_json(tensor):
    return {"shape": list(tensor.shape), "data": [as_json(number) for number in tensor.detach().flatten().tolist()]}


class Op:
    """An operation: draws operands and writes cases, at a kink if `kink`."""

    def __init__(self, name, kink=False):
        self.name = name
        self.kink = kink
        self.random = random.Random(name)

    def numbers(self, *shape, low=-2.0, high=2.0, kinks=(), distinct=False):
        """Random multiples of 1/64 in a range, at least 1/16 from each kink; all different if `distinct`."""
        grid = [k / 64 for k in range(math.ceil(low * 64), math.floor(high * 64) + 1)]
        grid = [x for x in grid if all(abs(x - kink) >= 1 / 16 for kink in kinks)]
        count = math.prod(shape)
        drawn = self.random.sample(grid, count) if distinct else [self.random.choice(grid) for _ in range(count)]
        return torch.tensor(drawn).reshape(shape)

    def integers(self, *shape, below):
        return torch.tensor([self.random.randrange(below) for _ in range(math.prod(shape))], dtype=torch.int64).reshape(
            shape
        )

    def mask(self, *shape):
        return torch.tensor([self.random.random() < 0.5 for _ in range(math.prod(shape))], dtype=torch.bool).reshape(
            shape
        )

    def layout(self, shape):
        """A random memory layout; row-major order with probability 1/2."""
        if not shape or self.random.random() < 0.5:
            return {}
        axes = list(range(len(shape)))
        self.random.shuffle(axes)
        return {"axes": axes, "steps": [self.random.choice([1, 1, 1, 2, -1, -2]) for _ in shape]}

    def case(self, function, *inputs, flat=False, second=True, **args):
        """Writes the case of `function(*inputs)`; no gradients if `flat`, no second derivatives unless `second`."""
        operands = [x.clone().requires_grad_(not flat) for x in inputs]
        output = function(*operands)
        line = {
            "op": self.name,
            "args": {k: tensor_as_json(v) if isinstance(v, torch.Tensor) else v for k, v in args.items()},
            "inputs": [tensor_as_json(x) | self.layout(x.shape) for x in inputs],
            "output": tensor_as_json(output),
        }
        if self.kink:
            line["kink"] = True
        if not flat:
            cotangent = self.numbers(*output.shape, kinks=[0])
            loss = (output * cotangent).sum()
            gradients = self.gradients(loss, operands)
            line |= {"cotangent": tensor_as_json(cotangent), "gradients": [tensor_as_json(g) for g in gradients]}
            if second:
                directions = [self.numbers(*x.shape, kinks=[0]) for x in inputs]
                along = sum((g * v).sum() for g, v in zip(gradients, directions))
                if along.requires_grad:
                    line["directions"] = [tensor_as_json(v) for v in directions]
                    line["second"] = [tensor_as_json(g) for g in self.gradients(along, operands)]
        print(json.dumps(line, separators=(",", ":"), allow_nan=False))

    @staticmethod
    def gradients(loss, operands):
        if not loss.requires_grad:
            return [torch.zeros_like(x) for x in operands]
        found = torch.autograd.grad(loss, operands, create_graph=True, allow_unused=True)
        return [torch.zeros_like(x) + (0.0 if g is None else g) for x, g in zip(operands, found)]
