"""Convolution and pooling over one to three spatial axes."""

import torch.nn.functional as F

from common import *

CONV = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
TRANSPOSED = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}
MAX = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
AVG = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}


def padded(x, low, high, value=0.0):
    """x with low and high elements around its last axes."""
    widths = [w for pair in zip(reversed(low), reversed(high)) for w in pair]
    return F.pad(x, widths, value=value)


CONVS = [  # x, weight, stride, low, high, dilation, groups
    ((1, 2, 5, 6), (3, 2, 3, 2), (1, 1), (0, 0), (0, 0), (1, 1), 1),
    ((2, 2, 5, 5), (2, 2, 3, 3), (2, 1), (1, 2), (1, 2), (1, 1), 1),
    ((1, 4, 6, 5), (4, 2, 2, 2), (1, 2), (1, 0), (1, 0), (2, 1), 2),
    ((1, 3, 4, 4), (3, 1, 3, 3), (2, 2), (1, 1), (1, 1), (1, 1), 3),
    ((2, 1, 3, 3), (1, 1, 1, 1), (2, 2), (0, 0), (0, 0), (1, 1), 1),
    ((1, 1, 4, 5), (2, 1, 3, 2), (2, 1), (0, 1), (2, 0), (1, 1), 1),
    ((2, 2, 7), (4, 1, 3), (2,), (1,), (1,), (1,), 2),
    ((1, 2, 6), (2, 2, 2), (1,), (0,), (3,), (2,), 1),
    ((2, 3, 7, 6), (6, 1, 3, 2), (2, 3), (2, 1), (1, 3), (3, 2), 3),
    ((1, 2, 5, 4), (2, 1, 1, 2), (3, 2), (0, 0), (0, 1), (1, 1), 2),
    ((1, 2, 3, 4, 3), (2, 2, 2, 3, 1), (1, 2, 1), (1, 1, 0), (0, 1, 1), (1, 1, 1), 1),
    ((1, 2, 4, 3, 2), (2, 1, 2, 1, 2), (2, 1, 1), (0, 0, 1), (0, 0, 1), (2, 1, 1), 2),
]


def convolutions():
    set_floor(1)
    for xs, ws, stride, low, high, dilation, groups in CONVS:
        attrs = {"stride": stride, "low": low, "high": high, "dilation": dilation, "groups": groups}
        conv = CONV[len(stride)]
        f = lambda x, w, b=None: conv(padded(x, low, high), w, b, stride, 0, dilation, groups)
        x, w, b = rand(xs), rand(ws), rand((ws[0],))
        y = f(x, w, b)
        case("conv", [x, w, b], [y], attrs, 64, True)
        case("conv", [x, w, None], [f(x, w)], attrs, 64, xs[0] == 2)
        for dtype in ["f32", "f16"]:
            x, w, b = cast(x, dtype), cast(w, dtype), cast(b, dtype)
            case("conv", [x, w, b], [cast(f(wide(x), wide(w), wide(b)), dtype)], attrs, 64)
        x, w = rand(xs).requires_grad_(), rand(ws).requires_grad_()
        grad = rand(y.shape)
        gx, gw = torch.autograd.grad(f(x, w), [x, w], grad)
        x, w = x.detach(), w.detach()
        case("conv_transpose", [grad, w], [gx], {**attrs, "shape": xs}, 64, True)
        case("conv_transpose", [grad.float(), w.float()], [gx.float()], {**attrs, "shape": xs}, 64)
        case("conv_backward_weight", [grad, x], [gw], {**attrs, "shape": ws}, 64, True)
        case("conv_backward_weight", [grad.float(), x.float()], [gw.float()], {**attrs, "shape": ws}, 64)
    x, w = rand((0, 2, 4, 4), "f32"), rand((3, 2, 3, 3), "f32")
    case("conv", [x, w, None], [torch.zeros((0, 3, 2, 2)).float()],
         {"stride": (1, 1), "low": (0, 0), "high": (0, 0), "dilation": (1, 1), "groups": 1})
    for axes, xs, ws, padding, dilation in [(1, (2, 2, 5), (2, 2, 4), "same", 1), (2, (1, 2, 4, 5), (2, 2, 2, 3), "same", 2),
                                            (2, (1, 1, 5, 4), (2, 1, 3, 2), "valid", 1), (3, (1, 1, 3, 3, 2), (1, 1, 2, 3, 2), "same", 1)]:
        x, w, b = rand(xs), rand(ws), rand((ws[0],))
        y = CONV[axes](x, w, b, 1, padding, dilation)
        function_case(f"conv{axes}d", [x, w, b], [y], {"padding": padding, "dilation": dilation, "stride": 1}, 64, True)
    x, w = rand((1, 1, 6, 5)), rand((1, 1, 3, 2))
    for padding, low, high in [("same_upper", (0, 0), (1, 1)), ("same_lower", (1, 1), (0, 0))]:
        # Rows of 6 by a stride of 2 give 3, which needs 1 more; columns of 5 by 2 give 3, which need 1 more.
        y = F.conv2d(padded(x, low, high), w, stride=2)
        function_case("conv2d", [x, w], [y], {"padding": padding, "dilation": 1, "stride": 2}, 64, True)
    y = F.conv2d(padded(x, (1, 0), (2, 1)), w)
    function_case("conv2d", [x, w], [y], {"padding": [1, 0, 2, 1], "dilation": 1, "stride": 1}, 64)
    for axes, xs, ws, stride, padding, more, groups, dilation in [
            (1, (2, 2, 4), (2, 3, 3), 2, 1, 1, 1, 1), (2, (1, 4, 3, 2), (4, 1, 3, 2), 2, 1, 0, 2, 1),
            (2, (1, 2, 3, 3), (2, 2, 2, 3), (2, 3), (0, 1), (1, 2), 1, (2, 1)),
            (3, (1, 2, 2, 2, 3), (2, 1, 2, 2, 2), 2, 0, 1, 1, 1)]:
        x, w = rand(xs), rand(ws)
        b = rand((ws[1] * groups,))
        attrs = {"stride": stride, "padding": padding, "output_padding": more, "groups": groups, "dilation": dilation}
        y = TRANSPOSED[axes](x, w, b, stride, padding, more, groups, dilation)
        case(f"conv_transpose{axes}d", [x, w, b], [y], attrs, 64, True)
        case(f"conv_transpose{axes}d", [x.float(), w.float()],
             [TRANSPOSED[axes](x, w, None, stride, padding, more, groups, dilation).float()], attrs, 64)
    x, w = rand((1, 1, 3, 2)), rand((1, 1, 3, 3))
    full = F.conv_transpose2d(x, w, stride=2)  # 7 by 5, of which the "same" one is 6 by 4
    attrs = {"stride": 2, "output_padding": 0, "groups": 1, "dilation": 1}
    function_case("conv_transpose2d", [x, w], [full[:, :, :6, :4]], {**attrs, "padding": "same"}, 64, True)
    function_case("conv_transpose2d", [x, w], [full[:, :, 1:, 1:]], {**attrs, "padding": "same_lower"}, 64)


POOLS = [  # x, kernel, stride, padding, dilation, ceil
    ((1, 2, 4, 6), (2, 2), (2, 2), (0, 0), (1, 1), False),
    ((2, 1, 5, 5), (3, 2), (1, 2), (1, 1), (1, 1), False),
    ((1, 1, 7, 4), (3, 3), (2, 2), (1, 1), (1, 1), True),
    ((1, 2, 6, 5), (2, 3), (2, 2), (1, 1), (2, 1), False),
    ((1, 1, 5, 6), (2, 2), (3, 2), (0, 1), (1, 2), True),
    ((2, 2, 6), (3,), (2,), (1,), (1,), True),
    ((1, 1, 7), (2,), (1,), (1,), (3,), False),
    ((1, 2, 3, 4, 3), (2, 2, 2), (1, 2, 2), (1, 0, 1), (1, 1, 1), False),
    ((1, 1, 4, 3, 5), (2, 3, 2), (2, 1, 2), (0, 1, 0), (1, 1, 1), True),
]


def maxima():
    for shape, kernel, stride, padding, dilation, ceil in POOLS:
        attrs = {"kernel": kernel, "stride": stride, "low": padding, "high": padding, "dilation": dilation,
                 "ceil_mode": ceil, "adaptive": [], "divisor": 0}
        f = lambda x, **more: MAX[len(kernel)](x, kernel, stride, padding, dilation, ceil, **more)
        for dtype in ["f64", "f32", "f16"]:
            x = rand(shape, dtype)
            case("max_pool", [x], [cast(f(x.double()), dtype)], attrs, 0, dtype == "f64")
        x = randint(shape, "i32", -50, 50)
        case("max_pool", [x], [f(x.double()).to(torch.int32)], attrs, 0)
        x = rand(shape)
        y, places = f(x, return_indices=True)
        case("max_pool_indices", [x], [places], attrs, 0)
        case("max_pool_indices", [cast(x, "f32")], [f(cast(x, "f32"), return_indices=True)[1]], attrs, 0)
        grad, values = rand(y.shape), rand(shape)
        case("max_pool_backward", [grad, x], [derivative(f)(grad, x)], attrs, 4, True)
        taken = values.flatten(2).gather(2, places.flatten(2)).reshape(y.shape)
        case("max_pool_take", [values, x], [taken], attrs, 0, True)
    x = torch.tensor([[[[1.0, float("nan"), 2, 3], [5, 5, float("-inf"), 3]]]])
    plain = {"kernel": [2, 2], "stride": [2, 2], "low": [0, 0], "high": [0, 0], "dilation": [1, 1], "adaptive": [], "divisor": 0}
    case("max_pool", [x], [F.max_pool2d(x, 2)], plain, 0)
    ties = torch.tensor([[[[1.0, 1, 0, 0], [1, 1, 0, 0]]]])
    case("max_pool_indices", [ties], [F.max_pool2d(ties, 2, return_indices=True)[1]], plain, 0)
    x = rand((1, 1, 4, 4))
    y = F.max_pool2d(padded(x, (1, 0), (0, 1), float("-inf")), 3, 2)
    case("max_pool", [x], [y], {**plain, "kernel": [3, 3], "low": [1, 0], "high": [0, 1]}, 0, True)
    function_case("max_pool2d", [x], [F.max_pool2d(x, 3, 2, 1)], {"kernel": 3, "stride": 2, "padding": 1, "dilation": 1}, 0, True)
    function_case("max_pool1d", [x[0]], [F.max_pool1d(x[0], 2, padding=1, dilation=2)],
         {"kernel": 2, "stride": 0, "padding": 1, "dilation": 2}, 0)
    function_case("max_pool3d", [x[None]], [F.max_pool3d(x[None], (1, 2, 2))],
         {"kernel": [1, 2, 2], "stride": 0, "padding": 0, "dilation": 1}, 0)
    function_case("max_pool_with_indices", [x], list(F.max_pool2d(x, 2, return_indices=True)), {"kernel": 2}, 0, True)
    function_case("max_pool_with_indices", [x[0]], list(F.max_pool1d(x[0], 2, return_indices=True)), {"kernel": 2}, 0)
    for axes, shape, kernel in [(1, (2, 2, 6), 2), (2, (1, 2, 4, 4), 2), (3, (1, 1, 4, 2, 2), 2)]:
        x = rand(shape)
        y, places = MAX[axes](x, kernel, return_indices=True)
        back = {1: F.max_unpool1d, 2: F.max_unpool2d, 3: F.max_unpool3d}[axes](y, places, kernel, output_size=shape)
        case("max_unpool", [y, places], [back], {"shape": shape}, 0, True)
        case("max_unpool", [cast(y, "f16"), places], [cast(back, "f16")], {"shape": shape}, 0)
    x = rand((1, 2, 5, 4))
    y, places = F.max_pool2d(x, 2, return_indices=True)
    function_case("max_unpool2d", [y, places], [F.max_unpool2d(y, places, 2, output_size=(5, 4))], {"size": [5, 4]}, 0)


def means():
    set_floor(1)
    for shape, kernel, stride, padding, dilation, ceil in POOLS:
        if max(dilation) > 1:
            continue
        for include in [True, False]:
            attrs = {"kernel": kernel, "stride": stride, "low": padding, "high": padding, "dilation": dilation,
                     "ceil_mode": ceil, "count_include_pad": include, "divisor": 0, "adaptive": []}
            f = lambda x: AVG[len(kernel)](x, kernel, stride, padding, ceil, include)
            for dtype in ["f64", "f32", "f16"]:
                x = rand(shape, dtype)
                y = f(x.double())
                case("avg_pool", [x], [cast(y, dtype)], attrs, 8, dtype == "f64")
            grad = rand(y.shape)
            case("avg_pool_backward", [grad], [derivative(f)(grad, rand(shape))],
                 {**attrs, "shape": shape}, 8, True)
    x = rand((1, 2, 4, 5))
    attrs = {"kernel": [2, 3], "stride": [1, 2], "low": [0, 1], "high": [1, 0], "dilation": [1, 1], "adaptive": [],
             "divisor": 0}
    case("avg_pool", [x], [F.avg_pool2d(padded(x, (0, 1), (1, 0)), (2, 3), (1, 2))], attrs, 8, True)
    case("avg_pool", [x], [F.avg_pool2d(x, (2, 3), divisor_override=4)],
         {**attrs, "stride": [2, 3], "low": [0, 0], "high": [0, 0], "divisor": 4}, 8, True)
    # Dilated: every other element.
    case("avg_pool", [x], [F.avg_pool2d(x[:, :, ::2, ::2], (2, 2), 1)],
         {**attrs, "kernel": [2, 2], "stride": [2, 2], "low": [0, 0], "high": [0, 0], "dilation": [2, 2]}, 8, True, onnx=19)
    function_case("avg_pool2d", [x], [F.avg_pool2d(x, 2)], {"kernel": 2}, 8, True)
    function_case("avg_pool1d", [x[0]], [F.avg_pool1d(x[0], 2)], {"kernel": 2}, 8)
    function_case("avg_pool3d", [x[None]], [F.avg_pool3d(x[None], (1, 2, 2))], {"kernel": [1, 2, 2]}, 8)


def adaptive():
    set_floor(1)
    avg = {1: F.adaptive_avg_pool1d, 2: F.adaptive_avg_pool2d, 3: F.adaptive_avg_pool3d}
    largest = {1: F.adaptive_max_pool1d, 2: F.adaptive_max_pool2d, 3: F.adaptive_max_pool3d}
    for shape, size in [((2, 2, 7), (3,)), ((1, 2, 5, 4), (3, 2)), ((1, 1, 3, 4), (5, 4)), ((1, 2, 4, 5), (1, 1)),
                        ((1, 1, 4, 3, 5), (2, 3, 2))]:
        none = {"kernel": [], "stride": [], "low": [], "high": [], "dilation": [], "adaptive": size, "divisor": 0}
        x, axes = rand(shape), len(size)
        f = lambda x: avg[axes](x, size)
        case("avg_pool", [x], [f(x)], none, 8, True)
        case("avg_pool", [x.float()], [f(x).float()], none, 8)
        grad = rand(f(x).shape)
        case("avg_pool_backward", [grad], [derivative(f)(grad, x)], {**none, "shape": shape}, 8, True)
        y, places = largest[axes](x, size, return_indices=True)
        case("max_pool", [x], [y], none, 0, True)
        case("max_pool_indices", [x], [places], none, 0, **({"onnx": NEVER} if max(size) > 1 else {}))
        g = lambda x: largest[axes](x, size)
        case("max_pool_backward", [grad, x], [derivative(g)(grad, x)], none, 4, True)
    x = rand((1, 2, 5, 4))
    function_case("adaptive_avg_pool", [x], [F.adaptive_avg_pool2d(x, (2, 3))], {"size": [2, 3]}, 8, True)
    function_case("adaptive_max_pool", [x], [F.adaptive_max_pool2d(x, (2, 3))], {"size": [2, 3]}, 0, True)
    function_case("adaptive_max_pool_with_indices", [x], list(F.adaptive_max_pool2d(x, (2, 3), return_indices=True)),
                  {"size": [2, 3]}, 0, onnx=NEVER)
    function_case("global_max_pool", [x], [x.amax((2, 3), keepdim=True)], {}, 0, True)


def powers():
    set_floor(1)
    for p in [1.0, 2.0, 3.0, 2.5]:
        for shape, kernel, stride, padding, ceil in [((1, 2, 4, 5), (2, 2), (2, 2), (0, 0), False),
                                                     ((1, 1, 5, 4), (3, 2), (2, 1), (1, 1), False),
                                                     ((1, 1, 5, 4), (2, 3), (2, 2), (0, 0), True),
                                                     ((2, 1, 6), (2,), (2,), (0,), False)]:
            x = rand(shape)
            y = (AVG[len(kernel)](x.abs() ** p, kernel, stride, padding, ceil, True,
                                  **({"divisor_override": 1} if len(kernel) > 1 else {})))
            if len(kernel) == 1:
                y = y * kernel[0]
            attrs = {"p": p, "kernel": kernel, "stride": stride, "low": padding, "high": padding, "ceil_mode": ceil,
                     "dilation": [1] * len(kernel)}
            onnx = (NEVER if p == 2.5 else 18) if ceil else None
            case("lp_pool", [x], [y ** (1 / p)], attrs, 32, True, onnx=onnx)
            case("lp_pool", [x.float()], [(y ** (1 / p)).float()], attrs, 32, onnx=onnx)
        for shape in [(1, 2, 3, 4), (2, 1, 5), (1, 1, 2, 2, 2)]:
            x = rand(shape)
            axes = tuple(range(2, len(shape)))
            y = (x.abs() ** p).sum(axes, keepdim=True) ** (1 / p)
            case("global_lp_pool", [x], [y], {"p": p}, 32, True)
            case("global_lp_pool", [x.float()], [y.float()], {"p": p}, 32)
    for shape in [(1, 2, 3, 4), (2, 1, 5)]:
        for dtype in FLOATS:
            x = rand(shape, dtype)
            axes = tuple(range(2, len(shape)))
            case("global_avg_pool", [x], [cast(x.double().mean(axes, keepdim=True), dtype)], {}, 4, dtype == "f64")
    x = rand((1, 2, 4, 4))
    function_case("lp_pool2d", [x], [F.lp_pool2d(x, 2, 2)], {"p": 2, "kernel": 2}, 16, True)


def one_image():
    """Without the axis of the samples."""
    set_floor(1)
    for axes in [1, 2, 3]:
        x, w, b = rand((2, 4, 3, 3)[:axes + 1]), rand((3, 2, 2, 3, 1)[:axes + 2]), rand((3,))
        attrs = {"padding": 1, "dilation": 1, "stride": 2}
        function_case(f"conv{axes}d", [x, w, b], [CONV[axes](x, w, b, 2, 1)], attrs, 64, True)
        w, b = rand((2, 3, 2, 3, 1)[:axes + 2]), rand((3,))
        attrs = {"padding": 1, "dilation": 1, "stride": 2, "output_padding": 1, "groups": 1}
        function_case(f"conv_transpose{axes}d", [x, w, b], [TRANSPOSED[axes](x, w, b, 2, 1, 1)], attrs, 64, True)
        attrs = {"kernel": 2, "stride": 1, "padding": 1}
        function_case(f"max_pool{axes}d", [x], [MAX[axes](x, 2, 1, 1)], attrs, 0, True)
        function_case(f"avg_pool{axes}d", [x], [AVG[axes](x, 2, 1, 1)], attrs, 8, True)


FAMILIES = [convolutions, maxima, means, adaptive, powers, one_image]
