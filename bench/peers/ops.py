"""Compares Dyad's operators with PyTorch's, eagerly, in turn: forward, and forward with backward.

    python ops.py --dyad build/bin/dyad-bench [--filter TEXT] [--threads 1,2] [--sizes 1,2,3] [--json rows.json]

Both compute on the same inputs, and their answers are compared first. Then each warms up and takes its turn for 10 ms, five times;
the ratio is the median over the turns of Dyad's time to PyTorch's, so what makes the machine slow for a while counts
for neither. A row above 1.3 is measured four times more when all others are done, so that one moment of a machine that
others use too doesn't decide; its ratio is then the median of the five, and all five are shown. What Dyad's table
(bench/ops_table.cpp) lacks is left out and named at the end.
"""
import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import torch

from ops_table import OPS

TURNS, TURN_SECONDS, SLOW_SECONDS, WARM_SECONDS = 5, 0.01, 0.5, 0.05
TOLERANCE = 2e-3           # of the largest element
LIMIT, REPEATS = 1.3, 4    # a row above the limit is measured again so often


class Dyad:
    def __init__(self, program):
        self.process = subprocess.Popen([program, "--serve-ops"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, **request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            sys.exit("dyad-bench ended during %s" % request)
        answer = json.loads(line)
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer

    def time(self, backward, count):
        return self.ask(do="time", backward=backward, count=count)["seconds"] / count


class Torch:
    def __init__(self, op, inputs, wanted):
        self.op, self.inputs, self.wanted = op, inputs, wanted
        y = self.run(False)[0]
        self.weight = torch.rand(y.shape, dtype=y.dtype if y.is_floating_point() else None)

    def run(self, backward):
        if not backward:
            with torch.no_grad():
                return [self.op.run(*self.inputs)]
        for x in self.wanted:
            x.requires_grad_()
        y = self.op.run(*self.inputs)
        return torch.autograd.grad(y, self.wanted, self.weight)

    def time(self, backward, count):
        start = time.perf_counter()
        for _ in range(count):
            self.run(backward)
        return (time.perf_counter() - start) / count


def compare(op, dyad, peer, backward, folder):
    """What is wrong with Dyad's answer, or nothing."""
    wanted = peer.run(backward)
    dyad.ask(do="run", backward=backward, folder=folder)
    for i, want in enumerate(wanted):
        got = np.load(os.path.join(folder, "%d.npy" % i))
        want = want.detach()
        want = want.numpy()
        if got.shape != want.shape:
            return "result %d is %s, not %s" % (i, got.shape, want.shape)
        if want.size == 0:
            continue
        error = np.abs(got.astype(np.float64) - want.astype(np.float64)).max() / (np.abs(want).max() + 1e-30)
        if not error <= TOLERANCE:
            return "result %d is off by %.2g of the largest element" % (i, error)
    return None


def measure(dyad, peer, backward):
    """Seconds of Dyad and of PyTorch, medians, and the median of the ratios."""
    counts = []
    for side in (dyad, peer):
        first = side.time(backward, 1)
        once = min(first, side.time(backward, 2)) if first < SLOW_SECONDS else first
        counts.append(max(1, int(TURN_SECONDS / max(once, 1e-7))))
        # Memory that a virtual machine has only just been given is slow at first.
        if first < SLOW_SECONDS:
            side.time(backward, max(1, int(WARM_SECONDS / max(once, 1e-7))))
    samples = []
    for _ in range(TURNS):
        turn = []
        for side, count in zip((dyad, peer), counts):
            time.sleep(0.002)       # threads that spin for work come to rest
            side.time(backward, min(count, max(3, count // 4)))  # after the other side's turn
            turn.append(side.time(backward, count))
        samples.append(turn)
    return (statistics.median(s[0] for s in samples), statistics.median(s[1] for s in samples),
            statistics.median(s[0] / s[1] for s in samples))


@contextlib.contextmanager
def loaded(op, dyad, size, threads):
    """PyTorch's side of one operator at one size, with Dyad's loaded, and a folder for answers."""
    torch.set_num_threads(threads)
    with tempfile.TemporaryDirectory(prefix="dyad-ops-") as folder:
        inputs = op.make(size)
        wanted = [i for i, x in enumerate(inputs) if x.is_floating_point()] if op.grad else []
        paths = []
        for i, x in enumerate(inputs):
            paths.append(os.path.join(folder, "in%d.npy" % i))
            np.save(paths[-1], x.numpy())
        peer = Torch(op, inputs, [inputs[i] for i in wanted])
        weight = os.path.join(folder, "weight.npy")
        np.save(weight, peer.weight.numpy())
        dyad.ask(do="load", op=op.name, inputs=paths, wanted=wanted, weight=weight, threads=threads)
        yield peer, folder


def rows_of(op, dyad, size, threads):
    with loaded(op, dyad, size, threads) as (peer, folder):
        for backward in [False, True] if peer.wanted else [False]:
            row = {"op": op.name, "inputs": op.shape(size), "size": size + 1, "threads": threads, "backward": backward}
            row["wrong"] = compare(op, dyad, peer, backward, folder)
            row["dyad"], row["pytorch"], row["ratio"] = measure(dyad, peer, backward)
            yield row


def measure_again(rows, dyad):
    """Measures the rows above the limit again, in rounds over all of them, and keeps the medians."""
    again = [row for row in rows if row["ratio"] > LIMIT]
    if not again:
        return
    ops = {op.name: op for op in OPS}
    rounds = {id(row): [(row["dyad"], row["pytorch"], row["ratio"])] for row in again}
    for _ in range(REPEATS):
        for row in again:
            with loaded(ops[row["op"]], dyad, row["size"] - 1, row["threads"]) as (peer, _folder):
                rounds[id(row)].append(measure(dyad, peer, row["backward"]))
    print("\nAbove %.1f at first, so measured %d times more; the medians, and all ratios in turn:" % (LIMIT, REPEATS))
    for row in again:
        row["dyad"], row["pytorch"], row["ratio"] = map(statistics.median, zip(*rounds[id(row)]))
        row["ratios"] = [ratio for _, _, ratio in rounds[id(row)]]
        show(row)


def pretty(seconds):
    for unit, scale in (("s", 1), ("ms", 1e3), ("us", 1e6)):
        if seconds * scale >= 1:
            return "%.3g %s" % (seconds * scale, unit)
    return "%.3g ns" % (seconds * 1e9)


def show(row):
    what = row["op"] + (" + grad" if row["backward"] else "")
    print("%6.2f  %-26s %-34s %7d  %10s %10s%s%s" % (
        row["ratio"], what, row["inputs"][:34], row["threads"], pretty(row["dyad"]), pretty(row["pytorch"]),
        "   of " + " ".join("%.2f" % ratio for ratio in row["ratios"]) if "ratios" in row else "",
        "   WRONG: " + row["wrong"] if row["wrong"] else ""), flush=True)


def summary(rows):
    for threads in sorted({r["threads"] for r in rows}):
        ratios = sorted(r["ratio"] for r in rows if r["threads"] == threads)
        print("\n%d thread%s: median ratio %.2f, %d of %d above %.1f, worst %.2f" % (
            threads, "" if threads == 1 else "s", statistics.median(ratios), sum(r > LIMIT for r in ratios), len(ratios),
            LIMIT, ratios[-1]))
    print("\nThe slowest ten against PyTorch:")
    for row in sorted(rows, key=lambda r: -r["ratio"])[:10]:
        show(row)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dyad", required=True)
    parser.add_argument("--filter", default="", help="only operators whose name has one of these texts, with commas between")
    parser.add_argument("--threads", default="1,%d" % len(os.sched_getaffinity(0)))
    parser.add_argument("--sizes", default="1,2,3")
    parser.add_argument("--json")
    options = parser.parse_args()
    dyad = Dyad(options.dyad)
    known = set(dyad.ask(do="list")["ops"])
    strangers = known - {op.name for op in OPS}
    if strangers:
        sys.exit("ops_table.py lacks: " + ", ".join(sorted(strangers)))
    texts = options.filter.split(",")
    chosen = [op for op in OPS if any(text in op.name for text in texts)]
    rows, failed = [], []
    print("%6s  %-26s %-34s %7s  %10s %10s" % ("ratio", "operator", "inputs", "threads", "dyad", "pytorch"))
    for threads in sorted({int(t) for t in options.threads.split(",")}):
        for op in chosen:
            if op.name not in known:
                continue
            for size in (int(s) - 1 for s in options.sizes.split(",")):
                try:
                    for row in rows_of(op, dyad, size, threads):
                        rows.append(row)
                        show(row)
                except RuntimeError as error:
                    failed.append("%s: %s" % (op.name, error))
                    print("        %s failed: %s" % (op.name, error), flush=True)
    if rows:
        measure_again(rows, dyad)
        summary(rows)
    missing = [op.name for op in chosen if op.name not in known]
    if missing:
        print("\nNot in Dyad's table: " + ", ".join(missing))
    if options.json:
        with open(options.json, "w") as file:
            json.dump(rows, file, indent=1)
    if failed or any(row["wrong"] for row in rows):
        sys.exit(1)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
