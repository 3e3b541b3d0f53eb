"""Recurrent layers: step by step here; plain ones must be what torch.nn's give."""

from common import *


def relu(x):
    return torch.relu(x)


FUNCTIONS = {
    "relu": relu, "tanh": torch.tanh, "sigmoid": torch.sigmoid,
    "affine": lambda x, a=1, b=0: a * x + b,
    "leaky_relu": lambda x, a=0.01: torch.where(x > 0, x, a * x),
    "thresholded_relu": lambda x, a=1: torch.where(x > a, x, 0),
    "scaled_tanh": lambda x, a=1, b=1: a * torch.tanh(b * x),
    "hard_sigmoid": lambda x, a=0.2, b=0.5: torch.clamp(a * x + b, 0, 1),
    "elu": lambda x, a=1: torch.where(x > 0, x, a * torch.expm1(x)),
    "softsign": lambda x: x / (1 + x.abs()),
    "softplus": torch.nn.functional.softplus,
}
DEFAULTS = {"rnn": "tanh", "gru": "sigmoid tanh", "lstm": "sigmoid tanh tanh"}


def functions(text):
    found = []
    for word in text.replace(", ", ",").split():
        name, _, numbers = word.partition("(")
        found.append((name, [float(x) for x in numbers.rstrip(")").split(",") if x]))
    return [lambda x, n=n, a=a: FUNCTIONS[n](x, *a) for n, a in found]


def layer(cell, attrs, x, w, r, bw, br, lengths, h0, c0, p):
    """y, h, c, gates, cells."""
    steps, samples, hidden = x.shape[0], x.shape[1], r.shape[1]
    f = functions(attrs.get("activations") or DEFAULTS[cell])
    clip = attrs.get("clip", 0)
    gate = lambda k, z: f[k](z.clamp(-clip, clip) if clip else z)
    h = h0 if h0 is not None else torch.zeros(samples, hidden)
    c = c0 if c0 is not None else torch.zeros(samples, hidden)
    bw = bw if bw is not None else torch.zeros(r.shape[0])
    br = br if br is not None else torch.zeros(r.shape[0])
    y, gates, cells = [None] * steps, [None] * steps, [None] * steps
    for t in (reversed(range(steps)) if attrs.get("reverse") else range(steps)):
        fx = x[t] @ w.T + bw
        new_c, inner = c, None
        if cell == "gru":
            fh = h @ r.T + br
            xs, hs = fx.chunk(3, -1), fh.chunk(3, -1)
            reset, update = gate(0, xs[0] + hs[0]), gate(0, xs[1] + hs[1])
            if attrs.get("linear_before_reset", True):
                inner = hs[2]
                n = gate(1, xs[2] + reset * inner)
            else:
                n = gate(1, xs[2] + (reset * h) @ r[2 * hidden:].T + br[2 * hidden:])
            new_h = (1 - update) * n + update * h
            made = torch.cat([reset, update, n], -1)
        elif cell == "lstm":
            i, fg, g, o = (fx + h @ r.T + br).chunk(4, -1)
            pi, po, pf = p.chunk(3) if p is not None else (0, 0, 0)
            i, g = gate(0, i + pi * c), gate(1, g)
            fg = 1 - i if attrs.get("input_forget") else gate(0, fg + pf * c)
            new_c = fg * c + i * g
            o = gate(0, o + po * new_c)
            new_h = o * f[2](new_c)
            made = torch.cat([i, fg, g, o], -1)
            inner = new_c
        else:
            new_h = made = gate(0, fx + h @ r.T + br)
        on = (torch.ones(samples, 1, dtype=torch.bool) if lengths is None
              else (lengths > t).unsqueeze(1))
        y[t], gates[t] = torch.where(on, new_h, 0), torch.where(on, made, 0)
        if inner is not None:
            cells[t] = torch.where(on, inner, 0)
        h, c = torch.where(on, new_h, h), torch.where(on, new_c, c)
    none = torch.zeros(0)
    stacked = lambda parts, width: torch.stack(parts) if parts else torch.zeros(0, samples, width)
    has_cells = cell == "lstm" or (cell == "gru" and attrs.get("linear_before_reset", True))
    return (stacked(y, hidden), h, c if cell == "lstm" else none, stacked(gates, r.shape[0]),
            stacked(cells, hidden) if has_cells else none)


GATES = {"rnn": 1, "gru": 3, "lstm": 4}


def one(cell, attrs=None, steps=3, samples=2, biases="both", lengths=None, states=False,
        peephole=False, dtype="f64", with_x=True, width=2, hidden=2, grad=True, onnx=True):
    attrs = dict(attrs or {})
    rows = GATES[cell] * hidden
    x, w, r = rand((steps, samples, width), dtype), rand((rows, width), dtype, -1, 1), rand((rows, hidden), dtype, -1, 1)
    bw = rand((rows,), dtype, -1, 1) if biases in ("both", "ih") else None
    br = rand((rows,), dtype, -1, 1) if biases in ("both", "hh") else None
    lengths = torch.tensor(lengths) if lengths is not None else None
    h0 = rand((samples, hidden), dtype) if states else None
    c0 = rand((samples, hidden), dtype) if states and cell == "lstm" else None
    p = rand((3 * hidden,), dtype, -1, 1) if peephole else None
    inputs = [x, w, r, bw, br, lengths, h0, c0, p]
    wide_in = [t.double().requires_grad_() if t is not None and t.is_floating_point() else t for t in inputs]
    out = layer(cell, attrs, *wide_in)
    if not attrs and lengths is None and biases == "both" and not peephole and steps:
        check_with_torch(cell, wide_in, out)
    narrow = "f64" if dtype == "f64" else "f32"
    kinds = [dtype, dtype, dtype, narrow, narrow]
    results = [cast(t.detach(), k) for t, k in zip(out, kinds)]
    tol = 32 if dtype == "f64" else 64
    checked = grad and dtype == "f64" and steps > 0
    count = 3 if cell == "lstm" else 2
    if onnx:
        case(cell, inputs[:9 if cell == "lstm" else 7], results[:count], attrs, tol, checked)
    case("recurrent_forward", inputs, results, {"cell": cell, **attrs}, tol)
    weights = [rand(tuple(t.shape), dtype) for t in out[:count]]
    loss = sum((t * g.double()).sum() for t, g in zip(out, weights))
    leaves = [t for t in wide_in if t is not None and t.is_floating_point()]
    found = dict(zip([id(t) for t in leaves], torch.autograd.grad(loss, leaves, allow_unused=True)))
    grads = []
    for k, t in enumerate(wide_in):
        if k == 5:
            continue
        if t is None or (k == 0 and not with_x):
            grads.append(torch.zeros(0))
        else:
            grads.append(found[id(t)] if found[id(t)] is not None else torch.zeros_like(t))
    case("recurrent_backward",
         [weights[0], weights[1], weights[2] if count == 3 else None] + inputs +
         [results[0], results[3], results[4]],
         [cast(g.detach(), dtype) for g in grads], {"cell": cell, "with_x": with_x, **attrs}, 8 * tol)


def check_with_torch(cell, inputs, out):
    x, w, r, bw, br, _, h0, c0, _ = inputs
    net = {"rnn": torch.nn.RNN, "gru": torch.nn.GRU, "lstm": torch.nn.LSTM}[cell](w.shape[1], r.shape[1])
    with torch.no_grad():
        for name, value in zip(["weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"], [w, r, bw, br]):
            getattr(net, name).copy_(value)
    state = None
    if h0 is not None:
        state = (h0[None], c0[None]) if cell == "lstm" else h0[None]
    y, last = net(x, state)
    assert torch.allclose(y, out[0], atol=1e-12)
    assert torch.allclose(last[0][0] if cell == "lstm" else last[0], out[1], atol=1e-12)


def plain():
    set_floor(1)
    for cell in ["rnn", "gru", "lstm"]:
        for dtype in ["f32", "f16", "bf16"]:
            one(cell, dtype=dtype, states=dtype == "f32")
        one(cell, states=True)
        one(cell, biases="none", steps=2)
        one(cell, {"reverse": True}, biases="ih", lengths=[3, 1], states=True)
        one(cell, {"reverse": True}, dtype="f32", lengths=[2, 3], states=True)
        one(cell, biases="hh", lengths=[0, 2], steps=2, with_x=False)
        one(cell, dtype="f32", lengths=[1, 3], steps=3)
        one(cell, samples=1, hidden=1, steps=1)
    one("lstm", steps=0, states=True, onnx=False)
    one("gru", {"linear_before_reset": False}, states=True)
    one("gru", {"linear_before_reset": False}, dtype="f32", lengths=[3, 2])
    one("gru", {"linear_before_reset": False, "reverse": True}, lengths=[1, 2], steps=2)


def unusual():
    set_floor(1)
    for dtype in ["f32", "f64"]:
        one("lstm", peephole=True, states=True, dtype=dtype, steps=2)
        one("lstm", {"input_forget": True}, peephole=dtype == "f64", states=True, dtype=dtype, steps=2)
        one("lstm", {"clip": 0.75}, dtype=dtype, steps=2)
        one("gru", {"clip": 0.5, "activations": "hard_sigmoid softsign"}, dtype=dtype, steps=2)
        for text in ["relu", "affine(0.5, 0.25)", "leaky_relu(0.2)", "thresholded_relu(0.3)",
                     "scaled_tanh(1.5, 0.5)", "hard_sigmoid(0.3, 0.4)", "elu(0.7)", "softsign", "softplus",
                     "sigmoid"]:
            one("rnn", {"activations": text}, dtype=dtype, steps=2)
        one("lstm", {"activations": "hard_sigmoid(0.3, 0.5) scaled_tanh(1.2, 0.6) softsign"}, dtype=dtype,
            steps=2)


FAMILIES = [plain, unusual]
