"""What the scripts of this folder share: cases, inputs, and tables for operators of one shape.

A script per family (elementwise.py, shapes.py...) says what its operators must give, computed by PyTorch, NumPy or the
ONNX reference evaluator in float64; `python tests/ops/reference [FAMILY...]` writes ../data/FAMILY.json, all of them
without a name (needs numpy and torch; see tests/python/requirements.txt). One case a line:
  op: an operator's row, or a function of tests/ops/*_functions_test.cpp; attrs; in: [[dtype, shape, elements]...];
  out: the same; onnx: the first opset that has a form for it (1000: none has); grad: whether gradients are checked by finite differences. Results may differ by tol (1 unless said)
  times the dtype's epsilon times their size, or times floor where that is larger (0 unless said: sums that cancel have
  no small error). Elements are numbers, booleans or the strings nan, inf and -inf.
"""

import json
import math
import pathlib
import zlib

import ml_dtypes
import numpy as np
import torch

torch.set_default_dtype(torch.float64)
DTYPES = {
    "f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16,
    "i64": torch.int64, "i32": torch.int32, "i16": torch.int16, "i8": torch.int8,
    "u64": torch.uint64, "u32": torch.uint32, "u16": torch.uint16, "u8": torch.uint8,
    "bool": torch.bool, "c128": torch.complex128, "c64": torch.complex64,
    "f8e4m3fn": torch.float8_e4m3fn, "f8e4m3fnuz": torch.float8_e4m3fnuz,
    "f8e5m2": torch.float8_e5m2, "f8e5m2fnuz": torch.float8_e5m2fnuz,
}
NAMES = {v: k for k, v in DTYPES.items()}
FLOATS = ["f64", "f32", "f16", "bf16"]
INTS = ["i64", "i32", "i16", "i8", "u8"]
UNSIGNED = ["u64", "u32", "u16", "u8"]
COMPLEX = {"c128": "f64", "c64": "f32"}
# The dtypes that PyTorch lacks, as ml_dtypes has them.
SMALL = {
    "f8e4m3fn": ml_dtypes.float8_e4m3fn, "f8e4m3fnuz": ml_dtypes.float8_e4m3fnuz,
    "f8e5m2": ml_dtypes.float8_e5m2, "f8e5m2fnuz": ml_dtypes.float8_e5m2fnuz,
    "f8e8m0": ml_dtypes.float8_e8m0fnu, "f4e2m1": ml_dtypes.float4_e2m1fn,
    "i4": ml_dtypes.int4, "i2": ml_dtypes.int2, "u4": ml_dtypes.uint4, "u2": ml_dtypes.uint2,
}

cases = []
NEVER = 1000  # as `onnx`: no opset has a form
rng = np.random.RandomState()
default_floor = 0


def set_floor(value):
    """The floor of the cases that follow."""
    global default_floor
    default_floor = value


def number(x, dtype):
    if dtype == "bool":
        return bool(x)
    if dtype in COMPLEX:
        return [number(part, COMPLEX[dtype]) for part in (x.real, x.imag)]
    if dtype in INTS + UNSIGNED or dtype in ("i4", "i2", "u4", "u2"):
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
             "bf16": lambda: "%.4g" % x}.get(dtype, lambda: x)
    return float(short())


def encode(t):
    """A torch tensor or a NumPy array."""
    if isinstance(t, np.ndarray) and t.dtype.type not in SMALL.values():
        t = torch.from_numpy(np.ascontiguousarray(t))
    if isinstance(t, np.ndarray):
        name = next(name for name, dtype in SMALL.items() if dtype == t.dtype.type)
        return [name, list(t.shape), [number(x, name) for x in t.astype(np.float64).reshape(-1)]]
    name = NAMES[t.dtype]
    return [name, list(t.shape), [number(x, name) for x in t.reshape(-1).tolist()]]


def case(op, inputs, outputs, attrs=None, tol=1, grad=False, floor=None, onnx=None):
    entry = {"op": op, "in": [encode(t) if t is not None else None for t in inputs],
             "out": [encode(t) for t in outputs]}
    if attrs:
        entry["attrs"] = attrs
    if tol != 1:
        entry["tol"] = tol
    floor = default_floor if floor is None else floor
    if floor:
        entry["floor"] = floor
    if grad:
        entry["grad"] = True
    if onnx:
        entry["onnx"] = onnx
    cases.append(entry)


def function_case(op, inputs, outputs, attrs=None, tol=1, grad=False, **more):
    """A case in f64 and one in f32, which runtimes of ONNX have more kernels for."""
    case(op, inputs, outputs, attrs, tol, grad, **more)
    narrow = lambda ts: [t.float() if t is not None and t.dtype == torch.float64 else t for t in ts]
    case(op, narrow(inputs), narrow(outputs), attrs, max(tol, 64), **more)


def evaluate(op, inputs, outputs=1, opset=22, **attrs):
    """ONNX's own evaluator on one node; an input may be None."""
    import onnx
    import onnx.helper as make
    from onnx.reference import ReferenceEvaluator
    names = [f"x{i}" if x is not None else "" for i, x in enumerate(inputs)]
    given = {n: np.asarray(x) for n, x in zip(names, inputs) if x is not None}
    infos = [make.make_tensor_value_info(n, make.np_dtype_to_tensor_dtype(x.dtype), None) for n, x in given.items()]
    results = [make.make_tensor_value_info(f"y{i}", onnx.TensorProto.UNDEFINED, None) for i in range(outputs)]
    node = make.make_node(op, names, [f"y{i}" for i in range(outputs)], **attrs)
    graph = make.make_graph([node], "g", infos, results)
    model = make.make_model(graph, opset_imports=[make.make_opsetid("", opset)])
    return [torch.tensor(np.asarray(y)) for y in ReferenceEvaluator(model).run(None, given)]


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


def any_tensor(shape, dtype):
    if dtype == "bool":
        return randbool(shape)
    return randint(shape, dtype) if dtype in INTS else rand(shape, dtype)


def write(name, families):
    """Runs the functions of a family and writes its cases. Inputs depend on the name alone."""
    cases.clear()
    rng.seed(zlib.crc32(name.encode()))
    set_floor(0)
    for family in families:
        family()
    path = pathlib.Path(__file__).parent.parent / "data" / f"{name}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "\n]\n")
    print(f"{name}: {len(cases)} cases, {path.stat().st_size} bytes")
