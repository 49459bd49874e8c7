"""Hessian-vector products of a two-layer net by PyTorch's double backward, in double precision.

    python tests/reference/hvp.py > tests/reference/hvp.json
"""

import json

import torch

torch.manual_seed(20)
torch.set_default_dtype(torch.float64)


def as_json(tensor):
    return {"shape": list(tensor.shape), "data": tensor.detach().flatten().tolist()}


def case(name, activation, loss_of):
    x = torch.randn(6, 4)
    shapes = {"w1": (4, 5), "b1": (5,), "w2": (5, 3), "b2": (3,)}
    weights = [torch.randn(shape).mul(0.7).requires_grad_() for shape in shapes.values()]
    direction = [torch.randn_like(weight) for weight in weights]
    labels = torch.tensor([0, 2, 1, 1, 0, 2])
    w1, b1, w2, b2 = weights
    loss = loss_of(activation(x @ w1 + b1) @ w2 + b2, labels)
    gradients = torch.autograd.grad(loss, weights, create_graph=True)
    along = sum((gradient * v).sum() for gradient, v in zip(gradients, direction))
    hvp = torch.autograd.grad(along, weights, create_graph=True)
    third = torch.autograd.grad(sum((product * v).sum() for product, v in zip(hvp, direction)), weights)
    return {
        "name": name,
        "x": as_json(x),
        "labels": labels.tolist(),
        "weights": [as_json(weight) for weight in weights],
        "direction": [as_json(v) for v in direction],
        "loss": loss.item(),
        "gradients": [as_json(gradient) for gradient in gradients],
        "hvp": [as_json(product) for product in hvp],
        "third": [as_json(product) for product in third],
    }


def squares(output, labels):
    return (output - torch.nn.functional.one_hot(labels, 3)).square().mean()


cases = [
    case("tanh", torch.tanh, torch.nn.functional.cross_entropy),
    case("gelu", torch.nn.functional.gelu, torch.nn.functional.cross_entropy),
    case("sigmoid, squares", torch.sigmoid, squares),
    case("softplus, squares", torch.nn.functional.softplus, squares),
]
print(json.dumps(cases))
