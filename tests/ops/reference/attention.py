"""Attention and what goes with it."""

import torch.nn.functional as F

from common import *
from random_numbers import uniforms


def scores_of(q, k, mask, scale, causal, softcap):
    group = q.shape[1] // k.shape[1]
    s = q @ k.repeat_interleave(group, 1).transpose(-1, -2) * (scale or q.shape[-1] ** -0.5)
    if softcap:
        s = torch.tanh(s / softcap) * softcap
    if causal:
        s = s.masked_fill(~torch.ones(s.shape[-2:], dtype=torch.bool).tril(), -math.inf)
    if mask is not None:
        s = s.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else s + mask.double()
    return s


def attend(q, k, v, mask, scale=0, causal=False, softcap=0, kept=None):
    s = scores_of(q, k, mask, scale, causal, softcap)
    lse = torch.logsumexp(s, -1)
    p = torch.exp(s - torch.where(lse == -math.inf, 0, lse).unsqueeze(-1))
    if kept is not None:
        p = p * kept
    return p @ v.repeat_interleave(q.shape[1] // v.shape[1], 1), lse


def one(shape, mask=None, scale=0, causal=False, softcap=0, dropout=0, dtype="f64", onnx=True,
        grad=True, key=(3, 70)):
    b, h, hk, l, s, d, e = shape
    q, k, v = rand((b, h, l, d), dtype), rand((b, hk, s, d), dtype), rand((b, hk, s, e), dtype)
    if mask is not None and mask.dtype != torch.bool:
        mask = cast(mask, dtype)
    kept, seed, offset = None, None, None
    if dropout:
        seed, offset = torch.tensor(key[0]), torch.tensor(key[1])
        u = uniforms(key[0], key[1], b * h * l * s, "f32").reshape(b, h, l, s)
        kept = (u >= dropout).double() / (1 - dropout)
    attrs = {"scale": scale, "is_causal": causal, "softcap": softcap, "dropout": dropout}
    wide_in = [x.double().requires_grad_() for x in (q, k, v)]
    out, lse = attend(*wide_in, mask, scale, causal, softcap, kept)
    narrow = "f64" if dtype == "f64" else "f32"
    inputs = [q, k, v, mask, seed, offset]
    checked = grad and dtype == "f64" and 0 not in shape
    finite = not bool((lse == -math.inf).any())
    case("attention_forward", inputs, [cast(out.detach(), dtype), cast(lse.detach(), narrow)], attrs,
         16, checked and finite)
    if onnx:
        case("scaled_dot_product_attention", inputs, [cast(out.detach(), dtype)], attrs, 16, checked)
    by_out, by_lse = rand(tuple(out.shape), dtype), rand(tuple(lse.shape), narrow) if finite else None
    loss = (out * by_out.double()).sum()
    if finite:
        loss = loss + (lse * by_lse.double()).sum()
    grads = torch.autograd.grad(loss, wide_in)
    case("attention_backward",
         [by_out, by_lse, q, k, v, mask, seed, offset, cast(out.detach(), dtype),
          cast(lse.detach(), narrow)],
         [cast(g, dtype) for g in grads], attrs, 64 if dtype == "f64" else 128)


def attention():
    set_floor(1)
    for dtype in FLOATS:
        one((2, 2, 2, 3, 4, 2, 3), dtype=dtype)
    one((1, 2, 1, 3, 3, 2, 2), causal=True)
    one((1, 4, 2, 2, 3, 2, 1), scale=0.7)
    one((1, 1, 1, 4, 2, 3, 2), causal=True, softcap=1.5)
    mask = torch.tensor([[True, False, True], [True, True, False]])
    one((2, 2, 1, 2, 3, 2, 2), mask)
    one((2, 2, 2, 2, 3, 2, 2), rand((2, 1, 2, 3)), softcap=2)
    one((2, 1, 1, 2, 3, 2, 2), rand((3,)))
    one((1, 2, 2, 3, 3, 2, 2), rand((1, 2, 1, 3)), causal=True)
    one((1, 2, 2, 3, 3, 2, 2), rand((2, 1, 3)), dtype="bf16")
    one((1, 1, 1, 2, 3, 2, 2), torch.tensor([[False] * 3, [True, True, False]]), onnx=False)
    one((1, 2, 1, 2, 3, 2, 2), dropout=0.4, onnx=False)
    one((1, 1, 1, 2, 2, 2, 2), mask=rand((2, 2)), dropout=0.3, causal=True, onnx=False)
    one((0, 1, 1, 2, 2, 2, 2))
    one((1, 1, 1, 0, 2, 2, 2))


def as_a_function():
    set_floor(1)
    for shape in [(2, 3, 4), (3, 4)]:
        q, k, v = rand(shape), rand(shape), rand(shape)
        mask = torch.ones(3, 3, dtype=torch.bool).tril()
        case("fn attention", [q, k, v, mask], [F.scaled_dot_product_attention(q, k, v, mask)], {}, 16, True)
    q, k, v = rand((1, 2, 2, 3)), rand((1, 2, 2, 3)), rand((1, 2, 2, 3))
    case("fn attention", [q, k, v, None], [F.scaled_dot_product_attention(q, k, v)], {}, 16, True)


FAMILIES = [attention, as_a_function]
