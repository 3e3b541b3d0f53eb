"""Writes promotion.inc: the dtype that each pair promotes to (rows and columns in the order of dyad::DType).

PyTorch's rule where it has one; where it has none, NumPy's for integers and bool (with ml_dtypes' small integers where
NumPy knows them); "" where neither has one. Needs torch and numpy: python tests/core/data/make_promotion.py
"""

import pathlib

import numpy as np
import torch

TORCH = {
    "f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "i64": torch.int64,
    "i32": torch.int32, "i16": torch.int16, "i8": torch.int8, "u64": torch.uint64, "u32": torch.uint32,
    "u16": torch.uint16, "u8": torch.uint8, "bool": torch.bool, "c128": torch.complex128, "c64": torch.complex64,
    "f8e4m3fn": torch.float8_e4m3fn, "f8e4m3fnuz": torch.float8_e4m3fnuz, "f8e5m2": torch.float8_e5m2,
    "f8e5m2fnuz": torch.float8_e5m2fnuz, "f8e8m0": torch.float8_e8m0fnu,
}
NUMPY = {"i64": np.int64, "i32": np.int32, "i16": np.int16, "i8": np.int8, "u64": np.uint64, "u32": np.uint32,
         "u16": np.uint16, "u8": np.uint8, "bool": np.bool_}
NAMES = list(TORCH) + ["f4e2m1", "i4", "i2", "u4", "u2", "string"]


def promoted(a, b):
    if a == b:
        return a
    if a in TORCH and b in TORCH:
        try:
            result = torch.promote_types(TORCH[a], TORCH[b])
            return next(name for name, dtype in TORCH.items() if dtype == result)
        except RuntimeError:
            pass
    if a in NUMPY and b in NUMPY:
        result = np.promote_types(NUMPY[a], NUMPY[b])
        return "f64" if result == np.float64 else next(n for n, t in NUMPY.items() if np.dtype(t) == result)
    return ""


rows = ["{" + ", ".join(f'"{promoted(a, b)}"' for b in NAMES) + "}," for a in NAMES]
pathlib.Path(__file__).with_name("promotion.inc").write_text("\n".join(rows) + "\n")
