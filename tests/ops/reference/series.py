"""Numbers in a row, statistics of samples."""

import math

import numpy as np
import torch

from common import *


def rows():
    x = rand((3, 5))
    for n in [0, 1, 2]:
        for axis in [0, -1]:
            function_case("diff fn", [x, None, None], [torch.diff(x, n, axis)], {"n": n, "axis": axis}, 4, True, floor=4)
    before, after = rand((3, 1)), rand((3, 2))
    want = torch.diff(x, 2, 1, before, after)
    function_case("diff fn", [x, before, after], [want], {"n": 2, "axis": 1}, 4, True, floor=4)
    b = randbool((6,))
    case("diff fn", [b, None, None], [torch.diff(b)], {"n": 1, "axis": 0}, 0)
    i = randint((6,), "i32")
    case("diff fn", [i, None, None], [torch.diff(i)], {"n": 1, "axis": 0}, 0)
    case("diff fn", [x[:, :0], None, None], [torch.diff(x[:, :0])], {"n": 1, "axis": 1}, 0)

    points = torch.cumsum(rand((5,), low=0.2, high=1), 0)
    for axis in [0, 1]:
        attrs = {"step": 0.5, "axis": axis}
        function_case("gradient fn", [x], [torch.gradient(x, spacing=0.5, dim=axis)[0]], attrs, 8, True, floor=4)
        function_case("trapezoid fn", [x], [torch.trapezoid(x, dx=0.5, dim=axis)], attrs, 8, True, floor=4)
        function_case("cumulative_trapezoid fn", [x], [torch.cumulative_trapezoid(x, dx=0.5, dim=axis)], attrs, 8, True,
                      floor=4)
    function_case("gradient fn", [x, points], [torch.gradient(x, spacing=(points,), dim=1)[0]], {"axis": 1}, 16, True, floor=4)
    function_case("gradient fn", [x[:, :2], points[:2]], [torch.gradient(x[:, :2], spacing=(points[:2],), dim=1)[0]], {"axis": -1}, 16,
                  True, floor=4)
    function_case("trapezoid fn", [x, points], [torch.trapezoid(x, points, dim=1)], {"axis": 1}, 8, True, floor=4)
    at = torch.cumsum(rand((3, 5), low=0.2, high=1), 0)
    function_case("trapezoid fn", [x, at], [torch.trapezoid(x, at, dim=0)], {"axis": 0}, 8, True, floor=4)
    function_case("cumulative_trapezoid fn", [x, at], [torch.cumulative_trapezoid(x, at, dim=0)], {"axis": 0}, 8, True,
                  floor=4)

    for n, m in [(5, 3), (3, 5), (4, 4), (6, 2), (3, 1)]:
        a, v = rand((n,)), rand((m,))
        for mode in ["full", "same", "valid"]:
            want = torch.tensor(np.convolve(a.numpy(), v.numpy(), mode))
            function_case("convolve fn", [a, v], [want], {"mode": mode}, 16, mode != "valid", floor=4)
            if n >= m:
                want = torch.tensor(np.correlate(a.numpy(), v.numpy(), mode))
                function_case("correlate fn", [a, v], [want], {"mode": mode}, 16, floor=4)
    points, values = torch.tensor([-1.0, 0.5, 1.0, 3.0]), rand((4,))
    at = torch.tensor([[-2.0, -0.7, 0.3], [0.9, 2.2, 5.0]])
    want = torch.tensor(np.interp(at.numpy(), points.numpy(), values.numpy()))
    function_case("interp fn", [at, points, values], [want], {}, 8, True, floor=4)
    edge = floats_of("-1 0.5 3 inf -inf nan")
    case("interp fn", [edge, points, values], [torch.tensor(np.interp(edge.numpy(), points.numpy(), values.numpy()))],
         {}, 8)
    case("interp fn", [edge[:3], points[:1], values[:1]], [values[:1].expand(3)], {}, 8)
    c, x = rand((4,)), rand((2, 3))
    function_case("polyval fn", [c, x], [torch.tensor(np.polyval(c.numpy(), x.numpy()))], {}, 16, True, floor=8)
    case("polyval fn", [c[:0], x], [torch.zeros(2, 3)], {})
    angles = torch.tensor([[0.0, 3.0, -3.0, -2.0, 2.5], [1.0, 7.5, 14.0, 3.0, 3.2]])
    for axis in [0, 1]:
        for period in [2 * math.pi, 4.0]:
            want = torch.tensor(np.unwrap(angles.numpy(), axis=axis, period=period))
            function_case("unwrap fn", [angles], [want], {"period": period, "axis": axis}, 16, period != 4 and axis == 1,
                          floor=8)


def samples():
    x = rand((3, 6))
    repeats, weights = torch.tensor([1, 2, 0, 1, 3, 1]), rand((6,), low=0.1, high=1)
    for correction in [1, 0]:
        attrs = {"correction": correction}
        function_case("cov fn", [x, None, None], [torch.cov(x, correction=correction)], attrs, 32, True, floor=1)
        function_case("cov fn", [x[0], None, None], [torch.cov(x[0], correction=correction)], attrs, 32, True, floor=1)
        want = torch.cov(x, correction=correction, fweights=repeats, aweights=weights)
        function_case("cov fn", [x, repeats, weights], [want], attrs, 32, True, floor=1)
        want = torch.cov(x, correction=correction, fweights=repeats)
        function_case("cov fn", [x, repeats, None], [want], attrs, 32, floor=1)
    function_case("corrcoef fn", [x], [torch.corrcoef(x)], {}, 32, floor=1)
    case("corrcoef fn", [x[0]], [torch.corrcoef(x[0])], {}, 8)
    w = rand((3, 6), low=0.1, high=1)
    for axes in [[0], [1], []]:
        want = torch.tensor(np.average(x.numpy(), axes[0] if axes else None, w.numpy()))
        function_case("average fn", [x, w], [want], {"axes": axes}, 16, True, floor=1)
    want = torch.tensor(np.average(x.numpy(), 1, w[0].numpy()))
    function_case("average fn", [x, w[0]], [want], {"axes": [1]}, 16, True, floor=1)
    for axes in [[], [0], [1]]:
        want = torch.tensor(np.ptp(x.numpy(), tuple(axes) if axes else None))
        function_case("ptp fn", [x], [want], {"axes": axes}, 4, True, floor=4)
    x = cast(randint((4, 7), "i32", 0, 4), "f64")
    for t in [x, x.long(), x.float(), x.to(torch.int8)]:
        for axis in [0, 1]:
            # The last place: PyTorch's own is the one that sorting leaves there.
            values = torch.mode(t, axis).values
            places = (t == values.unsqueeze(axis)).long() * torch.arange(1, t.shape[axis] + 1).reshape(
                (-1, 1) if axis == 0 else (1, -1))
            indices = places.max(axis).values - 1
            case("mode fn", [t], [values, indices], {"axis": axis, "keepdim": False}, 0)
            case("mode fn", [t], [values.unsqueeze(axis), indices.unsqueeze(axis)], {"axis": axis, "keepdim": True}, 0)
    x = rand((2, 4))
    case("mode values fn", [x], [x.min(1).values], {"axis": 1}, 0, True)
    case("mode fn", [torch.tensor(3.0)], [torch.tensor(3.0), torch.tensor(0)], {"axis": 0, "keepdim": False}, 0)
    x = rand((3, 5))
    for p in [0, 30, 100]:
        case("percentile fn", [x], [torch.quantile(x, p / 100, 1)], {"p": p, "axis": 1}, 8, True)


def with_missing():
    x = rand((3, 5))
    x[0, 1] = x[2, 0] = x[2, 4] = math.nan
    x[1] = math.nan
    full = rand((3, 4))
    for name, f in [("nanmax fn", np.nanmax), ("nanmin fn", np.nanmin), ("nanprod fn", np.nanprod)]:
        for axis in [None, 0, 1]:
            attrs = {"axes": [] if axis is None else [axis]}
            with np.errstate(all="ignore"):
                want = torch.tensor(f(x.numpy(), axis))
            function_case(name, [x], [want], attrs, 8)
            function_case(name, [full], [torch.tensor(f(full.numpy(), axis))], attrs, 8, True)
        i = randint((5,), "i64", 1, 6)
        case(name, [i], [torch.tensor(f(i.numpy()))], {"axes": []}, 0)
    for name, f in [("nanvar fn", np.nanvar), ("nanstd fn", np.nanstd)]:
        for axis in [None, 0, 1]:
            for keepdim in [False, True]:
                attrs = {"axes": [] if axis is None else [axis], "correction": 1, "keepdim": keepdim}
                want = torch.tensor(f(x.numpy(), axis, ddof=1, keepdims=keepdim))
                function_case(name, [x], [want], attrs, 16, floor=1)
        want = torch.tensor(f(full.numpy(), 1))
        function_case(name, [full], [want], {"axes": [1], "correction": 0, "keepdim": False}, 16, True, floor=1)
    for axis in [0, 1]:
        function_case("nancumsum fn", [x], [torch.tensor(np.nancumsum(x.numpy(), axis))], {"axis": axis}, 8, floor=4)
        for q in [0, 0.3, 0.5, 1]:
            want = torch.nanquantile(x, q, axis)
            function_case("nanquantile fn", [x], [want], {"q": q, "axis": axis}, 16, floor=1)
    case("nanquantile fn", [full], [torch.nanquantile(full, 0.4, 1)], {"q": 0.4, "axis": 1}, 16, True, floor=1)


def distances():
    a, b = rand((3, 4)), rand((3, 4))
    for p in [1, 2, 3]:
        function_case("dist fn", [a, b], [torch.dist(a, b, p)], {"p": p}, 16, True)
        function_case("pdist fn", [a], [torch.nn.functional.pdist(a, p)], {"p": p}, 32, True)
        for axis in [0, 1]:
            attrs = {"p": p, "axis": axis, "most": 2.5}
            function_case("renorm fn", [a], [torch.renorm(a, p, axis, 2.5)], attrs, 32, True)
    v = rand((4,))
    function_case("renorm fn", [v], [torch.renorm(v[:, None], 2, 0, 0.7)[:, 0]], {"p": 2, "axis": 0, "most": 0.7}, 32, True)


FAMILIES = [rows, samples, with_missing, distances]
