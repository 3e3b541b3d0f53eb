"""Inference of exported models in Dyad, ONNX Runtime and OpenVINO, in turn: in each round every
system runs once, in a process of its own on cores of its own. A figure is the median over rounds.

The floor is the longer of two times, at rates measured beside: that of the operations, of products (as 512 x 512
matrices reach) and of convolutions of 3 x 3 (as those reach), and that of reading the weights once.

    python run.py --dyad build/bin/dyad --bench build/bin/dyad-bench [--threads 1,2] [--rounds 3] [--seconds 1]
                  [--json FILE] [MODEL...]
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
SYSTEMS = ("dyad", "onnxruntime", "openvino")
NAMES = ("mlp", "cnn", "resnet18", "mobilenetv2", "bert", "lstm-step")
BATCHES = (1, 16)
TOLERANCE = 1e-3        # relative to the largest result


def run(command, threads, cache):
    cores = sorted(os.sched_getaffinity(0))[-threads:]
    env = dict(os.environ, OMP_NUM_THREADS=str(threads), XDG_CACHE_HOME=cache)
    done = subprocess.run(["taskset", "-c", ",".join(map(str, cores))] + command, env=env, capture_output=True,
                          text=True)
    if done.returncode:
        sys.exit("%s failed: %s" % (" ".join(command), done.stderr.strip()[-1000:]))
    return done.stdout


def dyad(program, folder, threads, seconds, cache):
    model, inputs = os.path.join(folder, "model.onnx"), []
    for name in sorted(os.listdir(folder)):
        if name.startswith("x"):
            inputs += ["--input", "%s=%s" % (name[:-4], os.path.join(folder, name))]
    rest = ["--threads", str(threads)]
    result = json.loads(run([program, "bench", model, *inputs, *rest, "--seconds", str(seconds), "--json"],
                            threads, cache))
    results = os.path.join(folder, "results")
    run([program, "run", model, *inputs, *rest, "--output", results], threads, cache)
    want = np.load(os.path.join(folder, "y.npy"))
    got = next(a for a in map(np.load, (os.path.join(results, n) for n in sorted(os.listdir(results))))
               if a.shape == want.shape)
    top = result["operators"][:3]
    return {"median_ms": result["median_ms"],
            "ready_ms": result["load_ms"] + result["compile_ms"] + result["first_run_ms"],
            "peak_bytes": result["process_peak_bytes"],
            "difference": float(np.abs(got - want).max() / np.abs(want).max()),
            "where": ", ".join("%s %.0f %%" % (o["onnx"] or o["kernel"], 100 * o["share"]) for o in top)}


def floor_ms(program, folder, threads, cache):
    with open(os.path.join(folder, "work.json")) as file:
        work = json.load(file)
    rates = json.loads(run([program, "--threads", str(threads), "--rates", str(work["bytes"])], threads, cache))
    seconds = {what: work[what] / rates[what] for what in work}
    return 1e3 * max(seconds["products"] + seconds["convolutions"], seconds["bytes"])


def measure(options, folder, threads, cache):
    """system -> medians over the rounds; `cold_ms`: a start of Dyad before them, with no kernel in its cache."""
    samples = {system: [] for system in SYSTEMS}
    floors = []
    cold = dyad(options.dyad, folder, threads, options.seconds, cache)
    for _ in range(options.rounds):
        floors.append(floor_ms(options.bench, folder, threads, cache))
        for system in SYSTEMS:
            if system == "dyad":
                row = dyad(options.dyad, folder, threads, options.seconds, cache)
            else:
                row = json.loads(run([sys.executable, os.path.join(HERE, "peer.py"), system, folder, str(threads),
                                      str(options.seconds)], threads, cache))
            if row["difference"] > TOLERANCE:
                sys.exit("%s gives a wrong result for %s: off by %.1g" % (system, folder, row["difference"]))
            samples[system].append(row)
    rows = {}
    for system, all_rows in samples.items():
        rows[system] = {key: statistics.median(row[key] for row in all_rows)
                        for key in ("median_ms", "ready_ms", "peak_bytes")}
    rows["dyad"]["floor_ms"] = statistics.median(floors)
    rows["dyad"]["cold_ms"] = cold["ready_ms"]
    rows["dyad"]["where"] = samples["dyad"][-1]["where"]
    return rows


def line(name, batch, threads, rows):
    own, ort, ov = (rows[system] for system in SYSTEMS)
    return "| %s | %d | %d | %.3g | %.0f %% | %.2f | %.2f | %.0f, %.0f, %.0f (cold %.0f) | %.0f, %.0f, %.0f | %s |" % (
        name, batch, threads, own["median_ms"], 100 * own["floor_ms"] / own["median_ms"],
        own["median_ms"] / ort["median_ms"], own["median_ms"] / ov["median_ms"],
        own["ready_ms"], ort["ready_ms"], ov["ready_ms"], own["cold_ms"],
        own["peak_bytes"] / 1e6, ort["peak_bytes"] / 1e6, ov["peak_bytes"] / 1e6, own["where"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", help="of " + ", ".join(NAMES))
    parser.add_argument("--dyad", required=True)
    parser.add_argument("--bench", required=True)
    parser.add_argument("--threads", default="1,%d" % len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--json")
    parser.add_argument("--folder", help="with models that models.py wrote; otherwise they are made")
    options = parser.parse_args()
    unknown = [name for name in options.models if name not in NAMES]
    if unknown:
        parser.error("no model is called %s; there are %s" % (", ".join(unknown), ", ".join(NAMES)))
    counts = sorted({int(count) for count in options.threads.split(",")})
    rows = []
    with tempfile.TemporaryDirectory(prefix="dyad-onnx-") as scratch:
        folder = options.folder or scratch
        if not options.folder:
            subprocess.run([sys.executable, os.path.join(HERE, "models.py"), folder], check=True,
                           stdout=subprocess.DEVNULL)
        print("| model | batch | threads | Dyad, ms | of the floor | by ONNX Runtime | by OpenVINO | "
              "load and first run, ms | memory, MB | where Dyad's time goes |\n|---|---|---|---|---|---|---|---|---|---|", flush=True)
        for name in options.models or NAMES:
            for batch in BATCHES:
                for threads in counts:
                    cache = tempfile.mkdtemp(dir=scratch)
                    found = measure(options, os.path.join(folder, "%s-b%d" % (name, batch)), threads, cache)
                    print(line(name, batch, threads, found), flush=True)
                    rows.append(dict(found, model=name, batch=batch, threads=threads))
    if options.json:
        json.dump(rows, open(options.json, "w"), indent=1)


if __name__ == "__main__":
    main()
