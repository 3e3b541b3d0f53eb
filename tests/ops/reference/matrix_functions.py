"""Norms and factors of matrices; functions of sets, orders and missing numbers."""

import numpy as np
import torch

from common import *


def norms():
    x = rand((2, 3, 4))
    for p in [2, 1, 0, math.inf, 3]:
        attrs = {"p": "inf" if p == math.inf else p, "axes": [1], "keepdim": True}
        case("vector_norm fn", [x], [torch.linalg.vector_norm(x, p, 1, True)], attrs, 8, p == 2)
        case("vector_norm fn", [x], [torch.linalg.vector_norm(x, p)], {**attrs, "axes": [], "keepdim": False}, 8)
    for axes in [[-2, -1], [0, 2], [2, 1]]:
        for keepdim in [False, True]:
            for kind in ["fro", "nuc"]:
                attrs = {"kind": kind, "axes": axes, "keepdim": keepdim}
                case("matrix_norm by name", [x], [torch.linalg.matrix_norm(x, kind, axes, keepdim)], attrs, 32, True, onnx=0 if kind == "fro" else NEVER)
            for p in [2, -2, 1, -1, math.inf, -math.inf]:
                attrs = {"p": str(p) if math.isinf(p) else p, "axes": axes, "keepdim": keepdim}
                case("matrix_norm by number", [x], [torch.linalg.matrix_norm(x, p, axes, keepdim)], attrs, 32, True, onnx=0 if abs(p) != 2 else NEVER)
    a = rand((2, 3, 3)) + 3 * torch.eye(3)
    for p in [2, -2, 1, -1, math.inf, -math.inf]:
        attrs = {"p": str(p) if math.isinf(p) else p}
        case("cond by number", [a], [torch.linalg.cond(a, p)], attrs, 64, True, onnx=NEVER)
    for kind in ["fro", "nuc"]:
        case("cond by name", [a], [torch.linalg.cond(a, kind)], {"kind": kind}, 64, True, onnx=NEVER)
    case("cond by number", [torch.diag(torch.tensor([2.0, 0.0]))], [torch.tensor(math.inf)], {"p": 2}, 0, onnx=NEVER)


def factors():
    a, b = rand((2, 3, 3)) + 2 * torch.eye(3), rand((2, 3, 2))
    lu, pivots = torch.linalg.lu_factor(a)
    case("lu_factor fn", [a], [lu], {}, 32, True, onnx=NEVER)
    case("lu_solve fn", [a, b], [torch.linalg.solve(a, b)], {}, 64, True, floor=1, onnx=NEVER)
    case("lu_solve fn", [a[0].flip(0), b], [torch.linalg.solve(a[0].flip(0), b)], {}, 64, floor=1, onnx=NEVER)
    case("lu_solve fn", [a, b[0]], [torch.linalg.solve(a, b[0])], {}, 64, floor=1, onnx=NEVER)
    s = a @ a.mT + torch.eye(3)
    l = torch.linalg.cholesky(s)
    for upper in [False, True]:
        factor = l.mT.contiguous() if upper else l
        want = torch.stack([torch.cholesky_inverse(f, upper) for f in factor])
        case("cholesky_inverse fn", [factor], [want], {"upper": upper}, 64, True, floor=1, onnx=NEVER)


def exponentials():
    for a in [rand((2, 3, 3)), 8 * rand((4, 4)), 1e-3 * rand((2, 2)), rand((1, 1)), torch.zeros(3, 3)]:
        case("matrix_exp", [a], [torch.matrix_exp(a)], tol=256, grad=a.shape == (2, 3, 3), floor=1 if a.abs().max() < 3 else None)
        case("matrix_exp", [a.float()], [torch.matrix_exp(a.float().double()).float()], tol=16, floor=1)
    case("matrix_exp", [torch.zeros(2, 0, 0)], [torch.zeros(2, 0, 0)])
    turn = torch.tensor([[0.0, -math.pi], [math.pi, 0.0]])
    case("matrix_exp", [turn], [-torch.eye(2)], tol=64, floor=1)
    case("matrix_exp", [torch.tensor([[math.nan, 0.0], [0.0, 1.0]])], [torch.full((2, 2), math.nan)])


def diagonals():
    for shape in [(3, 3), (2, 4), (7, 2), (3, 3, 3)]:
        x = rand(shape)
        for wrap in [False, True]:
            case("fill_diagonal fn", [x], [x.clone().fill_diagonal_(5, wrap)], {"value": 5, "wrap": wrap}, 0, True)
    i = randint((3, 3), "i32")
    case("fill_diagonal fn", [i], [i.clone().fill_diagonal_(5)], {"value": 5, "wrap": False}, 0)


def missing():
    x = rand((3, 5))
    x[0, 1] = x[2, 0] = x[2, 4] = math.nan
    for axis in [0, 1]:
        case("nanargmax fn", [x], [torch.tensor(np.nanargmax(x.numpy(), axis))], {"axis": axis, "keepdim": False}, 0)
        case("nanargmin fn", [x], [torch.tensor(np.nanargmin(x.numpy(), axis))], {"axis": axis, "keepdim": False}, 0)
        case("nancumprod fn", [x], [torch.tensor(np.nancumprod(x.numpy(), axis))], {"axis": axis}, 8, floor=1)
    case("nanargmax fn", [x], [torch.tensor(np.nanargmax(x.numpy(), 1, keepdims=True))], {"axis": 1, "keepdim": True}, 0)
    case("nanargmax fn", [x], [torch.tensor(np.nanargmax(x.numpy()))], {}, 0)
    case("nanargmin fn", [x], [torch.tensor(np.nanargmin(x.numpy()))], {}, 0)
    low = floats_of("nan -inf nan")
    case("nanargmax fn", [low], [torch.tensor(1)], {"axis": 0, "keepdim": False}, 0)
    i = torch.tensor([3, 9, 9, 1])
    case("nanargmax fn", [i], [torch.tensor(1)], {"axis": 0, "keepdim": False}, 0)
    case("nancumprod fn", [i], [torch.cumprod(i, 0)], {"axis": 0}, 0)
    y = rand((2, 3))
    case("nancumprod fn", [y], [torch.cumprod(y, 1)], {"axis": 1}, 8, True, floor=1)


def sets():
    for dtype in ["i64", "f64"]:
        a, b = cast(torch.tensor([[3, 1, 2], [3, 5, 1]]), dtype), cast(torch.tensor([2, 7, 3, 7]), dtype)
        case("setxor1d fn", [a, b], [torch.tensor(np.setxor1d(a.numpy(), b.numpy()))], {}, 0)
    keys = [torch.tensor([1, 0, 1, 0, 1, 0]), torch.tensor([5.0, 5.0, 3.0, 3.0, 3.0, 4.0]), torch.tensor([2, 2, 2, 1, 2, 2])]
    for count in [1, 2, 3]:
        case("lexsort fn", keys[:count], [torch.tensor(np.lexsort([k.numpy() for k in keys[:count]]))], {"axis": -1}, 0)
    rows = [randint((3, 6), "i64", 0, 2) for _ in range(2)]
    for axis in [0, 1]:
        case("lexsort fn", rows, [torch.tensor(np.lexsort([k.numpy() for k in rows], axis))], {"axis": axis}, 0)
    x = rand((3, 4), low=1.6, high=6)
    for p in [1, 2, 4]:
        function_case("mvlgamma fn", [x], [torch.mvlgamma(x, p)], {"p": p}, 16, True, floor=1)


def zetas():
    s, q = rand((3, 1), low=1.1, high=9), rand((4,), low=0.1, high=6)
    function_case("zeta fn", [s, q], [torch.special.zeta(s, q)], {}, 32, True)
    s, q = floats_of("1 0.5 2 2 2 40 700 1.0001 nan 2 inf"), floats_of("3 1 0 -3 1e10 25 1 2 1 nan 2")
    case("zeta fn", [s, q], [torch.special.zeta(s, q)], {}, 64)
    case("zeta fn", [torch.tensor([2, 4]), torch.tensor(1)], [torch.special.zeta(torch.tensor([2.0, 4.0]), torch.tensor(1.0)).float()], {}, 4)


FAMILIES = [norms, factors, exponentials, diagonals, missing, sets, zetas]
