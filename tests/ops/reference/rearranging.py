"""Elements in other places: flips, tiles, windows, blocks."""

import torch.nn.functional as F

from common import *


def everywhere(op, shape, f, attrs, more=()):
    for dtype in ["f64", "i8", "bool", "bf16"]:
        x = any_tensor(shape, dtype)
        case(op, [x, *more], [f(x)], attrs, 0, dtype == "f64" and 0 not in shape)


def backwards():
    last, before = (1 << 62) - 1, 1 - (1 << 62)
    for begin, end, step in [(last, before, -1), (5, 1, -1), (-2, before, -2), (last, 2, -3), (1, 4, -1), (3, -9, -1)]:
        key = slice(None if begin == last else begin, None if end == before else end, step)
        at = {"begin": begin, "end": end, "step": step}
        pick = lambda x, axis: torch.tensor(np.arange(7)[key].copy())
        everywhere("slice", (7, 2), lambda x: x[pick(x, 0)], {"axis": 0, **at})
        everywhere("slice", (2, 7), lambda x: x[:, pick(x, 1)], {"axis": 1, **at})
        for dtype in ["f64", "u8"]:
            x = any_tensor((7, 2), dtype)
            out, places = x.clone(), pick(x, 0)
            source = any_tensor((len(places), 2), dtype)
            out[places] = source
            case("slice_scatter backwards", [x, source], [out], {"axis": 0, **at}, 0, dtype == "f64" and len(places) > 0)
    everywhere("slice", (0, 2), lambda x: x, {"axis": 0, "begin": last, "end": before, "step": -1})
    for axes in [[], [0], [1], [-1, 0], [2]]:
        everywhere("flip", (2, 3, 2), lambda x: x.flip(axes or [0, 1, 2]), {"axes": axes})
    for turns, axes in [(1, (0, 1)), (2, (0, 1)), (3, (0, 1)), (-1, (1, 2)), (1, (2, 0)), (4, (0, 1))]:
        everywhere("rot90", (2, 3, 4), lambda x: x.rot90(turns, axes),
                   {"turns": turns, "first": axes[0], "second": axes[1]})
    for shifts, axes in [([1], [0]), ([-1, 5], [0, 1]), ([2], []), ([0], [1]), ([3], [-1])]:
        everywhere("roll", (3, 4), lambda x: x.roll(shifts, axes) if axes else x.roll(shifts),
                   {"shifts": shifts, "axes": axes})


def copies():
    for counts in [[2], [2, 3], [3, 1], [2, 1, 2], [1, 1], [0, 2], []]:
        everywhere("tile", (2, 3), lambda x: x.tile(counts), {"counts": counts})
    everywhere("tile", (), lambda x: x.tile([2]), {"counts": [2]})
    for axis in [0, 1, -1]:
        for count in [2, 1, 0]:
            everywhere("repeat_interleave", (2, 3), lambda x: x.repeat_interleave(count, axis),
                       {"count": count, "axis": axis})
    counts = torch.tensor([2, 0, 3])
    everywhere("repeat_interleave", (2, 3), lambda x: x.repeat_interleave(counts, 1), {"axis": 1}, [counts])
    everywhere("repeat_interleave", (2, 3), lambda x: x.repeat_interleave(torch.tensor([2, 2]), 0), {"axis": 0},
               [torch.tensor(2)])
    for mode, name in [("reflect", "reflect"), ("edge", "edge"), ("replicate", "edge"), ("wrap", "wrap"),
                       ("circular", "wrap")]:
        for shape, low, high in [((3, 4), (1, 2), (2, 0)), ((3, 4), (0, 3), (0, 1)), ((5,), (4,), (3,))]:
            everywhere("pad by mode", shape,
                       lambda x: torch.tensor(np.pad(x.float().numpy(), list(zip(low, high)), name)).to(x.dtype)
                       if x.dtype == torch.bfloat16 else torch.tensor(np.pad(x.numpy(), list(zip(low, high)), name)),
                       {"low": low, "high": high, "mode": mode})


def windows():
    for axis, size, step in [(0, 2, 1), (0, 3, 2), (0, 2, 3), (0, 7, 1)]:
        everywhere("unfold", (7, 2), lambda x: x.unfold(axis, size, step), {"axis": axis, "size": size, "step": step})
    everywhere("unfold", (2, 5), lambda x: x.unfold(1, 3, 1), {"axis": -1, "size": 3, "step": 1})
    everywhere("unfold", (2, 5, 2), lambda x: x.unfold(1, 2, 2), {"axis": 1, "size": 2, "step": 2})
    for shape, strides, offset in [((2, 2), (1, 2), 0), ((3, 3), (2, 1), 1), ((4,), (0,), 5), ((), (), 3), ((0, 2), (1, 1), 0)]:
        everywhere("as_strided", (3, 4), lambda x: x.as_strided(shape, strides, offset),
                   {"shape": shape, "strides": strides, "offset": offset})
    everywhere("as_strided", (3, 4), lambda x: x.reshape(-1).flip(0).reshape(4, 3).clone(),
               {"shape": (4, 3), "strides": (-3, -1), "offset": 11})


def blocks():
    def dcr(x, b):
        n, c, h, w = x.shape
        return x.reshape(n, b, b, c // b ** 2, h, w).permute(0, 3, 4, 1, 5, 2).reshape(n, c // b ** 2, h * b, w * b)

    def to_depth(x, b):
        n, c, h, w = x.shape
        return x.reshape(n, c, h // b, b, w // b, b).permute(0, 3, 5, 1, 2, 4).reshape(n, c * b * b, h // b, w // b)
    everywhere("depth_to_space", (2, 8, 2, 3), lambda x: dcr(x, 2), {"block": 2, "mode": "DCR"})
    everywhere("depth_to_space", (1, 9, 1, 2), lambda x: F.pixel_shuffle(x, 3), {"block": 3, "mode": "CRD"})
    everywhere("depth_to_space", (1, 4, 2, 2), lambda x: x, {"block": 1, "mode": "CRD"})
    everywhere("space_to_depth", (2, 3, 4, 6), lambda x: to_depth(x, 2), {"block": 2})
    everywhere("pixel_shuffle", (2, 1, 4, 2, 2), lambda x: F.pixel_shuffle(x, 2), {"factor": 2})
    everywhere("pixel_shuffle", (4, 3, 2), lambda x: F.pixel_shuffle(x, 2), {"factor": 2})
    everywhere("pixel_unshuffle", (2, 2, 4, 6), lambda x: F.pixel_unshuffle(x, 2), {"factor": 2})
    everywhere("pixel_unshuffle", (2, 2, 4), lambda x: F.pixel_unshuffle(x, 2), {"factor": 2})

    def reverse(x, lengths, time, batch):
        y = x.clone()
        for b, n in enumerate(lengths.tolist()):
            part = y.select(batch, b)
            t = time - (time > batch)
            part.narrow(t, 0, n).copy_(part.narrow(t, 0, n).flip(t).clone())
        return y
    lengths = torch.tensor([4, 0, 3])
    everywhere("reverse_sequence", (4, 3, 2), lambda x: reverse(x, lengths, 0, 1), {"time_axis": 0, "batch_axis": 1}, [lengths])
    everywhere("reverse_sequence", (3, 4), lambda x: reverse(x, lengths, 1, 0), {"time_axis": 1, "batch_axis": 0}, [lengths.int()])


def shapes():
    everywhere("movedim", (2, 3, 4), lambda x: x.movedim((0, -1), (1, 0)), {"from": [0, -1], "to": [1, 0]})
    everywhere("movedim", (2, 3, 4), lambda x: x.movedim(0, 2), {"from": [0], "to": [2]})
    everywhere("swapaxes", (2, 3, 4), lambda x: x.swapaxes(0, -1), {"a": 0, "b": -1})
    everywhere("squeeze of all", (1, 3, 1), lambda x: x.squeeze(), {})
    everywhere("unflatten", (2, 6), lambda x: x.unflatten(1, (2, 3)), {"axis": -1, "sizes": [2, -1]})
    for rank, f in [(1, torch.atleast_1d), (2, torch.atleast_2d), (3, torch.atleast_3d)]:
        for shape in [(), (3,), (2, 3), (2, 1, 3)]:
            everywhere("atleast", shape, f, {"rank": rank})
    for op, f in [("hstack", torch.hstack), ("vstack", torch.vstack), ("dstack", torch.dstack)]:
        for shape in [(), (3,), (2, 3), (2, 1, 3)]:
            a, b = rand(shape), rand(shape)
            case(op, [a, b], [f([a, b])], None, 0, True)
    x = rand((3, 4))
    case("unbind", [x], list(x.unbind(1)), {"axis": 1}, 0, True)
    case("split by size", [x], list(x.split(3, 1)), {"axis": 1, "size": 3}, 0, True)
    case("tensor_split", [x], list(x.tensor_split(3, 1)), {"axis": -1, "count": 3}, 0, True)
    a, b = rand((3, 1)), rand((4,))
    case("broadcast_tensors", [a, b], list(torch.broadcast_tensors(a, b)), None, 0, True)


FAMILIES = [backwards, copies, windows, blocks, shapes]
