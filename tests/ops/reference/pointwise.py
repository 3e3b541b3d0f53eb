"""Trigonometric, special and piecewise functions, division, bits, more activations."""

import math

import mpmath
import numpy as np
import torch
import torch.nn.functional as F

from common import *


def function(op, f, edges, low=-2, high=2, attrs=None, tol=4, tol64=None, grad=True, ints=True, floor=None,
             shapes=True):
    """A function with floating results: f in f64. f64 may be less exact than the others, which are rounded from it."""
    for dtype in FLOATS:
        x = cast(floats_of(edges), dtype)
        case(op, [x], [cast(f(wide(x)), dtype)], attrs, tol64 or tol if dtype == "f64" else tol, floor=floor)
    x = rand((3, 4), low=low, high=high)
    case(op, [x], [f(x)], attrs, tol64 or tol, grad, floor=floor)
    for shape in [(2, 5), (), (0, 2)] if shapes else []:
        x = rand(shape, "f32", low, high)
        case(op, [x], [cast(f(wide(x)), "f32")], attrs, tol, floor=floor)
    if ints:
        x = randint((5,), "i16", max(math.ceil(low), -7), math.floor(high) + 1)
        case(op, [x], [f(x.double()).float()], attrs, tol, floor=floor)
        x = torch.tensor([True, False])
        case(op, [x], [f(x.double()).float()], attrs, tol, floor=floor)


def pair(op, f, edges, low=-2, high=2, ints=False, tol=4, grad=True, floor=None):
    """A function of two numbers."""
    e = floats_of(edges)
    for dtype in FLOATS:
        a, b = cast(e[:, None], dtype), cast(e[None, :], dtype)
        case(op, [a, b], [cast(f(wide(a), wide(b)), dtype)], tol=tol, floor=floor)
    for sa, sb in [((3, 4), (3, 4)), ((3, 1), (4,)), ((), (2, 3)), ((0, 3), (3,))]:
        a, b = rand(sa, "f64", low, high), rand(sb, "f64", low, high)
        case(op, [a, b], [f(a, b)], tol=tol, grad=grad and 0 not in sa, floor=floor)
    a, b = randint((2, 3), "i32", 1), rand((3,), "f16", low, high)
    case(op, [a, b], [cast(f(a.double(), b.double()), "f16")], tol=tol, floor=floor)
    if ints:
        for da, db in [(d, d) for d in INTS] + [("i8", "u8"), ("u8", "i32")]:
            a, b = randint((3, 5), da, -100, 100), randint((3, 5), db, -100, 100)
            a, b = a.to(torch.promote_types(a.dtype, b.dtype)), b.to(torch.promote_types(a.dtype, b.dtype))
            b = torch.where(b == 0, 3, b).to(b.dtype)
            case(op, [a, b], [f(a, b)], tol=0)
    else:
        a, b = randint((4,), "i32", 1, 5), randint((4,), "i64", 1, 5)
        case(op, [a, b], [f(a.double(), b.double()).float()], tol=tol, floor=floor)


def trigonometry():
    angle = "0 -0 1e-20 0.5 -0.75 1 -1 1.5 inf nan"
    function("tan", torch.tan, "0 -0 1e-20 0.78 3.1415927 100 -1e4 inf nan", -1.3, 1.3)
    function("asin", torch.asin, angle, -0.9, 0.9)
    function("acos", torch.acos, angle, -0.9, 0.9)
    function("atan", torch.atan, "0 -0 1e-20 0.4 -1 3 1e20 inf -inf nan")
    function("sinh", torch.sinh, "0 -0 1e-20 1 -1 25 -80 89.4 710.4 -800 inf -inf nan")
    function("cosh", torch.cosh, "0 -0 1e-20 1 -1 25 -80 89.4 710.4 -800 inf -inf nan")
    function("asinh", torch.asinh, "0 -0 1e-20 0.3 -1 3e9 -1e30 inf -inf nan", tol=6)
    function("acosh", torch.acosh, "1 1.0000001 2 3e9 1e30 0.5 -2 inf -inf nan", 1.1, 5, tol=6)
    function("atanh", torch.atanh, angle, -0.9, 0.9, tol=6)
    edges = "0 -0 1 -1 2.5 -3.75 1e-20 3e38 inf -inf nan"
    pair("atan2", torch.atan2, edges)
    pair("hypot", torch.hypot, edges)
    x = floats_of("1e200 3e-200 1e308")
    case("hypot", [x, x], [torch.hypot(x, x)], tol=4)


def polygamma(n, x):
    """By mpmath, which torch brings: torch's own is off by 1e-10."""
    def one(v):
        if math.isnan(v) or math.isinf(v):
            return v if n == 0 or math.isnan(v) else 0.0
        if v == 0:
            return math.inf if n % 2 else -math.inf
        return float(mpmath.polygamma(n, v))
    return torch.tensor([one(v) for v in x.reshape(-1).tolist()]).reshape(x.shape)


def special():
    function("exp2", torch.exp2, "0 -0 1 -1 1e-8 127.5 128 -126 -150 1023 1025 -1075 inf -inf nan")
    function("log2", torch.log2, "0 -0 1 1.0000001 8 1e-30 3e38 -1 inf -inf nan", 0.2, 4)
    function("log10", torch.log10, "0 -0 1 1.0000001 1000 1e-30 3e38 -1 inf -inf nan", 0.2, 4)
    # In ONNX it is 1 - erf(x): what is tiny is as exact as that. tests/ir has it exactly.
    function("erfc", torch.erfc, "0 -0 1e-20 0.5 -1 2 5 -4 9.9 26 30 inf -inf nan", tol=8, floor=1)
    function("erfinv", torch.erfinv, "0 -0 1e-20 0.5 -0.9 0.9999 -0.99999 1 -1 1.5 inf nan", -0.95, 0.95, tol=16,
             ints=False)
    # Zeros of the functions lie between these.
    function("lgamma", torch.lgamma, "1 2 0.5 1e-20 3 8.5 30 1e30 0 -0 -1 -0.5 -2.5 inf nan", 0.3, 6, tol=16, floor=1)
    function("digamma", torch.digamma, "1 2 0.5 3 8.5 30 1e30 0 -0 -1 -0.5 -2.5 inf nan", 0.3, 6, tol=16, floor=1)
    for n in [0, 1, 2, 5]:
        function("polygamma", lambda x: polygamma(n, x), "1 2 0.5 3 8.5 30 -0.5 -2.5 inf nan", 0.3, 6, {"n": n},
                 tol=8, tol64=8 * (n + 1), ints=n < 2, floor=1, shapes=n == 1)
    pair("logaddexp", torch.logaddexp, "0 -0 1 -1 1000 -1000 3e38 inf -inf nan", floor=1)
    pair("xlogy", torch.xlogy, "0 -0 1 -1 2.5 1e-20 3e38 inf -inf nan", 0.2, 3)
    x = rand((6,))
    case("reciprocal", [x], [1 / x], tol=2, grad=True)
    case("reciprocal", [torch.tensor([1, 2, -4])], [torch.tensor([1, 0.5, -0.25]).float()])
    case("reciprocal", [floats_of("0 -0 inf nan")], [floats_of("inf -inf 0 nan")])
    function("erfcx", torch.special.erfcx, "0 -0 1e-20 0.5 -1 2 5 -4 -9 9.9 26 27.9 28.1 1000 1e20 inf -inf nan", tol=16)


def division():
    edges = "0 -0 1 -1 2.5 -3.75 0.1 1e6 inf -inf nan"
    pair("floor_divide", torch.floor_divide, edges, 0.6, 2.9, True)
    pair("remainder", torch.remainder, edges, 0.6, 2.9, True, tol=0)
    pair("fmod", torch.fmod, edges, 0.6, 2.9, True, tol=0)
    for op in ["floor_divide", "remainder", "fmod"]:
        for dtype in ["i64", "i8"]:
            x, zero = cast(torch.tensor([5, 0, -3]), dtype), cast(torch.tensor([0]), dtype)
            case(op, [x, zero], [torch.zeros_like(x)], tol=0)
    x, y = floats_of("1e300 1e30 -1e25"), floats_of("1e263 7 0.3")
    case("fmod", [x, y], [torch.fmod(x, y)], tol=0)
    x, y = cast(floats_of("3e38 1e30 -1e25"), "f32"), cast(floats_of("1e-38 7 0.3"), "f32")
    case("remainder", [x, y], [cast(torch.remainder(wide(x), wide(y)), "f32")], tol=0)
    rounding = "0 -0 0.5 -0.5 1.5 2.5 -2.5 0.49999997 8388609 -1e20 inf -inf nan"
    unary("trunc", torch.trunc, rounding, ints=True, rounding="same", tol=0)
    # inf - trunc(inf) is NaN.
    unary("frac", lambda x: x - torch.trunc(x), rounding, tol=0)
    edges = "0 1 -1 2.5 -3.75 1e-20 3e38 inf -inf nan"
    pair("fmax", torch.fmax, edges, ints=True, tol=0)
    pair("fmin", torch.fmin, edges, ints=True, tol=0)

    def lerp(a, b, w):
        return torch.where(w < 0.5, a + w * (b - a), b - (b - a) * (1 - w))

    e = floats_of("0 -0 1 -1 0.5 2.5 inf nan")
    for dtype in FLOATS:
        a, b, w = [cast(e.reshape(s), dtype) for s in [(8, 1, 1), (8, 1), (8,)]]
        if dtype in ("f16", "bf16"):
            a = a[2:5]
        case("lerp", [a, b, w], [cast(lerp(wide(a), wide(b), wide(w)), dtype)], tol=4, floor=4)
    for shapes in [((3, 4), (3, 4), (3, 4)), ((3, 1), (4,), ()), ((), (2, 3), (3,)), ((0,), (1,), ())]:
        a, b, w = [rand(s) for s in shapes]
        case("lerp", [a, b, w], [lerp(a, b, w)], tol=8, grad=0 not in shapes[0], floor=1)
    a, b, w = torch.tensor([1, 2]), rand((2,), "f16"), torch.tensor(0.25).half()
    case("lerp", [a, b, w], [cast(lerp(wide(a), wide(b), wide(w)), "f16")], tol=2, floor=1)

    most = {"f64": torch.finfo(torch.float64).max, "f32": torch.finfo(torch.float32).max,
            "f16": 65504.0, "bf16": torch.finfo(torch.bfloat16).max}
    for dtype in FLOATS:
        x = cast(floats_of("0 -0 1 3e38 inf -inf nan"), dtype)
        case("nan_to_num", [x], [torch.nan_to_num(x, 0.5, 8.0, -4.0)], {"nan": 0.5, "posinf": 8, "neginf": -4}, 0)
        case("nan_to_num fn", [x], [torch.nan_to_num(x)], tol=0)
    x = rand((2, 3))
    case("nan_to_num", [x], [x], {"nan": 0, "posinf": 1, "neginf": -1}, 0, True)
    x = randint((4,), "i32")
    case("nan_to_num", [x], [x], {"nan": 0, "posinf": 1, "neginf": -1}, 0)


def bits():
    for op, f in [("bitwise_and", torch.bitwise_and), ("bitwise_or", torch.bitwise_or),
                  ("bitwise_xor", torch.bitwise_xor)]:
        for da, db in [(d, d) for d in INTS] + [("i8", "u8"), ("i16", "i64")]:
            a, b = randint((3, 4), da, -100, 100), randint((4,), db, -100, 100)
            case(op, [a, b], [f(a, b)], tol=0)
        a, b = randbool((8,)), randbool((8,))
        case(op, [a, b], [f(a, b)], tol=0)
        case(op, [a[:0], b[:0]], [f(a[:0], b[:0])], tol=0)
    for dtype in INTS:
        x = randint((2, 3), dtype, -100, 100)
        case("bitwise_not", [x], [~x], tol=0)
    x = randbool((5,))
    case("bitwise_not", [x], [~x], tol=0)
    case("bitwise_not", [torch.tensor(True)], [torch.tensor(False)], tol=0)
    for dtype in INTS:
        width = torch.iinfo(DTYPES[dtype]).bits
        a = cast(torch.tensor([1, 5, -3, 100, -128, 127])[:, None], dtype)
        count = cast(torch.tensor([0, 1, 2, width - 2, width - 1, width, width + 3, -1]), dtype)
        if dtype == "u8":
            count = count[:-1]
        left, right = [], []
        for x in a.flatten().tolist():
            for n in count.tolist():
                out = not 0 <= n < width
                left.append(0 if out else x << n)
                right.append((-1 if x < 0 else 0) if out else x >> n)
        shape = (6, len(count))
        left = torch.tensor([(v + (1 << 63)) % (1 << 64) - (1 << 63) for v in left]).to(DTYPES[dtype])
        case("bitwise_left_shift", [a, count], [left.reshape(shape)], tol=0)
        case("bitwise_right_shift", [a, count], [torch.tensor(right).to(DTYPES[dtype]).reshape(shape)], tol=0)
    edges = "0 -0 1 -1 2.5 inf -inf nan"
    binary("logical_xor", torch.logical_xor, edges, out="bool", tol=0, grad=False)
    for dtype in FLOATS:
        x = cast(floats_of(edges), dtype)
        for above, below in [(True, True), (True, False), (False, True), (False, False)]:
            y = torch.isposinf(x) & above | torch.isneginf(x) & below
            case("isinf", [x], [y], {"detect_positive": above, "detect_negative": below}, tol=0)


def smooth_functions(dtype):
    def both(name, x, f, attrs, floor=None):
        case(name, [x], [cast(f(wide(x)), dtype)], attrs, 8, dtype == "f64", floor=floor)

    x = rand((2, 6), dtype, low=-4, high=4)
    both("swish fn", x, lambda x: x * torch.sigmoid(1.7 * x), {"alpha": 1.7})
    both("swish fn", x, F.silu, {"alpha": 1})
    both("quick_gelu fn", x, lambda x: x * torch.sigmoid(1.702 * x), {})
    both("logsigmoid fn", x, F.logsigmoid, {})
    far = cast(floats_of("-800 -40 0 40 800 inf -inf"), dtype)
    case("logsigmoid fn", [far], [cast(-torch.logaddexp(torch.zeros(7), -far), dtype)], {}, 8)
    both("tanhshrink fn", x, F.tanhshrink, {}, floor=1)
    for axis in [0, 1, -1]:
        both("glu fn", x, lambda x: F.glu(x, axis), {"axis": axis})
        both("swiglu fn", x, lambda x: F.silu(x.chunk(2, axis)[0]) * x.chunk(2, axis)[1], {"axis": axis})
    both("elu fn", x, lambda x: F.elu(x, 0.7), {"alpha": 0.7})
    both("celu fn", x, lambda x: F.celu(x, 0.7), {"alpha": 0.7})
    both("selu fn", x, F.selu, {})
    both("relu6 fn", x, F.relu6, {})
    both("hardshrink fn", x, lambda x: F.hardshrink(x, 0.8), {"lambda": 0.8})
    both("softshrink fn", x, lambda x: F.softshrink(x, 0.8), {"lambda": 0.8}, floor=1)


def activations():
    edges = "0 -0 1e-6 -1e-6 1 -1 5 -5 9 -9 20 -20 90 -90 inf -inf nan"
    softplus = lambda x, beta=1.0: torch.logaddexp(torch.zeros_like(x), beta * x) / beta
    for beta in [1, 2.5]:
        function("softplus", lambda x: softplus(x, beta), edges, -3, 3, {"beta": beta}, tol=8)
    function("mish", lambda x: x * torch.tanh(softplus(x)), "0 -0 1e-6 1 -1 5 -5 20 -20 90 -80 inf nan", -3, 3, tol=8)
    function("softsign", F.softsign, "0 -0 1e-6 1 -1 5 -5 20 -90 3e38 nan", -3, 3)
    for dtype in ["f64", "f32"]:
        smooth_functions(dtype)

    edges = "0 -0 0.5 -0.5 1 -1 3 -3 6 20 -20 -90 inf -inf nan"
    selu = {"alpha": 1.6732632423543772848, "scale": 1.0507009873554804934, "rate": 1}
    for attrs, f in [({"alpha": 1, "scale": 1, "rate": 1}, F.elu),
                     ({"alpha": 0.3, "scale": 1, "rate": 1}, lambda x: F.elu(x, 0.3)),
                     ({"alpha": 2, "scale": 1, "rate": 0.5}, lambda x: F.celu(x, 2)), (selu, F.selu)]:
        function("elu", f, edges, -4, 4, attrs)
    for slope in [0.01, 0.3]:
        function("leaky_relu", lambda x: F.leaky_relu(x, slope), edges, -4, 4, {"slope": slope}, tol=2)
    e = "0 -0 1 -1 2.5 -3.75"
    binary("prelu", lambda a, b: torch.where(a > 0, a, a * b), e, ints=False, tol=2)
    cases[:] = [c for c in cases if c["op"] != "prelu" or all(i[0] in FLOATS for i in c["in"])]
    for shape, weight in [((2, 3), (3,)), ((2, 3, 2), (3,)), ((4,), (1,)), ((2, 3, 2), ()), ((2, 3), (1,))]:
        x, w = rand(shape), rand(weight)
        case("prelu fn", [x, w], [F.prelu(x, w.reshape(-1))], {}, 2, True)
    for alpha, beta in [(1 / 6, 0.5), (0.2, 0.5)]:
        function("hardsigmoid", lambda x: (alpha * x + beta).clamp(0, 1), edges, -4, 4, {"alpha": alpha, "beta": beta},
                 floor=1)
    function("hardswish", F.hardswish, "0 -0 0.5 -0.5 1 -1 3 -3 6 20 -20 -90 inf nan", -4, 4)
    function("thresholded_relu", lambda x: F.threshold(x, 0.5, 0.0), edges, -4, 4, {"alpha": 0.5}, tol=0)
    function("shrink", lambda x: F.hardshrink(x, 0.5), edges, -4, 4, {"lambda": 0.5, "bias": 0}, tol=0)
    function("shrink", lambda x: F.softshrink(x, 0.7), edges, -4, 4, {"lambda": 0.7, "bias": 0.7}, tol=2, floor=1)
    for low, high in [(-1, 1), (0, 6), (-2.5, 0.5)]:
        unary("hardtanh", lambda x: x.clamp(low, high), edges, -4, 4, attrs={"low": low, "high": high}, tol=0)
        for dtype in INTS:
            x = randint((2, 5), dtype)
            y = x.long().clamp(math.ceil(low), math.floor(high))
            case("hardtanh", [x], [y.to(x.dtype)], {"low": low, "high": high}, 0)
    for shape, axis in [((3, 4), 1), ((3, 4), 0), ((2, 3, 4), 1), ((5,), 0), ((0, 3), 1)]:
        for dtype in ["f64", "f32", "f16", "bf16"]:
            x = cast(randint(shape, "i32", 0, 4), dtype)
            y = F.one_hot(torch.tensor(np.argmax(x.double().numpy(), axis)), shape[axis]).movedim(-1, axis)
            case("hardmax", [x], [y.to(x.dtype)], {"axis": axis}, 0)
    x = rand((3, 4))
    case("hardmax", [x], [F.one_hot(x.argmax(1), 4).double()], {"axis": 1}, 0, True)


def of_bool():
    """Two bool tensors where PyTorch takes them, and one beside numbers."""
    a, b = torch.tensor([False, False, True, True]), torch.tensor([False, True, False, True])
    for op in ["maximum", "minimum", "fmax", "fmin"]:
        case(op, [a, b], [getattr(torch, op)(a, b)])
        case(op, [a[:, None], b], [getattr(torch, op)(a[:, None], b)])
    for op in ["copysign", "atan2", "xlogy"]:
        case(op, [a, b], [getattr(torch, op)(a, b).float()], tol=4)  # the default dtype, which is f64 here
    case("sign", [a], [torch.sign(a)])
    case("nan_to_num", [a], [torch.nan_to_num(a)])
    for dtype in ["i64", "i32", "u8", "f32", "f16"]:
        x = cast(torch.tensor([3, 1, 2, 5]), dtype)
        for op in ["maximum", "fmin", "pow", "remainder", "fmod", "floor_divide"]:
            case(op, [b, x], [getattr(torch, op)(b, x)])
        case("pow", [x, b], [torch.pow(x, b)])
        if dtype in INTS:
            for op in ["bitwise_left_shift", "bitwise_right_shift"]:
                case(op, [b, x], [getattr(torch, op)(b, x)])
                case(op, [x, b], [getattr(torch, op)(x, b)])
    x = rand((4,))
    for op in ["maximum", "minimum", "fmax", "fmin"]:
        case(op, [b, x], [getattr(torch, op)(b, x)], grad=True)
    case("pow", [x, b], [torch.pow(x, b)], grad=True)
    for op in ["remainder", "fmod"]:
        case(op, [b, x], [getattr(torch, op)(b, x)], grad=True)


FAMILIES = [trigonometry, special, division, bits, activations, of_bool]
