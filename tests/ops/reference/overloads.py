"""Further forms of functions: with a dtype, without an axis, by a tensor in the place of a number; and other names."""

import numpy as np
import torch
import torch.nn.functional as F

from common import *


def n(x):
    return x.numpy()


def of_dtypes():
    x, small, yes = rand((3, 4)), randint((3, 4), "i8", 50, 120), randbool((3, 4))
    for name, f in [("sum", torch.sum), ("mean", torch.mean), ("prod", torch.prod)]:
        for t in [x, small, yes]:
            for dtype in ["f64", "f32"] + (["i64", "i32", "u8", "bool"] if name != "mean" else []):
                if not t.dtype.is_floating_point or DTYPES[dtype].is_floating_point:
                    want = f(t, dim=1, keepdim=True, dtype=DTYPES[dtype])
                    attrs = {"axes": [1], "keepdim": True, "dtype": dtype}
                    case(f"{name} of dtype", [t], [want], attrs, 8, dtype == "f64" and t is x, floor=1)
            case(f"{name} of dtype", [t], [f(t, dtype=torch.float64)], {"dtype": "f64"}, 8)
    for name, f in [("cumsum", torch.cumsum), ("cumprod", torch.cumprod)]:
        for t, dtype in [(x, "f64"), (x, "f32"), (x, "i64"), (small, "f32"), (small, "i32"), (small, "i8"), (yes, "f64")]:
            want = f(t, 1, dtype=DTYPES[dtype])
            case(f"{name} of dtype", [t], [want], {"axis": 1, "dtype": dtype}, 8, dtype == "f64" and t is x, floor=1)


def rounded():
    a = torch.tensor([7, -7, 7, -7, 6, -6, 0, 5])
    b = torch.tensor([2, 2, -2, -2, 3, 3, 4, -7])
    for dtype in ["i64", "i32", "i8", "f64", "f32"]:
        for rounding in ["trunc", "floor"]:
            want = torch.div(cast(a, dtype), cast(b, dtype), rounding_mode=rounding)
            case("div rounded", [cast(a, dtype), cast(b, dtype)], [want], {"rounding": rounding}, 1)
    low = torch.tensor([-128, -127, 127], dtype=torch.int8)
    case("div rounded", [low, torch.tensor([3, 2, -2], dtype=torch.int8)],
         [torch.tensor([-42, -63, -63], dtype=torch.int8)], {"rounding": "trunc"}, 0)
    x, y = rand((3, 4), low=0.6, high=2.9), rand((4,), low=0.3, high=0.9)
    for rounding in ["trunc", "floor"]:
        case("div rounded", [x, y], [torch.div(x, y, rounding_mode=rounding)], {"rounding": rounding}, 1, True)
    u, v = torch.tensor([250, 7], dtype=torch.uint8), torch.tensor([3, 9], dtype=torch.uint8)
    case("div rounded", [u, v], [torch.div(u, v, rounding_mode="trunc")], {"rounding": "trunc"}, 0)

    x = floats_of("1.2345 -1.2355 2.5 -0.125 1234.5678 -1e20 0 -0 inf -inf nan")
    for dtype in FLOATS:
        for decimals in [0, 1, 2, 3, -1, -2]:
            t = cast(x if dtype != "f16" else torch.clamp(x, -60000, 60000), dtype)
            work = t if dtype == "f64" else t.float()
            case("round decimals", [t], [torch.round(work, decimals=decimals).to(t.dtype)], {"decimals": decimals}, 1)
    case("round decimals", [rand((3,))], [torch.zeros(3)], {"decimals": -2}, 1, True)
    i = torch.tensor([15, 25, -15, -25, 24, 26, 149, 151, -1, 0])
    for dtype in ["i64", "i32", "i16", "u8"]:
        t = cast(i.abs() if dtype == "u8" else i, dtype)
        for decimals in [2, 0, -1, -2]:
            want = torch.tensor(np.round(n(t).astype(np.int64), decimals)).to(t.dtype)
            case("round decimals", [t], [want], {"decimals": decimals}, 0)
    large = torch.tensor([(1 << 60) + 5, -(1 << 60) - 55])
    case("round decimals", [large], [torch.tensor([1152921504606846980, -1152921504606847000 - 30])], {"decimals": -1}, 0)
    case("round decimals", [large], [torch.zeros(2, dtype=torch.int64)], {"decimals": -19}, 0)

    for dtype in FLOATS:
        x = cast(floats_of("1.5 -1.5 0 -0 3 -3 0.25 inf -inf nan -100.75"), dtype)
        fraction, whole = np.modf(n(x.double()))
        case("modf fn", [x], [cast(torch.tensor(fraction), dtype), cast(torch.tensor(whole), dtype)], {}, 0)
    x = rand((3, 4), low=0.6, high=0.9)
    case("modf fn", [x], [*map(torch.tensor, np.modf(n(x)))], {}, 1, True)
    case("modf fn", [torch.tensor([3, -2])], [torch.tensor([0.0, -0.0]).float(), torch.tensor([3.0, -2.0]).float()], {}, 0)


def in_places():
    x, counts = rand((2, 3)), torch.tensor([2, 0, 1, 3, 1, 0])
    case("repeat_interleave flat", [x], [torch.repeat_interleave(x, 3)], {"count": 3}, 0, True)
    case("repeat_interleave flat", [x, counts], [torch.repeat_interleave(x, counts)], {}, 0, True)
    case("repeat_interleave flat", [x, torch.tensor(2)], [torch.repeat_interleave(x, 2)], {}, 0)

    for t in [randbool((3, 4)), randint((2, 3, 2), "i64", -1, 2), torch.tensor([True]), torch.zeros(0), torch.tensor(5.0)]:
        case("where places", [t], [*torch.where(t)], {}, 0)

    x = rand((2, 1, 3, 1))
    for axes in [[1], [1, 3], [-1, 1], []]:
        want = x
        for axis in sorted((a % 4 for a in axes), reverse=True):
            want = want.squeeze(axis)
        case("squeeze axes", [x], [want], {"axes": axes}, 0, True)
    x = rand((5, 7))
    for indices, axis in [([2, 5], 1), ([2], 1), ([], 0), ([-1], 0), ([3, 3, 9], 0), ([1, 2, 3], -1)]:
        want = [torch.tensor(part) for part in np.array_split(n(x), indices, axis)]
        case("tensor_split at", [x], want, {"indices": indices, "axis": axis}, 0, True)
    case("split method", [x], [*torch.split(x, [2, 4, 1], 1)], {"sizes": [2, 4, 1], "axis": 1}, 0, True)

    index = torch.tensor([[0, -1], [2, 2]])
    for axis in [0, 1, -1]:
        want = torch.tensor(np.take(n(x), n(index), axis))
        case("take along", [x, index], [want], {"axis": axis}, 0, True)
    x, values = rand((3, 4)), rand((3, 2))
    index = torch.tensor([[1, 3], [0, 2], [3, 1]])
    for at, v in [(index, values), (index[:1], values[:1]), (index[:, :1], torch.tensor([[7.0]]))]:
        want = n(x).copy()
        np.put_along_axis(want, n(at), n(v), 1)
        if v.shape == at.shape and at.shape[0] == 3:
            case("put_along_axis fn", [x, at, v], [torch.tensor(want)], {"axis": 1}, 0, True)
        else:
            case("put_along_axis fn", [x, at, v], [torch.tensor(want)], {"axis": -1}, 0)
    want = n(x).copy()
    np.put_along_axis(want, n(index), 2, 1)
    case("put_along_axis fn", [x, index], [torch.tensor(want)], {"axis": 1, "value": 2}, 0, True)
    case("take_along_dim fn", [x, index], [torch.take_along_dim(x, index, 1)], {"axis": 1}, 0, True)

    for indices in [[2, 0, 5], [[1], [0]], [0]]:
        t = torch.tensor(indices)
        case("one_hot of all", [t], [F.one_hot(t).float()], {"dtype": "f32"}, 0)
        case("one_hot of all", [t.to(torch.int32)], [F.one_hot(t)], {"dtype": "i64"}, 0)

    source, at = rand((2, 4)), torch.tensor([2, 0])
    for alpha in [2, -0.5]:
        case("index_add alpha", [x, at, source], [torch.index_add(x, 0, at, source, alpha=alpha)], {"alpha": alpha}, 1, True)
    i = randint((3, 4), "i64")
    case("index_add alpha", [i, at, i[:2]], [torch.index_add(i, 0, at, i[:2], alpha=3)], {"alpha": 3}, 0)

    yes, no = torch.tensor(True), torch.tensor(False)
    for mask in [yes, no]:
        case("index flag", [x, mask], [torch.tensor(n(x)[bool(mask)])], {}, 0, bool(mask))
        case("index flag behind", [x, mask], [torch.tensor(n(x)[..., bool(mask)])], {}, 0)
        case("index flag", [torch.tensor(3.0), mask], [torch.tensor(n(torch.tensor(3.0))[bool(mask)])], {}, 0)
        want = n(x).copy()
        want[bool(mask)] = 5
        case("index_put flag", [x, mask], [torch.tensor(want)], {"value": 5}, 0, True)


def statistics():
    x = rand((4, 5))
    for bins, low, high in [(4, 0, 0), (10, -2, 2), (3, -0.5, 1), (1, 0, 0)]:
        counts, edges = np.histogram(n(x), bins, None if low == high else (low, high))
        attrs = {"bins": bins, "low": low, "high": high, "density": False}
        function_case("histogram by count", [x], [torch.tensor(counts).double(), torch.tensor(edges)], attrs, 4)
        density, edges = np.histogram(n(x), bins, None if low == high else (low, high), density=True)
        attrs = {**attrs, "density": True}
        case("histogram by count", [x], [torch.tensor(density), torch.tensor(edges)], attrs, 4)
    weights = rand((4, 5), low=0.1, high=1)
    counts, edges = np.histogram(n(x), 4, (-2, 2), weights=n(weights))
    attrs = {"bins": 4, "low": -2, "high": 2, "density": False}
    case("histogram by count", [x, weights], [torch.tensor(counts), torch.tensor(edges)], attrs, 8)
    same = torch.full((3,), 2.0)
    counts, edges = torch.histogram(same, 2)
    case("histogram by count", [same], [counts, edges], {"bins": 2, "low": 0, "high": 0, "density": False}, 4)

    q = torch.tensor([0.0, 0.3, 0.5, 1.0])
    for interpolation in ["linear", "lower", "higher", "midpoint", "nearest"]:
        for axis in [0, -1]:
            for keepdim in [False, True]:
                attrs = {"axis": axis, "keepdim": keepdim, "interpolation": interpolation}
                want = torch.quantile(x, q, axis, keepdim, interpolation=interpolation)
                function_case("quantiles fn", [x, q], [want], attrs, 8, floor=1)
    inner = torch.tensor([0.07, 0.31, 0.68])
    want = torch.quantile(x, inner, 1)
    case("quantiles fn", [x, inner], [want], {"axis": 1, "keepdim": False, "interpolation": "linear"}, 8, True, floor=1)
    case("quantiles fn", [x, inner[0]], [want[0]], {"axis": 1, "keepdim": False, "interpolation": "linear"}, 8, floor=1)
    case("quantiles fn", [x, inner], [torch.quantile(x, inner)], {}, 8, True, floor=1)
    case("quantiles fn", [torch.tensor(2.5), inner], [torch.full((3,), 2.5)], {"axis": 0, "keepdim": False, "interpolation": "linear"}, 0)

    p, t = torch.log_softmax(rand((3, 4)), 1), torch.softmax(rand((3, 4)), 1)
    function_case("kl_div batchmean", [p, t], [F.kl_div(p, t, reduction="batchmean")], {}, 16, True, floor=1)

    x, bound = 2 * rand((3, 4)), rand((4,))
    case("clamp low number", [x, bound + 1], [torch.clamp(x, torch.tensor(-0.5), bound + 1)], {"low": -0.5}, 0, True)
    case("clamp high number", [x, bound - 1], [torch.clamp(x, bound - 1, torch.tensor(0.5))], {"high": 0.5}, 0, True)
    i = torch.arange(6)
    case("clamp low number", [i, torch.tensor(4)], [torch.clamp(i, 2, 4)], {"low": 2}, 0)


def pools():
    def sums(x, kernel, stride, padding, dilation):
        axes = x.dim() - 2
        conv = [F.conv1d, F.conv2d, F.conv3d][axes - 1]
        ones = torch.ones(x.shape[1], 1, *kernel)
        return conv(x, ones, None, stride, padding, dilation, x.shape[1])

    for shape, kernel, stride, padding, dilation in [
            ((2, 3, 9), [3], [2], [1], [2]), ((1, 2, 8, 7), [2, 3], [1, 2], [1, 0], [3, 1]), ((2, 2, 5, 6, 5), [2, 2, 2], [1, 2, 1], [0, 1, 0], [2, 2, 3])]:
        x = rand(shape)
        attrs = {"kernel": kernel, "stride": stride, "padding": padding, "dilation": dilation}
        total, count = sums(x, kernel, stride, padding, dilation), sums(torch.ones_like(x), kernel, stride, padding, dilation)
        function_case("avg_pool dilated", [x], [total / math.prod(kernel)], {**attrs, "include": True}, 16, True, floor=1, onnx=19)
        function_case("avg_pool dilated", [x], [total / count], {**attrs, "include": False}, 16, True, floor=1, onnx=19)
        power = sums(x ** 2, kernel, stride, padding, dilation) ** 0.5
        function_case("lp_pool dilated", [x], [power], {**attrs, "p": 2}, 16, True, floor=1, onnx=18)

    sizes = {1: (6,), 2: (6, 7), 3: (4, 5, 6)}
    for axes in [1, 2, 3]:
        avg = [F.adaptive_avg_pool1d, F.adaptive_avg_pool2d, F.adaptive_avg_pool3d][axes - 1]
        most = [F.adaptive_max_pool1d, F.adaptive_max_pool2d, F.adaptive_max_pool3d][axes - 1]
        pool = [F.max_pool1d, F.max_pool2d, F.max_pool3d][axes - 1]
        unpool = [F.max_unpool1d, F.max_unpool2d, F.max_unpool3d][axes - 1]
        lp = [F.lp_pool1d, F.lp_pool2d, F.lp_pool3d][axes - 1]
        for lead in [(2, 3), (3,)]:
            x = rand(lead + sizes[axes])
            for size in [[2], list(range(2, 2 + axes))]:
                attrs = {"axes": axes, "size": size}
                given = size if len(size) == axes else size * axes
                case("adaptive_avg_pool nd", [x], [avg(x, given)], attrs, 16, True, floor=1)
                case("adaptive_max_pool nd", [x], [most(x, given)], attrs, 0, True)
            y, at = pool(x, 2, return_indices=True)
            even = x[(..., *[slice(d // 2 * 2) for d in sizes[axes]])].contiguous()
            z, places = pool(even, 2, return_indices=True)
            case("max_unpool nd", [z, places], [unpool(z, places, 2)], {"axes": axes, "kernel": 2, "size": []}, 0, True)
            want = unpool(y, at, 2, output_size=list(sizes[axes]))
            case("max_unpool nd", [y, at], [want], {"axes": axes, "kernel": 2, "size": list(sizes[axes])}, 0)
            case("lp_pool nd", [x], [lp(x, 4, 2, 1, False)], {"axes": axes, "p": 4, "kernel": 2, "stride": 1, "ceil": False}, 32, True, floor=1)
            case("lp_pool nd", [x], [lp(x, 2, 3)], {"axes": axes, "p": 2, "kernel": 3, "stride": 0, "ceil": False}, 32, floor=1)
            # Of f32 another runtime has them, too.
            even32 = even.float()
            z, places = pool(even32, 2, return_indices=True)
            case("max_unpool nd", [z, places], [unpool(z, places, 2)], {"axes": axes, "kernel": 2, "size": []}, 0)
            case("lp_pool nd", [even32], [lp(even32, 2, 2)], {"axes": axes, "p": 2, "kernel": 2, "stride": 0, "ceil": False}, 32, floor=1)
    columns = rand((2, 3 * 4, 12))
    case("fold fn", [columns], [F.fold(columns, (4, 5), 2)], {"size": [4, 5], "kernel": 2}, 4, True, floor=1)


def by_other_names():
    a, b, p = rand((3, 4)), rand((3, 4), low=0.5, high=2), rand((3, 4), low=0.5, high=2)
    for name, inputs, want in [
            ("subtract", [a, b], a - b), ("multiply", [a, b], a * b), ("divide", [a, b], a / b), ("power", [p, a], p ** a),
            ("negative", [a], -a), ("absolute", [a], a.abs()), ("cat", [a, b], torch.cat([a, b], 1)),
            ("concatenate", [a, b], torch.cat([a, b], 1)), ("clip", [a], a.clip(-0.5, 0.5)),
            ("clip tensor", [a, b - 2], torch.maximum(a, b - 2)), ("moveaxis", [rand((2, 3, 4))], None),
            ("vdot", [a, b], (a * b).sum()), ("trapz", [a], torch.trapz(a)), ("trapz at", [a, torch.cumsum(b, 1)], None),
            ("inv", [rand((3, 3)) + 3 * torch.eye(3)], None)]:
        if name == "moveaxis":
            want = torch.moveaxis(inputs[0], 0, 2)
        if name == "trapz at":
            want = torch.trapz(*inputs)
        if name == "inv":
            want = torch.linalg.inv(inputs[0])
        case("other name", inputs, [want], {"name": name}, 16, True, floor=1)
    edges = torch.tensor([-1.0, 0.0, 1.5])
    x = floats_of("-2 -1 -0.5 0 1.5 2")
    for right in [False, True]:
        want = torch.tensor(np.digitize(n(x), n(edges), right))
        case("digitize fn", [x, edges], [want], {"right": right}, 0)


FAMILIES = [of_dtypes, rounded, in_places, statistics, pools, by_other_names]
