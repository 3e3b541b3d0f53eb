"""Prints result_types.txt: the dtypes of what PyTorch 2.13 computes from operands of every two dtypes, with and
without axes, and from numbers of the host.

A table has a line `operator left right`, where an operand is `tensor` (of one axis), `scalar` (a tensor without axes)
or `number` (of the host: bool, i64 or f64 stand for True, 1 and 1.5), then a line for each dtype of the left operand
with the dtypes of the result, by the dtypes of the right one in the order of the first line of the file; - where
PyTorch refuses."""

import torch

NAMES = {
    "f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "i64": torch.int64,
    "i32": torch.int32, "i16": torch.int16, "i8": torch.int8, "u64": torch.uint64, "u32": torch.uint32,
    "u16": torch.uint16, "u8": torch.uint8, "bool": torch.bool, "c128": torch.complex128, "c64": torch.complex64,
}  # fmt: skip
NUMBERS = {"bool": True, "i64": 1, "f64": 1.5}
OPERATORS = {
    "result_type": lambda a, b: torch.empty(0, dtype=torch.result_type(a, b)),
    "add": torch.add,
    "mul": torch.mul,
    "div": torch.div,
    "lt": torch.lt,
    "where": lambda a, b: torch.where(torch.ones(2, dtype=torch.bool), a, b),
    "maximum": torch.maximum,
    "pow": torch.pow,
}
KINDS = [("tensor", "tensor"), ("tensor", "scalar"), ("scalar", "tensor"), ("scalar", "scalar"), ("tensor", "number"),
         ("scalar", "number")]  # fmt: skip
names = {dtype: name for name, dtype in NAMES.items()}


def operand(kind, dtype):
    if kind == "number":
        return NUMBERS[dtype]
    return torch.ones([2] if kind == "tensor" else [], dtype=NAMES[dtype])


def result(function, kinds, dtypes):
    if kinds[1] == "number" and dtypes[1] not in NUMBERS:
        return "-"
    try:
        return names.get(function(*map(operand, kinds, dtypes)).dtype, "-")
    except (RuntimeError, NotImplementedError):
        return "-"


print(*NAMES)
for name, function in OPERATORS.items():
    for kinds in KINDS:
        if name == "maximum" and "number" in kinds:
            continue  # torch.maximum takes tensors
        print(name, *kinds)
        for a in NAMES:
            print(*(result(function, kinds, (a, b)) for b in NAMES))
