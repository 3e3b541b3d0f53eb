"""Writes reference.json: what the operators must give, computed by PyTorch and NumPy in float64.

Run from the root of the repository: python tests/ops/reference.py (needs numpy and torch; see
tests/python/requirements.txt). One case a line:
  op, attrs, in: [[dtype, shape, elements]...], out: the same, grad: whether gradients are checked by
  finite differences. Results may differ by tol (1 unless said) times the dtype's epsilon times their
  size, or times floor where that is larger (0 unless said: sums that cancel have no small error).
Elements are numbers, booleans or the strings nan, inf and -inf.
"""

import json
import math
import pathlib

import numpy as np
import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)
DTYPES = {
    "f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16,
    "i64": torch.int64, "i32": torch.int32, "i16": torch.int16, "i8": torch.int8,
    "u8": torch.uint8, "bool": torch.bool,
}
NAMES = {v: k for k, v in DTYPES.items()}
FLOATS = ["f64", "f32", "f16", "bf16"]
INTS = ["i64", "i32", "i16", "i8", "u8"]

cases = []
rng = np.random.RandomState(20240)
floor = 0


def number(x, dtype):
    if dtype == "bool":
        return bool(x)
    if dtype in INTS:
        return int(x)
    x = float(x)
    if math.isnan(x):
        return "nan"
    if math.isinf(x):
        return "inf" if x > 0 else "-inf"
    if x == int(x) and abs(x) < 1e15 and not (x == 0 and math.copysign(1, x) < 0):
        return int(x)
    # The shortest that reads back to the same number of the dtype.
    short = {"f64": lambda: x, "f32": lambda: str(np.float32(x)), "f16": lambda: str(np.float16(x)),
             "bf16": lambda: "%.4g" % x}[dtype]
    return float(short())


def encode(t):
    name = NAMES[t.dtype]
    return [name, list(t.shape), [number(x, name) for x in t.reshape(-1).tolist()]]


def case(op, inputs, outputs, attrs=None, tol=1, grad=False):
    entry = {"op": op, "in": [encode(t) if t is not None else None for t in inputs],
             "out": [encode(t) for t in outputs]}
    if attrs:
        entry["attrs"] = attrs
    if tol != 1:
        entry["tol"] = tol
    if floor:
        entry["floor"] = floor
    if grad:
        entry["grad"] = True
    cases.append(entry)


def rand(shape, dtype="f64", low=-2.0, high=2.0):
    """Numbers apart from one another, so that finite differences cross no tie."""
    n = int(np.prod(shape)) if len(shape) else 1
    t = (np.arange(n) + 0.25 + 0.5 * rng.rand(n)) / max(n, 1)
    values = torch.tensor(np.round(low + (high - low) * rng.permutation(t), 4)).reshape(shape)
    return cast(values, dtype)


def randint(shape, dtype, low=-7, high=8):
    if dtype == "u8":
        low = max(low, 0)
    return torch.tensor(rng.randint(low, high, size=shape)).to(DTYPES[dtype])


def randbool(shape):
    return torch.tensor(rng.rand(*shape) < 0.5)


def cast(t, dtype):
    return t.to(DTYPES[dtype])


def wide(t):
    return t.double() if t.dtype.is_floating_point else t


def floats_of(text):
    return torch.tensor([float(x) for x in text.split()])


# --- element by element ---------------------------------------------------------------------------


def unary(op, f, edges, low=-2, high=2, ints=False, rounding="floating", attrs=None, tol=2,
          grad=True, dtypes=FLOATS):
    """`rounding`: floating (integers give f32) or same."""
    for dtype in dtypes:
        x = cast(floats_of(edges), dtype)
        case(op, [x], [cast(f(wide(x)), dtype)], attrs, tol)
        x = rand((3, 4), dtype, low, high)
        case(op, [x], [cast(f(wide(x)), dtype)], attrs, tol, grad and dtype == "f64")
    for shape in [(), (0,), (1,), (2, 0, 3), (1, 5, 1)]:
        x = rand(shape, "f32", low, high)
        case(op, [x], [cast(f(wide(x)), "f32")], attrs, tol)
    if ints:
        for dtype in INTS:
            x = randint((2, 3), dtype, 0 if low >= 0 else -7)
            if rounding == "floating":
                case(op, [x], [f(x.double()).float()], attrs, tol)
            else:
                case(op, [x], [f(x).to(x.dtype)], attrs, tol)


def derivative(f):
    def g(grad, x):
        x = x.clone().requires_grad_()
        return torch.autograd.grad(f(x), x, grad)[0]
    return g


def backward(op, f, edges, low=-3, high=3, attrs=None, tol=6, d=None):
    d = d or derivative(f)
    for dtype in FLOATS:
        x = cast(floats_of(edges), dtype)
        grad = cast(torch.full(x.shape, 1.5), dtype)
        case(op, [grad, x], [cast(d(wide(grad), wide(x)), dtype)], attrs, tol)
    x, grad = rand((3, 4), low=low, high=high), rand((3, 4))
    case(op, [grad, x], [d(grad, x)], attrs, tol, True)


def gelu_tanh(x):
    return F.gelu(x, approximate="tanh")


def elementary():
    unary("exp", torch.exp, "0 -0 1 -1 1e-8 88 89 -87 -104 710 -746 inf -inf nan", ints=True)
    unary("expm1", torch.expm1, "0 -0 1e-30 -1e-8 1 -1 -20 88 inf -inf nan", ints=True)
    unary("log", torch.log, "0 -0 1 1.0000001 1e-30 1e-40 3e38 -1 inf -inf nan", 0.2, 4, ints=True)
    unary("log1p", torch.log1p, "0 -0 1e-30 -1e-8 1 -1 -2 1e20 inf -inf nan", -0.7, 4)
    unary("sqrt", torch.sqrt, "0 -0 1 2 1e-40 3e38 -1 inf -inf nan", 0.2, 4, ints=True)
    unary("rsqrt", torch.rsqrt, "0 1 2 1e-30 3e38 -1 inf nan", 0.2, 4)
    unary("sin", torch.sin, "0 -0 1e-20 1.5707964 3.1415927 100 -1e4 inf -inf nan", ints=True)
    unary("cos", torch.cos, "0 -0 1e-20 1.5707964 3.1415927 100 -1e4 inf -inf nan", tol=3)
    unary("erf", torch.erf, "0 -0 1e-20 0.5 -1 2 3.9 -4 6 inf -inf nan")
    rounding = "0 -0 0.5 -0.5 1.5 2.5 -2.5 0.49999997 8388609 -1e20 inf -inf nan"
    for op, f in [("floor", torch.floor), ("ceil", torch.ceil), ("round", torch.round)]:
        unary(op, f, rounding, ints=True, rounding="same", tol=0)
    unary("neg", torch.neg, "0 -0 1 -1 2.5 -3.75 1e-20 3e38 inf -inf nan", ints=True,
          rounding="same", tol=0)
    unary("abs", torch.abs, "0 -0 1 -1 2.5 -3.75 1e-20 3e38 inf -inf nan", ints=True,
          rounding="same", tol=0)
    unary("sign", lambda x: torch.where(torch.isnan(x), x, torch.sign(x))
          if x.dtype.is_floating_point else torch.sign(x),
          "0 -0 1 -1 2.5 -3.75 1e-20 3e38 inf -inf nan", ints=True, rounding="same", tol=0)
    unary("stop_gradient", lambda x: x, "0 1 nan", ints=True, rounding="same", tol=0, grad=False)
    unary("clone", lambda x: x, "0 -0 1 inf -inf nan", ints=True, rounding="same", tol=0)
    edges = "0 -0 1 -1 5 -5 inf -inf nan"
    unary("clamp", lambda x: x.clamp(-0.75, 1.25), edges, attrs={"low": -0.75, "high": 1.25}, tol=0)
    unary("clamp", lambda x: x.clamp(min=0.5), edges, attrs={"low": 0.5, "high": "inf"}, tol=0)
    for dtype in INTS:
        x = randint((2, 5), dtype)
        case("clamp", [x], [x.long().clamp(-2, 3).to(x.dtype)], {"low": -2.5, "high": 3.5}, 0)

    edges = "0 -0 1e-6 -1e-6 1 -1 5 -5 9 -9 20 -20 90 -90 inf -inf nan"
    unary("tanh", torch.tanh, edges, -3, 3, ints=True)
    unary("sigmoid", torch.sigmoid, edges, -3, 3, ints=True)
    backward("tanh_backward", torch.tanh, edges, tol=8, d=lambda g, x: g / torch.cosh(x) ** 2)
    backward("sigmoid_backward", torch.sigmoid, edges, tol=8,
             d=lambda g, x: g / (4 * torch.cosh(x / 2) ** 2))
    unary("relu", torch.relu, "0 -0 1 -1 1e-40 -1e-40 inf -inf nan", ints=True, rounding="same",
          tol=0)
    y = floats_of("0 -0 1 1e-40 inf nan")
    grad = torch.full(y.shape, 1.5)
    case("relu_backward", [grad, y], [torch.where(y <= 0, 0.0, grad)])
    grad, y = rand((3, 4)), rand((3, 4))
    case("relu_backward", [grad, y], [torch.where(y <= 0, 0.0, grad)], grad=True)
    edges = "0 -0 1e-6 1 -1 5 -5 20 -20 90 -80 nan"
    unary("silu", F.silu, edges + " inf", -3, 3, tol=4)
    backward("silu_backward", F.silu, edges, tol=16)
    # 1 + erf cancels on the left: small results are only as exact as the sum.
    global floor
    floor = 1
    edges = "0 -0 1e-6 1 -1 3 -2.5 8 nan"
    unary("gelu", F.gelu, edges, -3, 3, tol=4)
    unary("gelu", gelu_tanh, edges, -3, 3, attrs={"tanh_form": True}, tol=4)
    backward("gelu_backward", F.gelu, edges, tol=8)
    backward("gelu_backward", gelu_tanh, edges, attrs={"tanh_form": True}, tol=16)
    floor = 0


def casts():
    x = floats_of("0 -0 0.5 -1.5 127.9 128 300 -129 2147483648 1e20 inf -inf nan")
    for source in ["f64", "f32", "f16", "bf16"]:
        v = cast(x, source)
        for target in FLOATS:
            case("cast", [v], [cast(v, target)], {"dtype": target}, 0)
        for target in ["i64", "i32"]:
            info = torch.iinfo(DTYPES[target])
            w = v.double()
            out = [0 if math.isnan(e) else int(min(max(e, info.min), info.max)) for e in w.tolist()]
            case("cast", [v], [torch.tensor(out, dtype=DTYPES[target])], {"dtype": target}, 0)
        case("cast", [v], [v != 0], {"dtype": "bool"}, 0)
    for source in INTS:
        v = torch.tensor([0, 1, -1, 127, -128, 128, 255, 256, 65537, -40000]).to(DTYPES[source])
        for target in INTS + ["f32", "f64", "bool"]:
            case("cast", [v], [v.to(DTYPES[target])], {"dtype": target}, 0)
    v = torch.tensor([True, False])
    for target in INTS + FLOATS:
        case("cast", [v], [v.to(DTYPES[target])], {"dtype": target}, 0)
    x = rand((2, 3))
    case("cast", [x], [x], {"dtype": "f64"}, 0, grad=True)


SHAPES = [((3, 4), (3, 4)), ((3, 4), (4,)), ((3, 1), (1, 4)), ((), (2, 3)), ((2, 1, 3), (4, 1)),
          ((0, 3), (3,)), ((1,), (0,)), ((5,), ())]


def binary(op, f, edges="0 -0 1 -1 2.5 -3.75 1e-20 3e38 inf -inf nan", low=-2, high=2, ints=True,
           out=None, tol=1, grad=True):
    """Every pair of edges, broadcast shapes, every dtype, mixed dtypes."""
    e = floats_of(edges)
    for dtype in FLOATS:
        a, b = cast(e[:, None], dtype), cast(e[None, :], dtype)
        case(op, [a, b], [cast(f(wide(a), wide(b)), out or dtype)], tol=tol)
    for sa, sb in SHAPES:
        a, b = rand(sa, "f64", low, high), rand(sb, "f64", low, high)
        case(op, [a, b], [cast(f(a, b), out or "f64")], tol=tol, grad=grad and 0 not in sa + sb)
    for da, db in [("f32", "f64"), ("f16", "f32"), ("f16", "bf16"), ("i32", "f16"), ("i64", "f32")]:
        a = randint((2, 3), da, 1) if da in INTS else rand((2, 3), da, low, high)
        b = rand((3,), db, low, high)
        promoted = NAMES[torch.promote_types(a.dtype, b.dtype)]
        case(op, [a, b], [cast(f(cast(a, promoted).double(), cast(b, promoted).double()),
                               out or promoted)], tol=tol)
    if ints:
        for da, db in [(d, d) for d in INTS] + [("i8", "u8"), ("i16", "i64"), ("u8", "i32")]:
            a, b = randint((3, 4), da, -100, 100), randint((3, 4), db, -100, 100)
            promoted = torch.promote_types(a.dtype, b.dtype)
            result = f(a.to(promoted), b.to(promoted))
            case(op, [a, b], [result.to(DTYPES[out]) if out else result.to(promoted)], tol=tol)


def int_pow(a, b):
    def one(x, y):
        if y < 0:
            return 0 if abs(x) > 1 else (1 if x == 1 or (x == -1 and y % 2 == 0) else -1 if x == -1 else 0)
        return x ** y
    bits = torch.iinfo(a.dtype).bits
    out = []
    for x, y in zip(a.reshape(-1).tolist(), b.reshape(-1).tolist()):
        v = one(x, y) % (1 << bits)
        if a.dtype != torch.uint8 and v >= 1 << (bits - 1):
            v -= 1 << bits
        out.append(v)
    return torch.tensor(out, dtype=a.dtype).reshape(a.shape)


def arithmetic():
    binary("add", torch.add)
    binary("sub", torch.sub)
    binary("mul", torch.mul)
    binary("div", torch.div, low=0.5, high=3, ints=False)
    for dtype in INTS:
        a, b = randint((3, 4), dtype, 1, 50), randint((3, 4), dtype, 1, 50)
        case("div", [a, b], [(a.double() / b.double()).float()])
    binary("maximum", torch.maximum, tol=0)
    binary("minimum", torch.minimum, tol=0)
    binary("pow", torch.pow, "0 -0 1 -1 2 0.5 -2.5 3 1e20 inf -inf nan", 0.3, 2.5, ints=False, tol=2)
    for dtype in INTS:
        a, b = randint((3, 4), dtype, -5, 6), randint((3, 4), dtype, -3, 20)
        case("pow", [a, b], [int_pow(a, b)])
    a, b = randbool((8,)), randbool((8,))
    case("add", [a, b], [a | b])
    case("mul", [a, b], [a & b])
    m, x = randbool((6,)), rand((6,), "f32")
    case("mul", [m, x], [m * x])


def comparison():
    edges = "0 -0 1 -1 2.5 inf -inf nan"
    for op, f in [("eq", torch.eq), ("ne", torch.ne), ("lt", torch.lt), ("le", torch.le),
                  ("gt", torch.gt), ("ge", torch.ge)]:
        binary(op, f, edges, out="bool", tol=0, grad=False)
        a, b = randbool((8,)), randbool((8,))
        case(op, [a, b], [f(a, b)], tol=0)
    binary("logical_and", torch.logical_and, edges, out="bool", tol=0, grad=False)
    binary("logical_or", torch.logical_or, edges, out="bool", tol=0, grad=False)
    for dtype in FLOATS:
        x = cast(floats_of(edges), dtype)
        case("logical_not", [x], [torch.logical_not(x)], tol=0)
        case("isnan", [x], [torch.isnan(x)], tol=0)
        case("isfinite", [x], [torch.isfinite(x)], tol=0)
    for dtype in INTS:
        x = randint((6,), dtype, -2, 3)
        case("logical_not", [x], [torch.logical_not(x)], tol=0)
    x = randbool((5,))
    case("logical_not", [x], [~x], tol=0)
    for sc, sa, sb in [((3, 4), (3, 4), (3, 4)), ((3, 1), (4,), ()), ((), (2, 3), (3,)),
                       ((0, 2), (2,), ())]:
        c, a, b = randbool(sc), rand(sa), rand(sb)
        case("where", [c, a, b], [torch.where(c, a, b)], tol=0, grad=0 not in sc)
        c, a, b = randbool(sc), randint(sa, "i32"), randint(sb, "i32")
        case("where", [c, a, b], [torch.where(c, a, b)], tol=0)
    e = floats_of("0 -0 1 inf -inf nan")
    c = torch.tensor([True, False, True, False, True, False])
    case("where", [c, e, e.flip(0)], [torch.where(c, e, e.flip(0))], tol=0)


# --- reductions -----------------------------------------------------------------------------------

REDUCED = [((3, 4), []), ((3, 4), [1]), ((3, 4), [0]), ((2, 3, 4), [0, 2]), ((2, 3, 4), [-1, 0]),
           ((2, 3, 4), [1]), ((1, 5, 1), [0]), ((), []), ((5,), [0])]


def over(f):
    def g(x, axes, keepdim):
        axes = sorted(a % max(x.dim(), 1) for a in axes) or list(range(x.dim()))
        for a in reversed(axes):
            x = f(x, a)
        if keepdim:
            for a in axes:
                x = x.unsqueeze(a)
        return x
    return g


def joined(f):
    """f over the reduced axes as one, last."""
    def g(x, axes, keepdim):
        axes = sorted(a % max(x.dim(), 1) for a in axes) or list(range(x.dim()))
        rest = [i for i in range(x.dim()) if i not in axes]
        y = x.permute(rest + axes).reshape([x.shape[i] for i in rest] + [math.prod(x.shape[i] for i in axes)])
        y = f(y, -1)
        if keepdim:
            for a in axes:
                y = y.unsqueeze(a)
        return y
    return g


def prod_of_others(x, dim):
    n = x.shape[dim]
    parts = []
    for i in range(n):
        keep = [j for j in range(n) if j != i]
        parts.append(x.index_select(dim, torch.tensor(keep, dtype=torch.int64)).prod(dim, keepdim=True))
    return torch.cat(parts, dim)


def reductions():
    table = [("sum", over(lambda x, a: x.sum(a)), 8, True), ("mean", joined(lambda x, a: x.mean(a)), 8, True),
             ("prod", over(lambda x, a: x.prod(a)), 16, True),
             ("max", over(lambda x, a: x.amax(a)), 0, True), ("min", over(lambda x, a: x.amin(a)), 0, True),
             ("logsumexp", joined(torch.logsumexp), 16, True),
             ("any", joined(lambda x, a: x.bool().any(a)), 0, False),
             ("all", joined(lambda x, a: x.bool().all(a)), 0, False)]
    for op, f, tol, grad in table:
        for shape, axes in REDUCED:
            for keepdim in [False, True]:
                x = rand(shape)
                y = f(x, axes, keepdim)
                case(op, [x], [y], {"axes": axes, "keepdim": keepdim}, tol, grad)
        for dtype in FLOATS[1:]:
            x = rand((3, 5), dtype)
            y = f(wide(x), [1], False)
            y = y if y.dtype == torch.bool else cast(y, dtype)
            case(op, [x], [y], {"axes": [1], "keepdim": False}, tol)
        if op != "logsumexp":
            for dtype in INTS:
                x = randint((3, 4), dtype, -3, 4)
                y = f(x.double() if op == "mean" else x.long() if op in ("sum", "prod") else x, [0], False)
                y = y.float() if op == "mean" else y
                case(op, [x], [y], {"axes": [0], "keepdim": False}, 1)
            x = randbool((3, 4))
            y = f(x.double() if op == "mean" else x.long() if op in ("sum", "prod") else x, [1], False)
            case(op, [x], [y.float() if op == "mean" else y], {"axes": [1], "keepdim": False}, 1)
        if op in ("sum", "prod", "any", "all", "mean"):
            for shape, axes in [((0,), [0]), ((2, 0), [1]), ((0, 3), [1])]:
                x = rand(shape, "f32")
                case(op, [x], [f(x, axes, False)], {"axes": axes, "keepdim": False})
        e = floats_of("1 nan -inf inf 2")
        if op in ("max", "min", "sum"):
            case(op, [e], [f(e, [], False)], {"axes": [], "keepdim": False})
            e = floats_of("1 -inf 2")
            case(op, [e], [f(e, [], False)], {"axes": [], "keepdim": False})
    for x in [floats_of("-inf -inf"), floats_of("1000 1000"), floats_of("-inf 3"), floats_of("inf 3")]:
        case("logsumexp", [x], [torch.logsumexp(x, 0)], {"axes": [0], "keepdim": False}, 4)
    big = torch.tensor(rng.rand(3, 5000)).float()
    case("sum", [big[:1, :4097]], [big[:1, :4097].double().sum(1).float()],
         {"axes": [1], "keepdim": False}, 16)
    zeros = torch.tensor([[1.0, 2, 3], [0, 2, 3], [0, 0, 3], [0, 0, 0]])
    case("prod", [zeros], [zeros.prod(1)], {"axes": [1], "keepdim": False}, 4, True)
    case("prod", [zeros], [zeros.prod()], {"axes": [], "keepdim": True}, 4)
    cases[-1]["out"][0][1] = [1, 1]
    for shape, axis in [((3, 4), 1), ((3, 4), 0)]:
        x = rand(shape)
        case("prod_of_others", [x], [prod_of_others(x, axis)], {"axes": [axis], "keepdim": False}, 8, True)
    case("prod_of_others", [zeros], [prod_of_others(zeros, 1)], {"axes": [1], "keepdim": False}, 4, True)
    x = rand((2, 3))
    case("prod_of_others", [x], [prod_of_others(x.reshape(-1), 0).reshape(2, 3)],
         {"axes": [], "keepdim": False}, 8, True)
    for op, f in [("argmax", np.argmax), ("argmin", np.argmin)]:
        for shape, axis in [((3, 4), 1), ((3, 4), 0), ((2, 3, 4), -2), ((5,), 0)]:
            for keepdim in [False, True]:
                x = rand(shape)
                y = torch.tensor(f(x.numpy(), axis=axis, keepdims=keepdim))
                case(op, [x], [y], {"axis": axis, "keepdim": keepdim})
        for dtype in FLOATS[1:] + INTS:
            x = randint((3, 6), dtype, 0, 3) if dtype in INTS else cast(randint((3, 6), "i32", 0, 3), dtype)
            y = torch.tensor(f(x.double().numpy(), axis=1))
            case(op, [x], [y], {"axis": 1, "keepdim": False})
        e = floats_of("1 nan -inf inf nan 2")
        case(op, [e], [torch.tensor(f(e.numpy()))], {"axis": 0, "keepdim": False})
        e = randbool((9,))
        case(op, [e], [torch.tensor(f(e.numpy()))], {"axis": 0, "keepdim": False})
        e = torch.full((20,), float("-inf"))
        case(op, [e], [torch.tensor(f(e.numpy()))], {"axis": 0, "keepdim": False})


# --- shapes ---------------------------------------------------------------------------------------


def any_tensor(shape, dtype):
    if dtype == "bool":
        return randbool(shape)
    return randint(shape, dtype) if dtype in INTS else rand(shape, dtype)


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


def products():
    for a, b in [((3, 4), (4, 5)), ((2, 3, 4), (2, 4, 5)), ((2, 3, 4), (4, 5)), ((3, 4), (2, 4, 5)),
                 ((2, 1, 3, 4), (3, 4, 2)), ((1, 4), (4, 1)), ((3, 0), (0, 2)), ((0, 3), (3, 2)),
                 ((2, 0, 3), (2, 3, 4))]:
        for ta in [False, True]:
            for tb in [False, True]:
                x, y = rand(a), rand(b)
                left = x.transpose(-1, -2).contiguous() if ta else x
                right = y.transpose(-1, -2).contiguous() if tb else y
                case("matmul", [left, right], [x @ y], {"transpose_a": ta, "transpose_b": tb}, 16,
                     0 not in a + b)
    for dtype in ["f32", "f16", "bf16"]:
        x, y = rand((3, 7), dtype), rand((7, 5), dtype)
        case("matmul", [x, y], [cast(x.double() @ y.double(), dtype)], tol=32)
    for dtype in ["i64", "i32", "i16", "i8", "u8"]:
        x, y = randint((3, 7), dtype), randint((7, 5), dtype)
        case("matmul", [x, y], [(x.long() @ y.long()).to(DTYPES[dtype])], tol=0)
    for shape in [(2, 3), (4, 2, 3), (3,), (0, 3)]:
        x, w, b = rand(shape), rand((5, 3)), rand((5,))
        case("linear", [x, w, b], [F.linear(x, w, b)], tol=16, grad=0 not in shape)
        case("linear", [x, w, None], [F.linear(x, w)], tol=16, grad=0 not in shape)
    x, w, b = rand((4, 9), "f32"), rand((5, 9), "f32"), rand((5,), "f32")
    case("linear", [x, w, b], [F.linear(x.double(), w.double(), b.double()).float()], tol=32)


CONVS = [  # x, weight, stride, padding, dilation, groups
    ((1, 2, 5, 6), (3, 2, 3, 2), (1, 1), (0, 0), (1, 1), 1),
    ((2, 2, 5, 5), (2, 2, 3, 3), (2, 1), (1, 2), (1, 1), 1),
    ((1, 4, 6, 5), (4, 2, 2, 2), (1, 2), (1, 0), (2, 1), 2),
    ((1, 3, 4, 4), (3, 1, 3, 3), (2, 2), (1, 1), (1, 1), 3),
    ((2, 1, 3, 3), (1, 1, 1, 1), (2, 2), (0, 0), (1, 1), 1),
]


def windows():
    for xs, ws, stride, padding, dilation, groups in CONVS:
        attrs = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        f = lambda x, w, b=None: F.conv2d(x, w, b, stride, padding, dilation, groups)
        x, w, b = rand(xs), rand(ws), rand((ws[0],))
        y = f(x, w, b)
        case("conv2d", [x, w, b], [y], attrs, 64, True)
        case("conv2d", [x, w, None], [f(x, w)], attrs, 64, xs[0] == 2)
        case("conv2d", [x.float(), w.float(), b.float()],
             [f(x.float().double(), w.float().double(), b.float().double()).float()], attrs, 64)
        x.requires_grad_()
        w.requires_grad_()
        grad = rand(y.shape)
        gx, gw = torch.autograd.grad(f(x, w), [x, w], grad)
        x, w = x.detach(), w.detach()
        case("conv2d_backward_input", [grad, w], [gx], {**attrs, "shape": xs}, 64, True)
        case("conv2d_backward_weight", [grad, x], [gw], {**attrs, "shape": ws}, 64, True)
    for shape, kernel, stride, padding in [((1, 2, 4, 6), (2, 2), (2, 2), (0, 0)),
                                           ((2, 1, 5, 5), (3, 2), (1, 2), (1, 1)),
                                           ((1, 1, 7, 4), (3, 3), (2, 2), (1, 1))]:
        attrs = {"kernel": kernel, "stride": stride, "padding": padding}
        f = lambda x: F.max_pool2d(x, kernel, stride, padding)
        for dtype in ["f64", "f32", "f16"]:
            x = rand(shape, dtype)
            case("max_pool2d", [x], [cast(f(x.double()), dtype)], attrs, 0, dtype == "f64")
        x = rand(shape)
        y, places = F.max_pool2d(x, kernel, stride, padding, return_indices=True)
        grad = rand(y.shape)
        case("max_pool2d_backward", [grad, x], [derivative(f)(grad, x)], attrs, 4, True)
        values = rand(shape)
        taken = values.flatten(2).gather(2, places.flatten(2)).reshape(y.shape)
        case("max_pool2d_take", [values, x], [taken], attrs, 0, True)
        for include in [True, False]:
            attrs = {"kernel": kernel, "stride": stride, "padding": padding, "count_include_pad": include}
            f = lambda x: F.avg_pool2d(x, kernel, stride, padding, count_include_pad=include)
            for dtype in ["f64", "f32", "f16"]:
                x = rand(shape, dtype)
                y = f(x.double())
                case("avg_pool2d", [x], [cast(y, dtype)], attrs, 8, dtype == "f64")
            grad = rand(y.shape)
            case("avg_pool2d_backward", [grad], [derivative(f)(grad, rand(shape))],
                 {**attrs, "shape": shape}, 8, True)
    x = torch.tensor([[[[1.0, float("nan"), 2, 3], [5, 5, float("-inf"), 3]]]])
    case("max_pool2d", [x], [F.max_pool2d(x, 2)], {"kernel": [2, 2], "stride": [2, 2], "padding": [0, 0]}, 0)


# --- composites -----------------------------------------------------------------------------------


def composites():
    for op, f in [("softmax", torch.softmax), ("log_softmax", torch.log_softmax)]:
        for shape, axis in [((3, 4), 1), ((3, 4), 0), ((2, 3, 4), 1), ((1, 1), 1), ((5,), 0), ((0, 3), 1)]:
            x = rand(shape, low=-4, high=4)
            case(op, [x], [f(x, axis)], {"axis": axis}, 16, 0 not in shape)
        for dtype in FLOATS:
            x = cast(floats_of("0 1 -1 88 1000 -1000 -inf"), dtype)
            case(op, [x], [cast(f(wide(x), 0), dtype)], {"axis": 0}, 8)
            x = rand((3, 5), dtype, -3, 3)
            case(op, [x], [cast(f(wide(x), 1), dtype)], {"axis": 1}, 16)
    for shape, size in [((3, 4), (4,)), ((2, 3, 4), (3, 4)), ((2, 3, 4), (4,)), ((4,), (4,))]:
        x, w, b = rand(shape), rand(size), rand(size)
        case("layer_norm", [x, w, b], [F.layer_norm(x, size, w, b, 1e-5)], {"eps": 1e-5}, 64, True)
        case("layer_norm", [x, w, None], [F.layer_norm(x, size, w, None, 1e-3)], {"eps": 1e-3}, 64, True)
    x, w, b = rand((4, 16), "f32"), rand((16,), "f32"), rand((16,), "f32")
    case("layer_norm", [x, w, b], [F.layer_norm(wide(x), (16,), wide(w), wide(b)).float()], {"eps": 1e-5}, 64)
    for shape in [(4, 3), (2, 3, 4), (2, 3, 2, 3)]:
        x, w, b, mean, var = rand(shape), rand((3,)), rand((3,)), rand((3,)), rand((3,), low=0.5)
        case("batch_norm", [x, w, b, mean, var], [F.batch_norm(x, mean, var, w, b, False, 0, 1e-5)],
             {"eps": 1e-5}, 64, True)
        axes = [i for i in range(len(shape)) if i != 1]
        case("batch_norm_train", [x, w, b],
             [F.batch_norm(x, None, None, w, b, True, 0, 1e-5), x.mean(axes), x.var(axes, unbiased=False)],
             {"eps": 1e-5}, 64, True)
    for shape in [(4, 3), (2, 3, 4), (2, 3, 2, 2), (3,)]:
        axis = 0 if len(shape) == 1 else 1
        size = [s for i, s in enumerate(shape) if i != axis]
        for reduction in ["mean", "sum", "none"]:
            for ignored in [False, True]:
                target = randint(size, "i64", 0, 3)
                if ignored and target.numel() > 1:
                    target.reshape(-1)[1] = -100
                x = rand(shape)
                attrs = {"reduction": reduction, "ignore_index": -100}
                index = target if ignored else target.int()
                case("cross_entropy", [x, index], [F.cross_entropy(x, target, reduction=reduction)],
                     attrs, 32, True)
                lp = torch.log_softmax(rand(shape), axis)
                case("nll_loss", [lp, index], [F.nll_loss(lp, target, reduction=reduction)],
                     attrs, 16, True)
    x, target = rand((6, 10), "f32", -8, 8), randint((6,), "i64", 0, 10)
    case("cross_entropy", [x, target], [F.cross_entropy(wide(x), target).float()],
         {"reduction": "mean", "ignore_index": -100}, 16)
    for reduction in ["mean", "sum", "none"]:
        a, b = rand((3, 4)), rand((3, 4))
        case("mse_loss", [a, b], [F.mse_loss(a, b, reduction=reduction)], {"reduction": reduction}, 16, True)


# --- random ---------------------------------------------------------------------------------------


def philox(key, counter):
    """Philox 4x32-10 (Salmon et al., 2011) of 64-bit key and counter."""
    m = 0xFFFFFFFF
    c = [counter & m, (counter >> 32) & m, 0, 0]
    k = [key & m, (key >> 32) & m]
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(p1 >> 32) ^ c[1] ^ k[0], p1 & m, (p0 >> 32) ^ c[3] ^ k[1], p0 & m]
        k = [(k[0] + 0x9E3779B9) & m, (k[1] + 0xBB67AE85) & m]
    return c


def uniforms(seed, offset, n, dtype):
    out = []
    for i in range(n):
        w = philox(seed, (offset + i) & ((1 << 64) - 1))
        if dtype == "f64":
            out.append(((w[0] << 21) | (w[1] >> 11)) * 2.0 ** -53)
        else:
            bits = {"f32": 24, "f16": 11, "bf16": 8}[dtype]
            out.append((w[0] >> (32 - bits)) * 2.0 ** -bits)
    return torch.tensor(out)


def random():
    for dtype in FLOATS:
        for seed, offset in [(0, 0), (42, 7), (1 << 40, (1 << 33) + 5)]:
            out = uniforms(seed, offset, 12, dtype)
            case("uniform", [torch.tensor(seed), torch.tensor(offset)], [cast(out.reshape(3, 4), dtype)],
                 {"shape": [3, 4], "dtype": dtype}, 0)
            exact = "f64" if dtype == "f64" else "f32"
            u = uniforms(seed, offset, 24, exact)
            z = torch.sqrt(-2 * torch.log(1 - u[:12])) * torch.cos(2 * math.pi * u[12:])
            case("normal", [torch.tensor(seed), torch.tensor(offset)], [cast(z.reshape(3, 4), dtype)],
                 {"shape": [3, 4], "dtype": dtype}, 256)
    u = uniforms(3, 100, 12, "f32")
    for dtype in FLOATS:
        x = rand((3, 4), dtype)
        y = torch.where(u.reshape(3, 4) >= 0.25, wide(x) / 0.75, 0.0)
        case("dropout", [x, torch.tensor(3), torch.tensor(100)], [cast(y, dtype)], {"p": 0.25}, 4,
             dtype == "f64")


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


for family in [elementary, casts, arithmetic, comparison, shapes]:
    family()
floor = 1
for family in [reductions, indexing, products, windows, composites, random,
               parts_replaced]:
    family()

path = pathlib.Path(__file__).parent / "data" / "reference.json"
path.parent.mkdir(exist_ok=True)
with open(path, "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "\n]\n")
print(len(cases), "cases,", path.stat().st_size, "bytes")
