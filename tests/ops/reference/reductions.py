"""Reductions and extremes."""

from common import *


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
    set_floor(1)
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
    for op, f in [("argmax", np.argmax), ("argmin", np.argmin)]:
        for x in [randint((3, 6), "i32", 0, 3), cast(randint((3, 6), "i32", 0, 3), "f32")]:
            y = torch.tensor(5 - f(x.numpy()[:, ::-1], axis=1))
            case(op, [x], [y], {"axis": 1, "keepdim": False, "last": True})
        x = floats_of("1 nan -inf inf nan 2")
        case(op, [x], [torch.tensor(4)], {"axis": 0, "keepdim": False, "last": True})
        x = randint((3, 4), "i64", 0, 3)
        case(op + " of all", [x], [torch.tensor(f(x.numpy()))])
    for shape, axes in [((3, 4), [1]), ((3, 4), [0]), ((2, 3, 4), [0, 2]), ((2, 1, 3), [1]), ((1, 1), []), ((0, 3), [0])]:
        x = rand(shape)
        case("sum_of_repeats", [x], [over(lambda x, a: x.sum(a))(x, axes, False)],
             {"axes": axes, "keepdim": False}, 8, x.numel() > 0)
    for x in [floats_of("-0 0 -1 nan -inf"), floats_of("-0 0")]:
        case("sum_of_repeats", [x.reshape(-1, 1)], [x], {"axes": [1], "keepdim": False})
    case("sum_of_repeats", [-torch.zeros(2, 2)], [torch.zeros(2)], {"axes": [1], "keepdim": False})


FAMILIES = [reductions]
