"""Losses."""

import torch
import torch.nn.functional as F

from common import *

REDUCTIONS = ["mean", "sum", "none"]


def class_losses():
    set_floor(1)
    for shape in [(4, 3), (2, 3, 4), (3,)]:
        axis = 0 if len(shape) == 1 else 1
        size = [s for i, s in enumerate(shape) if i != axis]
        for reduction in REDUCTIONS:
            for weighted, smoothing in [(True, 0.0), (False, 0.2), (True, 0.3)]:
                target = randint(size, "i64", 0, 3)
                if target.numel() > 1:
                    target.reshape(-1)[1] = -100
                x, weight = rand(shape), rand((3,), low=0.3) if weighted else None
                attrs = {"reduction": reduction, "ignore_index": -100}
                out = F.cross_entropy(x, target, weight, reduction=reduction, label_smoothing=smoothing)
                inputs = [x, target] + ([weight] if weighted else [])
                case("cross_entropy fn", inputs, [out], {"reduction": reduction, "label_smoothing": smoothing}, 32, True)
                if smoothing == 0:
                    case("cross_entropy", inputs, [out], attrs, 32, True)
                    lp = torch.log_softmax(rand(shape), axis)
                    case("nll_loss", [lp, target, weight], [F.nll_loss(lp, target, weight, reduction=reduction)],
                         attrs, 16, True)
                soft = torch.softmax(rand(shape), axis)
                out = F.cross_entropy(x, soft, weight, reduction=reduction, label_smoothing=smoothing)
                inputs = [x, soft] + ([weight] if weighted else [])
                case("cross_entropy fn", inputs, [out], {"reduction": reduction, "label_smoothing": smoothing}, 32, True)
    x, target, weight = rand((5, 4), "f16"), randint((5,), "i32", 0, 4), rand((4,), "f16", 0.5)
    out = F.cross_entropy(wide(x), target.long(), wide(weight))
    attrs = {"reduction": "mean", "ignore_index": -100}
    case("cross_entropy", [x, target, weight], [cast(out, "f16")], attrs, 16)
    x = floats_of("1e4 -1e4 0 1e4").reshape(2, 2)
    target = torch.tensor([1, 1])
    out = F.cross_entropy(x, target, reduction="none")
    case("cross_entropy", [x, target, None], [out], {"reduction": "none", "ignore_index": -100}, 4)


def losses(name, f, inputs, attrs=None, grad=True, edges=None, tol=16):
    """`inputs` makes them for a dtype; f takes them and a reduction. `edges`: inputs at extremes, without reduction."""
    attrs = attrs or {}
    for reduction in REDUCTIONS:
        x = inputs("f64")
        case(name, x, [f(*x, reduction)], {**attrs, "reduction": reduction}, tol, grad)
    for dtype in ["f32", "bf16"]:
        x = inputs(dtype)
        case(name, x, [cast(f(*[wide(v) for v in x], "none"), dtype)], {**attrs, "reduction": "none"}, tol, floor=4)
    if edges is not None:
        case(name, edges, [f(*edges, "none")], {**attrs, "reduction": "none"}, tol, floor=0)


def pair(shape=(3, 4), low=-2, high=2):
    return lambda dtype: [rand(shape, dtype, low, high), rand(shape, dtype, low, high)]


def signs(shape):
    return torch.where(randbool(shape), 1.0, -1.0)


def distances():
    set_floor(1)
    far = [floats_of("0 1e150 -3 inf nan 1"), floats_of("0 0 3 0 0 1.5")]
    losses("l1_loss", lambda a, b, r: F.l1_loss(a, b, reduction=r), pair(), edges=far)
    for beta in [1.0, 0.4, 0.0]:
        losses("smooth_l1_loss", lambda a, b, r: F.smooth_l1_loss(a, b, beta=beta, reduction=r), pair(), {"beta": beta},
               edges=far)
    for delta in [1.0, 2.5]:
        losses("huber_loss", lambda a, b, r: F.huber_loss(a, b, delta=delta, reduction=r), pair(), {"delta": delta},
               edges=far)


def probabilities():
    set_floor(1)
    p, t = floats_of("0 1 0 1 0.5 1e-30 nan"), floats_of("0 1 1 0 0.25 1 0")
    both = [p[:, None], t[None, :]]
    edges = [v.contiguous() for v in torch.broadcast_tensors(*both)]
    out = -(edges[1] * edges[0].log().clamp(min=-100) + (1 - edges[1]) * torch.log1p(-edges[0]).clamp(min=-100))
    case("binary_cross_entropy", edges, [out], tol=8)
    for dtype in FLOATS:
        p, t = rand((3, 4), dtype, 0.05, 0.95), rand((3, 4), dtype, 0, 1)
        case("binary_cross_entropy", [p, t], [cast(F.binary_cross_entropy(wide(p), wide(t), reduction="none"), dtype)],
             tol=8, grad=dtype == "f64")
    inputs = lambda dtype: [rand((3, 4), dtype, 0.05, 0.95), rand((3, 4), dtype, 0, 1), rand((4,), dtype, 0.5, 2)]
    losses("bce_loss", lambda p, t, w, r: F.binary_cross_entropy(p, t, w, reduction=r), inputs)
    logits = lambda dtype: [rand((3, 4), dtype, -6, 6), rand((3, 4), dtype, 0, 1), rand((4,), dtype, 0.5, 2),
                            rand((4,), dtype, 0.5, 3)]
    losses("bce_with_logits_loss",
           lambda x, t, w, v, r: F.binary_cross_entropy_with_logits(x, t, w, reduction=r, pos_weight=v), logits)
    x, t = floats_of("-800 -40 0 40 800"), floats_of("0 0 0.5 1 1")
    plus = lambda x: torch.logaddexp(torch.zeros_like(x), x)
    one = torch.ones(5)
    case("bce_with_logits_loss", [x, t, one, one], [t * plus(-x) + (1 - t) * plus(x)], {"reduction": "none"}, 4, floor=0)
    case("bce_with_logits_loss", [x, 1 - t, one, one], [(1 - t) * plus(-x) + t * plus(x)], {"reduction": "none"}, 4,
         floor=0)
    losses("kl_div", lambda a, b, r: F.kl_div(a, b, reduction=r), pair((3, 4), 0.05, 1), {"log_target": False},
           edges=[floats_of("-1 -2 -3"), floats_of("0 1 0.5")])
    losses("kl_div", lambda a, b, r: F.kl_div(a, b, reduction=r, log_target=True), pair(), {"log_target": True})
    for log_input, full in [(True, False), (False, False), (True, True), (False, True)]:
        losses("poisson_nll_loss",
               lambda a, b, r: F.poisson_nll_loss(a, b, log_input, full, eps=1e-8, reduction=r),
               lambda dtype: [rand((3, 4), dtype, 0.2, 2), rand((3, 4), dtype, 0, 5)],
               {"log_input": log_input, "full": full})
    for full in [False, True]:
        losses("gaussian_nll_loss", lambda a, b, v, r: F.gaussian_nll_loss(a, b, v, full, 1e-6, r),
               lambda dtype: [rand((3, 4), dtype), rand((3, 4), dtype), rand((3, 4), dtype, 0.3, 3)], {"full": full})


def margins():
    set_floor(1)
    with_signs = lambda dtype: [rand((3, 4), dtype), cast(signs((3, 4)), dtype)]
    losses("hinge_loss", lambda x, y, r: reduce(torch.relu(0.8 - y * x), r), with_signs, {"margin": 0.8})
    losses("hinge_embedding_loss", lambda x, y, r: F.hinge_embedding_loss(x, y, margin=0.8, reduction=r), with_signs,
           {"margin": 0.8}, grad=False)
    x, y = rand((3, 4), "f32"), signs((3, 4)).float()
    losses("soft_margin_loss", lambda x, y, r: F.soft_margin_loss(x, y, reduction=r), with_signs,
           edges=[floats_of("-700 0 40 700"), floats_of("1 1 1 1")])
    losses("margin_ranking_loss", lambda a, b, y, r: F.margin_ranking_loss(a, b, y, margin=0.3, reduction=r),
           lambda dtype: [rand((6,), dtype), rand((6,), dtype), cast(signs((6,)), dtype)], {"margin": 0.3})
    for p in [1, 2]:
        for shape in [(4, 3), (3,)]:
            for reduction in REDUCTIONS:
                x, w = rand(shape), rand((3,), low=0.4)
                target = randint(shape[:-1], "i64", 0, 3)
                case("multi_margin_loss", [x, target], [F.multi_margin_loss(x, target, p, 0.9, reduction=reduction)],
                     {"p": p, "margin": 0.9, "reduction": reduction}, 16, True)
                case("multi_margin_loss", [x, target, w],
                     [F.multi_margin_loss(x, target, p, 0.9, w, reduction=reduction)],
                     {"p": p, "margin": 0.9, "reduction": reduction}, 16, True)


def reduce(x, reduction):
    return x if reduction == "none" else x.mean() if reduction == "mean" else x.sum()


def similarities():
    set_floor(1)
    three = lambda dtype: [rand((3, 4), dtype), rand((3, 4), dtype), rand((3, 4), dtype)]
    for p, swap in [(2.0, False), (1.0, False), (3.0, False), (2.0, True)]:
        losses("triplet_margin_loss",
               lambda a, b, c, r: F.triplet_margin_loss(a, b, c, 1.0, p, swap=swap, reduction=r), three,
               {"p": p, "swap": swap}, tol=64)
    for p in [1.0, 2.0, 2.5, float("inf")]:
        for keepdim in [False, True]:
            a, b = rand((3, 4)), rand((3, 4))
            case("pairwise_distance", [a, b], [F.pairwise_distance(a, b, p, 1e-6, keepdim)],
                 {"p": "inf" if p == float("inf") else p, "keepdim": keepdim}, 32, True)
    for axis in [0, 1, -1]:
        a, b = rand((3, 4)), rand((3, 4))
        case("cosine_similarity", [a, b], [F.cosine_similarity(a, b, axis)], {"axis": axis}, 32, True)
        a, b = rand((3, 4), "f16"), rand((3, 4), "f16")
        case("cosine_similarity", [a, b], [cast(F.cosine_similarity(wide(a), wide(b), axis), "f16")], {"axis": axis}, 16)
    a, b = torch.zeros(2, 3), rand((2, 3))
    case("cosine_similarity", [a, b], [torch.zeros(2)], {"axis": 1}, 0)
    for reduction in REDUCTIONS:
        for dtype in ["f32", "f64"]:
            a, b, y = rand((3, 4), dtype), rand((3, 4), dtype), torch.tensor([1, -1, 1])
            # torch adds 1e-12 to squares here.
            similarity = F.cosine_similarity(wide(a), wide(b), 1)
            out = reduce(torch.where(y == 1, 1 - similarity, (similarity - 0.1).clamp(min=0)), reduction)
            case("cosine_embedding_loss", [a, b, y], [cast(out, dtype)], {"reduction": reduction}, 32, dtype == "f64")


FAMILIES = [class_losses, distances, probabilities, margins, similarities]
