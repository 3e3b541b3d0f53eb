"""Products of quantised numbers: NumPy's in i64 and PyTorch's convolutions in f64, which hold every sum, checked against
ONNX's reference evaluator."""

import numpy as np
import torch

from common import SMALL, case, rand, rng
from quantized import NAMES, NUMPY, evaluator, limits, t, zero_of

BYTES = ["u8", "i8"]
IMAGE = {"stride": [1, 1], "low": [0, 0], "high": [0, 0], "dilation": [1, 1], "groups": 1}


def any_bytes(shape, name):
    low, high = limits(name)
    x = rng.randint(low, high + 1, size=shape)
    flat = x.reshape(-1)
    flat[: flat.size // 4] = low
    flat[flat.size // 4: flat.size // 2] = high
    return rng.permutation(flat).reshape(shape).astype(NUMPY[name])


def wide(x, zero, axis=None):
    zero = np.int64(0) if zero is None else zero.astype(np.int64)
    if axis is not None and zero.ndim == 1:
        zero = zero[:, None] if axis == 0 else zero
    return x.astype(np.int64) - zero


def maybe(x):
    return None if x is None else t(x)


def product_case(a, b, za=None, zb=None):
    y = (wide(a, za, 0) @ wide(b, zb, 1)).astype(np.int32)
    if za is None or za.ndim != 1:
        assert (evaluator("MatMulInteger", [a, b, za, zb], 10)[0] == y).all()
    case("matmul_integer", [t(a), t(b), maybe(za), maybe(zb)], [t(y)], tol=0)


def products():
    for na in BYTES:
        for nb in BYTES:
            for m, k, n in [(3, 4, 5), (1, 33, 17), (7, 70, 1)]:
                a, b = any_bytes((m, k), na), any_bytes((k, n), nb)
                product_case(a, b)
                product_case(a, b, any_bytes((), na), any_bytes((), nb))
                product_case(a, b, any_bytes((m,), na), any_bytes((n,), nb))
            product_case(any_bytes((2, 3, 4), na), any_bytes((4, 5), nb), any_bytes((), na))
            product_case(any_bytes((2, 3, 4), na), any_bytes((2, 4, 5), nb), any_bytes((2, 3, 1), na),
                         any_bytes((2, 1, 5), nb))
            product_case(any_bytes((2, 1, 3, 4), na), any_bytes((3, 4, 2), nb), None, any_bytes((1, 1, 2), nb))
            low, high = limits(na)
            ends = np.full((2, 40), high).astype(NUMPY[na])
            for end in limits(nb):
                product_case(ends, np.full((40, 3), end).astype(NUMPY[nb]))
                product_case(ends, np.full((40, 3), end).astype(NUMPY[nb]), NUMPY[na](low), NUMPY[nb](limits(nb)[1]))
    for shape_a, shape_b in [((0, 3), (3, 2)), ((2, 0), (0, 3)), ((2, 3), (3, 0)), ((0, 2, 3), (3, 1))]:
        product_case(np.zeros(shape_a, np.uint8), np.zeros(shape_b, np.int8), np.uint8(3), np.int8(-2))
    a, b = any_bytes((5,), "u8"), any_bytes((5, 3), "i8")
    case("matmul_integer of vectors", [t(a), t(b)], [t((wide(a, None) @ wide(b, None)).astype(np.int32))], tol=0)
    case("matmul_integer of vectors", [t(b.T.copy()), t(a)], [t((wide(b.T, None) @ wide(a, None)).astype(np.int32))], tol=0)
    case("matmul_integer of vectors", [t(a), t(a)], [t(np.asarray(wide(a, None) @ wide(a, None), np.int32))], tol=0)


def convolved(x, w, low, high, stride, dilation, groups):
    x, w = torch.tensor(x).double(), torch.tensor(w).double()
    pads = [side for pair in reversed(list(zip(low, high))) for side in pair]
    conv = [torch.conv1d, torch.conv2d, torch.conv3d][x.dim() - 3]
    return conv(torch.nn.functional.pad(x, pads), w, None, stride, 0, dilation, groups).long().numpy()


def conv_case(x, w, zx=None, zw=None, **attrs):
    axes = x.ndim - 2
    attrs = {"stride": [1] * axes, "low": [0] * axes, "high": [0] * axes, "dilation": [1] * axes, "groups": 1, **attrs}
    of_w = zw.reshape((-1,) + (1,) * (w.ndim - 1)) if zw is not None and zw.ndim == 1 else zw
    sums = convolved(wide(x, zx), wide(w, of_w), *[attrs[k] for k in ("low", "high", "stride", "dilation", "groups")])
    case("conv_integer", [t(x), t(w), maybe(zx), maybe(zw)], [t(sums.astype(np.int32))], attrs, 0)
    return sums, attrs


def convolutions():
    for nx in BYTES:
        for nw in BYTES:
            x, w = any_bytes((2, 3, 5, 4), nx), any_bytes((4, 3, 3, 2), nw)
            conv_case(x, w)
            conv_case(x, w, any_bytes((), nx), any_bytes((), nw), low=[1, 1], high=[1, 0])
            conv_case(x, w, any_bytes((), nx), any_bytes((4,), nw), stride=[2, 1], low=[0, 2], high=[1, 1], dilation=[1, 2])
            conv_case(any_bytes((1, 4, 4, 4), nx), any_bytes((6, 2, 2, 2), nw), any_bytes((), nx), any_bytes((6,), nw),
                      groups=2, low=[1, 0], high=[0, 1])
            conv_case(any_bytes((1, 5, 4, 4), nx), any_bytes((5, 1, 3, 3), nw), any_bytes((), nx), any_bytes((5,), nw),
                      groups=5, low=[1, 1], high=[1, 1], stride=[1, 2])
            conv_case(any_bytes((2, 8, 3, 3), nx), any_bytes((5, 8, 1, 1), nw), any_bytes((), nx))
            conv_case(any_bytes((2, 8, 3, 3), nx), any_bytes((6, 4, 1, 1), nw), any_bytes((), nx), groups=2)
            conv_case(any_bytes((2, 3, 7), nx), any_bytes((2, 3, 3), nw), any_bytes((), nx), low=[2], high=[1])
            conv_case(any_bytes((1, 2, 3, 4, 3), nx), any_bytes((3, 2, 2, 2, 2), nw), any_bytes((), nx), low=[1, 0, 1],
                      high=[0, 1, 0])
            conv_case(np.full((1, 70, 3, 3), limits(nx)[1]).astype(NUMPY[nx]),
                      np.full((2, 70, 3, 3), limits(nw)[0]).astype(NUMPY[nw]), NUMPY[nx](limits(nx)[0]))
    conv_case(np.zeros((0, 2, 3, 3), np.uint8), np.zeros((2, 2, 2, 2), np.int8), np.uint8(1))


def requantized(sums, factor, zero):
    low, high = limits(NAMES[zero.dtype])
    y = np.rint(sums.astype(np.float32) * factor.astype(np.float32)) + zero.astype(np.float32)
    return np.clip(y, low, high).astype(zero.dtype)


def f32(*values):
    return np.asarray(values[0] if len(values) == 1 else values, np.float32)


def quantized_products():
    for na, nb, ny in [("u8", "u8", "u8"), ("i8", "i8", "i8"), ("u8", "i8", "u8")]:
        a, b = any_bytes((3, 4), na), any_bytes((4, 5), nb)
        za, zb, zy = any_bytes((), na), any_bytes((), nb), any_bytes((), ny)
        sa, sb, sy = f32(0.013), f32(0.21), f32(0.7)
        y = requantized(wide(a, za) @ wide(b, zb), sa * sb / sy, zy)
        theirs = evaluator("QLinearMatMul", [a, sa, za, b, sb, zb, sy, zy], 21)[0]
        assert np.abs(theirs.astype(int) - y.astype(int)).max() <= 1
        case("qlinear_matmul", [t(v) for v in (a, sa, za, b, sb, zb, sy, zy)], [t(y)], tol=0)
        sb, zb = rand((5,), "f32", 0.01, 1).numpy(), any_bytes((5,), nb)
        y = requantized(wide(a, za) @ wide(b, zb), sa * sb / sy, zy)
        case("qlinear_matmul", [t(v) for v in (a, sa, za, b, sb, zb, sy, zy)], [t(y)], tol=0)
        a = any_bytes((2, 3, 4), na)
        y = requantized(wide(a, za) @ wide(b, zb), sa * sb / sy, zy)
        case("qlinear_matmul", [t(v) for v in (a, sa, za, b, sb, zb, sy, zy)], [t(y)], tol=0)
        sa, za = rand((3,), "f32", 0.01, 1).numpy(), any_bytes((3,), na)
        y = requantized((a.astype(np.int64) - za.astype(np.int64)[:, None]) @ wide(b, zb), sa[:, None] * sb / sy, zy)
        case("qlinear_matmul by rows", [t(v) for v in (a, sa, za, b, sb, zb, sy, zy)], [t(y)], tol=0)
    case("qlinear_matmul", [t(v) for v in (np.zeros((0, 2), np.uint8), f32(1), np.uint8(1), np.zeros((2, 3), np.int8), f32(1),
                                           np.int8(0), f32(1), np.uint8(5))], [t(np.zeros((0, 3), np.uint8))])
    a, b = [rand(s, "f32", -3, 3).numpy().astype(SMALL["f8e4m3fn"]) for s in [(2, 3), (3, 2)]]
    y = (a.astype(np.float32) * f32(0.5)) @ (b.astype(np.float32) * f32(2)) / f32(0.25)
    zero = zero_of("f8e4m3fn", 0)
    case("qlinear_matmul by rows", [t(v) for v in (a, f32(0.5), zero, b, f32(2), zero, f32(0.25), zero)],
         [t(y.astype(SMALL["f8e4m3fn"]))], tol=0)


def quantized_convolutions():
    for nx, nw, ny in [("u8", "u8", "u8"), ("i8", "i8", "i8"), ("u8", "i8", "u8")]:
        for shape_x, shape_w, attrs in [((2, 3, 5, 4), (4, 3, 3, 2), {"low": [1, 1], "high": [1, 0]}),
                                        ((1, 4, 4, 4), (4, 1, 3, 3), {"groups": 4, "low": [1, 1], "high": [1, 1]}),
                                        ((1, 4, 5, 5), (6, 2, 2, 2), {"groups": 2, "stride": [2, 2], "dilation": [2, 2]})]:
            x, w = any_bytes(shape_x, nx), any_bytes(shape_w, nw)
            zx, zy = any_bytes((), nx), any_bytes((), ny)
            sx, sy = f32(0.02), f32(0.9)
            for by_channel in [False, True]:
                size = (shape_w[0],) if by_channel else ()
                sw = rand(size, "f32", 0.01, 0.3).numpy()
                zw = np.zeros(size, NUMPY[nw]) if by_channel else any_bytes(size, nw)
                attrs = {**IMAGE, **attrs}
                of = lambda v: v.reshape((-1, 1, 1, 1)) if by_channel else v
                sums = convolved(wide(x, zx), wide(w, of(zw)),
                                 *[attrs[k] for k in ("low", "high", "stride", "dilation", "groups")])
                for bias in [None, rng.randint(-3000, 3000, size=(shape_w[0],)).astype(np.int32)]:
                    total = sums if bias is None else sums + bias.reshape(1, -1, 1, 1)
                    factor = sx * sw / sy
                    y = requantized(total, factor.reshape(1, -1, 1, 1) if by_channel else factor, zy)
                    case("qlinear_conv", [t(v) for v in (x, sx, zx, w, sw, zw, sy, zy)] + [maybe(bias)], [t(y)], attrs, 0)


FAMILIES = [products, convolutions, quantized_products, quantized_convolutions]
