"""Arithmetic, elementary functions, activations, comparison, casts."""

import torch.nn.functional as F

from common import *


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
    set_floor(1)
    edges = "0 -0 1e-6 1 -1 3 -2.5 8 nan"
    unary("gelu", F.gelu, edges, -3, 3, tol=4)
    unary("gelu", gelu_tanh, edges, -3, 3, attrs={"tanh_form": True}, tol=4)
    backward("gelu_backward", F.gelu, edges, tol=8)
    backward("gelu_backward", gelu_tanh, edges, attrs={"tanh_form": True}, tol=16)
    set_floor(0)


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


FAMILIES = [elementary, casts, arithmetic, comparison]
