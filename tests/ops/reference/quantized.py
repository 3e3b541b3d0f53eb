"""Quantisation: NumPy's arithmetic, checked against ONNX's reference evaluator; fake quantisation and its gradients from
PyTorch."""

import ml_dtypes
import numpy as np
import onnx
import onnx.helper as make
import torch
from onnx.reference import ReferenceEvaluator

from common import SMALL, case, cast, rand, rng

NUMPY = {"u8": np.uint8, "i8": np.int8, "u16": np.uint16, "i16": np.int16, "i32": np.int32, "f16": np.float16,
         "f32": np.float32, "f64": np.float64, "bf16": ml_dtypes.bfloat16, **SMALL}
NAMES = {np.dtype(v): k for k, v in NUMPY.items()}
INTEGERS = ["u8", "i8", "u16", "i16", "u4", "i4", "u2", "i2"]
FLOATS = ["f8e4m3fn", "f8e4m3fnuz", "f8e5m2", "f8e5m2fnuz"]
# Ties, both sides of every range, what is too large.
EDGES = np.array([0.0, -0.0, 0.25, 0.5, 0.75, 1.5, -0.5, -1.25, 2.5, 3.5, -4.0, 7.6, 63.5, 64.0, -64.0, 127.6, -128.3,
                  255.4, 1e4, -1e4, 3e38, -3e38], np.float32)


def t(x):
    """What case() takes: torch's tensors, or arrays of ml_dtypes."""
    x = np.asarray(x)
    if x.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(x.astype(np.float32)).to(torch.bfloat16)
    return x if x.dtype.type in SMALL.values() else torch.from_numpy(x.copy())


def limits(name):
    info = ml_dtypes.iinfo(NUMPY[name])
    return int(info.min), int(info.max)


def evaluator(op, inputs, opset=25, outputs=1, **attrs):
    """ONNX's reference evaluator on one node."""
    names = [f"x{i}" if x is not None else "" for i, x in enumerate(inputs)]
    given = {n: np.asarray(x) for n, x in zip(names, inputs) if x is not None}
    infos = [make.make_tensor_value_info(n, make.np_dtype_to_tensor_dtype(x.dtype), None) for n, x in given.items()]
    results = [make.make_tensor_value_info(f"y{i}", onnx.TensorProto.UNDEFINED, None) for i in range(outputs)]
    node = make.make_node(op, names, [f"y{i}" for i in range(outputs)], **attrs)
    model = make.make_model(make.make_graph([node], "g", infos, results), opset_imports=[make.make_opsetid("", opset)])
    return [np.asarray(y) for y in ReferenceEvaluator(model).run(None, given)]


def quantized(x, scale, zero, name, saturate=True, precision=None):
    """x, scale and zero broadcast."""
    precision = NUMPY[precision or NAMES[np.asarray(scale).dtype]]
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        q = (x.astype(precision) / np.asarray(scale).astype(precision)).astype(precision)
    if name in INTEGERS:
        low, high = limits(name)
        wide = np.rint(q.astype(np.float64)) + np.asarray(zero).astype(np.float64)
        return np.clip(np.where(np.isnan(wide), low, wide), low, high).astype(np.int32).astype(NUMPY[name])
    single = q.astype(np.float32)
    if saturate and name != "f4e2m1":
        largest = float(ml_dtypes.finfo(NUMPY[name]).max)
        single = np.clip(single, -largest, largest)
    with np.errstate(over="ignore", invalid="ignore"):
        return single.astype(NUMPY[name])


def quantize_case(x, scale, zero, name, saturate=True, precision=None, check=True):
    want = quantized(x, scale, zero, name, saturate, precision)
    if check and np.ndim(scale) == 0 and x.dtype == np.float32 and (precision or "f32") == "f32":
        ours = evaluator("QuantizeLinear", [x, np.asarray(scale), np.asarray(zero)], saturate=int(saturate))[0]
        finite = np.abs(x) < 1e9  # beyond, the evaluator's conversion to i32 is not defined
        np.testing.assert_array_equal(ours.astype(np.float32)[finite], want.astype(np.float32)[finite], name)
    wide = np.float64 if x.dtype == np.float64 or np.asarray(scale).dtype == np.float64 else np.float32
    case("quantize_linear", [t(x), t(np.asarray(scale).astype(wide)), t(zero)], [t(want)],
         {"dtype": name, "saturate": saturate, "precision": precision or NAMES[np.asarray(scale).dtype]}, 0)


def zero_of(name, value, shape=()):
    return np.full(shape, value).astype(NUMPY[name])


def quantize():
    for name in INTEGERS:
        low, high = limits(name)
        for zero in {0, low, high, (low + high) // 2 + 1}:
            quantize_case(EDGES, np.float32(0.5), zero_of(name, zero), name)
        quantize_case(EDGES[None], np.float32(3), zero_of(name, 0), name)
    for name in FLOATS:
        for saturate in [True, False]:
            quantize_case(EDGES, np.float32(0.25), zero_of(name, 0), name, saturate)
    quantize_case(EDGES, np.float32(0.5), zero_of("f4e2m1", 0), "f4e2m1", check=False)
    special = np.array([np.nan, np.inf, -np.inf, 1], np.float32)
    quantize_case(special, np.float32(2), zero_of("i8", 3), "i8", check=False)
    quantize_case(special, np.float32(2), zero_of("f8e5m2", 0), "f8e5m2", False, check=False)
    for shape, scales in [((3, 4), (4,)), ((3, 4), (3, 1)), ((2, 3, 2), (3, 1)), ((2, 4, 3), (2, 1, 3)), ((), ()),
                          ((0, 3), (3,)), ((2, 0), ()), ((2, 2), (2, 2)), ((1, 3), (1, 1))]:
        x = rand(shape, "f32", -50, 50).numpy()
        scale = rand(scales, "f32", 0.1, 2).numpy()
        for name in ["u8", "i8"]:
            low, high = limits(name)
            quantize_case(x, scale, rng.randint(low, high, size=scales).astype(NUMPY[name]), name)
    x = rand((3, 4), "f32", -50, 50).numpy()
    for of, precision in [("f64", "f64"), ("f64", "f32"), ("f16", "f32"), ("f16", "f16"), ("bf16", "bf16"), ("bf16", "f32"),
                          ("i32", "f32"), ("f32", "f16"), ("f32", "f64")]:
        scale = np.asarray(0.375, np.float64 if of == "f64" and precision == "f64" else np.float32)
        if precision == "f16":
            x = (np.round(x / 0.375) * 0.375).astype(np.float32)  # runtimes divide in f32 all the same
        quantize_case(x.astype(NUMPY[of]), scale, zero_of("u8", 120), "u8", precision=precision)
        quantize_case(x.astype(NUMPY[of]), scale, zero_of("u16", 65000), "u16", precision=precision)


def by_factor():
    """What products of quantised numbers end with."""
    for name in ["u8", "i8"]:
        for of in ["i32", "f32"]:
            sums = rng.randint(-9000, 9000, size=(3, 4)).astype(NUMPY[of])
            factor, zero = rand((4,), "f32", 0.001, 0.03).numpy(), zero_of(name, 9, (4,))
            low, high = limits(name)
            y = np.clip(np.rint(sums.astype(np.float32) * factor) + 9, low, high).astype(NUMPY[name])
            case("quantize_linear", [t(sums), t(factor), t(zero)], [t(y)],
                 {"dtype": name, "saturate": True, "precision": "f32", "by_factor": True}, 0)


def arguments(x, scale, zero, dtype="u8", axis=1, block_size=0, saturate=True, precision=None, opset=25):
    """The public functions, by what ONNX's reference gives."""
    attrs = {"axis": axis, "block_size": block_size, "saturate": int(saturate)}
    if zero is None:
        attrs["output_dtype"] = make.np_dtype_to_tensor_dtype(np.dtype(NUMPY[dtype]))
    if precision:
        y = quantized(x, scale, zero, dtype, saturate, precision)  # the evaluator has no form with it
    else:
        y = evaluator("QuantizeLinear", [x, scale, zero], opset, **attrs)[0]
    said = {"dtype": dtype, "axis": axis, "block_size": block_size, "saturate": saturate}
    if precision:
        said["precision"] = precision
    case("quantize by arguments", [t(x), t(scale), t(zero) if zero is not None else None], [t(y)], said, 0)
    del attrs["saturate"]
    attrs.pop("output_dtype", None)
    back = evaluator("DequantizeLinear", [y, scale, zero], opset, **attrs)[0]
    case("dequantize by arguments", [t(y), t(scale), t(zero) if zero is not None else None], [t(back)],
         {"axis": axis, "block_size": block_size}, 0)
    return y, back


def functions():
    x = rand((2, 3, 4), "f32", -30, 30).numpy()
    for name in INTEGERS + FLOATS + ["f4e2m1"]:
        arguments(x, np.float32(0.3), None, name)
        whole = name in INTEGERS
        low, high = limits(name) if whole else (0, 1)
        for axis, size in [(0, 2), (1, 3), (-1, 4)]:
            scale = rand((size,), "f32", 0.1, 2).numpy()
            zero = rng.randint(low, high, size=(size,)).astype(np.int32).astype(NUMPY[name])
            arguments(x, scale, zero, name, axis)
    for axis, block, scales in [(1, 2, (3, 3)), (0, 3, (1, 6)), (-1, 4, (3, 2)), (1, 3, (3, 2))]:
        x = rand((3, 6), "f32", -30, 30).numpy()
        scale = rand(scales, "f32", 0.1, 2).numpy()
        for name in ["u8", "i4", "f8e4m3fn"]:
            zero = None if name[0] == "f" else zero_of(name, 3, scales)
            arguments(x, scale, zero, name, axis, block)
    x = rand((3, 5), "f32", -30, 30).numpy()  # the last block is not full
    scale, zero = rand((3, 3), "f32", 0.1, 2).numpy(), zero_of("u8", 9, (3, 3))
    y = quantized(x, np.repeat(scale, 2, 1)[:, :5], np.repeat(zero, 2, 1)[:, :5], "u8")
    case("quantize by arguments", [t(x), t(scale), t(zero)], [t(y)],
         {"dtype": "u8", "axis": 1, "block_size": 2, "saturate": True}, 0)
    half = x.astype(np.float16)
    arguments(half, np.float16(0.4), zero_of("u8", 7))
    arguments(half, np.float32(0.4), zero_of("u8", 7), precision="f32")
    case("quantize by a number", [t(x)], [t(quantized(x, np.float32(0.25), np.uint8(0), "u8"))])


def dequantize_case(q, scale, zero, dtype="f32"):
    with np.errstate(over="ignore"):
        y = ((q.astype(np.float64) - np.asarray(zero).astype(np.float64)).astype(np.asarray(scale).dtype) * scale)
    case("dequantize_linear", [t(q), t(scale), t(zero)], [t(y.astype(NUMPY[dtype]))], {"dtype": dtype},
         2, grad=np.asarray(scale).dtype == np.float64 and dtype == "f64" and q.size > 0)


def dequantize():
    for name in INTEGERS + FLOATS + ["f4e2m1", "i32"]:
        if name in INTEGERS or name == "i32":
            low, high = limits(name) if name in INTEGERS else (-100000, 100000)
            q = rng.randint(low, high + 1, size=(2, 3)).astype(np.int32)
            q.reshape(-1)[:2] = low, high
            q = q.astype(NUMPY[name])
            zero = zero_of(name, low if name != "i32" else 0)
        else:
            q = np.array([[0, 1.5, -2], [6, -0.5, 100]]).astype(np.float32).astype(NUMPY[name])
            zero = zero_of(name, 0)
        dequantize_case(q, np.asarray(0.37, np.float32), zero)
        dequantize_case(q, np.array([0.5, 2, 3]), np.repeat(zero, 3), "f64")
        dequantize_case(q, np.array([[0.5], [1.25]], np.float32), np.repeat(zero, 2)[:, None], "f16")
    q = rng.randint(0, 255, size=(2, 3, 2)).astype(np.uint8)
    for scales in [(), (2,), (3, 1), (2, 1, 1), (2, 3, 1)]:
        zero = rng.randint(0, 255, size=scales).astype(np.uint8)
        dequantize_case(q, rand(scales, "f64", 0.5, 2).numpy(), zero, "f64")
    for shape in [(), (0,), (2, 0)]:
        dequantize_case(np.zeros(shape, np.int8), np.asarray(0.5, np.float32), np.int8(3))
    dequantize_case(np.array([1, 2], np.uint8), np.asarray(0.5, np.float32), np.uint8(3), "bf16")


def fake_case(x, scale, zero, low, high):
    """In f64 by the definition, in f32 by PyTorch, which multiplies by 1 / scale: x keeps away from ties."""
    shape = {(): (), (3,): (3, 1)}[tuple(scale.shape)]
    s, z = scale.reshape(shape).double(), zero.reshape(shape).double()
    whole = torch.floor(x.double() / s)
    # ... and from both ends, where PyTorch's gradient by the scale is that beyond them.
    whole = whole + 2 * (whole + z == low) - 2 * (whole + z == high)
    x = ((whole + 0.1 + 0.3 * (x.double() / s - torch.floor(x.double() / s))) * s).float()
    q = torch.nan_to_num(torch.round(x.double() / s) + z, low, high, low).clamp(low, high)
    attrs = {"low": low, "high": high}
    y = (q - z) * s
    case("fake_quantize", [x.double(), s, z], [y], attrs)
    if scale.dim() == 0:
        theirs = torch.fake_quantize_per_tensor_affine(x.float(), scale.float(), zero.int(), low, high)
    else:
        theirs = torch.fake_quantize_per_channel_affine(x.float(), scale.float(), zero.int(), 0, low, high)
    case("fake_quantize", [x.float(), scale.reshape(shape).float(), zero.reshape(shape).int()], [theirs], attrs)
    if high - low > 300:  # PyTorch's are differences of large numbers in f32
        return
    # The gradients by x, and by scale and zero point where those are learned, of the sum weighted by 1, 2, 3...
    a = [v.float().clone().requires_grad_() for v in (x, scale, zero)]
    if scale.dim() == 0:
        y = torch._fake_quantize_learnable_per_tensor_affine(a[0], a[1].reshape(1), a[2].reshape(1), low, high, 1.0)
    else:
        y = torch._fake_quantize_learnable_per_channel_affine(a[0], a[1], a[2], 0, low, high, 1.0)
    weight = torch.arange(1.0, y.numel() + 1, dtype=torch.float32).reshape(y.shape)
    grads = torch.autograd.grad((y * weight).sum(), a)
    b = x.float().clone().requires_grad_()
    if scale.dim() == 0:
        z = torch.fake_quantize_per_tensor_affine(b, scale.float(), zero.int(), low, high)
    else:
        z = torch.fake_quantize_per_channel_affine(b, scale.float(), zero.int(), 0, low, high)
    assert torch.equal(torch.autograd.grad((z * weight).sum(), b)[0], grads[0])
    case("fake_quantize gradients", [t.detach() for t in a], grads, attrs, 64, floor=1)


def fake():
    for low, high in [(0, 255), (-128, 127), (-127, 127), (0, 15), (-2, 1), (0, 65535)]:
        for size in [(), (3,)]:
            scale = rand(size, "f32", 0.1, 1.5)
            zero = torch.tensor(rng.randint(max(low, 0), min(high, 20) + 1, size=size)).float()
            x = rand((3, 5), "f32", -1.5 * (high - low) - 3, 1.5 * (high - low) + 3)
            fake_case(x, scale, zero, low, high)
    edges = torch.tensor([[0, -0.0, 0.5, 1.5, 300, -300, float("inf"), float("-inf"), float("nan")]], dtype=torch.float64)
    q = np.clip(np.nan_to_num(np.rint(edges.numpy() / 2), nan=0, posinf=255, neginf=0) + 0, 0, 255)
    case("fake_quantize", [edges, torch.tensor(2.0), torch.tensor(0.0)], [torch.tensor(q * 2)], {"low": 0, "high": 255})
    for shape in [(), (0,), (2, 0, 3)]:
        x = torch.zeros(shape, dtype=torch.float32)
        case("fake_quantize", [x, torch.tensor(0.5, dtype=torch.float32), torch.tensor(3, dtype=torch.int32)], [x],
             {"low": 0, "high": 255})
    x = rand((2, 3), "f16", -3, 3)
    s = torch.tensor(0.5, dtype=torch.float32)
    y = torch.fake_quantize_per_tensor_affine(x.float(), s, torch.tensor(1, dtype=torch.int32), 0, 7)
    case("fake_quantize", [x, s, torch.tensor(1)], [y.half()], {"low": 0, "high": 7})
    case("fake_quantize", [x.bfloat16(), s, torch.tensor(1)], [torch.fake_quantize_per_tensor_affine(
        x.bfloat16().float(), s, torch.tensor(1, dtype=torch.int32), 0, 7).bfloat16()], {"low": 0, "high": 7})


def dynamic():
    for x in [[0, 2, -3, -2.5, 1.34, 0.5], [-1, -2.1, -1.3, -2.5, -3.34, -4], [1, 2.1, 1.3, 2.5, 3.34, 4], [5]]:
        x = np.array(x, np.float32)
        case("dynamic_quantize_linear", [t(x)], [t(y) for y in evaluator("DynamicQuantizeLinear", [x], 20, 3)])
    # The reference evaluator has 1 / 255 here, its comment and ONNX Runtime 1.
    case("dynamic_quantize_linear", [torch.zeros(2).float()],
         [torch.zeros(2, dtype=torch.uint8), torch.tensor(1.0).float(), torch.tensor(0, dtype=torch.uint8)])
    for shape in [(3, 4), (2, 1, 3), ()]:
        x = rand(shape, "f32", -7, 5).numpy()
        case("dynamic_quantize_linear", [t(x)], [t(y) for y in evaluator("DynamicQuantizeLinear", [x], 20, 3)])


FAMILIES = [quantize, by_factor, functions, dequantize, fake, dynamic]
