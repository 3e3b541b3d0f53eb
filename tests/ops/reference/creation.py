"""Triangles, diagonals, ranges, grids and windows."""

import numpy as np
import torch

from common import *


def triangles():
    for dtype in ["f64", "i8", "bool", "bf16"]:
        for shape, k in [((3, 4), 0), ((4, 3), 1), ((2, 3, 3), -1), ((3, 3), 5), ((3, 3), -5), ((0, 2), 0), ((1, 5), 2)]:
            x = any_tensor(shape, dtype)
            grad = dtype == "f64" and 0 not in shape
            case("trilu", [x], [torch.tril(x, k)], {"k": k, "upper": False}, 0, grad)
            case("trilu", [x], [torch.triu(x, k)], {"k": k, "upper": True}, 0, grad)
    x = floats_of("inf nan 1 -inf").reshape(2, 2)
    case("trilu", [x], [torch.tril(x, -1)], {"k": -1, "upper": False}, 0)
    x = rand((2, 3))
    case("tril fn", [x], [torch.tril(x)], {}, 0, True)
    case("triu fn", [x], [torch.triu(x)], {}, 0, True)


def diagonals():
    for dtype in ["f64", "i16", "bool", "f16"]:
        for shape, offset, axis1, axis2 in [((3, 4), 0, 0, 1), ((3, 4), 2, 0, 1), ((3, 4), -1, 0, 1), ((2, 3, 4), 1, 1, 2),
                                            ((2, 3, 4), 0, 2, 0), ((3, 2, 2, 4), -1, 0, 3), ((3, 4), 7, 0, 1), ((0, 3), 0, 0, 1)]:
            x = any_tensor(shape, dtype)
            case("diagonal", [x], [torch.diagonal(x, offset, axis1, axis2)],
                 {"offset": offset, "axis1": axis1, "axis2": axis2}, 0, dtype == "f64" and 0 not in shape and offset < 7)
    x = rand((2, 3, 3))
    case("diagonal fn", [x], [torch.diagonal(x, 1, -2, -1)], {"offset": 1, "axis1": -2, "axis2": -1}, 0, True)
    for dtype in ["f64", "i32"]:
        for shape, offset in [((3,), 0), ((2, 3), 1), ((2, 2), -2), ((0,), 1)]:
            x = any_tensor(shape, dtype)
            case("diag_embed fn", [x], [torch.diag_embed(x, offset)], {"offset": offset}, 0, dtype == "f64" and 0 not in shape)
    for shape, k in [((3,), 1), ((3, 4), -1)]:
        x = rand(shape)
        case("diag fn", [x], [torch.diag(x, k)], {"k": k}, 0, True)
    x = rand((3, 4))
    case("trace fn", [x], [torch.trace(x)], {"offset": 0}, 4, True)
    case("trace fn", [x], [torch.tensor(np.trace(x.numpy(), -1))], {"offset": -1}, 4, True)
    for rows, columns, k in [(3, 3, 0), (2, 4, 1), (4, 2, -1), (0, 2, 0)]:
        case("eye fn", [], [torch.tensor(np.eye(rows, columns, k)).float()], {"rows": rows, "columns": columns, "k": k})
    x = rand((3,))
    for columns, increasing in [(None, False), (4, True), (2, False), (0, False)]:
        out = torch.tensor(np.vander(x.numpy(), columns, increasing))
        attrs = {"increasing": increasing, "columns": -1 if columns is None else columns}
        case("vander fn", [x], [out], attrs, 4, columns != 0)


def ranges():
    for first, last, count in [(0, 1, 5), (-2.5, 4, 7), (3, -3, 4), (1, 2, 1), (1, 2, 0), (0, 10, 2), (5, 5, 3)]:
        for dtype in ["f64", "f32", "i64"]:
            out = cast(torch.tensor(np.linspace(first, last, count)), dtype)
            case("linspace fn", [], [out], {"first": first, "last": last, "count": count, "dtype": dtype}, 4, floor=5)
    for begin, end, step in [(0.5, 3.5, 1), (0, 1, 0.25), (0, 1, 0.1), (1, -1, -0.3), (2.5, 2.5, 1), (3, 0, 0.5), (0, 2.5, 1)]:
        for dtype in ["f64", "f32", "i64"]:
            out = begin + np.arange(len(np.arange(begin, end, step))) * step
            case("arange fn", [], [cast(torch.tensor(out), dtype)], {"begin": begin, "end": end, "step": step, "dtype": dtype}, 0)
    for base in [10, 2]:
        out = torch.tensor(np.logspace(-1, 2, 4, base=base))
        case("logspace fn", [], [out], {"base": base}, 4)
    a, b, c = rand((3,)), rand((2,)), rand(())
    for indexing in ["ij", "xy"]:
        for vectors in [[a, b], [a, b, c], [a]]:
            outs = [torch.tensor(v) for v in np.meshgrid(*[v.numpy() for v in vectors], indexing=indexing)]
            case("meshgrid fn", vectors, outs, {"indexing": indexing}, 0, True)
    a, b = torch.tensor([1, 2]), torch.tensor([True, False, True])
    case("meshgrid fn", [a, b], [torch.tensor(v) for v in np.meshgrid(a, b, indexing="ij")], {"indexing": "ij"}, 0)
    for periodic in [True, False]:
        for size in [0, 1, 2, 7, 8]:
            for name in ["hann", "hamming", "blackman", "bartlett"]:
                out = getattr(torch, name + "_window")(size, periodic=periodic)
                for dtype in ["f64", "f32"]:
                    case("window fn", [], [cast(out, dtype)],
                         {"name": name, "size": size, "periodic": periodic, "dtype": dtype}, 8, floor=1)
    x = rand((2, 3), "f16")
    case("likes fn", [x], [torch.full_like(x, 2.5, dtype=torch.float64), torch.zeros_like(x, dtype=torch.int8),
                           torch.ones_like(x, dtype=torch.bool), torch.zeros_like(x), torch.zeros_like(x).int()], {}, 0)


FAMILIES = [triangles, diagonals, ranges]
