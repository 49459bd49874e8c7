"""Operations that move or select elements."""

import torch
import torch.nn.functional as F

from case import Op


def sliced(x, parts):
    """Slices as `s!` of ndarray does: with a negative step, a range starts with its last element."""
    axis = 0
    for part in parts:
        if isinstance(part, int):
            x = x.select(axis, part)
            continue
        start, end, step = part
        x = x[(slice(None),) * axis + (slice(start, end),)]
        x = (x.flip(axis) if step < 0 else x)[(slice(None),) * axis + (slice(None, None, abs(step)),)]
        axis += 1
    return x


def movement():
    op = Op("reshape")
    for shape, to in [
        ((), [1]),
        ((6,), [2, 3]),
        ((2, 3), [3, 2]),
        ((2, 3, 2), [4, 3]),
        ((0, 2), [2, 0, 3]),
        ((1, 1), []),
        ((2, 2, 2), [8]),
    ]:
        op.case(lambda x: x.reshape(to), op.numbers(*shape), shape=to)
    op = Op("flatten")
    for shape in [(), (3,), (2, 3), (2, 1, 2), (0, 2)]:
        op.case(lambda x: x.reshape(-1), op.numbers(*shape))
    op = Op("flatten_rows")
    for shape in [(2, 3), (2, 1, 3), (3, 2, 1, 2), (2, 0)]:
        op.case(lambda x: x.flatten(1), op.numbers(*shape))
    op = Op("t")
    for shape in [(), (3,), (2, 3), (2, 1, 3), (0, 2)]:
        op.case(lambda x: x.permute(tuple(reversed(range(x.dim())))), op.numbers(*shape))
    op = Op("permute")
    for shape, axes in [
        ((), []),
        ((3,), [0]),
        ((2, 3), [1, 0]),
        ((2, 3, 2), [2, 0, 1]),
        ((2, 3, 1), [-1, 0, -2]),
        ((0, 2), [1, 0]),
        ((2, 1, 3, 2), [3, 1, 0, 2]),
    ]:
        op.case(lambda x: x.permute(axes), op.numbers(*shape), axes=axes)
    op = Op("transpose")
    for shape, a, b in [((2, 3), 0, 1), ((2, 3, 2), -1, 0), ((2, 3, 2), 1, 1), ((0, 3), 0, -1), ((2, 1, 3, 2), 1, 3)]:
        op.case(lambda x: x.transpose(a, b), op.numbers(*shape), a=a, b=b)
    op = Op("squeeze")
    for shape, axis in [((1,), 0), ((2, 1), -1), ((1, 3, 2), 0), ((2, 1, 0), 1), ((1, 1, 1), -3)]:
        op.case(lambda x: x.squeeze(axis), op.numbers(*shape), axis=axis)
    op = Op("unsqueeze")
    for shape, axis in [((), 0), ((), -1), ((3,), 0), ((3,), -1), ((2, 3), 1), ((2, 3), -3), ((0,), 1)]:
        op.case(lambda x: x.unsqueeze(axis), op.numbers(*shape), axis=axis)
    op = Op("expand")
    for shape, to in [
        ((), [2, 2]),
        ((3,), [2, 3]),
        ((2, 1), [2, 3]),
        ((1, 3, 1), [2, 3, 2]),
        ((1,), [0]),
        ((2, 3), [2, 3]),
        ((1, 2), [3, 1, 2]),
    ]:
        op.case(lambda x: x.expand(to), op.numbers(*shape), shape=to)

    op = Op("slice")
    for shape, parts in [
        ((5,), [[1, 4, 1]]),
        ((5,), [[0, None, 2]]),
        ((5,), [[0, None, -1]]),
        ((5,), [[1, 5, -2]]),
        ((5,), [[-3, -1, 1]]),
        ((5,), [[2, 2, 1]]),
        ((5,), [[-4, None, -3]]),
        ((5,), [3]),
        ((5,), [-1]),
        ((3, 4), [[1, 3, 1], [0, None, 2]]),
        ((3, 4), [1, [0, None, -1]]),
        ((3, 4), [[0, None, -2], -2]),
        ((3, 4), [2, -3]),
        ((2, 3, 3), [[0, None, 1], 1, [-2, None, 1]]),
        ((2, 3, 3), [[1, None, 1], [0, 3, -1], [0, None, 2]]),
        ((0, 3), [[0, None, 1], [0, 2, 1]]),
        ((), []),
    ]:
        op.case(lambda x: sliced(x, parts), op.numbers(*shape), parts=parts)

    op = Op("slice_axis")
    for shape, axis, part in [
        ((5,), 0, [1, 4, 1]),
        ((2, 5), -1, [-4, None, -2]),
        ((3, 2), 0, [0, None, 2]),
        ((2, 3, 2), 1, [2, 2, 1]),
    ]:
        parts = [[0, None, 1]] * (axis % len(shape)) + [part]
        op.case(lambda x: sliced(x, parts), op.numbers(*shape), axis=axis, part=part)
    op = Op("row")
    for shape, i in [((3,), 1), ((2, 3), -1), ((2, 2, 2), 0), ((1, 0), 0)]:
        op.case(lambda x: x[i], op.numbers(*shape), i=i)
    op = Op("split")
    for shape, axis, sizes in [
        ((5,), 0, [2, 3]),
        ((2, 4), -1, [1, 0, 3]),
        ((3, 2), 0, [3]),
        ((2, 3, 2), 1, [1, 1, 1]),
        ((0, 2), 0, [0, 0]),
    ]:
        for part in range(len(sizes)):
            op.case(lambda x: x.split(sizes, axis)[part], op.numbers(*shape), axis=axis, sizes=sizes, part=part)
    op = Op("chunk")
    for shape, axis, parts in [((6,), 0, 3), ((5,), 0, 2), ((2, 7), -1, 3), ((3, 2), 0, 1), ((2, 4, 2), 1, 2)]:
        for part in {0, parts - 1}:
            op.case(lambda x: x.chunk(parts, axis)[part], op.numbers(*shape), axis=axis, parts=parts, part=part)

    op = Op("concat")
    for axis, *shapes in [
        (0, (2,), (3,)),
        (0, (4,)),
        (0, (2, 3), (1, 3), (2, 3)),
        (1, (2, 3), (2, 0), (2, 1)),
        (-1, (2, 1, 2), (2, 1, 1)),
        (-2, (1, 2, 2), (1, 1, 2)),
        (0, (0, 2), (2, 2)),
    ]:
        op.case(lambda *x: torch.cat(x, axis), *[op.numbers(*shape) for shape in shapes], axis=axis)
    op = Op("stack")
    for axis, count, shape in [
        (0, 2, ()),
        (0, 3, (2,)),
        (1, 2, (3,)),
        (-1, 2, (2, 2)),
        (1, 1, (2, 2)),
        (0, 2, (0, 2)),
        (-2, 2, (2, 1, 2)),
    ]:
        op.case(lambda *x: torch.stack(x, axis), *[op.numbers(*shape) for _ in range(count)], axis=axis)

    op = Op("pad")
    for shape, pads, value in [
        ((3,), [[1, 2]], 0.0),
        ((2, 3), [[0, 1], [2, 0]], 0.5),
        ((2, 1, 2), [[1, 1], [0, 0], [0, 2]], -1.0),
        ((0, 2), [[1, 1], [0, 0]], 2.0),
        ((2, 2), [[0, 0], [0, 0]], 1.0),
        ((), [], 1.0),
    ]:
        flat = [n for pad in reversed(pads) for n in pad]
        op.case(lambda x: F.pad(x, flat, value=value) if flat else x * 1, op.numbers(*shape), pads=pads, value=value)
    op = Op("flip")
    for shape, axes in [((4,), [0]), ((2, 3), [1]), ((2, 3), [0, -1]), ((2, 3, 2), [-2]), ((0, 2), [0]), ((2, 2), [])]:
        op.case(lambda x: torch.flip(x, axes), op.numbers(*shape), axes=axes)
    op = Op("roll")
    for shape, axis, shift in [
        ((4,), 0, 1),
        ((4,), 0, -1),
        ((2, 3), 1, 2),
        ((2, 3), -2, 5),
        ((2, 3, 2), 1, -7),
        ((0, 2), 0, 1),
        ((1, 3), 0, 1),
        ((3,), 0, 0),
    ]:
        op.case(lambda x: torch.roll(x, shift, axis), op.numbers(*shape), axis=axis, shift=shift)


def selection():
    op = Op("gather")
    for shape, axis, indices in [
        ((4,), 0, (6,)),
        ((3, 2), 0, (2, 2)),
        ((3, 2), -1, (3, 4)),
        ((2, 3, 2), 1, (2, 2, 2)),
        ((3, 3), 0, (2, 1)),
        ((3, 2), 0, (0, 2)),
        ((1, 2), 0, (3, 2)),
    ]:
        index = op.integers(*indices, below=shape[axis])
        op.case(lambda x: torch.gather(x, axis, index), op.numbers(*shape), axis=axis, index=index)
    op = Op("scatter_add")
    for shape, axis, indices in [
        ((4,), 0, (6,)),
        ((3, 2), 0, (4, 2)),
        ((3, 2), -1, (3, 3)),
        ((2, 3, 2), 1, (2, 2, 2)),
        ((3, 3), 0, (2, 2)),
        ((3, 2), 0, (0, 2)),
    ]:
        index = op.integers(*indices, below=shape[axis])
        op.case(
            lambda x, source: torch.scatter_add(x, axis, index, source),
            op.numbers(*shape),
            op.numbers(*indices),
            axis=axis,
            index=index,
        )
    op = Op("index_select")
    for shape, axis, count in [
        ((4,), 0, 5),
        ((3, 2), 0, 2),
        ((3, 2), -1, 3),
        ((2, 3, 2), 1, 4),
        ((3, 2), 0, 0),
        ((1,), 0, 2),
    ]:
        index = op.integers(count, below=shape[axis])
        op.case(lambda x: torch.index_select(x, axis, index), op.numbers(*shape), axis=axis, index=index)
    op = Op("embedding")
    for rows, width, ids in [(4, 3, (5,)), (3, 2, (2, 3)), (5, 1, ()), (3, 2, (0,)), (2, 2, (1, 2, 2)), (1, 4, (3,))]:
        index = op.integers(*ids, below=rows)
        op.case(lambda weight: F.embedding(index, weight), op.numbers(rows, width), index=index)
    op = Op("at")
    for shape, index in [((), []), ((3,), [1]), ((2, 3), [1, 0]), ((2, 3, 2), [0, 2, 1]), ((1, 1), [0, 0])]:
        op.case(lambda x: x[tuple(index)], op.numbers(*shape), index=index)

    for name, function in [("tril", torch.tril), ("triu", torch.triu)]:
        op = Op(name)
        for shape, k in [
            ((3, 3), 0),
            ((2, 4), 1),
            ((4, 2), -1),
            ((2, 3, 2), 0),
            ((0, 2), 0),
            ((3, 3), -4),
            ((3, 3), 5),
        ]:
            op.case(lambda x: function(x, k), op.numbers(*shape), k=k)
    op = Op("diag")
    for length, k in [(3, 0), (2, 1), (2, -2), (0, 0), (1, 0)]:
        op.case(lambda x: torch.diag(x, k), op.numbers(length), k=k)
    op = Op("diagonal")
    for shape, k in [((3, 3), 0), ((2, 4), 1), ((4, 2), -1), ((2, 3), -1), ((1, 1), 0), ((2, 3), 2), ((0, 2), 0)]:
        op.case(lambda x: torch.diagonal(x, k), op.numbers(*shape), k=k)
