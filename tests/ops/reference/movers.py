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


FAMILIES = [movers]
