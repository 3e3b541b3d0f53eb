"""Measures Dyad and its peers in turn: in each round every system runs once, in a process of its
own, so that a machine that becomes slower does so for all. A figure is the median over the rounds.

    python run.py --dyad build/bin/dyad-bench --json rows.json [--threads 1,2] [--rounds 3] [GROUP...]
"""
import argparse
import importlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
# group of dyad-bench -> scripts with its peers; the training scripts also time compilation
SCRIPTS = {"dispatch": "dispatch", "pointwise": "pointwise", "kernels": "kernels", "fused": "fused",
           "training": "training", "compile": "training", "dynamic": "dynamic"}
KEEP_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(1 << 30), "MALLOC_TRIM_THRESHOLD_": str(1 << 33),
               "MALLOC_TOP_PAD_": str(1 << 26), "MALLOC_ARENA_MAX": "1"}
LOSS_TOLERANCE, COMPARED = 2e-3, 3      # relative, over the first steps: later ones differ by rounding alone


def pinned(command, count):
    cores = sorted(os.sched_getaffinity(0))[-count:]
    return ["taskset", "-c", ",".join(map(str, cores))] + command


def wants(only, name):
    """As dyad-bench has it: names with one of the texts, without those with one of the texts after a -."""
    texts = only.split(",") if only else []
    named = [text for text in texts if not text.startswith("-")]
    return ((not named or any(text in name for text in named)) and
            not any(text[1:] in name for text in texts if text.startswith("-")))


class Run:
    def __init__(self, options, cache):
        self.options, self.cache = options, cache
        self.samples, self.reference, self.wrong = {}, {}, set()

    def add(self, row):
        key = (row["workload"], row["system"], row["threads"])
        self.samples.setdefault(key, []).append(row)

    def dyad(self, groups, count):
        rows = os.path.join(self.cache, "dyad.json")
        only = ["--only=" + self.options.only] if self.options.only else []
        done = subprocess.run(pinned([self.options.dyad, *groups, *only, "--threads", str(count), "--json", rows], count),
                              stdout=subprocess.DEVNULL)
        if done.returncode:
            sys.exit("dyad-bench did not succeed")
        for row in json.load(open(rows)):
            self.add(row)

    def peer(self, script, name, case, count, cold):
        for part in case.parts or [None]:
            if part and not wants(self.options.only, part):
                continue
            self.peer_process(script, name, [part] if part else [], case, count, cold)

    def peer_process(self, script, name, part, case, count, cold):
        env = dict(os.environ, PEER_THREADS=str(count), OMP_NUM_THREADS=str(count), MKL_NUM_THREADS=str(count),
                   JAX_PLATFORMS="cpu", TF_CPP_MIN_LOG_LEVEL="3", PYTHONWARNINGS="ignore", PEER_CACHE=self.cache,
                   TORCHINDUCTOR_CACHE_DIR=os.path.join(self.cache, "inductor-%s-%d" % (script, count)))
        if case.keep_memory:
            env.update(KEEP_MEMORY)
        done = subprocess.run(pinned([sys.executable, os.path.join(HERE, script + ".py"), name, *part], count), env=env,
                              capture_output=True, text=True)
        if done.returncode:
            print("%s of %s failed: %s" % (name, part or script, done.stderr.strip()[-600:]), file=sys.stderr)
            return
        result = json.loads(done.stdout.splitlines()[-1])
        for workload, losses in result.get("losses", {}).items():
            self.check(workload, name, losses)
        for row in result["rows"]:
            # Later rounds find compiled code in the cache, so only the first one compiles cold.
            if "compile" not in row["workload"] or cold:
                self.add(row)

    def check(self, workload, name, losses):
        expected = self.reference.setdefault(workload, losses)      # the first peer's: eager PyTorch
        worst = max(abs(a - b) / abs(b) for a, b in zip(losses[:COMPARED], expected))
        if worst > LOSS_TOLERANCE and (workload, name) not in self.wrong:
            self.wrong.add((workload, name))
            print("%s: WRONG RESULT of %s: a loss is off by %.1g (relative); left out" % (workload, name, worst),
                  file=sys.stderr)

    def rows(self):
        for (workload, system, _), rows in self.samples.items():
            if (workload, system) in self.wrong:
                continue
            value = statistics.median(row["value"] for row in rows)
            floors = [row["floor"] for row in rows if row["floor"]]
            yield dict(rows[0], value=value, floor=statistics.median(floors) if floors else None)

    def save(self):
        with open(self.options.json, "w") as out:
            json.dump(list(self.rows()), out, indent=1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("groups", nargs="*", metavar="GROUP")
    parser.add_argument("--dyad", required=True)
    parser.add_argument("--json", required=True)
    parser.add_argument("--threads", default="1,%d" % len(os.sched_getaffinity(0)))
    parser.add_argument("--only", default="", help="of training, models whose names have one of these texts; "
                        "GPT,-bf16: but not those with bf16")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    groups = options.groups or list(SCRIPTS)
    scripts = list(dict.fromkeys(SCRIPTS[g] for g in groups if g in SCRIPTS))
    counts = sorted({int(count) for count in options.threads.split(",")})
    cache = tempfile.mkdtemp(prefix="dyad-peers-")
    try:
        run = Run(options, cache)
        for count in counts:
            for turn in range(options.rounds):
                for script in scripts or [None]:
                    run.dyad([g for g in groups if SCRIPTS.get(g) == script], count)
                    run.save()
                    cases = importlib.import_module(script).CASES if script else {}
                    for name, case in cases.items():
                        if case.threads and count not in case.threads:
                            continue
                        print("round %d, %d threads, %s: %s" % (turn + 1, count, script, name), file=sys.stderr)
                        run.peer(script, name, case, count, turn == 0)
                        run.save()      # hours of compilation may lie behind it
    finally:
        shutil.rmtree(cache, ignore_errors=True)


if __name__ == "__main__":
    main()
