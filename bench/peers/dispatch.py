"""Nanoseconds per eager operation on 16 elements: LibTorch in C++, and PyTorch from Python."""
import os
import subprocess
import tempfile

from common import Case, main, median_seconds, row

HERE = os.path.dirname(os.path.abspath(__file__))


def libtorch():
    import torch
    root = os.path.dirname(torch.__file__)
    include, lib = os.path.join(root, "include"), os.path.join(root, "lib")
    folder = os.environ.get("PEER_CACHE", tempfile.gettempdir())
    program = os.path.join(folder, "libtorch-dispatch")
    if not os.path.exists(program):
        subprocess.run(["g++", "-O2", "-std=c++20", "-D_GLIBCXX_USE_CXX11_ABI=%d" % torch.compiled_with_cxx11_abi(),
                        "-I" + include, "-I" + os.path.join(include, "torch", "csrc", "api", "include"),
                        os.path.join(HERE, "dispatch.cpp"), "-o", program, "-L" + lib, "-Wl,-rpath," + lib,
                        "-Wl,--no-as-needed", "-ltorch", "-ltorch_cpu", "-lc10"], check=True)
    out = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    return {"rows": [row(name, "libtorch", float(ns), "ns")
                     for name, ns in (line.split("\t") for line in out.splitlines())]}


def python():
    import torch
    torch.set_num_threads(1)
    rows = []

    def report(name, body):
        def run(n):
            for _ in range(n):
                body()
        rows.append(row(name, "pytorch-eager", median_seconds(run) * 1e9, "ns"))
    x, y = torch.rand(16), torch.rand(16)
    a, b = torch.rand(16, requires_grad=True), torch.rand(16, requires_grad=True)
    for name, op in {"add": lambda p, q: p + q, "mul": lambda p, q: p * q, "tanh": lambda p, q: p.tanh()}.items():
        with torch.no_grad():
            report(name + " no_grad", lambda: op(x, y))
        report(name + " recording", lambda: op(a, b))
    s, t = torch.tensor(2.0, requires_grad=True), torch.tensor(3.0, requires_grad=True)

    def step():
        (s * t).backward()
        s.grad = t.grad = None
    report("scalar mul build+fwd+bwd", step)
    return {"rows": rows}


CASES = {"libtorch": Case(libtorch, threads=(1,)), "pytorch-eager": Case(python, threads=(1,))}

if __name__ == "__main__":
    main(CASES)
