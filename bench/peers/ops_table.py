"""The operators that bench/peers/ops.py compares: PyTorch's call, and inputs of three sizes.

One line an operator, of the same name as in bench/ops_table.cpp; what that table lacks is left out.
"""
from dataclasses import dataclass
from typing import Callable

import torch
import torch.nn.functional as F


@dataclass
class Op:
    name: str
    run: Callable
    inputs: tuple                 # for each of three sizes the inputs: shapes, or what makes a tensor
    grad: bool = True             # whether it is also measured with its gradient
    low: float = -1.0
    high: float = 1.0

    def make(self, size):
        generator = torch.Generator().manual_seed(size + 1)
        made = []
        for spec in self.inputs[size]:
            if callable(spec):
                made.append(spec(generator))
            else:
                made.append(torch.rand(spec, generator=generator) * (self.high - self.low) + self.low)
        return made

    def shape(self, size):
        return " ".join("x".join(map(str, x.shape)) or "scalar" for x in self.make(size))


def integers(shape, high):
    return lambda g: torch.randint(0, high, shape, generator=g)


def labels(shape, high):
    """Classes other than 0, the blank."""
    return lambda g: torch.randint(1, high, shape, generator=g)


def full(shape, value):
    return lambda g: torch.full(shape, value)


def booleans(shape):
    return lambda g: torch.rand(shape, generator=g) < 0.5


def doubles(shape):
    return lambda g: torch.rand(shape, generator=g, dtype=torch.float64)


def distinct(shape):
    """Rows without ties, which sort in one way."""
    return lambda g: torch.rand(shape, generator=g).argsort(-1).float() / shape[-1]


def numbers_of(dtype, low, high, shape):
    return lambda g: torch.randint(low, high, shape, generator=g).to(dtype)


def quint8(x):
    return torch._make_per_tensor_quantized_tensor(x, STEP, 128)


def quantized_conv(x, weight):
    """u8 and i8 in, u8 out; the weight is packed once."""
    key = (weight.data_ptr(), weight.shape)
    if key not in PACKED:
        PACKED.clear()
        PACKED[key] = torch.ops.quantized.conv2d_prepack(torch._make_per_tensor_quantized_tensor(weight, STEP, 0), None,
                                                         [1, 1], [1, 1], [1, 1], 1)
    return torch.ops.quantized.conv2d(quint8(x), PACKED[key], 1.0, 128).int_repr()


PACKED = {}
# A power of two: dividing by it and multiplying by its inverse are one.
STEP = 1 / 128


def regular(n, batch=()):
    return lambda g: torch.rand((*batch, n, n), generator=g) + n / 4 * torch.eye(n)


def positive(n):
    def make(g):
        x = torch.rand((n, n), generator=g) - 0.5
        return x @ x.T + n * torch.eye(n)
    return make


def spread(n):
    """Symmetric, with eigenvalues apart from one another."""
    def make(g):
        x = torch.rand((n, n), generator=g) * 0.01
        return x + x.T + torch.diag(torch.arange(1.0, n + 1))
    return make


def upper_factor(x):
    """r with no negative number on its diagonal, as Dyad gives it."""
    r = torch.linalg.qr(x).R
    return r * r.diagonal().sign()[:, None]


E1 = tuple([s] for s in [(1024,), (256, 1024), (2048, 2048)])
E2 = tuple([s, s] for s in [(1024,), (256, 1024), (2048, 2048)])
M1 = tuple([s] for s in [(32, 32), (512, 512), (4096, 1024)])
M2 = tuple([s, s] for s in [(32, 32), (512, 512), (4096, 1024)])
IMAGES = [(1, 16, 14, 14), (8, 32, 28, 28), (16, 64, 56, 56)]


def images(*shapes):
    return tuple([x, *rest] for x, rest in zip(IMAGES, zip(*shapes)))


def reductions(name, f):
    return [Op(name + " last", lambda x: f(x, -1), M1), Op(name + " first", lambda x: f(x, 0), M1),
            Op(name + " all", lambda x: f(x, (0, 1)), M1)]


def heads(*shapes):
    return tuple([s, s, s] for s in shapes)


HEADS = heads((1, 2, 32, 32), (2, 8, 128, 64), (2, 8, 512, 64))
def recurrent(gates, *sizes):
    """x[t, n, in], the weights of a layer of that many gates, and its biases."""
    return tuple([(t, n, i), (gates * h, i), (gates * h, h), (gates * h,), (gates * h,)] for t, n, i, h in sizes)


RNN_SIZES = [(16, 4, 16, 16), (32, 16, 64, 128), (64, 32, 256, 256)]


def state(x, weight):
    return x.new_zeros(1, x.shape[1], weight.shape[1])


def lstm(x, *weights):
    return torch.lstm(x, (state(x, weights[1]), state(x, weights[1])), weights, True, 1, 0.0, False, False, False)[0]


def gru(x, *weights):
    return torch.gru(x, state(x, weights[1]), weights, True, 1, 0.0, False, False, False)[0]


SQUARE = tuple([(n, n), (n, n)] for n in (32, 256, 1024))

OPS = [
    Op("add", lambda a, b: a + b, E2),
    Op("mul", lambda a, b: a * b, E2),
    Op("div", lambda a, b: a / b, E2, low=0.5),
    Op("pow", lambda a, b: a ** b, E2, low=0.5),
    Op("exp", torch.exp, E1),
    Op("log", torch.log, E1, low=0.5),
    Op("tanh", torch.tanh, E1),
    Op("sigmoid", torch.sigmoid, E1),
    Op("gelu", F.gelu, E1),
    Op("erf", torch.erf, E1),
    Op("relu", torch.relu, E1),
    Op("where", torch.where, tuple([booleans(s[0]), s[0], s[0]] for s in E1)),
    Op("clamp", lambda x: torch.clamp(x, -0.5, 0.5), E1),
    Op("cast", lambda x: x.double(), E1),
    *reductions("sum", lambda x, axis: x.sum(axis)),
    *reductions("mean", lambda x, axis: x.mean(axis)),
    *reductions("max", lambda x, axis: x.amax(axis)),
    *reductions("var", lambda x, axis: x.var(axis)),
    Op("argmax last", lambda x: x.argmax(-1), M1, grad=False),
    Op("argmax first", lambda x: x.argmax(0), M1, grad=False),
    Op("argmax all", lambda x: x.argmax(), M1, grad=False),
    Op("softmax", lambda x: x.softmax(-1), M1),
    Op("logsumexp", lambda x: x.logsumexp(-1), M1),
    Op("cumsum", lambda x: x.cumsum(-1), M1),
    Op("sort", lambda x: x.sort(-1)[0], tuple([distinct(s[0])] for s in M1)),
    Op("topk", lambda x: x.topk(10, -1)[0], tuple([distinct(s[0])] for s in M1)),
    Op("transpose-copy", lambda x: x.t().contiguous(), M1),
    Op("cat", lambda a, b: torch.cat([a, b], 1), M2),
    Op("stack", lambda a, b: torch.stack([a, b], 0), M2),
    Op("slice", lambda x: x[:, 1::2].contiguous(), M1),
    Op("gather", lambda x, i: x.gather(1, i), tuple([s[0], integers(s[0], s[0][1])] for s in M1)),
    Op("scatter_add", lambda x, i, y: x.scatter_add(1, i, y), tuple([s[0], integers(s[0], s[0][1]), s[0]] for s in M1)),
    Op("index_select", lambda x, i: x.index_select(0, i), tuple([s[0], integers((s[0][0],), s[0][0])] for s in M1)),
    Op("pad", lambda x: F.pad(x, (1, 1, 1, 1)), M1),
    Op("flip", lambda x: x.flip(-1), M1),
    Op("one_hot", lambda i: F.one_hot(i, 100), tuple([integers((n,), 100)] for n in (32, 4096, 65536)), grad=False),
    Op("matmul", torch.matmul, SQUARE),
    Op("matmul f64", torch.matmul, tuple([doubles((n, n)), doubles((n, n))] for n in (32, 128, 512))),
    Op("matmul int8", torch._int_mm, tuple([numbers_of(torch.int8, -128, 128, (n, n))] * 2 for n in (32, 256, 1024)),
       grad=False),
    Op("bmm", torch.bmm, tuple([(b, n, n), (b, n, n)] for b, n in ((8, 16), (32, 64), (32, 256)))),
    Op("einsum attention", lambda q, k: torch.einsum("bqhd,bkhd->bhqk", q, k),
       tuple([(b, t, h, 64), (b, t, h, 64)] for b, t, h in ((1, 16, 2), (4, 128, 8), (4, 512, 8)))),
    Op("einsum chain", lambda a, b, c: torch.einsum("ij,jk,kl->il", a, b, c),
       tuple([(n, n), (n, n), (n, n // 16)] for n in (32, 256, 1024))),
    Op("linear", F.linear, tuple([(b, n), (n, n), (n,)] for b, n in ((16, 64), (128, 512), (512, 1024)))),
    Op("conv1d", lambda x, w: F.conv1d(x, w, padding=1),
       tuple([(b, c, t), (c, c, 3)] for b, c, t in ((1, 16, 64), (8, 32, 256), (16, 64, 1024)))),
    Op("conv2d 3x3", lambda x, w: F.conv2d(x, w, padding=1), images([(16, 16, 3, 3), (32, 32, 3, 3), (64, 64, 3, 3)])),
    Op("conv2d 1x1", F.conv2d, images([(32, 16, 1, 1), (64, 32, 1, 1), (128, 64, 1, 1)])),
    Op("conv2d strided", lambda x, w: F.conv2d(x, w, stride=2, padding=1),
       images([(16, 16, 3, 3), (32, 32, 3, 3), (64, 64, 3, 3)])),
    Op("conv2d depthwise", lambda x, w: F.conv2d(x, w, padding=1, groups=w.shape[0]),
       images([(16, 1, 3, 3), (32, 1, 3, 3), (64, 1, 3, 3)])),
    Op("conv2d int8", quantized_conv,
       tuple([numbers_of(torch.uint8, 0, 256, s), numbers_of(torch.int8, -64, 64, (s[1], s[1], 3, 3))] for s in IMAGES),
       grad=False),
    Op("quantize", lambda x: torch.quantize_per_tensor(x, STEP, 128, torch.quint8).int_repr(), E1, grad=False),
    Op("fake_quantize", lambda x: torch.fake_quantize_per_tensor_affine(x, STEP, 128, 0, 255), E1),
    Op("conv_transpose2d", lambda x, w: F.conv_transpose2d(x, w, stride=2),
       images([(16, 8, 2, 2), (32, 16, 2, 2), (64, 32, 2, 2)])),
    Op("max_pool", lambda x: F.max_pool2d(x, 2), tuple([s] for s in IMAGES)),
    Op("avg_pool", lambda x: F.avg_pool2d(x, 2), tuple([s] for s in IMAGES)),
    Op("layer_norm", lambda x, w, b: F.layer_norm(x, w.shape, w, b),
       tuple([(r, n), (n,), (n,)] for r, n in ((16, 64), (512, 512), (4096, 1024)))),
    Op("batch_norm", lambda x, w, b: F.batch_norm(x, None, None, w, b, True),
       tuple([s, (s[1],), (s[1],)] for s in IMAGES)),
    Op("group_norm", lambda x, w, b: F.group_norm(x, 4, w, b), tuple([s, (s[1],), (s[1],)] for s in IMAGES)),
    Op("rms_norm", lambda x, w: F.rms_norm(x, w.shape, w), tuple([(r, n), (n,)] for r, n in ((16, 64), (512, 512), (4096, 1024)))),
    Op("embedding", lambda w, i: F.embedding(i, w),
       tuple([(v, d), integers((n,), v)] for v, d, n in ((100, 16, 32), (1000, 64, 1024), (10000, 256, 8192)))),
    Op("embedding_bag", lambda w, i: F.embedding_bag(i, w, mode="sum"),
       tuple([(v, d), integers((n, 8), v)] for v, d, n in ((100, 16, 32), (1000, 64, 256), (10000, 256, 1024)))),
    Op("lstm", lstm, recurrent(4, *RNN_SIZES), low=-0.1, high=0.1),  # with large weights steps are chaotic
    Op("gru", gru, recurrent(3, *RNN_SIZES), low=-0.1, high=0.1),
    Op("attention", F.scaled_dot_product_attention, HEADS),
    Op("attention causal", lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), HEADS),
    Op("attention masked", lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m),
       tuple([*s, booleans((s[0][2], s[0][2]))] for s in HEADS)),
    Op("cross_entropy", F.cross_entropy,
       tuple([(n, c), integers((n,), c)] for n, c in ((32, 10), (512, 100), (512, 10000)))),
    *[Op("resize " + mode, lambda x, mode=mode: F.interpolate(x, scale_factor=2, mode=mode), tuple([s] for s in IMAGES))
      for mode in ("nearest", "bilinear", "bicubic")],
    Op("grid_sample", lambda x, g: F.grid_sample(x, g, align_corners=False),
       tuple([s, (s[0], s[2], s[3], 2)] for s in IMAGES)),
    Op("grid_sample rgb", lambda x, g: F.grid_sample(x, g, align_corners=False),
       tuple([(s[0], 3, s[2], s[3]), (s[0], s[2], s[3], 2)] for s in IMAGES)),
    Op("ctc", lambda x, *rest: F.ctc_loss(x.log_softmax(-1), *rest),
       tuple([(t, n, c), labels((n, s), c), full((n,), t), full((n,), s)]
             for t, n, c, s in ((32, 4, 20, 8), (100, 16, 60, 30), (200, 32, 100, 60)))),
    Op("fft", lambda x: torch.view_as_real(torch.fft.fft(torch.view_as_complex(x))),
       tuple([s] for s in [(16, 64, 2), (64, 512, 2), (64, 16384, 2)])),
    Op("stft", lambda x, w: torch.view_as_real(torch.stft(x, 400, 160, window=w, return_complex=True)),
       tuple([s, (400,)] for s in [(1, 1600), (1, 16000), (16, 160000)])),
    Op("cholesky", torch.linalg.cholesky, tuple([positive(n)] for n in (64, 256, 1024))),
    Op("solve", torch.linalg.solve, tuple([regular(n), (n, n // 4)] for n in (64, 256, 1024))),
    Op("inverse", torch.linalg.inv, tuple([regular(n)] for n in (64, 256, 1024))),
    Op("svdvals", torch.linalg.svdvals, tuple([(n, n)] for n in (64, 256, 512))),
    Op("svd", lambda x: torch.linalg.svd(x, False).S, tuple([(n, n)] for n in (64, 256, 512))),
    Op("qr", upper_factor, tuple([(n, n)] for n in (64, 256, 1024))),
    Op("eigh", lambda x: torch.linalg.eigh(x).eigenvalues, tuple([spread(n)] for n in (64, 256, 512))),
    Op("rfft", lambda x: torch.view_as_real(torch.fft.rfft(x)), tuple([(b, n)] for b, n in ((4, 256), (64, 1000), (64, 65536)))),
]
