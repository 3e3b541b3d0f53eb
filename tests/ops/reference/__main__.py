"""python tests/ops/reference [FAMILY...]: see common.py."""

import importlib
import pathlib
import sys

import common

names = sys.argv[1:] or sorted(p.stem for p in pathlib.Path(__file__).parent.glob("*.py")
                               if p.stem not in ("__main__", "common"))
for name in names:
    common.write(name, importlib.import_module(name).FAMILIES)
