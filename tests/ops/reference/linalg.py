"""Einsum and other products, systems of equations, determinants, matrix decompositions."""

from common import *


def mixed(*tensors):
    """Small integers as numbers of the tensors' dtypes: sums are exact in any order."""
    return [torch.tensor(rng.randint(-3, 4, size=t)).double() for t in tensors]


EINSUMS = [
    ("ij,jk->ik", (2, 3), (3, 4)), ("ij,jk", (2, 3), (3, 4)), ("ij,kj->ki", (2, 3), (4, 3)),
    ("bij,bjk->bik", (2, 3, 4), (2, 4, 2)), ("ij->ji", (2, 3)), ("ij->", (2, 3)), ("ij->i", (2, 3)),
    ("ii->i", (3, 3)), ("ii", (3, 3)), ("iij->ji", (3, 3, 2)), ("ijij->j", (2, 3, 2, 3)),
    ("i,j->ij", (2,), (3,)), ("i,i", (4,), (4,)), ("i,i->i", (4,), (4,)), ("ij,ij->ij", (2, 3), (2, 3)),
    ("...ij,...jk->...ik", (2, 3, 4), (4, 2)), ("...ij,...jk", (2, 1, 2, 3), (3, 3, 2)),
    ("i...->...", (3, 2, 2)), ("...i->...", (2, 3)), ("...", (2, 3)), ("a...b->b...a", (2, 3, 4)),
    ("ij,i->j", (1, 3), (4,)), ("ij,jk,kl->il", (2, 3), (3, 4), (4, 2)), ("i,ij,j->", (3,), (3, 4), (4,)),
    ("bhqd,bhkd->bhqk", (1, 2, 3, 2), (1, 2, 4, 2)), ("abcd,cdef->abef", (2, 1, 2, 2), (2, 2, 1, 3)),
    ("ijk,jki,kij->", (2, 3, 2), (3, 2, 2), (2, 2, 3)), ("ij,k->ki", (2, 3), (2,)), (",ij->ij", (), (2, 2)),
    ("", ()), ("ij,jk->ik", (2, 0), (0, 3)), ("ij,jk->ik", (0, 2), (2, 3)), (" i j , j k -> i k ", (2, 3), (3, 2)),
    ("BaA,Ab->Bab", (2, 3, 2), (2, 2)), ("ia,ib,ic->abc", (2, 2), (2, 3), (2, 2)),
]


def einsums():
    set_floor(1)
    for equation, *shapes in EINSUMS:
        inputs = mixed(*shapes) if len(shapes) > 2 else [rand(s) for s in shapes]
        out = torch.einsum(equation.replace(" ", ""), *inputs)
        case("einsum", inputs, [out.contiguous()], {"equation": equation}, 16, all(0 not in s for s in shapes))
    for dtype in ["f32", "f16", "bf16"] + INTS:
        inputs = [any_tensor(s, dtype) for s in [(2, 3, 4), (2, 4, 3)]]
        exact = [wide(x).long() if dtype in INTS else wide(x) for x in inputs]
        case("einsum", inputs, [cast(torch.einsum("bij,bjk->bik", *exact), dtype)], {"equation": "bij,bjk->bik"}, 32)
    many = mixed(*[(2, 2)] * 10)
    equation = ",".join("abcdefghijk"[i:i + 2] for i in range(10)) + "->ak"
    case("einsum", many, [torch.einsum(equation, *many)], {"equation": equation}, 16)


def products():
    set_floor(1)
    a, b = rand((2, 3, 4)), rand((2, 4, 2))
    case("bmm", [a, b], [a @ b], tol=16, grad=True)
    a, b, x, y = rand((3, 4)), rand((4, 2)), rand((4,)), rand((4,))
    case("mm", [a, b], [a @ b], tol=16, grad=True)
    case("mv", [a, x], [a @ x], tol=16, grad=True)
    case("dot", [x, y], [x @ y], tol=16, grad=True)
    case("dot", [rand((0,)), rand((0,))], [torch.tensor(0.0)])
    i, j = randint((4,), "i64"), randint((4,), "i64")
    case("dot", [i, j], [i @ j])
    for s, t, axis in [((2, 3), (2, 3), 1), ((2, 3), (3,), -1), ((3, 2), (3, 1), 0)]:
        a, b = rand(s), rand(t)
        case("vecdot", [a, b], [(a * b).sum(axis)], {"axis": axis}, 16, True)
    for s, t in [((3,), (3,)), ((2, 3), (4, 3)), ((2, 2, 3), (3,)), ((), (2, 3)), ((2,), ())]:
        a, b = rand(s), rand(t)
        case("inner", [a, b], [torch.inner(a, b)], tol=16, grad=True)
    for s, t in [((3,), (4,)), ((1,), (3,)), ((0,), (2,))]:
        a, b = rand(s), rand(t)
        case("outer", [a, b], [torch.outer(a, b)], tol=1, grad=0 not in s)
    for s, beta, alpha in [((2, 4), 1.0, 1.0), ((4,), 0.5, 2.0), ((2, 1), -1.0, 0.25), ((), 2.0, 1.0)]:
        x, a, b = rand(s), rand((2, 3)), rand((3, 4))
        case("addmm", [x, a, b], [torch.addmm(x, a, b, beta=beta, alpha=alpha)], {"beta": beta, "alpha": alpha}, 16, True)
    x, a, b = torch.full((2, 4), math.nan), rand((2, 3)), rand((3, 4))
    case("addmm", [x, a, b], [a @ b], {"beta": 0.0, "alpha": 1.0}, 16)
    x, a, b = rand((2, 1, 4)), rand((2, 3, 2)), rand((2, 2, 4))
    case("baddbmm", [x, a, b], [torch.baddbmm(x, a, b, beta=0.5, alpha=3)], {"beta": 0.5, "alpha": 3.0}, 16, True)
    for s, t, p, q in [((2, 3, 4), (4, 3, 2), [1, 2], [1, 0]), ((2, 3), (2, 3), [0, 1], [0, 1]), ((2,), (3,), [], []),
                       ((2, 3), (3, 2), [-1], [-2])]:
        a, b = rand(s), rand(t)
        case("tensordot", [a, b], [torch.tensordot(a, b, (p, q))], {"a": p, "b": q}, 16, True)
    a, b = rand((2, 3, 4)), rand((3, 4, 2))
    case("tensordot (last axes)", [a, b], [torch.tensordot(a, b, 2)], {"axes": 2}, 16, True)
    for s, t in [((2, 3), (3, 2)), ((2,), (3,)), ((2, 2), (2,)), ((), (2,)), ((2, 1, 2), (2, 2))]:
        a, b = rand(s), rand(t)
        case("kron", [a, b], [torch.kron(a, b)], tol=1, grad=True)
    for shapes in [[(2, 3), (3, 4), (4, 2)], [(3,), (3, 2), (2, 4), (4,)], [(3, 2), (2, 4), (4,)], [(2, 2), (2, 2)]]:
        chain = mixed(*shapes)
        case("multi_dot", chain, [torch.linalg.multi_dot(chain)], tol=16, grad=True)
    for n in [0, 1, 2, 3, 5, -1, -2]:
        x = rand((3, 3)) + 3 * torch.eye(3)
        case("matrix_power", [x], [torch.linalg.matrix_power(x, n)], {"n": n}, 64, n != 0)
    x = rand((2, 2, 2))
    case("matrix_power", [x], [torch.linalg.matrix_power(x, 3)], {"n": 3}, 64)
    for s, t, axis in [((3,), (3,), -1), ((2, 3), (2, 3), 1), ((3, 2), (3, 2), 0), ((2, 3), (1, 3), -1)]:
        a, b = rand(s), rand(t)
        case("cross", [a, b], [torch.cross(a.expand(torch.broadcast_shapes(s, t)), b.expand(torch.broadcast_shapes(s, t)), axis)],
             {"axis": axis}, 4, True)
    for p in [0.0, 1.0, 2.0, 3.0, 1.5, math.inf]:
        for s, t in [((3, 2), (4, 2)), ((2, 3, 2), (2, 2, 2)), ((2, 0), (3, 0)), ((0, 2), (3, 2))]:
            a, b = rand(s), rand(t)
            if 0 in s:
                d = torch.cdist(a, b, p)
                if not (math.isinf(p) and s[1] == 0):
                    case("cdist", [a, b], [d], {"p": p if not math.isinf(p) else "inf"}, 16)
                continue
            d = torch.cdist(a, b, p, compute_mode="donot_use_mm_for_euclid_dist")
            case("cdist", [a, b], [d], {"p": p if not math.isinf(p) else "inf"}, 32, p > 0)
    a = rand((2, 3))
    case("cdist", [a, a.clone()], [torch.cdist(a, a, 2, compute_mode="donot_use_mm_for_euclid_dist")], {"p": 2.0}, 16)


def square(shape, n=3, dtype="f64"):
    """Matrices that are far from singular."""
    return cast(rand((*shape, n, n)) + 3 * torch.eye(n), dtype)


def positive(shape, n=3):
    x = rand((*shape, n, n))
    return x @ x.mT + torch.eye(n)


def halves():
    return [("f32", 64), ("f16", 8), ("bf16", 8)]


def factors(x):
    """Of transposed matrices, stored by columns."""
    lu, pivots = torch.linalg.lu_factor(x.mT)
    return lu.mT.contiguous(), pivots.unsqueeze(-2)


def narrow_factors(x):
    """The same as matrices of f32, f16 and bf16 have them."""
    lu, pivots = factors(x)
    return [cast(lu, "f32"), pivots]


def systems():
    set_floor(1)
    for transpose in [False, True]:
        turn = (lambda x: x.mT) if transpose else (lambda x: x)
        for sa, sb in [((), ()), ((2,), (2,)), ((2,), ()), ((), (2,)), ((2, 1), (3,))]:
            for k in [1, 2]:
                a, b = square(sa), rand((*sb, 3, k))
                case("solve", [a, b], [torch.linalg.solve(turn(a), b)], {"transpose": transpose}, 64, k == 2)
        for dtype, tol in halves():
            a, b = square((2,), 4, dtype), rand((2, 4, 2), dtype)
            case("solve", [a, b], [cast(torch.linalg.solve(turn(wide(a)), wide(b)), dtype)], {"transpose": transpose}, tol)
        for a, b in [((0, 0), (0, 2)), ((2, 2), (2, 0)), ((0, 2, 2), (0, 2, 1))]:
            x, y = rand(a), rand(b)
            case("solve", [x, y], [torch.linalg.solve(turn(x), y)], {"transpose": transpose})
        for upper in [False, True]:
            for unit in [False, True]:
                attrs = {"upper": upper, "transpose": transpose, "unit_diagonal": unit}

                def solved(a, b):
                    t = a.triu() if upper else a.tril()
                    if unit:
                        t = t - torch.diag_embed(t.diagonal(dim1=-1, dim2=-2)) + torch.eye(a.shape[-1])
                    return torch.linalg.solve(turn(t), b)
                for sa, sb in [((), ()), ((2,), (2,)), ((2,), ())]:
                    a, b = square(sa), rand((*sb, 3, 2))
                    case("triangular_solve", [a, b], [solved(a, b)], attrs, 64, True)
                for dtype, tol in halves():
                    a, b = square((), 3, dtype), rand((3, 2), dtype)
                    case("triangular_solve", [a, b], [cast(solved(wide(a), wide(b)), dtype)], attrs, tol)
    case("triangular_solve", [rand((0, 0)), rand((0, 2))], [rand((0, 2))])
    for s in [(), (2,), (2, 2)]:
        a = square(s)
        b = rand((*s, 3))
        case("solve (vectors)", [a, b], [torch.linalg.solve(a, b)], tol=64, grad=True)
        b, l = rand((*s, 3, 2)), torch.linalg.cholesky(positive(s))
        case("cholesky_solve", [b, l], [torch.cholesky_solve(b, l)], {"upper": False}, 64)
        case("cholesky_solve", [b, l.mT.contiguous()], [torch.cholesky_solve(b, l)], {"upper": True}, 64)
    for s, n in [((), 3), ((2,), 2), ((2, 2), 1), ((), 0), ((0,), 2), ((), 5)]:
        x = square(s, n)
        case("lu_factors", [x], [*factors(x)], tol=64)
        for dtype, tol in halves() if n == 2 else []:
            y = cast(x, dtype)
            case("lu_factors", [y], narrow_factors(wide(y)), tol=64)
        case("inverse", [x], [torch.linalg.inv(x)], tol=64, grad=x.numel() > 0)
        case("det", [x], [torch.linalg.det(x)], tol=64, grad=x.numel() > 0)
        sign, log = torch.linalg.slogdet(-x)
        case("slogdet", [-x], [sign, log], tol=64, grad=x.numel() > 0)
        case("logdet", [x], [torch.logdet(x)], tol=64, grad=x.numel() > 0)
        if x.numel() and n > 1:
            case("cofactor", [x], [torch.linalg.det(x)[..., None, None] * torch.linalg.inv(x).mT], tol=128, grad=True)
    for dtype, tol in halves():
        x = square((2,), 3, dtype)
        y = wide(x)
        case("inverse", [x], [cast(torch.linalg.inv(y), dtype)], tol=tol)
        case("det", [x], [cast(torch.linalg.det(y), dtype)], tol=tol)
        case("slogdet", [x], [cast(t, dtype) for t in torch.linalg.slogdet(y)], tol=tol)
        case("cofactor", [x], [cast(torch.linalg.det(y)[..., None, None] * torch.linalg.inv(y).mT, dtype)], tol=2 * tol)
    singular = torch.tensor([[1.0, 2, 3], [4, 5, 6], [7, 8, 9]])
    case("cofactor", [singular], [torch.tensor([[-3.0, 6, -3], [6, -12, 6], [-3, 6, -3]])], tol=512)
    case("cofactor", [torch.tensor([[1.0, 2], [2, 4]])], [torch.tensor([[4.0, -2], [-2, 1]])], tol=64)
    case("cofactor", [torch.zeros(3, 3)], [torch.zeros(3, 3)], tol=64)
    case("cofactor", [torch.zeros(1, 1)], [torch.ones(1, 1)], tol=64)
    rank_one = torch.tensor([[1.0, 2], [2, 4]])
    case("det", [rank_one], [torch.tensor(0.0)], tol=16)
    case("slogdet", [torch.zeros(2, 2)], [torch.tensor(0.0), torch.tensor(-math.inf)])
    case("logdet", [-torch.eye(3)], [torch.tensor(math.nan)])
    case("det", [torch.tensor([[1.0, math.nan], [2, 3]])], [torch.tensor(math.nan)])
    for transpose in [False, True]:
        turn = (lambda x: x.mT) if transpose else (lambda x: x)
        for sa, sb in [((), ()), ((2,), (2,)), ((2,), ())]:
            a, b = square(sa), rand((*sb, 3, 2))
            case("solve", [a, b, *factors(a)], [torch.linalg.solve(turn(a), b)], {"transpose": transpose}, 64)
            x, y = cast(a, "bf16"), cast(b, "bf16")
            case("solve", [x, y, *narrow_factors(wide(x))], [cast(torch.linalg.solve(turn(wide(x)), wide(y)), "bf16")], {"transpose": transpose}, 8)


def signs(columns):
    """What makes the first element of each column positive that is at least half the largest."""
    if columns.shape[-2] == 0:
        return torch.ones((*columns.shape[:-2], 1, columns.shape[-1]))
    size = columns.abs()
    first = (2 * size >= size.amax(-2, keepdim=True)).to(torch.int8).argmax(-2, keepdim=True)
    return torch.where(columns.gather(-2, first) < 0, -1.0, 1.0)


def qr_of(x, complete):
    q, r = torch.linalg.qr(x, "complete" if complete else "reduced")
    k = min(x.shape[-2:])
    s = torch.ones((*x.shape[:-2], q.shape[-1]))
    d = r.diagonal(dim1=-2, dim2=-1)
    s[..., :k] = torch.where(d < 0, -1.0, 1.0)
    return [q * s[..., None, :], r * s[..., :, None]]


def svd_of(x, full):
    u, s, vh = torch.linalg.svd(x, full)
    k = s.shape[-1]
    t = signs(u)
    own = signs(vh.mT).mT
    v = vh.clone()
    v[..., :k, :] = vh[..., :k, :] * t[..., :k].mT
    v[..., k:, :] = vh[..., k:, :] * own[..., k:, :]
    return [u * t, s, v]


def eigh_of(x):
    w, v = torch.linalg.eigh((x + x.mT) / 2)
    return [w, v * signs(v)]


def decompositions():
    set_floor(1)
    for upper in [False, True]:
        turn = (lambda l: l.mT) if upper else (lambda l: l)
        for s, n in [((), 3), ((2,), 2), ((), 1), ((), 0), ((0,), 2), ((), 5)]:
            x = positive(s, n)
            case("cholesky", [x], [turn(torch.linalg.cholesky(x)).contiguous()], {"upper": upper}, 64, 0 < x.numel() < 20)
        x = positive((), 3)
        x[0, 2] += 0.5
        x[2, 0] -= 0.5
        case("cholesky", [x], [turn(torch.linalg.cholesky((x + x.mT) / 2)).contiguous()], {"upper": upper}, 64)
        for dtype, tol in halves():
            x = cast(positive((2,), 3), dtype)
            case("cholesky", [x], [cast(turn(torch.linalg.cholesky(wide(x))), dtype)], {"upper": upper}, tol)
    shapes = [(3, 3), (4, 2), (2, 4), (2, 3, 2), (2, 2, 2), (1, 1), (5, 1), (1, 3)]
    empty = [(0, 2), (2, 0), (0, 0), (0, 2, 2)]
    for complete in [False, True]:
        for s in shapes:
            x = rand(s) + 2 * torch.eye(s[-2], s[-1])
            case("qr", [x], qr_of(x, complete), {"complete": complete}, 64, not complete or s[-2] <= s[-1])
        for s in empty:
            x = rand(s)
            case("qr", [x], [t.contiguous() for t in torch.linalg.qr(x, "complete" if complete else "reduced")],
                 {"complete": complete})
        x = rand((3, 2), "f32")
        case("qr", [x], [cast(t, "f32") for t in qr_of(wide(x), complete)], {"complete": complete}, 64)
    for full in [True, False]:
        for s in shapes:
            x = rand(s) + torch.eye(s[-2], s[-1]) * torch.arange(1.0, s[-1] + 1)
            unique = not full or abs(s[-2] - s[-1]) <= 1
            if unique:
                case("svd", [x], svd_of(x, full), {"full_matrices": full}, 256, not full or s[-2] == s[-1])
        x = cast(rand((3, 2)), "f32")
        case("svd", [x], [cast(t, "f32") for t in svd_of(wide(x), full)], {"full_matrices": full}, 256)
        for s in empty:
            x = rand(s)
            u, d, vh = torch.linalg.svd(x, full)
            case("svd", [x], [u, d, vh], {"full_matrices": full})
    for s in shapes + empty:
        x = rand(s)
        case("svdvals", [x], [torch.linalg.svdvals(x)], tol=64, grad=0 not in s)
    for dtype, tol in halves():
        x = rand((2, 3), dtype)
        case("svdvals", [x], [cast(torch.linalg.svdvals(wide(x)), dtype)], tol=tol)
        x = cast(rand((3, 3)), dtype)
        case("eigvalsh", [x], [cast(torch.linalg.eigvalsh((wide(x) + wide(x).mT) / 2), dtype)], tol=tol)
    for s, n in [((), 3), ((2,), 2), ((), 1), ((), 4), ((), 0), ((0,), 2)]:
        x = rand((*s, n, n)) + torch.diag(torch.arange(n).double())
        case("eigh", [x], eigh_of(x), tol=256, grad=x.numel() > 0)
        case("eigvalsh", [x], [eigh_of(x)[0]], tol=64, grad=x.numel() > 0)
    x = cast(rand((3, 3)), "f32")
    case("eigh", [x], [cast(t, "f32") for t in eigh_of(wide(x))], tol=256)
    for s in shapes + [(3, 5), (5, 3)]:
        x = rand(s)
        p, l, u = torch.linalg.lu(x)
        case("lu", [x], [p.mT.argmax(-1), l, u], tol=64, grad=True)
    for s in empty:
        p, l, u = torch.linalg.lu(rand(s))
        case("lu", [rand(s)], [torch.arange(s[-2]).expand(s[:-1]), l, u])
    for dtype, tol in halves():
        x = square((), 3, dtype)
        p, l, u = torch.linalg.lu(wide(x))
        case("lu", [x], [p.mT.argmax(-1), cast(l, dtype), cast(u, dtype)], tol=tol)
    for s in shapes + empty:
        x = rand(s)
        case("pinv", [x], [torch.linalg.pinv(x)], tol=256, grad=0 not in s)
    low = rand((4, 2)) @ rand((2, 3))
    case("pinv", [low], [torch.linalg.pinv(low, rtol=1e-10)], {"rcond": 1e-10}, 1024)
    case("pinv", [torch.zeros(2, 3)], [torch.zeros(3, 2)])
    case("pinv", [torch.diag(torch.tensor([1.0, 0.5, 0.01]))], [torch.diag(torch.tensor([1.0, 2, 0]))], {"rcond": 0.1}, 16)
    for dtype, tol in halves():
        x = rand((3, 2), dtype)
        case("pinv", [x], [cast(torch.linalg.pinv(wide(x)), dtype)], tol=8 * tol)
    for sa, sb in [((4, 2), (4, 3)), ((2, 4), (2, 1)), ((2, 3, 2), (2, 3, 2)), ((3, 3), (3, 1))]:
        a, b = rand(sa), rand(sb)
        case("lstsq", [a, b], [torch.linalg.pinv(a) @ b], {"rcond": -1.0}, 512, True)
    a, b = rand((4, 2)), rand((4,))
    case("lstsq", [a, b], [torch.linalg.pinv(a) @ b], {"rcond": -1.0}, 512)
    for x, rcond in [(torch.eye(3), -1.0), (low, -1.0), (low, 10.0), (torch.zeros(2, 2), -1.0), (rand((2, 3, 2)), -1.0),
                     (rand((2, 0)), -1.0)]:
        rank = torch.linalg.matrix_rank(x, rtol=None if rcond < 0 else rcond)
        case("matrix_rank", [x], [rank], {"rcond": rcond})
    for s in shapes:
        x = rand(s)
        for full in [False, True]:
            case("svd put together", [x], [x], {"full": full}, 256)
            case("qr put together", [x], [x], {"full": full}, 256)
        case("lu put together", [x], [x], {}, 256)
        y = rand((*s[:-1], s[-2]))
        case("eigh put together", [y], [(y + y.mT) / 2], {}, 256)


def complex_products():
    """Products of complex tensors as functions of their pairs."""
    def of_pairs(name, shapes, f, attrs=None):
        inputs = [rand((*s, 2)) for s in shapes]
        result = torch.view_as_real(f(*map(torch.view_as_complex, inputs)).resolve_conj())
        function_case(name, inputs, [result.contiguous()], attrs, 16, True, floor=1)

    for equation, *shapes in [
            ("ij,jk->ik", (2, 3), (3, 2)), ("bij,bjk->bik", (2, 2, 3), (2, 3, 2)), ("ii", (3, 3)), ("iij->ji", (2, 2, 3)),
            ("ij->j", (2, 3)), ("i,j->ij", (2,), (3,)), ("i,i", (3,), (3,)), ("ij,ij->ij", (2, 3), (2, 3)),
            ("ij,i->j", (1, 3), (2,)), ("...ij,jk", (2, 1, 3), (3, 2)), ("i,ij,j->", (2,), (2, 3), (3,)), (",ij->ij", (), (2, 2))]:
        of_pairs("complex einsum", shapes, lambda *x: torch.einsum(equation, *x), {"equation": equation})
    for s, t in [((3,), (3,)), ((2, 3), (2, 3)), ((), (2, 3))]:
        of_pairs("complex inner", [s, t], torch.inner)
    of_pairs("complex tensordot", [(2, 3), (3, 2)], lambda x, y: torch.tensordot(x, y, ([0, 1], [1, 0])),
             {"a": [0, 1], "b": [1, 0]})
    of_pairs("complex tensordot", [(2, 3), (2, 3)], lambda x, y: torch.tensordot(x, y, ([-1], [1])), {"a": [-1], "b": [1]})
    of_pairs("complex multi_dot", [(2, 3), (3, 2), (2,)], lambda *x: torch.linalg.multi_dot(x))


FAMILIES = [einsums, products, systems, decompositions, complex_products]
