#!/usr/bin/env python3
"""Checks what the built programs and the plug-in show to other code in one process: exports.py BUILD_FOLDER

The plug-in exports its entry alone. A program exports no symbol of LLVM, protobuf or Dyad, so that it can
load a library that brings its own; and nothing but the plug-in links LLVM.
"""

import pathlib
import subprocess
import sys


def exported(path):
    out = subprocess.run(["nm", "-D", "--defined-only", path], capture_output=True, text=True, check=True).stdout
    return [line.split()[-1] for line in out.splitlines()]


def linked(path):
    out = subprocess.run(["readelf", "-d", path], capture_output=True, text=True, check=True).stdout
    return [line.split("[")[1].rstrip("]") for line in out.splitlines() if "(NEEDED)" in line]


def check(build):
    problems = []
    for plugin in (build / "lib" / "dyad").glob("*.so"):
        if exported(plugin) != ["dyad_codegen_plugin"]:
            problems.append(f"{plugin} must export dyad_codegen_plugin alone, and exports {exported(plugin)[:20]}")
    programs = [p for p in (build / "bin").rglob("*") if p.is_file() and p.stat().st_mode & 0o111]
    if not programs:
        problems.append(f"no program in {build}/bin")
    for program in programs:
        for symbol in exported(program):
            if any(part in symbol for part in ("4llvm", "LLVM", "8protobuf", "4dyad", "dyad_")):
                problems.append(f"{program} exports {symbol}")
        for library in linked(program):
            if "LLVM" in library:
                problems.append(f"{program} links {library}: only the plug-in may")
    return problems


if __name__ == "__main__":
    found = check(pathlib.Path(sys.argv[1]))
    print("\n".join(found) if found else "nothing is exported that should not be")
    sys.exit(1 if found else 0)
