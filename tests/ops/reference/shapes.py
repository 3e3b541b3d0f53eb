"""Views, slices, indexing and joining."""

import torch.nn.functional as F

from common import *


def shapes():
    def everywhere(op, shape, f, attrs):
        for dtype in ["f64", "i8", "bool", "bf16"]:
            x = any_tensor(shape, dtype)
            case(op, [x], [f(x)], attrs, 0, dtype == "f64" and 0 not in shape)
    everywhere("reshape", (2, 6), lambda x: x.reshape(3, 4), {"shape": [3, 4]})
    everywhere("reshape", (2, 6), lambda x: x.reshape(-1), {"shape": [-1]})
    everywhere("reshape", (2, 3, 4), lambda x: x.reshape(6, 2, 2), {"shape": [-1, 2, 2]})
    everywhere("reshape", (1, 1), lambda x: x.reshape(()), {"shape": []})
    everywhere("reshape", (), lambda x: x.reshape(1, 1), {"shape": [1, 1]})
    everywhere("reshape", (0, 3), lambda x: x.reshape(3, 0, 2), {"shape": [3, 0, 2]})
    everywhere("permute", (2, 3, 4), lambda x: x.permute(2, 0, 1), {"axes": [2, 0, 1]})
    everywhere("permute", (2, 3, 4), lambda x: x.permute(1, 2, 0), {"axes": [1, -1, 0]})
    everywhere("permute", (), lambda x: x, {"axes": []})
    everywhere("squeeze", (2, 1, 3), lambda x: x.squeeze(1), {"axis": -2})
    everywhere("unsqueeze", (2, 3), lambda x: x.unsqueeze(1), {"axis": 1})
    everywhere("unsqueeze", (2, 3), lambda x: x.unsqueeze(2), {"axis": -1})
    everywhere("unsqueeze", (), lambda x: x.unsqueeze(0), {"axis": 0})
    everywhere("expand", (3, 1), lambda x: x.expand(2, 3, 4), {"shape": [2, -1, 4]})
    everywhere("expand", (), lambda x: x.expand(2, 2), {"shape": [2, 2]})
    everywhere("expand", (1, 2), lambda x: x.expand(0, 2), {"shape": [0, 2]})
    for begin, end, step in [(0, 2, 1), (1, 1 << 61, 1), (-2, 1 << 61, 1), (0, -1, 1), (1, 6, 2),
                             (0, 1 << 61, 3), (4, 2, 1), (-9, 9, 4)]:
        everywhere("slice", (7, 2), lambda x: x[begin:end:step],
                   {"axis": 0, "begin": begin, "end": end, "step": step})
        everywhere("slice", (2, 7), lambda x: x[:, begin:end:step],
                   {"axis": -1, "begin": begin, "end": end, "step": step})
    everywhere("select", (3, 4), lambda x: x[1], {"axis": 0, "index": 1})
    everywhere("select", (3, 4), lambda x: x[:, -1], {"axis": 1, "index": -1})
    for low, high in [([1, 0], [0, 2]), ([-1, 1], [0, -2])]:
        pads = [low[1], high[1], low[0], high[0]]
        everywhere("pad", (3, 4), lambda x: F.pad(x.double(), pads).to(x.dtype),
                   {"low": low, "high": high, "value": 0})
    x = rand((2, 3))
    case("pad", [x], [F.pad(x, [1, 0, 0, 2], value=1.5)], {"low": [0, 1], "high": [2, 0], "value": 1.5},
         0, True)
    for dtype in ["f64", "i16", "bool"]:
        parts = [any_tensor(s, dtype) for s in [(2, 3), (2, 1), (2, 0), (2, 2)]]
        case("concat", parts, [torch.cat(parts, 1)], {"axis": 1}, 0)
        parts = [any_tensor(s, dtype) for s in [(2, 3), (1, 3)]]
        case("concat", parts, [torch.cat(parts, 0)], {"axis": 0}, 0, dtype == "f64")
    x = rand((2, 3))
    case("concat", [x], [x], {"axis": 1}, 0, True)
    case("full", [], [torch.full((2, 3), 1.5).float()], {"shape": [2, 3], "value": 1.5, "dtype": "f32"})
    case("full", [], [torch.full((), 7)], {"shape": [], "value": 7, "dtype": "i64"})
    case("full", [], [torch.full((0, 2), True)], {"shape": [0, 2], "value": 1, "dtype": "bool"})
    case("arange", [], [torch.arange(2, 12, 3)], {"count": 4, "begin": 2, "step": 3, "dtype": "i64"})
    case("arange", [], [torch.arange(5, 0, -1).float()], {"count": 5, "begin": 5, "step": -1, "dtype": "f32"})
    case("arange", [], [torch.arange(0)], {"count": 0, "begin": 0, "step": 1, "dtype": "i64"})
    case("size_tensor", [], [torch.tensor(12)], {"size": 12})


def indexing():
    set_floor(1)
    for dtype in ["f64", "i32", "bool"]:
        for index_dtype in ["i64", "i32"]:
            for shape, index_shape, axis in [((3, 4), (3, 2), 1), ((3, 4), (2, 4), 0),
                                             ((2, 3, 4), (2, 5, 4), 1), ((5,), (3,), 0), ((4, 3), (2, 2), 0),
                                             ((3, 4), (3, 0), 1)]:
                x = any_tensor(shape, dtype)
                index = randint(index_shape, index_dtype, -shape[axis], shape[axis])
                positive = index.long() % shape[axis]
                case("gather", [x, index], [torch.gather(x, axis, positive)], {"axis": axis}, 0,
                     dtype == "f64" and index_dtype == "i64" and 0 not in index_shape)
                if dtype != "bool":
                    source = any_tensor(index_shape, dtype)
                    case("scatter_add", [x, index, source],
                         [x.scatter_add(axis, positive, source)], {"axis": axis}, 4,
                         dtype == "f64" and index_dtype == "i64" and 0 not in index_shape)
            for shape, index_shape, axis in [((4, 3), (5,), 0), ((2, 4, 3), (2, 2), 1), ((4, 3), (), 0),
                                             ((3, 4), (0,), 1)]:
                x = any_tensor(shape, dtype)
                index = randint(index_shape, index_dtype, -shape[axis], shape[axis])
                out = torch.tensor(np.take(x.numpy(), index.numpy().astype(np.int64) % shape[axis], axis))
                case("index_select", [x, index], [out], {"axis": axis}, 0,
                     dtype == "f64" and index_dtype == "i64" and 0 not in index_shape)


# --- products, windows ----------------------------------------------------------------------------


def parts_replaced():
    def replaced(op, shape, part, attrs):
        for dtype in ["f64", "i8", "bool", "bf16"]:
            x = any_tensor(shape, dtype)
            out = x.clone()
            source = any_tensor(tuple(part(x).shape), dtype)
            part(out).copy_(source)
            case(op, [x, source], [out], attrs, 0, dtype == "f64" and source.numel() > 0)
    for begin, end, step in [(0, 2, 1), (1, 1 << 61, 1), (-2, 1 << 61, 1), (1, 6, 2),
                             (0, 1 << 61, 3), (4, 2, 1)]:
        replaced("slice_scatter", (7, 2), lambda x: x[begin:end:step],
                 {"axis": 0, "begin": begin, "end": end, "step": step})
        replaced("slice_scatter", (2, 7), lambda x: x[:, begin:end:step],
                 {"axis": -1, "begin": begin, "end": end, "step": step})
    replaced("slice_scatter", (3,), lambda x: x[:], {"axis": 0, "begin": 0, "end": 3, "step": 1})
    replaced("select_scatter", (3, 4), lambda x: x[1], {"axis": 0, "index": 1})
    replaced("select_scatter", (3, 4), lambda x: x[:, -1], {"axis": 1, "index": -1})
    replaced("select_scatter", (2, 3, 4), lambda x: x[:, 2], {"axis": -2, "index": 2})
    replaced("select_scatter", (3,), lambda x: x[0], {"axis": 0, "index": 0})


def shapes_said():
    for dtype in ["f64", "i8", "bool", "bf16"]:
        for shape in [(2, 3), (0, 4), ()]:
            x = any_tensor(shape, dtype)
            case("assume_shape", [x], [x], {"shape": list(shape)}, 0, dtype == "f64" and 0 not in shape)


def in_order():
    for dtype in ["f64", "f32", "i8", "bool"]:
        for shape in [(2, 3), (), (0, 2)]:
            x = (torch.arange(int(np.prod(shape)), dtype=torch.float64).reshape(shape) - 1.5).to(DTYPES[dtype])
            case("contiguous", [x], [x.contiguous()], {}, 0, dtype == "f64" and x.numel() > 0)


FAMILIES = [shapes, indexing, parts_replaced, shapes_said, in_order]
