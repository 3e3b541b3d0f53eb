"""Products, softmax, normalisation, losses."""

import torch.nn.functional as F

from common import *


def products():
    set_floor(1)
    for a, b in [((3, 4), (4, 5)), ((2, 3, 4), (2, 4, 5)), ((2, 3, 4), (4, 5)), ((3, 4), (2, 4, 5)),
                 ((2, 1, 3, 4), (3, 4, 2)), ((1, 4), (4, 1)), ((3, 0), (0, 2)), ((0, 3), (3, 2)),
                 ((2, 0, 3), (2, 3, 4))]:
        for ta in [False, True]:
            for tb in [False, True]:
                x, y = rand(a), rand(b)
                left = x.transpose(-1, -2).contiguous() if ta else x
                right = y.transpose(-1, -2).contiguous() if tb else y
                case("matmul", [left, right], [x @ y], {"transpose_a": ta, "transpose_b": tb}, 16,
                     0 not in a + b)
    for dtype in ["f32", "f16", "bf16"]:
        x, y = rand((3, 7), dtype), rand((7, 5), dtype)
        case("matmul", [x, y], [cast(x.double() @ y.double(), dtype)], tol=32)
    for dtype in ["i64", "i32", "i16", "i8", "u8"]:
        x, y = randint((3, 7), dtype), randint((7, 5), dtype)
        case("matmul", [x, y], [(x.long() @ y.long()).to(DTYPES[dtype])], tol=0)
    for shape in [(2, 3), (4, 2, 3), (3,), (0, 3)]:
        x, w, b = rand(shape), rand((5, 3)), rand((5,))
        case("linear", [x, w, b], [F.linear(x, w, b)], tol=16, grad=0 not in shape)
        case("linear", [x, w, None], [F.linear(x, w)], tol=16, grad=0 not in shape)
    x, w, b = rand((4, 9), "f32"), rand((5, 9), "f32"), rand((5,), "f32")
    case("linear", [x, w, b], [F.linear(x.double(), w.double(), b.double()).float()], tol=32)


def composites():
    for op, f in [("softmax", torch.softmax), ("log_softmax", torch.log_softmax)]:
        for shape, axis in [((3, 4), 1), ((3, 4), 0), ((2, 3, 4), 1), ((1, 1), 1), ((5,), 0), ((0, 3), 1)]:
            x = rand(shape, low=-4, high=4)
            case(op, [x], [f(x, axis)], {"axis": axis}, 16, 0 not in shape)
        for dtype in FLOATS:
            x = cast(floats_of("0 1 -1 88 1000 -1000 -inf"), dtype)
            case(op, [x], [cast(f(wide(x), 0), dtype)], {"axis": 0}, 8)
            x = rand((3, 5), dtype, -3, 3)
            case(op, [x], [cast(f(wide(x), 1), dtype)], {"axis": 1}, 16)
    for shape in [(4, 3), (2, 3, 4), (2, 3, 2, 3)]:
        x, w, b, mean, var = rand(shape), rand((3,)), rand((3,)), rand((3,)), rand((3,), low=0.5)
        case("batch_norm", [x, w, b, mean, var], [F.batch_norm(x, mean, var, w, b, False, 0, 1e-5)],
             {"eps": 1e-5}, 64, True)
        axes = [i for i in range(len(shape)) if i != 1]
        case("batch_norm_train", [x, w, b],
             [F.batch_norm(x, None, None, w, b, True, 0, 1e-5), x.mean(axes), x.var(axes, unbiased=False)],
             {"eps": 1e-5}, 64, True)
        for dtype in ["f64", "f32"]:
            x, w, b, grad = rand(shape, dtype), rand((3,), dtype), rand((3,), dtype), rand(shape, dtype)
            leaves = [wide(t).clone().requires_grad_() for t in (x, w, b)]
            y = F.batch_norm(leaves[0], None, None, leaves[1], leaves[2], True, 0, 1e-5)
            found = torch.autograd.grad(y, leaves, wide(grad))
            mean, var = wide(x).mean(axes), wide(x).var(axes, unbiased=False)
            case("batch_norm_backward", [grad, x, w, cast(mean, dtype), cast(var, dtype)],
                 [cast(t, dtype) for t in found], {"eps": 1e-5}, 256, dtype == "f64")
    for shape in [(4, 3), (2, 3, 4), (2, 3, 2, 2), (3,)]:
        axis = 0 if len(shape) == 1 else 1
        size = [s for i, s in enumerate(shape) if i != axis]
        for reduction in ["mean", "sum", "none"]:
            for ignored in [False, True]:
                target = randint(size, "i64", 0, 3)
                if ignored and target.numel() > 1:
                    target.reshape(-1)[1] = -100
                x = rand(shape)
                attrs = {"reduction": reduction, "ignore_index": -100}
                index = target if ignored else target.int()
                case("cross_entropy", [x, index], [F.cross_entropy(x, target, reduction=reduction)],
                     attrs, 32, True)
                lp = torch.log_softmax(rand(shape), axis)
                case("nll_loss", [lp, index], [F.nll_loss(lp, target, reduction=reduction)],
                     attrs, 16, True)
    x, target = rand((6, 10), "f32", -8, 8), randint((6,), "i64", 0, 10)
    case("cross_entropy", [x, target], [F.cross_entropy(wide(x), target).float()],
         {"reduction": "mean", "ignore_index": -100}, 16)
    for reduction in ["mean", "sum", "none"]:
        a, b = rand((3, 4)), rand((3, 4))
        case("mse_loss", [a, b], [F.mse_loss(a, b, reduction=reduction)], {"reduction": reduction}, 16, True)


FAMILIES = [products, composites]
