"""What the peers' scripts share: the rule of timing, and rows in the form of dyad-bench."""
import argparse
import json
import os
import statistics
import sys
import time
from dataclasses import dataclass
from typing import Callable

SAMPLES, SAMPLE_SECONDS = 7, 0.05


@dataclass
class Case:
    """One system in one configuration: `run()` returns the rows, and losses to compare by.

    glibc hands large blocks back to the kernel at each free, so every large tensor pays its page
    faults again. With `keep_memory` it does not, as a user who tunes would have it.
    """
    run: Callable[..., dict]
    keep_memory: bool = False
    threads: tuple = ()          # only these numbers of threads; () means any
    parts: tuple = ()            # what `run` is called with, each in a process of its own; () means nothing


def usual_cases(torch_case, jax_case):
    """PyTorch eagerly, tuned, and compiled: torch_case(system, compiled); and JAX."""
    return {
        "pytorch-eager": Case(lambda: torch_case("pytorch-eager", False)),
        "pytorch-eager-tuned": Case(lambda: torch_case("pytorch-eager-tuned", False), keep_memory=True),
        "pytorch-compile": Case(lambda: torch_case("pytorch-compile", True), keep_memory=True),
        "jax-jit": Case(jax_case, keep_memory=True),
    }


def threads():
    return int(os.environ["PEER_THREADS"])


def median_seconds(run):
    """Median seconds of one iteration over seven samples, each of enough iterations to last 50 ms,
    after a warm-up: the rule of dyad-bench. `run(n)` does n iterations and waits for them."""
    def seconds(n):
        start = time.perf_counter()
        run(n)
        return time.perf_counter() - start
    run(1)
    n, took = 1, seconds(1)
    while took < SAMPLE_SECONDS:
        n = max(n + 1, min(10 * n, int(1.4 * n * SAMPLE_SECONDS / max(took, 1e-9))))
        took = seconds(n)
    return statistics.median(seconds(n) / n for _ in range(SAMPLES))


def row(workload, system, value, unit):
    return {"workload": workload, "system": system, "threads": threads(), "value": value, "unit": unit,
            "floor": None}


def status_mb(field):
    """Megabytes of this process that `field` of its status tells: VmRSS now, VmHWM at most."""
    for line in open("/proc/self/status"):
        if line.startswith(field + ":"):
            return int(line.split()[1]) / 1e3


def main(cases):
    """Runs the case (and part) named on the command line and prints what it returns as JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("case", choices=list(cases))
    parser.add_argument("part", nargs="*")
    options = parser.parse_args()
    try:
        print(json.dumps(cases[options.case].run(*options.part)))
    except ModuleNotFoundError as missing:
        sys.exit("%s: pip install -r bench/peers/requirements.txt" % missing)
