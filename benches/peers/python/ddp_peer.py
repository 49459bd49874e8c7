"""PyTorch's DistributedDataParallel with gloo: `mpirun -n 2 python ddp_peer.py STEPS`.

The multilayer perceptron 784-1024-1024-10 on batches of 64, of which each rank has its share: the
same numbers as in `dl-dist/benches/ranks.rs`. Rank 0 prints the losses of the steps 1 and 10, the
median time of a step in µs, and that of a step of the same share without other ranks.
"""
import os
import statistics
import sys
import time

import numpy as np
import torch
from torch import nn

from common import Numbers, labels

BATCH = 64


def tensor(array):
    return torch.from_numpy(np.ascontiguousarray(array))


def network():
    numbers = Numbers(11)
    batches = [tensor(numbers((BATCH, 784))) for _ in range(4)]
    layers = []
    for inputs, outputs in [(784, 1024), (1024, 1024), (1024, 10)]:
        dense = nn.Linear(inputs, outputs)
        dense.weight = nn.Parameter(tensor(numbers.weight(inputs, outputs).T))
        nn.init.zeros_(dense.bias)
        layers += [dense, nn.ReLU()]
    return nn.Sequential(*layers[:-1]), batches


def stepper(net, batches, own):
    sgd = torch.optim.SGD(net.parameters(), lr=0.01, fused=True)
    classes = tensor(labels(BATCH))[own]
    turn = -1

    def step():
        nonlocal turn
        turn += 1
        sgd.zero_grad(set_to_none=True)
        loss = nn.functional.cross_entropy(net(batches[turn % len(batches)][own]), classes)
        loss.backward()
        sgd.step()
        return loss.detach()

    return step


def median(step, steps):
    times = []
    for _ in range(steps):
        before = time.perf_counter()
        step()
        times.append(time.perf_counter() - before)
    return statistics.median(times) * 1e6


def main():
    steps = int(sys.argv[1])
    rank, size = int(os.environ["OMPI_COMM_WORLD_RANK"]), int(os.environ["OMPI_COMM_WORLD_SIZE"])
    torch.set_num_threads(1)
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29511")
    torch.distributed.init_process_group("gloo", rank=rank, world_size=size)
    own = slice(BATCH * rank // size, BATCH * (rank + 1) // size)

    net, batches = network()
    together = stepper(nn.parallel.DistributedDataParallel(net), batches, own)
    losses = []
    for _ in range(10):
        mean = together() / size
        torch.distributed.all_reduce(mean)
        losses.append(float(mean))
    distributed = median(together, steps)
    torch.distributed.barrier()
    alone = median(stepper(*network(), own), steps)
    if rank == 0:
        print(f"{losses[0]:.6f} {losses[9]:.6f} {distributed:.1f} {alone:.1f}", flush=True)
    torch.distributed.destroy_process_group()


main()
