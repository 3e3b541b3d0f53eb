"""Training steps a second of the models of bench/training.cpp, and what compiling a step costs.

Every system starts from the same weights and sees the same batches; run.py compares the losses of
the first steps, because a step that computes something else does not count."""
import time

import numpy as np

import models
from common import Case, main, median_seconds, row, threads

ADAM = dict(b1=0.9, b2=0.999, eps=1e-8)
MOMENTUM = 0.9
# workload -> layers, padding, batch, shape of a sample, optimiser, learning rate
WORKLOADS = {
    "MLP training, batch 128": (models.MLP, 0, 128, (784,), "adam", 1e-3),
    "demo CNN training, batch 128": (models.DEMO_CNN, 1, 128, (1, 28, 28), "adam", 2e-3),
    "example CNN training, batch 64": (models.EXAMPLE_CNN, 0, 64, (1, 28, 28), "sgd", 0.01),
}
COMPILED = {"demo CNN training, batch 128": "demo CNN step, record and compile"}


def measured(system, step_of, compiles):
    """step_of(workload) gives step(i), which does training step i, waits, and returns its loss."""
    rows, losses = [], {}
    for workload in WORKLOADS:
        step = step_of(workload)
        start = time.perf_counter()
        first = [step(i) for i in range(5)]
        cold = time.perf_counter() - start
        losses[workload] = first + [step(i) for i in range(5, 8)]
        at = [8]

        def run(n):
            for _ in range(n):
                step(at[0])
                at[0] += 1
        seconds = median_seconds(run)
        rows.append(row(workload, system, 1 / seconds, "steps/s"))
        if compiles and workload in COMPILED:
            rows.append(row(COMPILED[workload], system, (cold - 5 * seconds) * 1e3, "ms"))
    return {"rows": rows, "losses": losses}


def torch_case(system, compiled=False, tuned=False):
    """tuned: the fused optimiser, and channels-last images for convolutions. A compiled step is
    always tuned so (in 2.13.0 contiguous images leave convolutions without a gradient), but for
    the optimiser, which is compiled."""
    import torch
    import torch.nn.functional as F
    torch.set_num_threads(threads())

    def step_of(workload):
        layers, padding, batch, sample, kind, rate = WORKLOADS[workload]
        model = models.torch_model(layers, padding).train()
        data = [(torch.from_numpy(x), torch.from_numpy(y)) for x, y in models.batches(batch, sample)]
        if (tuned or compiled) and len(sample) == 3:
            model = model.to(memory_format=torch.channels_last)
            data = [(x.to(memory_format=torch.channels_last), y) for x, y in data]
        extra = {"fused": True} if tuned else {}
        if kind == "sgd":
            optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=MOMENTUM, **extra)
        else:
            optimizer = torch.optim.Adam(model.parameters(), lr=rate, betas=(ADAM["b1"], ADAM["b2"]),
                                         eps=ADAM["eps"], **extra)

        def loss_of(x, y):
            return F.cross_entropy(model(x), y)
        update = optimizer.step
        if compiled:
            loss_of = torch.compile(loss_of)
            update = torch.compile(lambda: optimizer.step())

        def step(i):
            optimizer.zero_grad(set_to_none=True)
            loss = loss_of(*data[i % len(data)])
            loss.backward()
            update()
            return loss.item()
        return step
    return measured(system, step_of, compiled)


def jax_case():
    import jax
    import jax.numpy as jnp
    tree = jax.tree.map

    def step_of(workload):
        layers, padding, batch, sample, kind, rate = WORKLOADS[workload]
        model = models.jax_model(layers, padding)
        images = (lambda x: x.transpose(0, 2, 3, 1)) if len(sample) == 3 else (lambda x: x)
        data = [(jnp.asarray(images(x)), jnp.asarray(y.astype(np.int32)))
                for x, y in models.batches(batch, sample)]

        def loss_of(p, x, y):
            logp = jax.nn.log_softmax(model(p, x))
            return -jnp.take_along_axis(logp, y[:, None], 1).mean()

        def sgd(p, momentum, g):
            momentum = tree(lambda m, g: MOMENTUM * m + g, momentum, g)
            return tree(lambda p, m: p - rate * m, p, momentum), momentum

        def adam(p, state, g):
            m, v, t = state
            t = t + 1
            m = tree(lambda m, g: ADAM["b1"] * m + (1 - ADAM["b1"]) * g, m, g)
            v = tree(lambda v, g: ADAM["b2"] * v + (1 - ADAM["b2"]) * g * g, v, g)
            c1, c2 = 1 - ADAM["b1"] ** t, 1 - ADAM["b2"] ** t
            p = tree(lambda p, m, v: p - rate * (m / c1) / (jnp.sqrt(v / c2) + ADAM["eps"]), p, m, v)
            return p, (m, v, t)
        p = tree(jnp.asarray, models.jax_weights(layers))
        zeros = tree(jnp.zeros_like, p)
        state = zeros if kind == "sgd" else (zeros, tree(jnp.zeros_like, p), jnp.zeros(()))

        def whole(p, state, x, y):
            loss, g = jax.value_and_grad(loss_of)(p, x, y)
            return *(sgd if kind == "sgd" else adam)(p, state, g), loss
        whole = jax.jit(whole, donate_argnums=(0, 1))
        carry = [p, state]

        def step(i):
            carry[0], carry[1], loss = whole(*carry, *data[i % len(data)])
            return float(loss)
        return step
    return measured("jax-jit", step_of, True)


CASES = {
    "pytorch-eager": Case(lambda: torch_case("pytorch-eager")),
    "pytorch-eager-tuned": Case(lambda: torch_case("pytorch-eager-tuned", tuned=True), keep_memory=True),
    "pytorch-compile": Case(lambda: torch_case("pytorch-compile", compiled=True), keep_memory=True),
    "jax-jit": Case(jax_case, keep_memory=True),
}

if __name__ == "__main__":
    main(CASES)
