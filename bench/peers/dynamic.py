"""Graphs that differ from call to call, as in bench/dynamic.cpp: a branch on data (microseconds a call), 100
training steps of a language model over texts of 46 lengths, and inference on batches of 398 sizes (seconds, with
compilation and later)."""
import time

import numpy as np

import models
from common import Case, main, median_seconds, row, threads

BRANCH = "branch on data, 32x64"
LENGTHS = "LSTM steps of 46 lengths"
BY_HAND = "LSTM cell by hand, steps of 46 lengths"
SIZES = "MLP on 398 batch sizes"
STEPS, BATCH, RATE = 100, 16, 1e-3
BUCKETS = (16, 32, 64, 96, 128, 192, 256, 320, 400)


def microseconds(call, inputs):
    """Each call takes the other side of the branch."""
    def run(n):
        for i in range(n):
            call(inputs[i % 2])
    return median_seconds(run) * 1e6


def sides():
    x = np.random.default_rng(0).random((2, 32, 64), np.float32)
    return [x[0] + np.float32(0.1), x[1] - np.float32(0.1)]


def torch_branch(system, compiled):
    import torch
    torch.set_num_threads(threads())
    torch.manual_seed(0)
    l1, l2 = torch.nn.Linear(64, 64), torch.nn.Linear(64, 64)
    parameters = [*l1.parameters(), *l2.parameters()]

    def branch(x):
        return l2(l1(x) if x.mean() > 0.5 else torch.relu(l1(x)))
    f = torch.compile(branch) if compiled else branch
    inputs = [torch.from_numpy(x) for x in sides()]

    def step(x):
        for p in parameters:
            p.grad = None
        f(x).sum().backward()
    with torch.no_grad():
        assert all(torch.allclose(f(x), branch(x), atol=1e-5) for x in inputs)
        forward = microseconds(f, inputs)
    return [row(BRANCH, system, forward, "us"),
            row(BRANCH + ", with gradients", system, microseconds(step, inputs), "us")]


def jax_branch():
    import jax
    import jax.numpy as jnp
    r = np.random.default_rng(0)
    p = [jnp.asarray(r.standard_normal(s, np.float32)) / 8 for s in ((64, 64), (64,), (64, 64), (64,))]
    inputs = [jnp.asarray(x) for x in sides()]

    def branch(p, x):
        one = lambda x: x @ p[0] + p[1]
        return jax.lax.cond(x.mean() > 0.5, one, lambda x: jax.nn.relu(one(x)), x) @ p[2] + p[3]
    forward, step = jax.jit(branch), jax.jit(jax.grad(lambda p, x: branch(p, x).sum()))
    wait = jax.block_until_ready
    return [row(BRANCH, "jax-jit", microseconds(lambda x: wait(forward(p, x)), inputs), "us"),
            row(BRANCH + ", with gradients", "jax-jit", microseconds(lambda x: wait(step(p, x)), inputs), "us")]


def texts():
    r = np.random.default_rng(1)
    for i in range(STEPS):
        yield tuple(r.integers(0, models.CHARACTERS, (BATCH, 5 + i * 37 % 46)) for _ in range(2))


def passes(system, step, data, what=LENGTHS):
    """step(x, y) does a training step, waits, and returns its loss."""
    rows = []
    for name in ("first pass", "later"):
        start = time.perf_counter()
        losses = [step(x, y) for x, y in data]
        rows.append(row("%s, %s" % (what, name), system, time.perf_counter() - start, "s"))
        assert all(np.isfinite(losses))
    return rows


def torch_cell_model():
    """The LSTM language model with its cell written out."""
    import torch

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = torch.nn.Embedding(models.CHARACTERS, 128)
            self.input, self.hidden = torch.nn.Linear(128, 1024), torch.nn.Linear(256, 1024)
            self.head = torch.nn.Linear(256, models.CHARACTERS)

        def forward(self, given):
            h = c = torch.zeros(given.shape[0], 256)
            steps = []
            for x in self.embedding(given).unbind(1):
                i, f, g, o = (self.input(x) + self.hidden(h)).chunk(4, 1)
                c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
                h = torch.sigmoid(o) * torch.tanh(c)
                steps.append(h)
            return self.head(torch.stack(steps, 1)).flatten(0, 1)
    return Model()


def torch_lengths(system, compiled, by_hand=False):
    import torch
    import torch.nn.functional as F
    torch.set_num_threads(threads())
    torch._dynamo.config.allow_rnn = True       # otherwise nn.LSTM breaks the graph
    model = torch_cell_model() if by_hand else models.torch_model("lstm")
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE, fused=True)

    def loss_of(x, y):
        return F.cross_entropy(model(x), y)
    if compiled:
        loss_of = torch.compile(loss_of, dynamic=True)

    def step(x, y):
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(x, y)
        loss.backward()
        optimizer.step()
        return loss.item()
    data = [(torch.from_numpy(x), torch.from_numpy(y).flatten()) for x, y in texts()]
    return passes(system, step, data, BY_HAND if by_hand else LENGTHS)


def jax_lengths(system, bucket):
    """Texts padded to multiples of `bucket`, and what is padded left out of the loss; each padded length compiles."""
    import jax
    import jax.numpy as jnp
    from training import jax_adam
    model = models.jax_model("lstm")

    def loss_of(p, x, y):
        logits, _ = model(p, {}, x)
        each = jnp.take_along_axis(jax.nn.log_softmax(logits), jnp.maximum(y, 0)[:, None], 1)[:, 0]
        return -jnp.where(y >= 0, each, 0).sum() / (y >= 0).sum()

    @jax.jit
    def whole(p, state, x, y):
        loss, g = jax.value_and_grad(loss_of)(p, x, y)
        return *jax_adam(p, state, g, RATE), loss
    p = jax.tree.map(jnp.asarray, models.transposed_weights("lstm"))
    zeros = lambda: jax.tree.map(jnp.zeros_like, p)
    carry = [p, (zeros(), zeros(), jnp.zeros(()))]

    def step(x, y):
        *carry[:], loss = whole(*carry, x, y)
        return float(loss)
    data = []
    for x, y in texts():
        more = ((0, 0), (0, -x.shape[1] % bucket))
        x, y = np.pad(x, more), np.pad(y, more, constant_values=-1)
        data.append((jnp.asarray(x, jnp.int32), jnp.asarray(y.reshape(-1), jnp.int32)))
    return passes(system, step, data)


def batches():
    x = np.random.default_rng(2).standard_normal((400, 784), np.float32)
    return [x[:2 + i * 37 % 398] for i in range(398)]


def size_passes(system, forward, inputs):
    rows = []
    for name in ("first pass", "later"):
        start = time.perf_counter()
        results = [forward(x) for x in inputs]
        rows.append(row("%s, %s" % (SIZES, name), system, time.perf_counter() - start, "s"))
    assert all(len(y) == len(x) and abs(float(y[0].sum()) - 1) < 1e-4 for x, y in zip(inputs, results))
    return rows


def torch_sizes(system, compiled):
    import torch
    torch.set_num_threads(threads())
    model = models.torch_model("mlp")

    def forward(x):
        return torch.softmax(model(x), 1)
    f = torch.compile(forward, dynamic=True) if compiled else forward
    with torch.no_grad():
        return size_passes(system, f, [torch.from_numpy(x) for x in batches()])


def jax_sizes(system, buckets):
    """Batches padded to the next of `buckets`, and cut again; each padded size compiles."""
    import jax
    model, p = models.jax_model("mlp"), models.transposed_weights("mlp")

    @jax.jit
    def forward(x):
        return jax.nn.softmax(model(p, {}, x)[0])

    def call(x):
        size = next(b for b in buckets if b >= len(x)) if buckets else len(x)
        padded = np.pad(x, ((0, size - len(x)), (0, 0))) if size > len(x) else x
        return np.asarray(forward(padded))[:len(x)]
    return size_passes(system, call, batches())


PARTS = {
    "pytorch-eager": {"branch": lambda s: torch_branch(s, False), "lengths": lambda s: torch_lengths(s, False),
                      "by hand": lambda s: torch_lengths(s, False, by_hand=True), "sizes": lambda s: torch_sizes(s, False)},
    "pytorch-compile": {"branch": lambda s: torch_branch(s, True), "lengths": lambda s: torch_lengths(s, True),
                        "sizes": lambda s: torch_sizes(s, True)},
    "jax-jit": {"branch": lambda s: jax_branch(), "lengths": lambda s: jax_lengths(s, 1),
                "sizes": lambda s: jax_sizes(s, ())},
    "jax-jit-buckets": {"lengths": lambda s: jax_lengths(s, 16), "sizes": lambda s: jax_sizes(s, BUCKETS)},
}
CASES = {system: Case(lambda part, s=system: {"rows": PARTS[s][part](s)}, keep_memory=True, parts=list(parts))
         for system, parts in PARTS.items()}

if __name__ == "__main__":
    main(CASES)
