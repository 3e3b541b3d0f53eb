"""Chains and single operators on 16M floats, as in bench/pointwise.cpp. A result is a new array."""
import numpy as np

from common import main, median_seconds, row, usual_cases

N = 1 << 24
BYTES = 2 * 4 * N


def chains(sqrt, tanh, relu):
    return {
        "chain of 7, 16M f32": lambda x: sqrt((lambda h: h * h)(x * 1.5 + 0.25) + 1.0) * 0.5 - x,
        "gelu written out, 16M f32":
            lambda x: 0.5 * x * (1.0 + tanh(0.7978845608 * (x + 0.044715 * x * x * x))),
        "relu, 16M f32": relu,
    }


EXPECTED = chains(np.sqrt, np.tanh, lambda x: np.maximum(x, 0))


def rows_of(system, functions, x, wait, as_numpy):
    values = np.asarray(x)[:4096].astype(np.float64)
    rows = []
    for workload, function in functions.items():
        got = as_numpy(function(x))[:4096]
        assert np.abs(got - EXPECTED[workload](values)).max() < 1e-5, workload

        def run(n):
            for _ in range(n):
                wait(function(x))
        rows.append(row(workload, system, BYTES / median_seconds(run) / 1e9, "GB/s"))
    return {"rows": rows}


def data():
    return np.random.default_rng(1).uniform(-3, 3, N).astype(np.float32)


def torch_case(system, compiled):
    import torch
    from common import threads
    torch.set_num_threads(threads())
    functions = chains(torch.sqrt, torch.tanh, torch.relu)
    if compiled:
        functions = {name: torch.compile(f) for name, f in functions.items()}
    with torch.no_grad():
        return rows_of(system, functions, torch.from_numpy(data()), lambda out: None, lambda out: out.numpy())


def jax_case():
    import jax
    import jax.numpy as jnp
    functions = {name: jax.jit(f) for name, f in chains(jnp.sqrt, jnp.tanh, jax.nn.relu).items()}
    return rows_of("jax-jit", functions, jnp.asarray(data()), jax.block_until_ready, np.asarray)


CASES = usual_cases(torch_case, jax_case)

if __name__ == "__main__":
    main(CASES)
