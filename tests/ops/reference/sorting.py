"""Sorting, searching, running sums, counting."""

from common import *


def elements(shape, dtype):
    """With ties."""
    return randbool(shape) if dtype == "bool" else randint(shape, dtype, -3, 4) if dtype in INTS else \
        cast(randint(shape, "i32", -3, 4), dtype)


AXES = [((5,), 0), ((3, 4), 1), ((3, 4), 0), ((2, 3, 4), 1), ((1, 1), 0), ((0, 3), 1), ((3, 0), 1), ((0,), 0)]


def stable(x, axis, descending=False):
    """NumPy's stable order, NaN as the greatest."""
    a = x.double().numpy() if x.dtype != torch.int64 else x.numpy()
    order = np.argsort(a, axis=axis, kind="stable")
    if descending:
        flipped = np.flip(a, axis)
        order = np.flip(a.shape[axis] - 1 - np.argsort(flipped, axis=axis, kind="stable"), axis)
    order = torch.tensor(order.copy())
    return [torch.gather(x, axis, order), order]


def sorting():
    for shape, axis in AXES:
        for descending in [False, True]:
            for x in [rand(shape), elements(shape, "f32")]:
                case("sort", [x], stable(x, axis, descending), {"axis": axis, "descending": descending}, 0,
                     x.dtype == torch.float64 and 0 not in shape)
    for dtype in FLOATS[1:] + INTS + ["bool"]:
        x = elements((3, 6), dtype)
        case("sort", [x], stable(x, 1), {"axis": 1, "descending": False}, 0)
        case("sort", [x], stable(x, 0, True), {"axis": 0, "descending": True}, 0)
    edges = floats_of("1 nan -inf inf -0 nan 0 2 -1 -0")
    for dtype in FLOATS:
        x = cast(edges, dtype)
        for descending in [False, True]:
            case("sort", [x], stable(x, 0, descending), {"axis": 0, "descending": descending}, 0)
    for dtype in ["f32", "i16", "i64"]:  # by digits
        x = cast(torch.tensor(rng.randint(-1000, 1000, size=300)), dtype)
        case("sort", [x], stable(x, 0), {"axis": 0, "descending": False}, 0)

    for shape, axis, k in [((5,), 0, 2), ((3, 4), 1, 4), ((3, 4), 0, 1), ((2, 3, 4), 1, 2), ((3, 4), 1, 0)]:
        for largest in [False, True]:
            for is_sorted in [True, False]:
                for x in [rand(shape), elements(shape, "i32")]:
                    values, places = [t.narrow(axis, 0, k) for t in stable(x, axis, largest)]
                    if not is_sorted:
                        places = places.sort(axis)[0]
                        values = x.gather(axis, places)
                    case("topk", [x], [values, places],
                         {"k": k, "axis": axis, "largest": largest, "sorted": is_sorted}, 0,
                         x.dtype == torch.float64 and k > 0)
    for dtype in FLOATS + INTS + ["bool"]:
        x = elements((2, 9), dtype)
        case("topk", [x], [t[:, :4] for t in stable(x, 1, True)], {"k": 4, "axis": 1, "largest": True, "sorted": True}, 0)
    for largest in [False, True]:
        case("topk", [edges], [t[:7] for t in stable(edges, 0, largest)],
             {"k": 7, "axis": 0, "largest": largest, "sorted": True}, 0)
        x = torch.tensor(rng.randint(-60, 60, size=300)).float()
        case("topk", [x], [t[:5] for t in stable(x, 0, largest)],
             {"k": 5, "axis": 0, "largest": largest, "sorted": True}, 0)

    for shape, axis, k in [((5,), 0, 2), ((3, 4), 1, 4), ((3, 4), 0, 1), ((2, 3, 4), 1, 2)]:
        for keepdim in [False, True]:
            for x in [rand(shape), elements(shape, "i64")]:
                values, places = [t.narrow(axis, k - 1, 1) for t in stable(x, axis)]
                if not keepdim:
                    values, places = values.squeeze(axis), places.squeeze(axis)
                case("kthvalue", [x], [values, places], {"k": k, "axis": axis, "keepdim": keepdim}, 0,
                     x.dtype == torch.float64)
    for k in [1, 8, 10]:
        case("kthvalue", [edges], [t[k - 1] for t in stable(edges, 0)], {"k": k, "axis": 0, "keepdim": False}, 0)
    x = rand(())
    case("argsort of a scalar", [x], [torch.tensor(0)])


def searching():
    for dtype in ["f64", "f32", "f16", "bf16", "i64", "i8", "u8", "bool"]:
        s, v = elements((5,), dtype).sort()[0], elements((2, 4), dtype)
        rows, w = elements((2, 3), dtype).sort(1)[0], elements((2, 4), dtype)
        for right in [False, True]:
            side = "right" if right else "left"
            find = lambda a, b: torch.tensor(np.searchsorted(a.double().numpy(), b.double().numpy(), side))
            case("searchsorted", [s, v], [find(s, v)], {"right": right}, 0)
            case("searchsorted", [rows, w], [torch.stack([find(a, b) for a, b in zip(rows, w)])], {"right": right}, 0)
            case("searchsorted", [s, v[0, 0]], [find(s, v[0, 0])], {"right": right}, 0)
            case("searchsorted", [s[:0], v], [torch.zeros(2, 4, dtype=torch.int64)], {"right": right}, 0)
            case("searchsorted", [s, v[:0]], [torch.zeros(0, 4, dtype=torch.int64)], {"right": right}, 0)
        case("bucketize", [v, s], [find(s, v)], {"right": True}, 0)
    for dtype in ["f64", "i32"]:
        x, among = elements((3, 4), dtype), elements((5,), dtype)
        case("isin", [x, among], [torch.isin(x, among)])
    case("isin", [x, among[:0]], [torch.zeros(3, 4).bool()])
    e = floats_of("nan 1 inf")
    case("isin", [e, e], [torch.tensor([False, True, True])])


def uniques():
    def by_numpy(x, is_sorted=True, axis=None):
        a = x.numpy() if x.dtype != torch.bfloat16 else x.float().numpy()
        values, first, inverse, counts = np.unique(a, True, True, True, axis=axis)
        inverse = inverse.reshape(-1)
        if not is_sorted:
            order = np.argsort(first, kind="stable")
            place = np.empty_like(order)
            place[order] = np.arange(len(order))
            values = np.take(values, order, 0 if axis is None else axis)
            first, counts, inverse = first[order], counts[order], place[inverse]
        made = torch.tensor(values)
        return [made.to(x.dtype)] + [torch.tensor(t.astype(np.int64)) for t in (first, inverse, counts)]
    for is_sorted in [True, False]:
        for dtype in FLOATS + INTS + ["bool"]:
            x = elements((3, 5), dtype)
            case("unique", [x], by_numpy(x, is_sorted), {"sorted": is_sorted, "flat": True, "axis": 0}, 0)
        x = floats_of("2 nan 1 nan 2 -1")
        case("unique", [x], by_numpy(x, is_sorted), {"sorted": is_sorted, "flat": True, "axis": 0}, 0)
        for axis in [0, 1]:
            x = torch.tensor([[1, 2, 1, 1], [0, 5, 0, 3], [1, 2, 1, 1]])
            case("unique", [x], by_numpy(x, is_sorted, axis), {"sorted": is_sorted, "flat": False, "axis": axis}, 0)
            x = x.double()[None].repeat(2, 1, 1)
            case("unique", [x], by_numpy(x, is_sorted, axis), {"sorted": is_sorted, "flat": False, "axis": axis}, 0)
    x = torch.zeros(0)
    case("unique", [x], [x] + [torch.zeros(0, dtype=torch.int64)] * 3, {"sorted": True, "flat": True, "axis": 0}, 0)


def running():
    set_floor(1)
    flags = [(False, False), (True, False), (False, True), (True, True)]

    def walk(f, start):
        def g(x, axis, exclusive, reverse):
            y = x.flip(axis) if reverse else x
            y = f(y, axis)
            if exclusive:
                y = torch.cat([torch.full_like(y.narrow(axis, 0, 1), start), y.narrow(axis, 0, y.shape[axis] - 1)], axis)
            return y.flip(axis) if reverse else y
        return g
    for op, f, tol in [("cumsum", walk(torch.cumsum, 0), 4), ("cumprod", walk(torch.cumprod, 1), 8)]:
        for shape, axis in AXES:
            for exclusive, reverse in flags:
                x = rand(shape)
                y = f(x, axis, exclusive, reverse) if 0 not in shape else x
                case(op, [x], [y], {"axis": axis, "exclusive": exclusive, "reverse": reverse}, tol, 0 not in shape)
        for dtype in FLOATS[1:]:
            for shape, axis in [((3, 9), 1), ((9, 3), 0)]:
                x = rand(shape, dtype)
                case(op, [x], [cast(f(wide(x), axis, False, False), dtype)],
                     {"axis": axis, "exclusive": False, "reverse": False}, tol)
        for dtype in INTS + ["bool"]:
            x = elements((3, 4), dtype)
            case(op, [x], [f(x.long(), 1, False, True)], {"axis": 1, "exclusive": False, "reverse": True}, 0)
        x = floats_of("1 inf 2 -inf 1 nan 3")
        case(op, [x], [f(x, 0, False, False)], {"axis": 0, "exclusive": False, "reverse": False})
    x = torch.tensor([[2.0, 0, 3, 0, 4], [0, 1, 2, 3, 4], [1, 2, 3, 4, 0]])
    for exclusive, reverse in flags:
        case("cumprod", [x], [walk(torch.cumprod, 1)(x, 1, exclusive, reverse)],
             {"axis": 1, "exclusive": exclusive, "reverse": reverse}, 4, True)
    wide_rows = rand((2, 130), "f32")
    case("cumsum", [wide_rows], [wide_rows.double().cumsum(0).float()], {"axis": 0, "exclusive": False, "reverse": False}, 4)

    for shape, axis in AXES:
        for reverse in [False, True]:
            x = rand(shape, low=-4, high=4)
            y = walk(torch.logcumsumexp, 0)(x, axis, False, reverse)
            case("logcumsumexp", [x], [y], {"axis": axis, "exclusive": False, "reverse": reverse}, 8, 0 not in shape)
    for text in ["-inf -inf 1 2", "1000 1001 -1000", "1 inf 2 nan 3", "-inf 3 inf -inf"]:
        for dtype in FLOATS:
            x = cast(floats_of(text), dtype)
            case("logcumsumexp", [x], [cast(torch.logcumsumexp(wide(x), 0), dtype)],
                 {"axis": 0, "exclusive": False, "reverse": False}, 8)

    for op, f in [("cummax", torch.cummax), ("cummin", torch.cummin)]:
        for shape, axis in AXES:
            x = rand(shape)
            y = f(x, axis) if 0 not in shape else (x, x.long())
            case(op, [x], list(y), {"axis": axis}, 0, 0 not in shape)
        for dtype in FLOATS[1:] + INTS + ["bool"]:
            x = elements((3, 6), dtype)
            case(op, [x], list(f(x, 1)), {"axis": 1}, 0)
        x = floats_of("1 inf 2 -inf 1 nan 3 nan 1")
        case(op, [x], list(f(x, 0)), {"axis": 0}, 0)

    def recurrence(a, b, axis, reverse):
        if reverse:
            a, b = a.flip(axis), b.flip(axis)
        y = []
        for p, q in zip(a.unbind(axis), b.unbind(axis)):
            y.append(p * y[-1] + q if y else q)
        y = torch.stack(y, axis)
        return y.flip(axis) if reverse else y
    for shape, axis in AXES[:5]:
        for reverse in [False, True]:
            for dtype in ["f64", "f32", "bf16"]:
                a, b = rand(shape, dtype), rand(shape, dtype)
                case("linear_scan", [a, b], [cast(recurrence(wide(a), wide(b), axis, reverse), dtype)],
                     {"axis": axis, "reverse": reverse}, 8, dtype == "f64")
    a = rand((0, 3))
    case("linear_scan", [a, a], [a], {"axis": 0, "reverse": False})


def counting():
    set_floor(1)
    for dtype in INTS:
        x = randint((9,), dtype, 0, 5)
        case("bincount", [x, None], [torch.bincount(x)], {"least": 0}, 0)
        case("bincount", [x, None], [torch.bincount(x, minlength=8)], {"least": 8}, 0)
        for weight in FLOATS:
            w = rand((9,), weight)
            case("bincount", [x, w], [cast(torch.bincount(x.long(), wide(w)), weight)], {"least": 0}, 4,
                 weight == "f64" and dtype == "i64")
    x = torch.zeros(0, dtype=torch.int64)
    case("bincount", [x, None], [x], {"least": 0}, 0)
    for dtype in ["i64", "i32"]:
        x = torch.tensor([2, 0, 3, 1]).to(DTYPES[dtype])
        case("repeat_places", [x], [torch.tensor([0, 0, 2, 2, 2, 3])], None, 0)
    case("repeat_places", [torch.zeros(3, dtype=torch.int64)], [torch.zeros(0, dtype=torch.int64)], None, 0)
    for dtype in FLOATS + INTS + ["bool"]:
        x = elements((3, 4), dtype)
        case("nonzero", [x], [x.nonzero()], None, 0)
    for x in [torch.tensor(3.0), torch.tensor(0.0), torch.zeros(2, 0), floats_of("nan 0 -0 inf"), rand((2, 3, 2))]:
        case("nonzero", [x], [x.nonzero()], None, 0)
    for dtype in FLOATS + ["i64", "i32"]:
        x = cast(torch.tensor([[0.0, 2.0, 1.0], [3.0, 0.0, 0.0]]), dtype) if dtype in FLOATS else torch.tensor([3, 0, 1]).to(DTYPES[dtype])
        case("checked", [x], [x], {"of": "f", "argument": "x", "most": 3, "sum": dtype in FLOATS}, 0)
    x = torch.tensor([[0.5, 2.0, 1.5], [3.5, 1.0, 0.25]]).double()
    case("checked", [x], [x], {"of": "f", "argument": "x", "most": 2**62 - 1, "sum": True}, 0, True)
    case("checked", [torch.zeros(0, 3)], [torch.zeros(0, 3)], {"of": "f", "argument": "x", "most": 3, "sum": True}, 0)


FAMILIES = [sorting, searching, uniques, running, counting]
