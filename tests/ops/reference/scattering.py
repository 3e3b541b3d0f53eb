"""Elements put and taken at places that indices name."""

from common import *

PLACES = [((3, 4), (3, 2), 1), ((3, 4), (2, 4), 0), ((2, 3, 4), (2, 5, 4), 1), ((5,), (7,), 0), ((4, 3), (2, 2), 0),
          ((3, 4), (3, 0), 1)]
REDUCE = {"scatter_mul": "prod", "scatter_max": "amax", "scatter_min": "amin"}


def two(shape, other, dtype="f64"):
    """Two tensors that share no number, so that finite differences cross no tie between them."""
    if dtype != "f64":
        return any_tensor(shape, dtype), any_tensor(other, dtype)
    n = math.prod(shape)
    both = rand((n + math.prod(other),))
    return both[:n].reshape(shape), both[n:].reshape(other)


def in_order(x, axis, index, source):
    """The last one stays."""
    x = x.clone()
    for at in np.ndindex(*index.shape):
        to = list(at)
        to[axis] = int(index[at])
        x[tuple(to)] = source[at]
    return x


def scatters():
    set_floor(1)
    for dtype in ["f64", "f32", "bf16", "i32", "u8", "bool"]:
        for shape, index_shape, axis in PLACES:
            for index_dtype in ["i64", "i32"]:
                x, source = two(shape, index_shape, dtype)
                index = randint(index_shape, index_dtype, -shape[axis], shape[axis])
                at = index.long() % shape[axis]
                grad = dtype == "f64" and index_dtype == "i64" and 0 not in index_shape
                case("scatter", [x, index, source], [in_order(x, axis, at, source)], {"axis": axis}, 0, grad)
                if dtype == "bool":
                    continue
                for op, reduction in REDUCE.items():
                    y = wide(x).scatter_reduce(axis, at, wide(source), reduction).to(x.dtype)
                    case(op, [x, index, source], [y], {"axis": axis}, 8 if op == "scatter_mul" else 0, grad)
    x = torch.tensor([2.0, 0, 3, 1])
    for source in [[2.0, 0, 3, 4], [0.0, 0, 3, 4], [1.0, 2, 0, 5]]:
        source, index = torch.tensor(source), torch.tensor([0, 0, 2, 2])
        # Of two zeros in one place the second derivative is not followed.
        case("scatter_mul", [x, index, source], [x.scatter_reduce(0, index, source, "prod")], {"axis": 0}, 4,
             bool(source[0] != source[1]))
    x, source = floats_of("1 nan 2 -inf"), floats_of("nan 3 5 -1 2 7")
    index = torch.tensor([0, 1, 2, 2, 3, 0])
    for op in ["scatter_max", "scatter_min"]:
        case(op, [x, index, source], [x.scatter_reduce(0, index, source, REDUCE[op])], {"axis": 0}, 0)


def scatter_functions():
    set_floor(1)
    for shape, index_shape, axis in PLACES[:5]:
        for reduction in ["sum", "prod", "amax", "amin", "mean"]:
            for include in [True, False]:
                x, source = two(shape, index_shape)
                index = randint(index_shape, "i64", 0, shape[axis])
                y = x.scatter_reduce(axis, index, source, reduction, include_self=include)
                case("scatter_reduce", [x, index, source], [y],
                     {"axis": axis, "reduction": reduction, "include_self": include}, 16, True)
    x, source, index = torch.arange(5), torch.tensor([3, -4, 9]), torch.tensor([1, 1, 4])
    for reduction in ["sum", "prod", "amax", "amin", "mean"]:
        case("scatter_reduce", [x, index, source], [x.scatter_reduce(0, index, source, reduction, include_self=False)],
             {"axis": 0, "reduction": reduction, "include_self": False}, 0)
    index = torch.tensor([2, 0, -1, 0])
    for axis, shape in [(0, (4, 3)), (1, (3, 4)), (-1, (2, 3, 4))]:
        x = rand(shape)
        at = index % x.shape[axis]
        part = list(x.shape)
        part[axis] = 4
        source = rand(part)
        case("index_add", [x, index, source], [x.index_add(axis, at, source)], {"axis": axis}, 4, True)
        last = x.clone()
        for i, place in enumerate(at.tolist()):
            last.select(axis, place).copy_(source.select(axis, i))
        case("index_copy", [x, index, source], [last], {"axis": axis}, 0, True)
        case("index_fill", [x, index], [x.index_fill(axis, at, 1.5)], {"axis": axis, "value": 1.5}, 0, True)
    x = rand((3, 4))
    index = torch.tensor([[0, 11], [-1, 3]])
    case("take", [x, index], [x.take(index)], None, 0, True)
    index = torch.tensor([[0, 2, -1, 1]])
    case("take_along_axis", [x, index], [torch.tensor(np.take_along_axis(x.numpy(), index.numpy(), 0))],
         {"axis": 0}, 0, True)
    index = torch.tensor([[1], [-1], [0]])
    case("take_along_axis", [x, index], [torch.tensor(np.take_along_axis(x.numpy(), index.numpy(), 1))],
         {"axis": 1}, 0, True)
    i, j = torch.tensor([[0], [2], [-1]]), torch.tensor([1, -4, 3])
    for dtype in ["i64", "i32"]:
        case("ravel_multi_index", [i.to(DTYPES[dtype]), j.to(DTYPES[dtype])], [(i % 3) * 4 + j % 4], {"shape": [3, 4]}, 0)
    case("ravel_multi_index", [i], [i % 5], {"shape": [5]}, 0)
    case("ravel_multi_index", [torch.tensor(2), torch.tensor(-1), torch.tensor(0)], [torch.tensor(2 * 20 + 3 * 5)],
         {"shape": [3, 4, 5]}, 0)


def places_in_several_axes():
    set_floor(1)

    def gather_nd(x, index, batch):
        y = torch.zeros(index.shape[:-1] + x.shape[batch + index.shape[-1]:], dtype=x.dtype)
        for at in np.ndindex(*index.shape[:-1]):
            y[at] = x[tuple(at[:batch]) + tuple(index[at].tolist())]
        return y
    for dtype in ["f64", "f16", "i16", "bool"]:
        for shape, index, batch in [((3, 4), [[0, 1], [2, -1]], 0), ((3, 4), [[[1]], [[-3]]], 0),
                                    ((2, 3, 4), [[1, 2, 0]], 0), ((2, 3, 4), [[2, -1], [0, 0]], 1),
                                    ((2, 3), [[[1], [2]], [[0], [-1]]], 1), ((3, 4), np.zeros((0, 1)), 0)]:
            x, at = any_tensor(shape, dtype), torch.tensor(np.array(index)).long()
            case("gather_nd", [x, at], [gather_nd(x, at, batch)], {"batch_dims": batch}, 0,
                 dtype == "f64" and at.numel() > 0)
    join = {"none": lambda a, b: b, "add": lambda a, b: a + b, "mul": lambda a, b: a * b,
            "max": torch.maximum, "min": torch.minimum}
    for dtype in ["f64", "f32", "i32", "bool"]:
        for shape, index in [((3, 4), [[0, 1], [2, -1], [0, 1]]), ((3, 4), [[1], [-3], [1]]), ((2, 3, 4), [[[1, 2]], [[0, 0]]])]:
            for reduction in ["none"] if dtype == "bool" else list(join):
                at = torch.tensor(index)
                x, source = two(shape, tuple(at.shape[:-1]) + shape[at.shape[-1]:], dtype)
                y = x.clone()
                for i in np.ndindex(*at.shape[:-1]):
                    to = tuple(at[i].tolist())
                    y[to] = join[reduction](y[to], source[i])
                case("scatter_nd", [x, at, source], [y], {"reduction": reduction}, 4, dtype == "f64")


def masks():
    mask = torch.tensor([[True, False, True], [False, False, True]])
    row = torch.tensor([False, True, True])
    for dtype in ["f64", "i8", "bool"]:
        x = any_tensor((2, 3), dtype)
        grad = dtype == "f64"
        case("masked_select", [x, mask], [x.masked_select(mask)], None, 0, grad)
        case("masked_select", [x, row], [x.masked_select(row)], None, 0, grad)
        case("masked_fill", [x, row], [x.masked_fill(row, 1)], {"value": 1}, 0, grad)
        source = any_tensor((4, 2), dtype)
        case("masked_scatter", [x, mask, source], [x.masked_scatter(mask, source)], None, 0, grad)
        case("masked_scatter", [x, row, source], [x.masked_scatter(row, source)], None, 0, grad)
    x = rand((2, 3))
    case("masked_scatter", [x, mask & False, x[:0]], [x])
    condition = torch.tensor([True, False, True])
    x, y = rand((3, 2)), rand((2, 4))
    case("compress", [condition, x], [x[::2]], {"axis": 0}, 0, True)
    case("compress", [condition, y], [y[:, [0, 2]]], {"axis": 1}, 0, True)
    case("compress", [condition, x], [x.reshape(-1)[[0, 2]]], {}, 0, True)


def indices():
    """x[...] as NumPy reads it: how each index is written is what arrays_functions_test.cpp parses."""
    rows, columns = torch.tensor([2, 0, -1]), torch.tensor([[1], [3]])
    mask = torch.tensor([True, False, True])
    grid = torch.tensor(np.arange(12).reshape(3, 4) % 3 == 0)

    def both(shape, text, key, tensors):
        x = rand(shape)
        a = x.numpy()
        y = torch.tensor(np.array(a[key]))
        case("index", [x] + tensors, [y], {"at": text}, 0, 0 not in y.shape)
        whole = randint(shape, "i16")
        case("index", [whole] + tensors, [torch.tensor(np.array(whole.numpy()[key]))], {"at": text}, 0)
        for accumulate in [False, True]:
            # A graph cannot tell that as many values are given as masks beside other indices have places.
            value = rand(tuple(y.shape) if not any(t.dtype == torch.bool for t in tensors) else y.shape[1:])
            z = a.copy()
            if accumulate:
                np.add.at(z, key, value.numpy())
            else:
                z[key] = value.numpy()
            case("index_put", [x, value] + tensors, [torch.tensor(z)], {"at": text, "accumulate": accumulate}, 4,
                 0 not in y.shape)
    r, c, m, g = rows.numpy(), columns.numpy(), mask.numpy(), grid.numpy()
    s = slice
    both((3, 4), "1", 1, [])
    both((3, 4), ":,-1", (s(None), -1), [])
    both((3, 4), "::-1,1:3", (s(None, None, -1), s(1, 3)), [])
    both((3, 4), "2:0:-1,...", (s(2, 0, -1), Ellipsis), [])
    both((3, 4), "...,n,::2", (Ellipsis, None, s(None, None, 2)), [])
    both((3, 4), "t", (r,), [rows])
    both((3, 4), ":,t", (s(None), c), [columns])
    both((3, 4), "t,t", (r, c), [rows, columns])
    both((2, 3, 4), ":,t,t", (s(None), r, c), [rows, columns])
    both((3, 2, 4), "t,:,t", (r, s(None), c), [rows, columns])
    both((3, 2, 4), "t,1,t", (r, 1, c), [rows, columns])
    both((2, 3, 4), "0,:,t", (0, s(None), c), [columns])
    both((2, 3, 4), "0,t", (0, r), [rows])
    both((3, 4), "n,t,1:", (None, r, s(1, None)), [rows])
    both((3, 4), "t", (m,), [mask])
    both((3, 4), "t", (g,), [grid])
    both((3, 4), "t,2", (m, 2), [mask])
    both((3, 4), "t,t", (m, np.array([1])), [mask, torch.tensor([1])])
    both((2, 3, 4), "1,t", (1, g), [grid])
    both((3, 4), "t", (np.zeros((0,), np.int64),), [torch.zeros(0, dtype=torch.int64)])
    x = rand((3, 4))
    for m, shape in [(mask, (2, 4)), (mask, (2, 1)), (grid, (4,))]:
        for accumulate in [False, True]:
            value = rand(shape)
            want = x.clone().index_put_((m,), value, accumulate)
            case("index_put", [x, value, m], [want], {"at": "t", "accumulate": accumulate}, 4, True)
    case("index_put", [x, torch.tensor(7.5), grid], [x.masked_fill(grid, 7.5)], {"at": "t", "accumulate": False}, 0, True)


def ones_at_indices():
    classes = {dtype: torch.arange(3).to(DTYPES[dtype]) for dtype in [*INTS, "f32"]}
    index = torch.tensor([[2], [0], [1], [2], [5]])
    for dtype in classes:
        case("one_hot", [index.to(DTYPES[dtype]), classes[dtype]], [(index == torch.arange(3)).float()], {"dtype": "f32"}, 0)
    for dtype in [*INTS, *FLOATS, "bool"]:
        case("one_hot", [index, classes["i64"]], [(index == torch.arange(3)).to(DTYPES[dtype])], {"dtype": dtype}, 0)
    odd = floats_of("0 -0 1 -1 2.5 127 inf nan")[:, None]
    for dtype in FLOATS:
        case("one_hot", [cast(odd, dtype), cast(torch.arange(3.0), dtype)], [(odd == torch.arange(3)).long()], {"dtype": "i64"}, 0)
    case("one_hot", [torch.tensor([[-1], [1]]), classes["i64"]], [torch.tensor([[0, 0, 0], [0, 1, 0]])], {"dtype": "i64"}, 0)
    case("one_hot", [torch.zeros(0, 1).long(), classes["i64"]], [torch.zeros(0, 3).double()], {"dtype": "f64"}, 0)


FAMILIES = [scatters, scatter_functions, places_in_several_axes, masks, indices, ones_at_indices]
