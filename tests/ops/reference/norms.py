"""Normalisations."""

import torch.nn.functional as F

from common import *


def gradients_of(f, grad, *inputs):
    inputs = [x.clone().requires_grad_() for x in inputs]
    return list(torch.autograd.grad(f(*inputs), inputs, grad))


def layers():
    set_floor(1)
    for shape, size in [((3, 4), (4,)), ((2, 3, 4), (3, 4)), ((2, 2, 5), (5,)), ((4,), (4,)), ((2, 1, 3, 2), (1, 3, 2)),
                        ((1, 3), (1, 3))]:
        x, w, b, grad = rand(shape), rand(size), rand(size), rand(shape)
        f = lambda x, w, b=None: F.layer_norm(x, size, w, b, 1e-5)
        case("layer_norm", [x, w, b], [f(x, w, b)], {"eps": 1e-5}, 64, True)
        case("layer_norm", [x, w, None], [F.layer_norm(x, size, w, None, 1e-3)], {"eps": 1e-3}, 64, True)
        case("layer_norm_backward", [grad, x, w], gradients_of(f, grad, x, w, b), {"eps": 1e-5}, 128, True)
        r = lambda x, w: F.rms_norm(x, size, w, 1e-5)
        case("rms_norm", [x, w], [r(x, w)], {"eps": 1e-5}, 64, True)
        case("rms_norm_backward", [grad, x, w], gradients_of(r, grad, x, w), {"eps": 1e-5}, 128, True)
    for dtype in ["f32", "f16", "bf16"]:
        x, w, b, grad = rand((4, 37), dtype), rand((37,), dtype), rand((37,), dtype), rand((4, 37), dtype)
        f = lambda x, w, b: F.layer_norm(x, (37,), w, b)
        case("layer_norm", [x, w, b], [cast(f(wide(x), wide(w), wide(b)), dtype)], {"eps": 1e-5}, 16)
        found = gradients_of(f, wide(grad), wide(x), wide(w), wide(b))
        case("layer_norm_backward", [grad, x, w], [cast(t, dtype) for t in found], {"eps": 1e-5}, 32)
        r = lambda x, w: F.rms_norm(x, (37,), w, 1e-5)
        case("rms_norm", [x, w], [cast(r(wide(x), wide(w)), dtype)], {"eps": 1e-5}, 16)
    x, w = rand((0, 3), "f32"), rand((3,), "f32")
    case("layer_norm", [x, w, None], [x], {"eps": 1e-5})


def groups():
    set_floor(1)
    for shape, count in [((2, 4, 3), 2), ((1, 6, 2, 2), 3), ((2, 2, 3), 1), ((2, 4), 2), ((1, 3, 2, 2, 2), 3)]:
        x, w, b, grad = rand(shape), rand(shape[1:2]), rand(shape[1:2]), rand(shape)
        f = lambda x, w=None, b=None: F.group_norm(x, count, w, b, 1e-5)
        attrs = {"groups": count, "eps": 1e-5}
        case("group_norm", [x, w, b], [f(x, w, b)], attrs, 64, True)
        case("group_norm", [x, w, None], [f(x, w)], attrs, 64)
        case("group_norm", [x, None, None], [f(x)], attrs, 64, True)
        case("group_norm", [x, None, b], [f(x, None, b)], attrs, 64)
        case("group_norm_backward", [grad, x, w], gradients_of(f, grad, x, w, b), attrs, 128, True)
        gx, gb = gradients_of(lambda x, b: f(x, torch.ones(shape[1]), b), grad, x, b)
        case("group_norm_backward", [grad, x, None], [gx, torch.zeros(0), gb], attrs, 128)
    for dtype in ["f32", "f16", "bf16"]:
        x, w, b = rand((2, 4, 5), dtype), rand((4,), dtype), rand((4,), dtype)
        case("group_norm", [x, w, b], [cast(F.group_norm(wide(x), 2, wide(w), wide(b)), dtype)], {"groups": 2, "eps": 1e-5}, 16)
    for shape in [(2, 3, 4), (1, 2, 3, 2)]:
        x, w, b = rand(shape), rand(shape[1:2]), rand(shape[1:2])
        f = lambda x, w=None, b=None: F.instance_norm(x, None, None, w, b, True, 0.1, 1e-5)
        case("group_norm", [x, w, b], [f(x, w, b)], {"groups": 0, "eps": 1e-5}, 64, True)
        case("group_norm", [x, None, None], [f(x)], {"groups": 0, "eps": 1e-5}, 64)
        function_case("instance_norm", [x, w, b], [f(x, w, b)], {}, 64, True)


def others():
    set_floor(1)
    for shape, axis in [((2, 3, 2), 1), ((3, 4), 0), ((2, 2, 3), 2), ((4,), 0)]:
        for p in [1.0, 2.0, 3.0, math.inf]:
            x = rand(shape)
            attrs = {"p": "inf" if p == math.inf else p, "axis": axis, "eps": 1e-12}
            case("normalize", [x], [F.normalize(x, p, axis)], attrs, 32, True)
            case("normalize", [x.float()], [F.normalize(x, p, axis).float()], attrs, 32)
    zeros = torch.zeros((2, 3))
    case("normalize", [zeros], [zeros], {"p": 2.0, "axis": 1, "eps": 1e-12})
    x = rand((2, 3))
    case("normalize", [x], [F.normalize(x, 2, 1, 3.0)], {"p": 2.0, "axis": 1, "eps": 3.0}, 32, True)
    for shape, size in [((1, 5, 3), 3), ((2, 4, 2, 2), 5), ((1, 3, 2), 1), ((1, 5, 2, 1, 2), 2), ((1, 6, 2), 4)]:
        x = rand(shape)
        attrs = {"size": size, "alpha": 0.5, "beta": 0.75, "k": 1.5}
        case("local_response_norm", [x], [F.local_response_norm(x, size, 0.5, 0.75, 1.5)], attrs, 32, True)
        case("local_response_norm", [x.float()], [F.local_response_norm(x, size, 0.5, 0.75, 1.5).float()], attrs, 32)
    for shape, axes in [((2, 3, 2, 2), (0, 2, 3)), ((3, 4), (1,)), ((2, 2, 3), (0, 1, 2))]:
        x = rand(shape)
        m = x.mean(axes, keepdim=True)
        y = (x - m) / (x.var(axes, unbiased=False, keepdim=True).sqrt() + 1e-9)
        case("mean_variance_normalization", [x], [y], {"axes": axes}, 64, True)
        case("mean_variance_normalization", [x.float()], [y.float()], {"axes": axes}, 64)
    x = rand((2, 3, 2, 2))
    m = x.mean((0, 2, 3), keepdim=True)
    function_case("mean_variance_normalization_of_channels", [x],
         [(x - m) / (x.var((0, 2, 3), unbiased=False, keepdim=True).sqrt() + 1e-9)], {}, 64)


FAMILIES = [layers, groups, others]
