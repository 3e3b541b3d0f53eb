"""Positions, caches, masks, and connectionist temporal classification."""

import itertools

import torch.nn.functional as F

from common import *


def turned(x, cos, sin, interleaved, width):
    a, b = (x[..., 0:width:2], x[..., 1:width:2]) if interleaved else (x[..., :width // 2], x[..., width // 2:width])
    cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
    real, imaginary = cos * a - sin * b, sin * a + cos * b
    y = torch.stack([real, imaginary], -1).flatten(-2) if interleaved else torch.cat([real, imaginary], -1)
    return torch.cat([y, x[..., width:]], -1)


def rotary():
    set_floor(1)
    for dtype, interleaved, rotary_dim in itertools.product(["f64", "f32"], [False, True], [0, 2]):
        x = rand((2, 2, 3, 4), dtype)
        width = rotary_dim or 4
        attrs = {"interleaved": interleaved, "rotary_dim": rotary_dim}
        cos, sin = rand((5, width // 2), dtype), rand((5, width // 2), dtype)
        ids = randint((2, 3), "i64", 0, 5)
        y = turned(wide(x), wide(cos)[ids], wide(sin)[ids], interleaved, width)
        case("rotary_embedding", [x, cos, sin, ids], [cast(y, dtype)], attrs, 8, dtype == "f64")
        cos, sin = rand((2, 3, width // 2), dtype), rand((2, 3, width // 2), dtype)
        y = turned(wide(x), wide(cos), wide(sin), interleaved, width)
        case("rotary_embedding", [x, cos, sin, None], [cast(y, dtype)], attrs, 8, dtype == "f64")
    for dtype in ["f16", "bf16"]:
        x, cos, sin = rand((1, 1, 2, 4), dtype), rand((2, 2), dtype), rand((2, 2), dtype)
        y = turned(wide(x), wide(cos)[None], wide(sin)[None], False, 4)
        case("fn rotary_embedding", [x, cos, sin], [cast(y, dtype)], {}, 8)


def caches():
    for dtype in ["f64", "bf16", "i32", "bool"]:
        for axis, value_shape, position in [(1, (2, 2, 3), torch.tensor(2)), (1, (2, 2, 3), torch.tensor([1, 3])),
                                            (2, (2, 5, 1), torch.tensor([0, 2]).int()),
                                            (0, (1, 5, 3), torch.tensor(1)), (1, (2, 0, 3), torch.tensor(5))]:
            cache, value = any_tensor((2, 5, 3), dtype), any_tensor(value_shape, dtype)
            out = cache.clone()
            for i in range(2):
                begin = int(position if position.dim() == 0 else position[i])
                if axis == 0:
                    out[begin:begin + 1] = value
                else:
                    out[i].narrow(axis - 1, begin, value_shape[axis]).copy_(value[i])
            case("cache_update", [cache, value, position], [out], {"axis": axis}, 0,
                 dtype == "f64" and value.numel() > 0)


def masks():
    i, j = torch.arange(3)[:, None], torch.arange(4)
    case("fn causal_mask", [], [i >= j], {"length": 3, "keys": 4, "offset": 0}, 0)
    case("fn causal_mask", [], [i + 2 >= j], {"length": 3, "keys": 4, "offset": 2}, 0)
    lengths = torch.tensor([0, 2, 4])
    case("fn length_mask", [lengths], [torch.arange(4) < lengths[:, None]], {"length": 4}, 0)
    for heads in [4, 6]:
        slopes = [2 ** (-8 * (h + 1) / 4) for h in range(4)] + [2 ** -1, 2 ** -3][:heads - 4]
        bias = -torch.tensor(slopes)[:, None, None] * (i - j).abs()
        case("fn alibi_bias", [], [bias], {"heads": heads, "length": 3, "keys": 4}, 2)


def nll_of(log_probs, targets, input_lengths, target_lengths, blank):
    """By every alignment there is."""
    result = []
    for i in range(log_probs.shape[1]):
        steps, labels = int(input_lengths[i]), [int(x) for x in targets[i][:int(target_lengths[i])]]
        terms = []
        for path in itertools.product(range(log_probs.shape[2]), repeat=steps):
            if [c for c, _ in itertools.groupby(path) if c != blank] == labels:
                terms.append(sum((log_probs[t, i, c] for t, c in enumerate(path)), torch.zeros(())))
        result.append(-torch.logsumexp(torch.stack(terms), 0) if terms else torch.tensor(math.inf))
    return torch.stack(result)


def ctc():
    set_floor(1)
    cases_of = [([[1, 2], [2, 2]], [4, 3], [2, 2], 0), ([[0, 1], [1, 0]], [3, 4], [2, 1], 2),
                ([[1, 1], [2, 1]], [2, 4], [2, 0], 0), ([[1, 2], [1, 2]], [0, 4], [0, 2], 0)]
    for rows, input_lengths, target_lengths, blank in cases_of:
        for dtype, joined in [("f64", False), ("f64", True), ("f32", False), ("bf16", True)]:
            x = cast(torch.log_softmax(rand((4, 2, 3)), -1), dtype)
            rows_t, steps, counts = torch.tensor(rows), torch.tensor(input_lengths), torch.tensor(target_lengths)
            targets = torch.cat([r[:n] for r, n in zip(rows_t, target_lengths)]) if joined else rows_t
            if targets.numel() == 0:
                continue
            leaf = x.double().requires_grad_()
            nll = nll_of(leaf, rows_t, steps, counts, blank)
            finite = bool(torch.isfinite(nll).all())
            inputs = [x, targets, steps.int() if joined else steps, counts]
            rounded = cast(nll.detach(), dtype)
            case("ctc_nll", inputs, [rounded], {"blank": blank}, 64, dtype == "f64" and finite)
            grad = rand((2,), dtype)
            total = torch.where(torch.isfinite(nll), nll, 0) * grad.double()
            by_x = torch.autograd.grad(total.sum(), leaf)[0]
            case("ctc_nll_backward", [grad] + inputs + [rounded], [cast(by_x, dtype)], {"blank": blank}, 128)
            if dtype != "f64":
                continue
            for reduction, zero in [("mean", True), ("sum", False), ("none", False)]:
                want = F.ctc_loss(leaf, targets, steps, counts, blank, reduction, zero)
                case("fn ctc_loss", [x, targets, steps, counts], [want.detach()],
                     {"blank": blank, "reduction": reduction, "zero_infinity": zero}, 64,
                     finite and reduction == "mean")
    x = torch.log_softmax(rand((3, 3)), -1)
    one = torch.tensor([1, 2]), torch.tensor(3), torch.tensor(2)
    case("fn ctc_loss", [x, *one], [F.ctc_loss(x, *one, reduction="sum")],
         {"blank": 0, "reduction": "sum", "zero_infinity": False}, 64, True)


FAMILIES = [rotary, caches, masks, ctc]
