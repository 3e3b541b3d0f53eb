"""What softmax is differentiated by."""

from common import *


def parts():
    set_floor(1)
    for shape, axis in [((2, 5), 1), ((3, 4), 0), ((2, 3, 2), 1), ((4,), 0)]:
        x, grad = rand(shape), rand(shape)
        for op, f in [("softmax_backward", torch.softmax), ("log_softmax_backward", torch.log_softmax)]:
            leaf = x.clone().requires_grad_()
            y = f(leaf, axis)
            want = torch.autograd.grad(y, leaf, grad)[0]
            case(op, [grad, y.detach()], [want], {"axis": axis}, 16, True)
            for dtype in ["f32", "f16"]:
                g, z = cast(grad, dtype), cast(y.detach(), dtype)
                case(op, [g, z], [cast(want_of(op, wide(g), wide(z), axis), dtype)], {"axis": axis}, 16)
    for op in ["softmax_backward", "log_softmax_backward"]:
        case(op, [rand((0, 3)), rand((0, 3))], [rand((0, 3))], {"axis": 1})


def want_of(op, grad, y, axis):
    if op == "softmax_backward":
        return y * (grad - (grad * y).sum(axis, keepdim=True))
    return grad - y.exp() * grad.sum(axis, keepdim=True)


FAMILIES = [parts]
