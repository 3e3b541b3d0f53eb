"""./dev COMMAND ... --help shows the help of the command and does nothing else, wherever --help stands: where
there is no cmake, no compiler and no package manager, it works too."""
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
COMMANDS = ("setup", "build", "demo", "test", "bench", "onnx-scoreboard", "fuzz", "fuzz-compile", "fmt", "lint")
BEFORE = {"bench": (["onnx"], ["ops"], ["training", "--threads", "1"]), "build": (["--asan"], ["test_core"]),
          "fuzz": (["onnx"], ["--seconds", "1"]), "fuzz-compile": (["--seeds", "0:1"],), "test": (["-R", "core"],),
          "demo": (["--epochs", "1"],), "lint": (["--all"],)}


def main():
    listed = subprocess.run([os.path.join(ROOT, "dev"), "help"], capture_output=True, text=True, check=True).stdout
    listed = re.findall(r"^  ([a-z-]+)(?:  +\S|$)", listed, re.MULTILINE)
    if sorted(listed) != sorted(COMMANDS + ("help",)):
        sys.exit("./dev help lists %s; this test knows %s" % (sorted(listed), sorted(COMMANDS + ("help",))))
    with tempfile.TemporaryDirectory() as tools:
        for tool in ("bash", "env", "dirname", "readlink", "nproc", "cat"):
            os.symlink(shutil.which(tool), os.path.join(tools, tool))
        for command in COMMANDS:
            for before in ([],) + tuple(BEFORE.get(command, ())):
                for flag in ("--help", "-h"):
                    line = [command, *before, flag]
                    done = subprocess.run([os.path.join(ROOT, "dev"), *line], capture_output=True, text=True,
                                          env={"PATH": tools, "HOME": tools})
                    if done.returncode or done.stderr or not done.stdout.startswith("usage: ./dev " + command):
                        sys.exit("./dev %s gives status %d and\n%s%s" % (" ".join(line), done.returncode,
                                                                         done.stdout, done.stderr))


main()
