"""Operators written one by one that make one pass through memory, as in bench/fused.cpp."""
import numpy as np

from common import main, median_seconds, row, threads, usual_cases

ROWS, COLUMNS, SIDE, N = 4096, 1024, 2048, 1 << 24
DROPOUT = "add, dropout [4096,1024]"


def chain_of_30(tanh):
    def run(h, row, column):
        for i in range(10):
            h = h * row + column
            h = tanh(h) if i % 3 == 2 else abs(h)
        return h
    return run


def workloads(lib):
    """Name: (function, shapes of its inputs, bytes read and written at least)."""
    rows, side = (ROWS, COLUMNS), (SIDE, SIDE)
    rows_bytes = 4 * ROWS * COLUMNS
    return {
        "x * a + b, 16M": (lambda x: x * 1.5 + 0.25, [(N,)], 8 * N),
        "chain of 30 [2048,2048]":
            (chain_of_30(lib["tanh"]), [side, (SIDE,), (SIDE, 1)], 8 * SIDE * SIDE),
        "softmax [4096,1024]": (lib["softmax"], [rows], 2 * rows_bytes),
        "softmax written out [4096,1024]": (lib["softmax_written_out"], [rows], 2 * rows_bytes),
        "add, layer_norm, gelu [4096,1024]":
            (lib["block"], [rows, rows, (COLUMNS,), (COLUMNS,)], 3 * rows_bytes),
        DROPOUT: (lib["dropout"], [rows, rows], 3 * rows_bytes),
        "layer_norm both ways [4096,1024]":
            (lib["both_ways"], [rows, (COLUMNS,), (COLUMNS,), rows], 4 * rows_bytes),
        "add, layer_norm both ways [4096,1024]":
            (lib["residual"], [rows, (COLUMNS,), (COLUMNS,), rows, rows, rows], 7 * rows_bytes),
        "sum, 16M": (lambda x: x.sum(), [(N,)], 4 * N),
    }


def as_list(out):
    return out if isinstance(out, list) else [out]


def rows_of(system, lib, to_array, prepare, wait):
    """`prepare(function)` gives what is measured, checked against the function itself."""
    random = np.random.default_rng(1)
    results = []
    for workload, (function, shapes, size) in workloads(lib).items():
        inputs = [to_array(random.random(shape, np.float32)) for shape in shapes]
        prepared = prepare(function)
        for got, wanted in zip(as_list(prepared(*inputs)), as_list(function(*inputs))):
            if workload == DROPOUT:  # other numbers at each call
                got, wanted = np.asarray(got).mean(), np.asarray(wanted).mean()
            assert np.allclose(np.asarray(got), np.asarray(wanted), rtol=1e-3, atol=1e-4), workload

        def run(n):
            for _ in range(n):
                wait(prepared(*inputs))
        results.append(row(workload, system, size / median_seconds(run) / 1e9, "GB/s"))
    return {"rows": results}


def torch_case(system, compiled):
    import torch
    import torch.nn.functional as F
    torch.set_num_threads(threads())

    def softmax_written_out(x):
        e = torch.exp(x - x.amax(-1, keepdim=True))
        return e / e.sum(-1, keepdim=True)

    def layer_norm(x, weight, bias):
        return F.layer_norm(x, (COLUMNS,), weight, bias)

    def both_ways_of(forward):
        def both_ways(x, weight, bias, grad):
            with torch.enable_grad():
                leaves = [t.detach().requires_grad_() for t in (x, weight, bias)]
                y = forward(*leaves)
                return [*torch.autograd.grad(y, leaves, grad), y.detach()]
        return both_ways

    def add_and_norm(x, other, weight, bias):
        h = x + other
        return layer_norm(h, weight, bias), h

    def residual_of(forward):
        def residual(x, weight, bias, grad, other, grad_h):
            with torch.enable_grad():
                leaves = [t.detach().requires_grad_() for t in (x, weight, bias)]
                y, h = forward(leaves[0], other, *leaves[1:])
                return [*torch.autograd.grad([y, h], leaves, [grad, grad_h]), y.detach(), h.detach()]
        return residual

    lib = {
        "tanh": torch.tanh,
        "softmax": lambda x: torch.softmax(x, -1),
        "softmax_written_out": softmax_written_out,
        "block": lambda x, r, w, b: F.gelu(layer_norm(x + r, w, b)),
        "dropout": lambda x, r: x + F.dropout(r, 0.1, training=True),
        "both_ways": both_ways_of(layer_norm),
        "residual": residual_of(add_and_norm),
    }

    def prepare(function):
        if not compiled:
            return function
        # The compiler takes the forward part, and makes the backward part of it.
        if function is lib["both_ways"]:
            return both_ways_of(torch.compile(layer_norm))
        if function is lib["residual"]:
            return residual_of(torch.compile(add_and_norm))
        return torch.compile(function)
    with torch.no_grad():
        return rows_of(system, lib, torch.from_numpy, prepare, lambda out: None)


def jax_case():
    import jax
    import jax.numpy as jnp

    def layer_norm(x, weight, bias):
        mean = x.mean(-1, keepdims=True)
        var = ((x - mean) ** 2).mean(-1, keepdims=True)
        return (x - mean) * jax.lax.rsqrt(var + 1e-5) * weight + bias

    def softmax_written_out(x):
        e = jnp.exp(x - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    def both_ways(x, weight, bias, grad):
        y, pull = jax.vjp(layer_norm, x, weight, bias)
        return [*pull(grad), y]

    def residual(x, weight, bias, grad, other, grad_h):
        def forward(x, weight, bias):
            h = x + other
            return layer_norm(h, weight, bias), h
        (y, h), pull = jax.vjp(forward, x, weight, bias)
        return [*pull((grad, grad_h)), y, h]

    key = jax.random.key(0)

    def dropout(x, r, key=key):
        return x + jnp.where(jax.random.bernoulli(key, 0.9, r.shape), r / 0.9, 0)

    lib = {
        "tanh": jnp.tanh,
        "softmax": jax.nn.softmax,
        "softmax_written_out": softmax_written_out,
        "block": lambda x, r, w, b: jax.nn.gelu(layer_norm(x + r, w, b), approximate=False),
        "dropout": dropout,
        "both_ways": both_ways,
        "residual": residual,
    }

    def prepare(function):
        compiled = jax.jit(function)
        # An argument: a key that is a constant might be drawn from while compiling.
        return (lambda x, r: compiled(x, r, key)) if function is dropout else compiled
    return rows_of("jax-jit", lib, jnp.asarray, prepare, jax.block_until_ready)


CASES = usual_cases(torch_case, jax_case)

if __name__ == "__main__":
    main(CASES)
