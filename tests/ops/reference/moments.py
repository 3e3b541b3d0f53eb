"""Variances, norms, medians, histograms."""

from common import *
from reductions import REDUCED


def moments():
    set_floor(1)
    for op, f in [("var", torch.var), ("std", torch.std)]:
        for shape, axes in REDUCED:
            for correction in [0, 1]:
                for keepdim in [False, True]:
                    x = rand(shape)
                    n = x.numel() if not axes else math.prod(shape[a] for a in axes)
                    y = f(x, axes or None, correction=correction, keepdim=keepdim)
                    case(op, [x], [y], {"axes": axes, "correction": correction, "keepdim": keepdim}, 16,
                         n > 1)
        for dtype in FLOATS[1:]:
            x = rand((3, 5), dtype)
            case(op, [x], [cast(f(wide(x), 1), dtype)], {"axes": [1], "correction": 1, "keepdim": False}, 8)
        for shape, axes in [((0,), [0]), ((2, 0), [1]), ((0, 3), [1])]:
            x = rand(shape, "f32")
            case(op, [x], [f(x, axes)], {"axes": axes, "correction": 1, "keepdim": False})
        far = 1e4 + torch.arange(40.0).reshape(2, 20).float()
        case(op, [far], [f(far.double(), 1).float()], {"axes": [1], "correction": 1, "keepdim": False}, 64)
        for x in [floats_of("1 inf 2"), floats_of("nan 1 2"), floats_of("3 3 3")]:
            case(op, [x], [f(x, 0)], {"axes": [0], "correction": 1, "keepdim": False})
        long = torch.tensor(rng.rand(1, 4200)).float()
        case(op, [long], [f(long.double(), 1).float()], {"axes": [1], "correction": 1, "keepdim": False}, 16)
    for p in [0, 1, 2, 3, 0.5, 2.5, -1, "inf", "-inf"]:
        order = float(p)
        for shape, axes in REDUCED:
            for keepdim in [False, True]:
                x = rand(shape)
                y = torch.linalg.vector_norm(x, order, axes or None, keepdim)
                case("norm", [x], [y], {"p": p, "axes": axes, "keepdim": keepdim}, 32, True)
        for dtype in FLOATS[1:]:
            x = rand((3, 5), dtype)
            case("norm", [x], [cast(torch.linalg.vector_norm(wide(x), order, 1), dtype)],
                 {"p": p, "axes": [1], "keepdim": False}, 32)
        x = floats_of("1 nan 2")
        case("norm", [x], [torch.linalg.vector_norm(x, order)], {"p": p, "axes": [], "keepdim": False})
        x = floats_of("1 inf -2")
        case("norm", [x], [torch.linalg.vector_norm(x, order)], {"p": p, "axes": [], "keepdim": False})
        if order >= 0 and order < math.inf:
            x = rand((2, 0))
            case("norm", [x], [torch.linalg.vector_norm(x, order, 1)], {"p": p, "axes": [1], "keepdim": False})


def statistics():
    set_floor(1)
    missing = floats_of("1 nan 3 -2 nan 5 nan nan nan").reshape(3, 3)
    for shape, axis in [((5,), 0), ((3, 4), 1), ((3, 4), 0), ((2, 3, 4), -2)]:
        for keepdim in [False, True]:
            attrs = {"axis": axis, "keepdim": keepdim}
            x = rand(shape)
            for op, f in [("max_with_indices", torch.max), ("min_with_indices", torch.min), ("median", torch.median),
                          ("nanmedian", torch.nanmedian)]:
                case(op, [x], list(f(x, axis, keepdim)), attrs, 0, True)
            for q in [0, 0.3, 0.5, 1]:
                for how in ["linear", "lower", "higher", "midpoint", "nearest"]:
                    case("quantile", [x], [torch.quantile(x, q, axis, keepdim, interpolation=how)],
                         {**attrs, "q": q, "interpolation": how}, 4, q == 0.3)
    case("median", [missing], list(torch.median(missing, 1)), {"axis": 1, "keepdim": False})
    values, _ = torch.nanmedian(missing, 1)
    case("nanmedian values", [missing], [values], {"axis": 1})
    case("quantile", [missing], [torch.quantile(missing, 0.5, 1)],
         {"axis": 1, "keepdim": False, "q": 0.5, "interpolation": "linear"})
    x = randint((4, 5), "i64")
    case("median", [x], [torch.median(x, 1)[0], torch.tensor(
        [int(np.argsort(r, kind="stable")[2]) for r in x.numpy()])], {"axis": 1, "keepdim": False})
    x = torch.tensor([[0.0, 3, -2], [0, 0, 5]])
    for axes in [[], [0], [1]]:
        case("count_nonzero", [x], [torch.count_nonzero(x, axes or None)], {"axes": axes}, 0)
        for op, f in [("nansum", torch.nansum), ("nanmean", torch.nanmean)]:
            case(op, [missing], [f(missing, axes or None)], {"axes": axes}, 4)
            y = rand((2, 3))
            case(op, [y], [f(y, axes or None)], {"axes": axes}, 4, True)
        y = rand((2, 3), low=0.5)
        case("sum_square", [y], [(y * y).sum(axes or None)], {"axes": axes}, 4, True)
        case("log_sum", [y], [y.sum(axes or None).log()], {"axes": axes}, 4, True)
    x = rand((20,), low=-1, high=3)
    for bins, low, high in [(4, 0, 2), (7, -1, 3), (5, 0, 0), (1, 0, 1)]:
        case("histc", [x], [torch.histc(x, bins, low, high)], {"bins": bins, "low": low, "high": high}, 0)
    case("histc", [torch.ones(3)], [torch.histc(torch.ones(3), 3)], {"bins": 3, "low": 0, "high": 0}, 0)
    edges, weights = torch.tensor([-1, 0, 0.5, 2.0]), rand((20,))
    case("histogram", [x, edges, None], [torch.histogram(x, edges)[0]], {"density": False}, 0)
    case("histogram", [x, edges, None], [torch.histogram(x, edges, density=True)[0]], {"density": True}, 4)
    case("histogram", [x, edges, weights], [torch.histogram(x, edges, weight=weights)[0]], {"density": False}, 4)
    e = torch.tensor([-1.0, 2.0, 0.5])
    case("histogram", [e, edges, None], [torch.histogram(e, edges)[0]], {"density": False}, 0)


FAMILIES = [moments, statistics]
