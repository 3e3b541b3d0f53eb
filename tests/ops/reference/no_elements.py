"""Inputs without elements, where they take some care to make."""

import torch
import torch.nn.functional as F

from common import *


def batches_of_none():
    logits, target = torch.zeros(0, 3), torch.zeros(0, dtype=torch.int64)
    for op, attrs in [("cross_entropy", {"ignore_index": -100}), ("nll_loss", {"ignore_index": -100})]:
        case(op, [logits, target, None], [torch.tensor(0.0)], {**attrs, "reduction": "sum"}, 0)
        case(op, [logits, target, None], [torch.zeros(0)], {**attrs, "reduction": "none"}, 0)
        case(op, [logits, target, None], [torch.tensor(torch.nan)], {**attrs, "reduction": "mean"}, 0)
    case("topk", [logits], list(torch.topk(logits, 2)), {"k": 2, "axis": 1, "largest": True, "sorted": True}, 0)
    case("topk", [logits.T], list(torch.topk(logits.T, 0)), {"k": 0, "axis": 1, "largest": True, "sorted": True}, 0)
    case("affine_grid", [torch.zeros(0, 2, 3)], [torch.zeros(0, 4, 5, 2)], {"size": [0, 1, 4, 5], "align_corners": False}, 0)
    grad, grid = torch.zeros(0, 2, 4, 5), torch.zeros(0, 4, 5, 2)
    case("grid_sample_transpose", [grad, grid], [torch.zeros(0, 2, 3, 3)], 
         {"mode": "bilinear", "padding": "zeros", "align_corners": False, "derivative": [], "shape": [0, 2, 3, 3]}, 0)
    x, weight = torch.zeros(0, 2, 3, 4), rand((2, 3, 2, 2))
    case("conv_transpose", [x, weight], [F.conv_transpose2d(x, weight)],
         {"stride": [1, 1], "low": [0, 0], "high": [0, 0], "dilation": [1, 1], "groups": 1, "shape": [0, 3, 4, 5]}, 0)
    case("avg_pool_backward", [torch.zeros(0, 2, 2, 3)], [torch.zeros(0, 2, 4, 6)],
         {"kernel": [2, 2], "stride": [2, 2], "low": [0, 0], "high": [0, 0], "dilation": [1, 1], "ceil_mode": False,
          "count_include_pad": True, "divisor": 0, "adaptive": [], "shape": [0, 2, 4, 6]}, 0)


FAMILIES = [batches_of_none]
