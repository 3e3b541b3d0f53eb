"""Sampling, windows as columns, regions, deformable convolution."""

import torch.nn.functional as F

from common import *


def sampling():
    set_floor(1)
    zeros = {"mode": "bilinear", "padding": "zeros", "align_corners": False, "derivative": []}
    # Channels in more lanes than one vector has, points in more than one block.
    for shape, grid_shape in [((2, 3, 3, 4), (2, 3, 3, 2)), ((1, 7, 3, 4), (1, 2, 3, 2)), ((1, 18, 2, 3), (1, 1, 5, 2)),
                              ((1, 1, 3, 3), (1, 13, 21, 2))]:
        x, grid = rand(shape).requires_grad_(), rand(grid_shape, low=-1.3, high=1.3).requires_grad_()
        y = F.grid_sample(x, grid, align_corners=False)
        grad = rand(y.shape)
        gx, gg = torch.autograd.grad(y, [x, grid], grad)
        smooth = y.numel() < 100
        case("grid_sample", [x, grid], [y], zeros, 512, smooth)
        case("grid_sample_transpose", [grad, grid], [gx], {**zeros, "shape": shape}, 512, smooth)
        case("grid_sample_grid_backward", [grad, x, grid], [gg], zeros, 512, smooth)
        case("grid_sample_grid_backward", [v.float() for v in (grad, x, grid)], [gg.float()], zeros, 512)
    for shape, grid_shape in [((1, 2, 3, 4), (1, 2, 3, 2)), ((1, 1, 2, 3, 2), (1, 1, 2, 2, 3)), ((1, 1, 1, 1), (1, 1, 2, 2))]:
        for mode in ["bilinear", "nearest", "bicubic"]:
            if mode == "bicubic" and len(shape) == 5:
                continue
            for padding in ["zeros", "border", "reflection"]:
                for align in [False, True]:
                    x, grid = rand(shape), rand(grid_shape, low=-1.45, high=1.45)
                    attrs = {"mode": mode, "padding": padding, "align_corners": align, "derivative": []}
                    f = lambda x, g: F.grid_sample(x, g, mode, padding, align)
                    onnx = 20 if len(shape) == 5 else None
                    smooth = max(shape[2:]) > 1
                    case("grid_sample", [x, grid], [f(x, grid)], attrs, 512, smooth, onnx=onnx)
                    case("grid_sample", [x.float(), grid.float()], [f(x, grid).float()], attrs, 512, onnx=onnx)
                    x.requires_grad_()
                    grid.requires_grad_()
                    y = f(x, grid)
                    grad = rand(y.shape)
                    gx, gg = torch.autograd.grad(y, [x, grid], grad)
                    case("grid_sample_transpose", [grad, grid], [gx], {**attrs, "shape": shape}, 512, smooth)
                    if mode != "nearest":
                        case("grid_sample_grid_backward", [grad, x, grid], [gg], attrs, 512, smooth)
    x, grid = rand((1, 1, 3, 3), "f16"), rand((1, 2, 2, 2), "f16", -1, 1)
    case("grid_sample", [x, grid], [F.grid_sample(wide(x), wide(grid), align_corners=False).half()],
         {"mode": "bilinear", "padding": "zeros", "align_corners": False, "derivative": []}, 16)
    for size, align in [((2, 3, 3, 4), False), ((1, 1, 2, 3), True), ((1, 2, 2, 3, 2), False), ((1, 1, 1, 3), True)]:
        axes = len(size) - 2
        theta = rand((size[0], axes, axes + 1))
        y = F.affine_grid(theta, size, align)
        case("affine_grid", [theta], [y], {"size": size, "align_corners": align}, 64, True)
        case("affine_grid", [theta.float()], [y.float()], {"size": size, "align_corners": align}, 64)


def columns():
    set_floor(1)
    for shape, kernel, stride, padding, dilation in [
            ((2, 2, 4, 5), (2, 3), (1, 2), (0, 1), (1, 1)), ((1, 1, 5, 4), (2, 2), (2, 1), (1, 1), (2, 1)),
            ((1, 3, 3, 3), (3, 3), (1, 1), (1, 1), (1, 1))]:
        x = rand(shape)
        y = F.unfold(x, kernel, dilation, padding, stride)
        attrs = {"kernel": kernel, "stride": stride, "low": padding, "high": padding, "dilation": dilation}
        case("im2col", [x], [y], attrs, 1, True)
        case("im2col", [x.float()], [y.float()], attrs)
        c = rand(y.shape)
        back = F.fold(c, shape[2:], kernel, dilation, padding, stride)
        for t in [c, c.float()]:
            case("col2im", [t], [back.to(t.dtype)], {**attrs, "size": shape[2:]}, 16, t.dtype == torch.float64, onnx=18)
    x = rand((1, 2, 5))
    y = F.unfold(x[:, :, None], (1, 2), 1, 0, (1, 2))
    function_case("im2col_by_two", [x], [y], {}, 1, True)


def large_regions():
    """Far larger than the image: most samples lie outside."""
    set_floor(1)
    x, index = rand((1, 2, 4, 5)), torch.tensor([0, 0])
    rois = torch.tensor([[-40.0, -30.0, 60.0, 50.0], [1.0, 1.0, 33.0, 2.0]])
    for mode in ["avg", "max"]:
        attrs = {"mode": mode, "height": 2, "width": 2, "sampling_ratio": 0, "spatial_scale": 1.0, "half_pixel": True}
        y = evaluate("RoiAlign", [x.numpy(), rois.double().numpy(), index.numpy()], output_height=2, output_width=2, sampling_ratio=0,
                     spatial_scale=1.0, mode=mode, coordinate_transformation_mode="half_pixel")[0]
        case("roi_align", [x, rois, index], [y], attrs, 64)


def regions():
    set_floor(1)
    x = rand((2, 2, 5, 6))
    rois = torch.tensor([[0.3, 0.8, 4.6, 5.1], [-1.0, 2.0, 8.0, 3.0], [2.2, 1.1, 2.6, 1.4]]).float()
    index = torch.tensor([1, 0, 1])
    for mode in ["avg", "max"]:
        for half_pixel in [True, False]:
            for ratio, scale in [(2, 1.0), (0, 0.75), (1, 1.25)]:
                attrs = {"mode": mode, "height": 2, "width": 3, "sampling_ratio": ratio, "spatial_scale": scale,
                         "half_pixel": half_pixel}
                mode_name = "half_pixel" if half_pixel else "output_half_pixel"
                f = lambda x: evaluate("RoiAlign", [x.numpy(), rois.double().numpy(), index.numpy()], output_height=2, output_width=3,
                                       sampling_ratio=ratio, spatial_scale=scale, mode=mode, coordinate_transformation_mode=mode_name)[0]
                y = f(x)
                # ONNX Runtime differs from the definition where a region has no samples.
                case("roi_align", [x, rois, index], [y], attrs, 64, True)
                case("roi_align", [x.float(), rois, index], [y.float()], attrs, 64)
                if ratio == 2:
                    case("roi_take", [x, x, rois, index], [y], attrs, 64, mode == "avg")
                    if mode == "avg":
                        grad = rand(y.shape)
                        # The mean is linear: one element at a time shows where each goes.
                        gx = torch.zeros(x.shape)
                        for i in range(x.numel()):
                            e = torch.zeros(x.numel())
                            e[i] = 1
                            gx.view(-1)[i] = (f(e.reshape(x.shape)) * grad).sum()
                        case("roi_take_backward", [grad, x, rois, index], [gx], attrs, 64, True)
    boxes = torch.tensor([[1.0, 0, 0, 5, 4], [0, 1, 2, 3, 3], [1, 4, 4, 9, 9]]).float()
    for scale in [1.0, 0.5]:
        y = torch.zeros((3, 2, 2, 3))
        for k, (n, x1, y1, x2, y2) in enumerate(boxes.tolist()):
            at = lambda v: math.floor(v * scale + 0.5)
            w, h = max(at(x2) - at(x1) + 1, 1) / 3, max(at(y2) - at(y1) + 1, 1) / 2
            for i in range(2):
                for j in range(3):
                    rows = [min(max(v + at(y1), 0), 5) for v in (math.floor(i * h), math.ceil((i + 1) * h))]
                    cols = [min(max(v + at(x1), 0), 6) for v in (math.floor(j * w), math.ceil((j + 1) * w))]
                    part = x[int(n), :, rows[0]:rows[1], cols[0]:cols[1]]
                    y[k, :, i, j] = part.amax((1, 2)) if part.numel() else 0
        attrs = {"height": 2, "width": 3, "spatial_scale": scale}
        case("max_roi_pool", [x, boxes], [y], attrs, 0, True)
        case("max_roi_pool", [x.float(), boxes], [y.float()], attrs, 0)
    corners = torch.tensor([[[0.0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, -0.1, 1, 0.9], [0, 10, 1, 11], [0, 10.1, 1, 11.1], [1, 101, 0, 100]]])
    scores = torch.tensor([[[0.9, 0.75, 0.6, 0.95, 0.5, 0.3], [0.1, 0.2, 0.2, 0.05, 0.7, 0.7]]])
    for most, iou, threshold, center in [(3, 0.5, 0.0, False), (2, 0.5, 0.4, False), (6, 0.0, 0.0, False), (6, 0.9, 0.0, True), (0, 0.5, 0.0, False)]:
        found = evaluate("NonMaxSuppression", [corners.float().numpy(), scores.float().numpy(), np.array([most]),
                                               np.array([iou], np.float32), np.array([threshold], np.float32)],
                         center_point_box=int(center))[0].reshape(-1, 3)
        case("non_max_suppression", [corners.float(), scores.float()], [found],
             {"max_per_class": most, "iou_threshold": iou, "score_threshold": threshold, "center_point": center})
    for shape, sizes in [((4, 5), (3, 8)), ((2, 3), (2, 6)), ((5, 4), (2, 1)), ((3,), (3,))]:
        x = rand(shape)
        y = evaluate("CenterCropPad", [x.numpy(), np.array(sizes)])[0]
        function_case("center_crop_pad", [x], [y], {"sizes": sizes}, 0, True)


def deformed_convolution(x, offset, w, b, m, stride, padding, dilation, groups):
    """By its definition, one product at a time."""
    (n, c, h, width), (o, per_group, kh, kw), (_, moves, oh, ow) = x.shape, w.shape, offset.shape
    per_set = c // (moves // (2 * kh * kw))
    at = lambda s, channel, i, j: x[s, channel, i, j].item() if 0 <= i < h and 0 <= j < width else 0.0
    y = torch.zeros((n, o, oh, ow))
    for s, k, i, j, q, a, e in np.ndindex(n, o, oh, ow, per_group, kh, kw):
        channel = k // (o // groups) * per_group + q
        tap = channel // per_set * kh * kw + a * kw + e
        row = i * stride[0] - padding[0] + a * dilation[0] + offset[s, 2 * tap, i, j].item()
        column = j * stride[1] - padding[1] + e * dilation[1] + offset[s, 2 * tap + 1, i, j].item()
        top, left = math.floor(row), math.floor(column)
        value = sum(at(s, channel, top + r, left + t) * (1 - abs(row - top - r)) * (1 - abs(column - left - t))
                    for r in (0, 1) for t in (0, 1))
        y[s, k, i, j] += value * w[k, q, a, e] * (1 if m is None else m[s, tap, i, j])
    return y if b is None else y + b.reshape(-1, 1, 1)


def deformed():
    set_floor(1)
    for xs, ws, stride, padding, dilation, groups, sets, masked, biased in [
            ((1, 1, 3, 3), (1, 1, 2, 2), (1, 1), (0, 0), (1, 1), 1, 1, False, False),
            ((2, 2, 4, 3), (2, 2, 2, 2), (1, 1), (1, 0), (1, 1), 1, 2, True, True),
            ((1, 4, 4, 4), (2, 2, 2, 1), (2, 1), (0, 1), (1, 2), 2, 2, True, False)]:
        oh_ = (xs[2] + 2 * padding[0] - dilation[0] * (ws[2] - 1) - 1) // stride[0] + 1
        ow = (xs[3] + 2 * padding[1] - dilation[1] * (ws[3] - 1) - 1) // stride[1] + 1
        count = ws[2] * ws[3]
        x, w = rand(xs), rand(ws)
        offset = rand((xs[0], sets * count * 2, oh_, ow), low=-1.3, high=1.3)
        b = rand((ws[0],)) if biased else None
        m = rand((xs[0], sets * count, oh_, ow), low=0.2) if masked else None
        y = deformed_convolution(x, offset, w, b, m, stride, padding, dilation, groups)
        attrs = {"stride": stride, "low": padding, "high": padding, "dilation": dilation, "groups": groups}
        case("deform_conv2d", [x, offset, w, b, m], [y], attrs, 2048, True)
        narrow = [None if t is None else t.float() for t in [x, offset, w, b, m]]
        case("deform_conv2d", narrow, [y.float()], attrs, 512)


FAMILIES = [sampling, columns, regions, deformed, large_regions]
