"""The dtypes that PyTorch computes little with: unsigned integers (NumPy), small ones (ml_dtypes), complex (PyTorch)."""

import ml_dtypes
import numpy as np
import torch

from common import SMALL, DTYPES, case, cast, rand, randint, rng

NUMPY = {"u64": np.uint64, "u32": np.uint32, "u16": np.uint16, "u8": np.uint8, "i64": np.int64, "i32": np.int32,
         "i16": np.int16, "i8": np.int8, "f64": np.float64, "f32": np.float32, "f16": np.float16, "bool": np.bool_}
NEW = ["u64", "u32", "u16"]
EDGES = np.array([0.0, -0.0, 0.25, 0.75, 1.0, 1.5, -1.5, 1.75, 2.5, 3.0, 3.5, 5.0, 5.5, 7.0, -7.0, 15.5, 17.0, 0.001, 1e-9,
                  -1e-3, 240.0, 247.0, 249.0, 448.0, 463.0, 465.0, -480.0, 57344.0, 61439.0, 61441.0, -1e6, 1e30, np.inf,
                  -np.inf, np.nan], np.float32)

with np.errstate(over="ignore"):
    HALF = EDGES.astype(np.float16)


def t(x):
    return torch.from_numpy(np.ascontiguousarray(x))


def small(x, name, saturate=True):
    """As ONNX's Cast has it."""
    dtype = SMALL[name]
    if name in ("i4", "i2", "u4", "u2"):
        info = ml_dtypes.iinfo(dtype)
        if x.dtype.kind == "f":
            whole = np.where(np.isnan(x), 0, np.trunc(x))
            return np.clip(whole, info.min, info.max).astype(np.int8).astype(dtype)
        width = {"4": 4, "2": 2}[name[1]]
        return (((x.astype(np.int64) - info.min) % (1 << width)) + info.min).astype(np.int8).astype(dtype)
    if name == "f8e8m0":
        exponent = (x.view(np.uint32) >> 23) & 0xFF
        up = ((x.view(np.uint32) & 0x7FFFFF) != 0) & (exponent < (0xFE if saturate else 0xFF))
        return (exponent + up).astype(np.uint8).view(dtype)
    if saturate:
        largest = float(ml_dtypes.finfo(dtype).max)
        x = np.clip(x, -largest, largest)
    return x.astype(dtype)


def any_small(shape, name):
    n = 16 if name[1] == "4" else 4 if name[1] == "2" else 200
    codes = rng.randint(0, n, size=shape).astype(np.uint8)
    if name in ("i4", "i2", "u4", "u2"):
        return small(codes.astype(np.int32), name)
    x = codes.view(SMALL[name])
    return np.where(np.isnan(x.astype(np.float32)), np.float32(1), x.astype(np.float32)).astype(SMALL[name])


def any_unsigned(shape, name, high=None):
    top = np.iinfo(NUMPY[name]).max
    x = rng.randint(0, 1 << 62, size=shape).astype(np.uint64) * np.uint64(4) % np.uint64(high or top)
    x.reshape(-1)[:1] = 0 if high else top
    return x.astype(NUMPY[name])


def casts():
    for name in SMALL:
        integer = name in ("i4", "i2", "u4", "u2")
        case("cast", [t(EDGES)], [small(EDGES, name)], {"dtype": name})
        if not integer:
            case("cast", [t(EDGES)], [small(EDGES, name, False)], {"dtype": name, "saturate": False})
            case("cast", [t(HALF)], [small(HALF.astype(np.float32), name)],
                 {"dtype": name})
        codes = np.arange(256 if name.startswith("f8") else 16 if name[1] == "4" else 4, dtype=np.uint8)
        every = small(codes.astype(np.int32), name) if integer else codes.view(SMALL[name])
        for to in ["f64", "f32", "f16"]:
            with np.errstate(over="ignore"):
                case("cast", [every], [t(every.astype(np.float32).astype(NUMPY[to]))], {"dtype": to})
        whole = np.array([-129, -9, -8, -3, -1, 0, 1, 2, 3, 7, 8, 15, 16, 300], np.int32)
        case("cast", [t(whole)], [small(whole if integer else whole.astype(np.float32), name)], {"dtype": name})
    for a in NEW:
        x = any_unsigned((2, 5), a)
        for b in ["u64", "u32", "u16", "u8", "i64", "i32", "i16", "i8", "f64", "f32", "bool"]:
            case("cast", [t(x)], [t(x.astype(NUMPY[b]))], {"dtype": b})
            y = rng.randint(-100, 100, size=(3,)).astype(NUMPY[b])
            y = np.abs(y) if b[0] == "f" else y
            case("cast", [t(y)], [t(y.astype(np.int64).astype(NUMPY[a]))], {"dtype": a})
    case("cast", [t(np.array([-1.0, np.nan, 2.0**63, 2.0**64, 1.8e19, 3.7], np.float64))],
         [t(np.array([0, 0, 1 << 63, (1 << 64) - 1, 18000000000000000000, 3], np.uint64))], {"dtype": "u64"})


def unsigned():
    for name in NEW:
        a, b = any_unsigned((3, 4), name), any_unsigned((3, 4), name)
        b.reshape(-1)[3] = a.reshape(-1)[3]
        case("add", [t(a), t(b)], [t(a + b)])
        case("sub", [t(a), t(b)], [t(a - b)])
        case("mul", [t(a), t(b[:1])], [t(a * b[:1])])
        case("maximum", [t(a), t(b)], [t(np.maximum(a, b))])
        case("minimum", [t(a), t(b)], [t(np.minimum(a, b))])
        case("neg", [t(a)], [t((0 - a.astype(object)).astype(object).__mod__(1 << (8 * a.itemsize)).astype(a.dtype))])
        case("abs", [t(a)], [t(a)])
        case("sign", [t(a)], [t(np.sign(a))])
        case("clone", [t(a)], [t(a)])
        for op, f in [("eq", np.equal), ("ne", np.not_equal), ("lt", np.less), ("le", np.less_equal),
                      ("gt", np.greater), ("ge", np.greater_equal)]:
            case(op, [t(a), t(b)], [t(f(a, b))])
        case("div", [t(a), t(b + (b == 0))], [t((a.astype(np.float32) / (b + (b == 0)).astype(np.float32)))], tol=2)
        case("where", [t(a > b), t(a), t(b)], [t(np.where(a > b, a, b))])
        few = a % a.dtype.type(1000)  # others add up in f64
        case("sum", [t(few)], [t(few.astype(np.int64).sum(1))], {"axes": [1]})
        case("prod", [t(few)], [t(few.astype(np.int64).prod(0))], {"axes": [0]})
        case("mean", [t(a)], [t(a.astype(np.int64).astype(np.float64).mean(1).astype(np.float32))], {"axes": [1]}, tol=2) \
            if name != "u64" else None
        case("max", [t(a)], [t(a.max(1))], {"axes": [1]})
        case("min", [t(a)], [t(a.min(1))], {"axes": [1]})
        case("any", [t(a)], [t(a.any(1))], {"axes": [1]})
        case("argmax", [t(a)], [t(a.argmax(1))], {"axis": 1})
        case("argmin", [t(a)], [t(a.argmin(1))], {"axis": 1})
        case("matmul", [t(a[:, :3]), t(b)], [t(a[:, :3] @ b)])
        for other in ["u8", "i8", "i32", "f32"]:
            c = rng.randint(0, 100, size=(4,)).astype(NUMPY[other])
            promoted = np.float32 if other == "f32" else np.promote_types(a.dtype, c.dtype)
            with np.errstate(over="ignore"):
                case("add", [t(a), t(c)], [t(a.astype(promoted) + c.astype(promoted))])


def everything():
    """Every dtype that is stored can be moved."""
    for name in NEW + ["c128", "c64"] + list(SMALL):
        def x(shape):
            if name in SMALL:
                return any_small(shape, name)
            return any_unsigned(shape, name) if name in NEW else \
                torch.complex(rand(shape), rand(shape)).to(DTYPES[name])
        lib = torch if name in ("c128", "c64") else np
        a = x((3, 4))
        case("reshape", [a], [a.reshape(2, 6)], {"shape": [2, -1]})
        case("permute", [a], [a.T.copy() if lib is np else a.T], {"axes": [1, 0]})
        case("unsqueeze", [a], [a[:, None]], {"axis": 1})
        case("squeeze", [a[:1]], [a[0]], {"axis": 0})
        case("expand", [a[:1]], [np.broadcast_to(a[:1], (3, 4)) if lib is np else a[:1].expand(3, 4)], {"shape": [3, 4]})
        case("slice", [a], [a[:, 1:3]], {"axis": 1, "begin": 1, "end": 3, "step": 1})
        case("select", [a], [a[2]], {"axis": 0, "index": 2})
        case("concat", [a, a[:1]], [np.concatenate([a, a[:1]]) if lib is np else torch.cat([a, a[:1]])], {"axis": 0})
        index = torch.tensor([[0, 2, 1, 2]])
        at = index.numpy()
        case("gather", [a, index], [np.take_along_axis(a, at, 0) if lib is np else torch.gather(a, 0, index)], {"axis": 0})
        case("index_select", [a, index[0]], [a[at[0]] if lib is np else a[index[0]]], {"axis": 0})
        b = x((3, 2))
        out = a.copy() if lib is np else a.clone()
        out[:, 1:3] = b
        case("slice_scatter", [a, b], [out], {"axis": 1, "begin": 1, "end": 3, "step": 1})
        out = a.copy() if lib is np else a.clone()
        out[1] = a[0]
        case("select_scatter", [a, a[0]], [out], {"axis": 0, "index": 1})
        if name != "f8e8m0":
            padded = np.zeros((4, 4), a.dtype) if lib is np else torch.zeros((4, 4), dtype=a.dtype)
            padded[1:] = a
            case("pad", [a], [padded], {"low": [1, 0], "high": [0, 0], "value": 0})
        if name not in ("c128", "c64"):
            b, condition = x((3, 4)), torch.tensor(rng.rand(3, 4) < 0.5)
            case("where", [condition, a, b],
                 [np.where(condition.numpy(), a, b) if lib is np else torch.where(condition, a, b)])
            case("clone", [a], [a])
            wide = (lambda v: v.astype(np.float32)) if lib is np else (lambda v: v.numpy())
            case("eq", [a, b], [t(wide(a) == wide(b))])
            case("ne", [a, b], [t(wide(a) != wide(b))])
        case("stop_gradient", [a], [a])
        value = 1 if name in ("i2", "u2") else 2
        full = np.full((2,), value).astype(a.dtype) if lib is np else torch.full((2,), value).to(DTYPES[name])
        case("full", [], [full], {"shape": [2], "value": value, "dtype": name})


def complex_pairs():
    for dtype in ["c128", "c64"]:
        for shape in [(2, 3), (), (0,), (1, 2, 1)]:
            x = torch.complex(rand(shape), rand(shape)).to(DTYPES[dtype])
            case("view_as_real", [x], [torch.view_as_real(x)])
            case("view_as_complex", [torch.view_as_real(x)], [x], grad=False)
        x = torch.complex(rand((4, 3)), rand((4, 3))).to(DTYPES[dtype])
        index, source = torch.tensor([[0, 2, 0], [1, 1, 3]]), torch.complex(rand((2, 3)), rand((2, 3))).to(DTYPES[dtype])
        case("scatter_add", [x, index, source], [x.scatter_add(0, index, source)], {"axis": 0}, tol=2)


def fn(name, inputs, f, tol=4, grad=True, attrs=None):
    """Functions of complex numbers as functions of their pairs, in f64 (with gradients) and f32."""
    result = f(*[torch.view_as_complex(x) if x.shape and x.shape[-1] == 2 else x for x in inputs])
    result = torch.view_as_real(result) if result.is_complex() else result
    case(name, inputs, [result], attrs, tol, grad and result.is_floating_point(), floor=1)
    narrow = [cast(x, "f32") for x in inputs]
    out = cast(result, "f32") if result.is_floating_point() else result
    case(name, narrow, [out], attrs, 2 * tol, floor=1)


def complex_functions():
    a, b, r = rand((2, 3, 2)), rand((3, 2)), rand((2, 3))
    for op in ["add", "sub", "mul", "div"]:
        f = getattr(torch, op)
        fn("complex " + op, [a, b], f)
        fn("complex " + op + " real", [a, r], f)
        fn("real " + op + " complex", [r, b], f)
    fn("complex neg", [a], torch.neg)
    fn("complex exp", [a], torch.exp)
    fn("complex abs", [a], torch.abs, 4)
    fn("complex log", [a], torch.log)
    fn("complex angle", [a], torch.angle)
    case("angle", [torch.tensor([-2.0, -0.0, 0.0, 3.0, float("nan"), float("-inf")])],
         [torch.angle(torch.tensor([-2.0, -0.0, 0.0, 3.0, float("nan"), float("-inf")]))], tol=2)
    case("angle", [torch.tensor([-1, 0, 2])], [torch.angle(torch.tensor([-1, 0, 2])).to(torch.float32)], tol=2)
    fn("complex conj", [a], lambda z: z.conj().resolve_conj())
    fn("complex real", [a], torch.real)
    fn("complex imag", [a], torch.imag)
    fn("complex square", [a], torch.square)
    for axes in [[0], [-1], [0, 1]]:
        fn("complex sum", [a], lambda z: z.sum(axes), attrs={"axes": axes})
        fn("complex mean", [a], lambda z: z.mean(axes), attrs={"axes": axes})
    fn("complex sum", [a], lambda z: z.sum(), attrs={"axes": []})
    m, n = rand((3, 4, 2)), rand((4, 2, 2))
    fn("complex matmul", [m, n], torch.matmul, 8)
    fn("complex matmul real", [m, rand((4, 3))], lambda x, y: x @ y.to(x.dtype), 8)
    fn("real matmul complex", [rand((3, 4)), n], lambda x, y: x.to(y.dtype) @ y, 8)
    for batch in [(), (2,)]:
        square = rand((*batch, 3, 3, 2))
        square[..., 0] += 3 * torch.eye(3)
        fn("complex solve", [square, rand((*batch, 3, 2, 2))], torch.linalg.solve, 64)
        fn("complex solve real", [square, rand((*batch, 3, 3))], lambda x, y: torch.linalg.solve(x, y.to(x.dtype)), 64)
        fn("complex inverse", [square], torch.linalg.inv, 64)
        fn("complex pinv", [rand((*batch, 4, 2, 2))], torch.linalg.pinv, 512)
        fn("complex lstsq", [rand((*batch, 4, 2, 2)), rand((*batch, 4, 3, 2))], lambda x, y: torch.linalg.pinv(x) @ y, 512)
    fn("complex solve", [rand((2, 2, 2)) + torch.eye(2)[..., None], rand((2, 2))], torch.linalg.solve, 64)
    fn("complex polar", [rand((2, 3), low=0.5), rand((2, 3))], torch.polar)
    fn("complex of parts", [rand((2, 3)), rand((3,))], lambda x, y: torch.complex(x, y.expand(2, 3)))
    c = a.clone()
    c[0, 1] = b[1]
    fn("complex eq", [c, b], torch.eq, grad=False)
    fn("complex ne", [c, b], torch.ne, grad=False)
    fn("complex gather", [a], lambda z: torch.gather(z, 1, torch.tensor([[0, 2], [1, 1]])))
    fn("complex index_select", [a], lambda z: z[:, torch.tensor([2, 0, 2])])
    fn("complex where", [a, b], lambda x, y: torch.where(torch.tensor([True, False, True]), x, y))
    fn("complex where number", [a], lambda x: torch.where(torch.tensor([True, False, True]), x, torch.zeros_like(x)))
    fn("complex move", [a], lambda z: torch.cat([z.T.reshape(2, 3), z[:, 1:].repeat(1, 2)[:, :3]]))
    fn("complex clone", [a], torch.clone)
    z = torch.zeros((2, 2))
    case("complex abs", [z], [torch.zeros(2)])
    big = torch.tensor([[3e30, 4e30], [1e-30, 0]], dtype=torch.float32)
    case("complex abs", [big], [torch.tensor([5e30, 1e-30], dtype=torch.float32)], tol=4)
    one = torch.tensor([[1.0, 0], [0, 2e-30]], dtype=torch.float32)
    case("complex div", [one, big], [torch.tensor([[1.2e-31, -1.6e-31], [0, 2]], dtype=torch.float32)], tol=8)
    for to in ["f64", "f32", "i32", "bool", "c64"]:
        x = torch.tensor([[1.5, 2.0], [0.0, 0.0], [-3.0, 0.0], [0.0, 1.0]])
        y = torch.view_as_complex(x)
        y = y.real.to(DTYPES[to]) if to != "bool" and to != "c64" else y.to(DTYPES[to])
        case("complex to", [x], [torch.view_as_real(y) if y.is_complex() else y], {"dtype": to})
    for of in ["f64", "f32", "i32", "bool", "u16"]:
        x = torch.tensor([0, 1, 3]).to(DTYPES[of])
        case("to complex", [x], [torch.view_as_real(x.to(torch.complex64))], {"dtype": "c64"})


FAMILIES = [casts, unsigned, everything, complex_pairs, complex_functions]
