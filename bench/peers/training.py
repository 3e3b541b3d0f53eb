"""Training steps a second of the models of bench/workloads.cpp, what compiling a step costs, and the memory.

Every system starts from the same weights and sees the same batches; run.py compares the losses of
the first steps, because a step that computes something else does not count."""
import time

import numpy as np

import models
from common import Case, main, median_seconds, row, status_mb, threads

ADAM = dict(b1=0.9, b2=0.999, eps=1e-8)
MOMENTUM = 0.9
# workload -> model, batch, shape of a sample, optimiser, learning rate, weight decay
WORKLOADS = {
    "MLP training, batch 128": ("mlp", 128, (784,), "adam", 1e-3, 0),
    "demo CNN training, batch 128": ("demo", 128, (1, 28, 28), "adam", 1e-3, 0),
    "example CNN training, batch 64": ("example", 64, (1, 28, 28), "sgd", 0.01, 0),
    "ResNet-18 training, batch 32": ("resnet", 32, (3, 32, 32), "sgd", 0.01, 0),
    "GPT training, batch 16": ("gpt", 16, (128,), "adamw", 3e-4, 0.01),
    "MLP training, batch 128, bf16": ("mlp", 128, (784,), "adam", 1e-3, 0),
    "GPT training, batch 16, bf16": ("gpt", 16, (128,), "adamw", 3e-4, 0.01),
    "LSTM training, batch 32": ("lstm", 32, (64,), "adam", 1e-3, 0),
}


def measured(workload, system, memory_before, step, compiles):
    """step(i) does training step i, waits, and returns its loss."""
    start = time.perf_counter()
    first = [step(i) for i in range(5)]
    cold = time.perf_counter() - start
    losses = first + [step(i) for i in range(5, 8)]
    at = [8]

    def run(n):
        for _ in range(n):
            step(at[0])
            at[0] += 1
    seconds = median_seconds(run)
    rows = [row(workload, system, 1 / seconds, "steps/s"),
            row(workload + ": peak memory", system, status_mb("VmHWM") - memory_before, "MB")]
    if compiles:
        rows.append(row(workload + ": record and compile", system, (cold - 5 * seconds) * 1e3, "ms"))
    return {"rows": rows, "losses": {workload: losses}}


def is_narrow(workload):
    return workload.endswith("bf16")


def torch_case(workload, system, compiled=False, tuned=False):
    """tuned: the fused optimiser, and channels-last images for convolutions. A compiled step is
    always tuned so: in 2.13.0 contiguous images leave convolutions without a gradient."""
    import torch
    import torch.nn.functional as F
    torch.set_num_threads(threads())
    memory_before = status_mb("VmRSS")
    name, batch, sample, kind, rate, decay = WORKLOADS[workload]
    model = models.torch_model(name)
    data = [(torch.from_numpy(x), torch.from_numpy(y).flatten()) for x, y in models.batches(name, batch, sample)]
    if tuned and len(sample) == 3:
        model = model.to(memory_format=torch.channels_last)
        data = [(x.to(memory_format=torch.channels_last), y) for x, y in data]
    extra = {"fused": True} if tuned else {}
    if kind == "sgd":
        optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=MOMENTUM, **extra)
    else:
        optimizer = (torch.optim.AdamW if kind == "adamw" else torch.optim.Adam)(
            model.parameters(), lr=rate, betas=(ADAM["b1"], ADAM["b2"]), eps=ADAM["eps"],
            weight_decay=decay, **extra)

    def loss_of(x, y):
        with torch.autocast("cpu", torch.bfloat16, enabled=is_narrow(workload)):
            return F.cross_entropy(model(x), y)
    if compiled:
        loss_of = torch.compile(loss_of)

    def step(i):
        loss = loss_of(*data[i % len(data)])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.item()
    return measured(workload, system, memory_before, step, compiled)


def channels_last(name, batch, sample):
    """The batches for JAX and TensorFlow: integers of 32 bits, too."""
    for x, y in models.batches(name, batch, sample):
        x = x.transpose(0, 2, 3, 1) if len(sample) == 3 else x
        yield (x if x.dtype == np.float32 else x.astype(np.int32)), y.reshape(-1).astype(np.int32)


def jax_adam(p, state, g, rate, decay=0):
    import jax
    import jax.numpy as jnp
    tree = jax.tree.map
    m, v, t = state
    t = t + 1
    m = tree(lambda m, g: ADAM["b1"] * m + (1 - ADAM["b1"]) * g, m, g)
    v = tree(lambda v, g: ADAM["b2"] * v + (1 - ADAM["b2"]) * g * g, v, g)
    c1, c2 = 1 - ADAM["b1"] ** t, 1 - ADAM["b2"] ** t
    p = tree(lambda p, m, v: p * (1 - rate * decay) - rate * (m / c1) / (jnp.sqrt(v / c2) + ADAM["eps"]), p, m, v)
    return p, (m, v, t)


def jax_case(workload):
    import jax
    import jax.numpy as jnp
    tree = jax.tree.map
    memory_before = status_mb("VmRSS")
    name, batch, sample, kind, rate, decay = WORKLOADS[workload]
    model = models.jax_model(name, is_narrow(workload))
    data = [tree(jnp.asarray, pair) for pair in channels_last(name, batch, sample)]

    def loss_of(p, s, x, y):
        logits, s = model(p, s, x)
        return -jnp.take_along_axis(jax.nn.log_softmax(logits), y[:, None], 1).mean(), s

    def sgd(p, momentum, g):
        momentum = tree(lambda m, g: MOMENTUM * m + g, momentum, g)
        return tree(lambda p, m: p - rate * m, p, momentum), momentum

    def adam(p, state, g):
        return jax_adam(p, state, g, rate, decay)
    p = tree(jnp.asarray, models.transposed_weights(name))
    zeros = lambda: tree(jnp.zeros_like, p)
    state = zeros() if kind == "sgd" else (zeros(), zeros(), jnp.zeros(()))

    def whole(p, state, s, x, y):
        (loss, s), g = jax.value_and_grad(loss_of, has_aux=True)(p, s, x, y)
        return *(sgd if kind == "sgd" else adam)(p, state, g), s, loss
    whole = jax.jit(whole, donate_argnums=(0, 1, 2))
    carry = [p, state, tree(jnp.asarray, models.statistics(name))]

    def step(i):
        *carry[:], loss = whole(*carry, *data[i % len(data)])
        return float(loss)
    return measured(workload, "jax-jit", memory_before, step, True)


def tf_case(workload):
    import tensorflow as tf
    tf.config.threading.set_intra_op_parallelism_threads(threads())
    tf.config.threading.set_inter_op_parallelism_threads(1)
    memory_before = status_mb("VmRSS")
    name, batch, sample, kind, rate, decay = WORKLOADS[workload]
    model = models.tf_model(name, is_narrow(workload))
    data = [(tf.constant(x), tf.constant(y)) for x, y in channels_last(name, batch, sample)]
    p = {k: tf.Variable(v) for k, v in models.transposed_weights(name).items()}
    s = {k: tf.Variable(v, trainable=False) for k, v in models.statistics(name).items()}
    zeros = lambda: {k: tf.Variable(tf.zeros_like(v), trainable=False) for k, v in p.items()}
    state = (zeros(),) if kind == "sgd" else (zeros(), zeros())
    t = tf.Variable(0.0, trainable=False)

    def update(p, g, m, v=None):
        if kind == "sgd":
            tf.raw_ops.ResourceApplyMomentum(var=p.handle, accum=m.handle, lr=rate, grad=g, momentum=MOMENTUM)
            return
        if decay:
            p.assign(p * (1 - rate * decay))
        b1, b2 = ADAM["b1"] ** t, ADAM["b2"] ** t
        tf.raw_ops.ResourceApplyAdam(       # adds its epsilon before it corrects v by 1 - b2
            var=p.handle, m=m.handle, v=v.handle, beta1_power=b1, beta2_power=b2, lr=rate, beta1=ADAM["b1"],
            beta2=ADAM["b2"], epsilon=ADAM["eps"] * tf.sqrt(1 - b2), grad=g)

    @tf.function(autograph=False)     # with jit_compile no model is faster, and the LSTM compiles for a minute
    def whole(x, y):
        with tf.GradientTape() as tape:
            logits, new = model(p, s, x)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, tf.cast(logits, tf.float32)))
        t.assign_add(1)
        for k, g in tape.gradient(loss, p).items():
            update(p[k], tf.convert_to_tensor(g), *(slots[k] for slots in state))
        for k, value in new.items():
            s[k].assign(value)
        return loss
    return measured(workload, "tensorflow", memory_before, lambda i: float(whole(*data[i % len(data)])), True)


CASES = {
    "pytorch-eager": Case(lambda w: torch_case(w, "pytorch-eager"), parts=list(WORKLOADS)),
    "pytorch-eager-tuned": Case(lambda w: torch_case(w, "pytorch-eager-tuned", tuned=True), keep_memory=True,
                                parts=list(WORKLOADS)),
    "pytorch-compile": Case(lambda w: torch_case(w, "pytorch-compile", compiled=True, tuned=True),
                            keep_memory=True, parts=list(WORKLOADS)),
    "jax-jit": Case(jax_case, keep_memory=True, parts=list(WORKLOADS)),
    "tensorflow": Case(tf_case, keep_memory=True, parts=list(WORKLOADS)),
}

if __name__ == "__main__":
    main(CASES)
