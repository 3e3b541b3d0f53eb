"""Measures the build in a scratch copy of the sources: a clean one, without the compiler cache, and
what a change of one constant in tanh then costs. Appends rows to the JSON list of dyad-bench.

    python3 bench/build_time.py --json rows.json
"""
import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CHANGED = "dyad/ir/scalar_math.cpp"                      # tanh's polynomial for f32
CONSTANT, REPLACEMENT = "-0x1.bed6p-10", "-0x1.bed8p-10"


def copy_sources(target):
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, check=True,
                            capture_output=True).stdout.decode()
    for name in listed.split("\0"):
        source = os.path.join(ROOT, name)
        if name and os.path.isfile(source):
            os.makedirs(os.path.dirname(os.path.join(target, name)), exist_ok=True)
            shutil.copy2(source, os.path.join(target, name))


def seconds(command, folder, log):
    start = time.perf_counter()
    done = subprocess.run(command, cwd=folder, env=dict(os.environ, CCACHE_DISABLE="1"), stdout=log, stderr=log)
    if done.returncode:
        log.seek(0)
        sys.exit("%s did not succeed:\n%s" % (" ".join(command), log.read().decode()[-3000:]))
    return time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", required=True)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="compilers at once")
    options = parser.parse_args()
    ninja = ["ninja", "-C", "build", "-j", str(options.threads)]
    with tempfile.TemporaryDirectory(prefix="dyad-build-") as folder, tempfile.TemporaryFile() as log:
        copy_sources(folder)
        print("a clean build in %s" % folder, file=sys.stderr)
        clean = seconds(["cmake", "--preset", "dev"], folder, log) + seconds(ninja, folder, log)
        path = os.path.join(folder, CHANGED)
        with open(path) as file:
            text = file.read()
        if text.count(CONSTANT) != 1:
            sys.exit("%s no longer holds the constant %s once: name another in %s" % (CHANGED, CONSTANT, __file__))
        with open(path, "w") as file:
            file.write(text.replace(CONSTANT, REPLACEMENT))
        print("a rebuild after a change of %s" % CHANGED, file=sys.stderr)
        again = seconds(ninja, folder, log)
        left = subprocess.run(ninja, cwd=folder, capture_output=True, text=True).stdout
        if "no work to do" not in left:
            sys.exit("the rebuild left work to do:\n" + left)
    rows = json.load(open(options.json)) if os.path.exists(options.json) else []
    for workload, value in (("clean build", clean), ("rebuild after a constant in tanh", again)):
        rows.append({"workload": workload, "system": "dyad", "threads": options.threads, "value": value, "unit": "s",
                     "floor": None})
    with open(options.json, "w") as file:
        json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
