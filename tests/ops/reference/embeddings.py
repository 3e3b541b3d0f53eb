"""Rows of tables, one by one and in bags."""

import torch.nn.functional as F

from common import *


def rows():
    for shape, index_dtype in [((5,), "i64"), ((2, 3), "i32"), ((), "i64"), ((0,), "i64")]:
        for padding in [-1, 2]:
            index = randint(shape, index_dtype, 0, 4)
            for dtype in FLOATS:
                if dtype != "f64" and (padding >= 0 or shape == ()):
                    continue
                table, grad = rand((4, 3), dtype), rand(shape + (3,), dtype)
                checked = dtype == "f64" and 0 not in shape
                case("embedding", [table, index], [F.embedding(index.long(), table)],
                     {"padding_idx": padding}, 0, checked and padding < 0)
                back = torch.zeros(4, 3)
                for i, row in zip(index.reshape(-1).tolist(), grad.double().reshape(-1, 3)):
                    if i != padding:
                        back[i] += row
                case("embedding_backward", [grad, index], [cast(back, dtype)],
                     {"rows": 4, "padding_idx": padding}, 4, checked, floor=1)
    table = rand((5, 2))
    index = torch.tensor([1, 4, 1])
    case("fn embedding", [index, table], [F.embedding(index, table)], {"padding_idx": -2}, 0)
    for n, d, wide_grad in [(40, 37, "f32"), (7, 70, "bf16")]:
        grad, index = rand((n, d), wide_grad), randint((n,), "i64", 0, 6)
        back = torch.zeros(6, d).index_add(0, index, grad.double())
        case("embedding_backward", [grad, index], [cast(back, wide_grad)],
             {"rows": 6, "padding_idx": -1}, 8, floor=1)


def few_rows():
    """What optimizers of few rows use."""
    for dtype in FLOATS:
        for index in [[1, 4, 1, 0, 4, 1], [3], []]:
            n = len(index)
            at, table = torch.tensor(index, dtype=torch.int64), rand((5, 3), dtype)
            rows = rand((n, 3), dtype)
            sums = torch.zeros(5, 3).index_add(0, at, rows.double())[at]
            case("row_sums", [rows, at], [cast(sums, dtype)], tol=2, floor=1)
            put = table.clone()
            for i, row in zip(index, rows):
                put[i] = row
            case("put_rows", [table, at, rows], [put], tol=0)
    rows = rand((4, 2, 3))
    at = torch.tensor([2, 0, 2, 2], dtype=torch.int32)
    case("row_sums", [rows, at], [torch.zeros(3, 2, 3).index_add(0, at, rows)[at.long()]], tol=2, floor=1)
    case("put_rows", [rand((3, 2, 3)), at[:0], rows[:0]], [rand((3, 2, 3))], tol=0)
    cases[-1]["out"] = cases[-1]["in"][:1]
    order = torch.tensor([2, 0, 1])  # as many rows as the table has, in another order
    rows = rand((3, 2))
    case("put_rows", [rand((3, 2)), order, rows], [torch.zeros(3, 2).index_copy(0, order, rows)], tol=0)


def bags():
    def one(mode, index, offsets, weighted, last, padding, dtype="f64"):
        table = rand((5, 3), dtype)
        samples = rand(tuple(index.shape), dtype) if weighted else None
        attrs = {"mode": mode, "include_last_offset": last, "padding_idx": padding}
        wide_table = table.double().requires_grad_()
        wide_samples = samples.double().requires_grad_() if weighted else None
        y = F.embedding_bag(index.long(), wide_table, None if offsets is None else offsets.long(),
                            mode=mode, per_sample_weights=wide_samples, include_last_offset=last,
                            padding_idx=None if padding < 0 else padding)
        checked = dtype == "f64" and index.numel() > 0
        case("embedding_bag", [table, index, offsets, samples], [cast(y, dtype)], attrs, 8,
             checked, floor=1)
        grad = rand(tuple(y.shape), dtype)
        y.backward(grad.double())
        samples_grad = cast(wide_samples.grad, dtype) if weighted else torch.zeros(0).to(DTYPES[dtype])
        case("embedding_bag_backward", [grad, table, index, offsets, samples],
             [cast(wide_table.grad, dtype), samples_grad], attrs, 8, floor=1)

    for mode in ["sum", "mean", "max"]:
        for dtype in FLOATS:
            one(mode, randint((2, 4), "i64", 0, 5), None, False, False, -1, dtype)
        index = torch.tensor([3, 1, 1, 4, 0, 2])
        one(mode, index, torch.tensor([0, 2, 2, 5]), False, False, -1)
        one(mode, index.int(), torch.tensor([0, 1, 4, 6]).int(), False, True, -1)
        one(mode, index, torch.tensor([0, 1, 3]), False, False, 1)
        one(mode, randint((3, 2), "i32", 0, 5), None, False, False, 2)
    for dtype in ["f64", "f16"]:
        one("sum", randint((3, 2), "i64", 0, 5), None, True, False, -1, dtype)
    one("sum", torch.tensor([3, 1, 1, 4, 0, 2]), torch.tensor([0, 2, 2]), True, False, 4)
    one("sum", torch.zeros(0).long(), torch.tensor([0, 0]), False, False, -1)
    index, table = torch.tensor([[0, 2], [1, 1]]), rand((3, 2))
    case("fn embedding_bag", [index, table], [F.embedding_bag(index, table, mode="max")], {}, 0, True)


FAMILIES = [rows, bags, few_rows]
