"""Tensors made of others, functions of layers, label sequences."""

import itertools
import math

import numpy as np
import torch
import torch.nn.functional as F

from common import *


def joined():
    blocks = [rand((2, 3)), rand((1, 2)), rand((3,)), rand(())]
    function_case("block_diag fn", blocks, [torch.block_diag(*blocks)], {}, 0, True)
    case("block_diag fn", [rand((0, 2)), torch.tensor([[1.0]])], [torch.tensor([[0.0, 0, 1]])], {}, 0)
    a, b, c = rand((2,)), rand((3,)), rand((2,))
    function_case("cartesian_prod fn", [a, b, c], [torch.cartesian_prod(a, b, c)], {}, 0, True)
    case("cartesian_prod fn", [a], [a], {}, 0)
    for n, count, repeats in [(4, 2, False), (4, 2, True), (4, 4, False), (3, 1, False), (5, 3, False), (2, 3, True)]:
        x = rand((n,))
        want = torch.combinations(x, count, repeats)
        function_case("combinations fn", [x], [want], {"count": count, "repeats": repeats}, 0, True)
    case("combinations fn", [rand((2,))], [torch.zeros(0, 3)], {"count": 3, "repeats": False}, 0)
    case("combinations fn", [rand((2,))], [torch.zeros(0, 0)], {"count": 0, "repeats": False}, 0)
    xs = [rand((3,)), rand((3, 2)), rand((3,))]
    function_case("column_stack fn", xs, [torch.column_stack(xs)], {}, 0, True)
    x = rand((2, 6, 4))
    for name, f in [("hsplit fn", torch.hsplit), ("vsplit fn", torch.vsplit), ("dsplit fn", torch.dsplit)]:
        function_case(name, [x], f(x, 2), {"count": 2}, 0, True)
    function_case("hsplit fn", [x[0, :, 0]], torch.hsplit(x[0, :, 0], 3), {"count": 3}, 0)
    for name, f in [("fliplr fn", torch.fliplr), ("flipud fn", torch.flipud)]:
        function_case(name, [x], [f(x)], {}, 0, True)
    for start, length in [(1, 3), (-2, 2), (0, 0), (6, 0)]:
        function_case("narrow fn", [x], [x.narrow(1, start, length)], {"axis": 1, "start": start, "length": length}, 0,
                      length > 0)
    for k in [0, 1, -2]:
        function_case("diagflat fn", [x[0, :2]], [torch.diagflat(x[0, :2], k)], {"k": k}, 0, True)
    x = rand((3, 4, 2))
    for offset, a, b in [(0, 0, 1), (1, 0, 1), (-1, 1, 0), (0, 1, 2)]:
        source = rand(tuple(torch.diagonal(x, offset, a, b).shape))
        want = torch.diagonal_scatter(x, source, offset, a, b)
        function_case("diagonal_scatter fn", [x, source], [want], {"offset": offset, "a": a, "b": b}, 0, True)
    x, index, source = rand((4, 3)), torch.tensor([0, 2, 0, 3]), rand((4, 3))
    for reduction in ["prod", "mean", "amax", "amin"]:
        for include in [True, False]:
            want = torch.index_reduce(x, 0, index, source, reduction, include_self=include)
            function_case("index_reduce fn", [x, index, source], [want], {"reduction": reduction, "include": include},
                          8, True)
    function_case("reshape_as fn", [x, rand((2, 6))], [x.reshape(2, 6)], {}, 0)
    function_case("expand_as fn", [x[:1], x], [x[:1].expand(4, 3)], {}, 0)


def sets():
    for dtype in ["i64", "f32", "bool"]:
        x = cast(torch.tensor([[1, 1, 0, 2], [2, 2, 1, 0], [2, 2, 1, 0]]), dtype)
        values, inverse, counts = torch.unique_consecutive(x, return_inverse=True, return_counts=True)
        case("unique_consecutive fn", [x], [values, inverse, counts], {}, 0)
        for axis in [0, 1]:
            values, inverse, counts = torch.unique_consecutive(x, return_inverse=True, return_counts=True, dim=axis)
            case("unique_consecutive fn", [x], [values, inverse, counts], {"axis": axis}, 0)
    none = torch.zeros(0, dtype=torch.int64)
    case("unique_consecutive fn", [none], [none, none, none], {}, 0)
    a, b = torch.tensor([[3, 1, 2], [3, 3, 7]]), torch.tensor([7, 3, 9, 3])
    for name, f in [("union1d fn", np.union1d), ("intersect1d fn", np.intersect1d), ("setdiff1d fn", np.setdiff1d)]:
        case(name, [a, b], [torch.tensor(f(a.numpy(), b.numpy()))], {}, 0)
        case(name, [a.double(), b.double()], [torch.tensor(f(a.double().numpy(), b.double().numpy()))], {}, 0)
    x = rand((4, 3))
    function_case("msort fn", [x], [torch.msort(x)], {}, 0, True)
    case("argwhere fn", [a - 3], [torch.argwhere(a - 3)], {}, 0)
    places = torch.tensor([[0, 5], [23, -1]])
    want = [torch.tensor(i) for i in np.unravel_index(places.numpy() % 24, (2, 3, 4))]
    case("unravel_index fn", [places], want, {"shape": [2, 3, 4]}, 0)


def layers():
    for shape, groups in [((2, 6, 3), 2), ((1, 6, 2, 2), 3), ((2, 4), 4)]:
        x = rand(shape)
        want = F.channel_shuffle(x.reshape(*shape, *[1] * (4 - len(shape))), groups).reshape(shape)
        function_case("channel_shuffle fn", [x], [want], {"groups": groups}, 0, True)
    a, b, w, bias = rand((2, 3, 2)), rand((2, 3, 4)), rand((3, 2, 4)), rand((3,))
    function_case("bilinear fn", [a, b, w, bias], [F.bilinear(a, b, w, bias)], {}, 16, True, floor=8)
    function_case("bilinear fn", [a[0, 0], b[0, 0], w, None], [F.bilinear(a[0, 0], b[0, 0], w)], {}, 16, floor=8)
    x = rand((3, 4))
    for axis in [0, -1]:
        function_case("softmin fn", [x], [F.softmin(x, axis)], {"axis": axis}, 8, True)
    function_case("threshold fn", [x], [F.threshold(x, 0.2, -3.0)], {"threshold": 0.2, "value": -3}, 0, True)
    function_case("rrelu fn", [x], [F.rrelu(x, 0.1, 0.5)], {"low": 0.1, "high": 0.5}, 4, True)
    for name in ["feature_dropout fn", "alpha_dropout fn", "feature_alpha_dropout fn"]:
        function_case(name, [x], [x], {}, 0, True)


def losses():
    x = rand((3, 5))
    target = torch.tensor([[3, 0, -1, 1, 2], [-1, 4, 4, 4, 4], [4, 3, 2, 1, 0]])
    y = rand((3, 5), low=0, high=1)
    weight, p, n = rand((5,), low=0.2, high=2), rand((3, 5)), rand((3, 5))
    for reduction in ["mean", "sum", "none"]:
        attrs = {"reduction": reduction}
        want = F.multilabel_margin_loss(x, target, reduction=reduction)
        function_case("multilabel_margin_loss fn", [x, target], [want], attrs, 16, True, floor=1)
        want = F.multilabel_margin_loss(x[0], target[0], reduction=reduction)
        function_case("multilabel_margin_loss fn", [x[0], target[0]], [want], attrs, 16, floor=1)
        for w in [None, weight]:
            want = F.multilabel_soft_margin_loss(x, y, w, reduction=reduction)
            function_case("multilabel_soft_margin_loss fn", [x, y, w], [want], attrs, 16, True, floor=1)
        for swap in [False, True]:
            far = lambda a, b: (a - b).abs().amax(-1)
            for distance, f in [("default", None), ("largest", far)]:
                want = F.triplet_margin_with_distance_loss(x, p, n, distance_function=f, margin=0.7, swap=swap,
                                                           reduction=reduction)
                function_case("triplet_margin_with_distance_loss fn", [x, p, n], [want],
                              {"reduction": reduction, "swap": swap, "distance": distance, "margin": 0.7}, 16, True,
                              floor=1)


def collapse(path, blank):
    labels = [k for k, _ in itertools.groupby(path)]
    return tuple(c for c in labels if c != blank)


def sequences():
    """Every alignment, added up for each label sequence: what a beam wide enough must find."""
    steps, classes = 4, 3
    for lengths in [None, [4, 2, 0]]:
        for blank in [0, 2]:
            x = torch.log_softmax(rand((steps, 3, classes)), 2)
            counts = lengths or [steps] * 3
            all_labels, all_lengths, all_totals, best_labels, best_lengths, best_totals = [], [], [], [], [], []
            for n, count in enumerate(counts):
                sums, best = {}, (-math.inf, ())
                for path in itertools.product(range(classes), repeat=count):
                    p = sum(x[t, n, c].item() for t, c in enumerate(path))
                    key = collapse(path, blank)
                    sums[key] = np.logaddexp(sums.get(key, -math.inf), p)
                    best = max(best, (p, key))
                order = sorted(sums.items(), key=lambda kv: -kv[1])[:3]
                order += [((), -math.inf)] * (3 - len(order))
                row = lambda key: list(key) + [-1] * (steps - len(key))
                all_labels.append([row(k) for k, _ in order])
                all_lengths.append([len(k) for k, _ in order])
                all_totals.append([v for _, v in order])
                best_labels.append(row(best[1]))
                best_lengths.append(len(best[1]))
                best_totals.append(best[0])
            given = torch.tensor(counts)
            attrs = {"blank": blank, "width": 100, "paths": 3}
            want = [torch.tensor(all_labels), torch.tensor(all_lengths), torch.tensor(all_totals)]
            case("ctc_beam_search", [x, given], want, attrs, 32)
            case("ctc_beam_search", [x.float(), given.int()], want[:2] + [want[2].float()], attrs, 32)
            want = [torch.tensor(best_labels), torch.tensor(best_lengths), torch.tensor(best_totals)]
            if lengths is None:
                case("ctc_greedy_decode fn", [x, None], want, {"blank": blank}, 16)
            else:
                case("ctc_greedy_decode fn", [x, given], want, {"blank": blank}, 16)
                case("ctc_greedy_decode fn", [x.float(), given.int()], want[:2] + [want[2].float()], {"blank": blank}, 16)
    x = torch.zeros(0, 2, 3)
    case("ctc_beam_search", [x, torch.tensor([0, 0])],
         [torch.zeros(2, 1, 0, dtype=torch.int64), torch.tensor([[0], [0]]), torch.zeros(2, 1)],
         {"blank": 0, "width": 2, "paths": 1}, 0)
    case("ctc_greedy_decode fn", [x, None], [torch.zeros(2, 0, dtype=torch.int64), torch.tensor([0, 0]), torch.zeros(2)],
         {"blank": 0}, 0)


FAMILIES = [joined, sets, layers, losses, sequences]
