"""Every dtype that is stored can be moved, by the operators that storage.py leaves out."""

import numpy as np
import torch

from common import DTYPES, SMALL, case, rand, rng
from storage import NEW, any_small, any_unsigned


def movers():
    for name in NEW + ["c128", "c64", "bool"] + list(SMALL):
        def x(shape):
            if name in SMALL:
                return any_small(shape, name)
            if name == "bool":
                return torch.tensor(rng.rand(*shape) < 0.5)
            return any_unsigned(shape, name) if name in NEW else \
                torch.complex(rand(shape), rand(shape)).to(DTYPES[name])

        def at(a, index):
            """The elements of a whose numbers `index` holds."""
            flat = a.reshape(-1)
            return flat[index] if isinstance(a, np.ndarray) else flat[torch.from_numpy(index)]

        def numbers(shape):
            return np.arange(int(np.prod(shape))).reshape(shape)

        a, n = x((3, 4)), numbers((3, 4))
        case("unfold", [a], [at(a, np.stack([n[:, i:i + 2] for i in (0, 2)], 1))], {"axis": 1, "size": 2, "step": 2})
        case("diagonal", [a], [at(a, np.diagonal(n, 1).copy())], {"offset": 1, "axis1": 0, "axis2": 1})
        index = torch.tensor([[2, 1], [0, 3], [2, -4]])
        case("gather_nd", [a, index], [at(a, n[index[:, 0].numpy(), index[:, 1].numpy()])], {"batch_dims": 0})
        turned = n.copy()
        turned[:2, 0], turned[:3, 2] = n[:2, 0][::-1], n[:3, 2][::-1]
        case("reverse_sequence", [a, torch.tensor([2, 1, 3, 0])], [at(a, turned)], {"time_axis": 0, "batch_axis": 1})
        if name not in ("f8e8m0",):  # it has no 0
            full = a.copy() if isinstance(a, np.ndarray) else a.clone()
            full[np.tril_indices(3, -1, 4)] = 0 if name != "bool" else False
            case("trilu", [a], [full], {"k": 0, "upper": True})
        b, m = x((1, 4, 2, 2)), numbers((1, 4, 2, 2))
        placed = m.reshape(1, 2, 2, 1, 2, 2).transpose(0, 3, 4, 1, 5, 2).reshape(1, 1, 4, 4)
        case("depth_to_space", [b], [at(b, placed)], {"block": 2, "mode": "DCR"})
        split = m.reshape(1, 4, 1, 2, 1, 2).transpose(0, 3, 5, 1, 2, 4).reshape(1, 16, 1, 1)
        case("space_to_depth", [b], [at(b, split)], {"block": 2})
        case("move by functions", [a], [at(a, np.roll(n[::-1, ::-1], 1, 1)), at(a, np.tile(n, (2, 1))),
                                        at(a, np.repeat(n, 2, 0)), at(a, np.stack([n, n], 1))])


def bits():
    numbers = {"f64": np.float64, "f32": np.float32, "f16": np.float16, "i64": np.int64, "i32": np.int32, "i16": np.int16,
               "i8": np.int8, "u64": np.uint64, "u32": np.uint32, "u16": np.uint16, "u8": np.uint8, "bool": np.bool_,
               **{k: v for k, v in SMALL.items() if k.startswith("f8")}}
    x = np.array([[0.0, -0.0, 1.5], [-2.0, 3.0, 64.0]])
    for a, of in numbers.items():
        for b, to in numbers.items():
            if a == b or b == "bool" or of(0).itemsize != to(0).itemsize:
                continue
            start = np.abs(x) if a[0] in "ub" or a == "f8e8m0" else x
            start = start.astype(of) if a != "f8e8m0" else np.array([[1, 2, 4], [0.5, 8, 64]], np.float32).astype(of)
            bits = start.view(to)
            if np.isnan(bits.astype(np.float64)).any() or (b[0] == "f" and a[0] == "u" and a != "u8"):
                continue  # denormal numbers as text
            case("bitcast", [start if a.startswith("f8") else torch.from_numpy(start)],
                 [bits if b.startswith("f8") else torch.from_numpy(bits)], {"dtype": b}, 0)


FAMILIES = [movers, bits]
