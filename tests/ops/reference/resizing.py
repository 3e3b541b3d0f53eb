"""resize and interpolate."""

import torch.nn.functional as F

from common import *


def exact_cubic():
    """The evaluator's weights in f64: it has the coefficient in f32."""
    from onnx.reference.ops import op_resize
    for name in ["_cubic_coeffs", "_cubic_coeffs_antialias"]:
        inner = getattr(op_resize, name)
        setattr(op_resize, name, lambda ratio, scale=None, A=-0.75, inner=inner: inner(ratio, scale, float(A)))


def resized(x, sizes=None, scales=None, roi=None, **attrs):
    return evaluate("Resize", [x.numpy(), None if roi is None else np.array(roi, np.float64),
                               None if scales is None else np.array(scales, np.float64),
                               None if sizes is None else np.array(sizes, np.int64)], opset=19, **attrs)[0]


def resize_case(x, sizes=None, scales=None, roi=None, grad=True, onnx=None, tol=64, **options):
    """`options` by Dyad's names."""
    names = {"coordinates": "coordinate_transformation_mode", "rounding": "nearest_mode", "cubic_coeff": "cubic_coeff_a",
             "keep_aspect_ratio": "keep_aspect_ratio_policy", "extrapolation": "extrapolation_value"}
    attrs = {names.get(k, k): int(v) if isinstance(v, bool) else v for k, v in options.items()}
    y = resized(x, sizes, scales, roi, **attrs)
    given = dict(options)
    for name, value in [("sizes", sizes), ("scales", scales), ("roi", roi)]:
        if value is not None:
            given[name] = list(value)
    if grad:
        case("resize_by_options", [x], [y], given, tol, True, floor=1, onnx=onnx)
    case("resize_by_options", [x.float()], [y.float()], given, tol, floor=1, onnx=onnx)


def resizing():
    exact_cubic()
    x = rand((1, 1, 4, 5))
    for coordinates in ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"]:
        for mode in ["nearest", "linear", "cubic"]:
            for sizes in [(1, 1, 7, 3), (1, 1, 2 if mode == "cubic" else 1, 6)]:
                options = {"mode": mode, "coordinates": coordinates}
                if mode == "nearest":
                    for rounding in ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]:
                        resize_case(x, sizes, **options, rounding=rounding, grad=rounding == "ceil")
                else:
                    resize_case(x, sizes, **options)
    for mode in ["nearest", "linear", "cubic"]:
        resize_case(x, scales=(1, 1, 1.3, 0.6), mode=mode, coordinates="half_pixel_symmetric", onnx=19)
        resize_case(x, scales=(1, 1, 2, 2.5), mode=mode)
        resize_case(x, (1, 1, 6, 3), roi=(0, 0, 0.2, 0.1, 1, 1, 0.9, 0.7), mode=mode, coordinates="tf_crop_and_resize")
        resize_case(x, (1, 1, 5, 6), roi=(0, 0, -0.4, 0.1, 1, 1, 1.3, 0.7), mode=mode, coordinates="tf_crop_and_resize",
                    extrapolation=3.5)
    for exclude in [False, True]:
        for coefficient in [-0.75, -0.5]:
            resize_case(x, (1, 1, 9, 3), mode="cubic", exclude_outside=exclude, cubic_coeff=coefficient)
    for mode in ["linear", "cubic"]:
        # What lies outside does not count in ONNX Runtime's filters.
        resize_case(x, (1, 1, 2, 3), mode=mode, antialias=True, exclude_outside=True, onnx=18)
        resize_case(x, (1, 1, 7, 2), mode=mode, antialias=True, exclude_outside=True, onnx=18)
    for policy in ["not_larger", "not_smaller"]:
        resize_case(x, (7, 8), mode="linear", keep_aspect_ratio=policy, axes=[2, 3], onnx=18)
    resize_case(x, (8,), mode="linear", axes=[2])
    resize_case(rand((2, 3)), (4, 5), mode="linear")
    resize_case(rand((1, 2, 3)), (1, 2, 5), mode="linear", coordinates="asymmetric")
    volume = rand((1, 1, 2, 3, 2))
    resize_case(volume, (1, 1, 3, 2, 4), mode="linear")
    resize_case(volume, (1, 1, 3, 2, 4), mode="nearest")
    # The rows themselves.
    x = rand((2, 3, 2))
    for mode in ["nearest", "linear", "cubic"]:
        f = lambda x: torch.tensor(resized(x, (2, 5, 2), mode=mode).numpy())
        if mode != "cubic":  # ONNX Runtime has it for images only
            case("resize", [x], [f(x)], {"axes": [1], "sizes": [5], "mode": mode}, 64, True, floor=1)
            case("resize", [x.float()], [f(x).float()], {"axes": [1], "sizes": [5], "mode": mode}, 64, floor=1)
        attrs = {"axis": 1, "size": 5, "mode": mode}
        case("resample", [x], [f(x)], attrs, 64, True, floor=1)
        for dtype in ["f32", "f16", "bf16"]:
            small = cast(x, dtype)
            case("resample", [small], [cast(f(small.double()), dtype)], attrs, 8, floor=1)
        basis = torch.stack([f(torch.eye(3)[i].reshape(1, 3, 1).expand(2, 3, 2))[0, :, 0] for i in range(3)])
        grad = rand((2, 5, 2))
        case("resample_transpose", [grad], [torch.einsum("io,noc->nic", basis, grad)], {**attrs, "size": 3}, 64, True, floor=1)
        case("resample_transpose", [grad.float()], [torch.einsum("io,noc->nic", basis, grad).float()], {**attrs, "size": 3}, 64, floor=1)
    for dtype in ["i64", "u8"]:
        x = randint((1, 1, 2, 3), dtype, 0, 50)
        case("resample", [x], [F.interpolate(x.double(), size=(2, 6), mode="nearest").to(x.dtype)],
             {"axis": 3, "size": 6, "mode": "nearest", "coordinates": "asymmetric", "rounding": "floor"}, 0)
    for mode, shape in [("nearest", (1, 2, 4)), ("nearest", (1, 1, 4, 5)), ("nearest-exact", (1, 1, 4, 5)), ("linear", (1, 2, 4)),
                        ("bilinear", (1, 1, 4, 5)), ("bicubic", (1, 1, 4, 5)), ("trilinear", (1, 1, 2, 3, 2)), ("area", (1, 1, 4, 5))]:
        x = rand(shape)
        axes = len(shape) - 2
        for size, scale in [([3, 7, 2][:axes], None), (None, [1.7, 0.6, 2.0][:axes])]:
            for align in [False, True] if "linear" in mode or mode == "bicubic" else [None]:
                if mode == "area" and scale:
                    continue
                y = F.interpolate(x, size, scale, mode, align)
                attrs = {"mode": mode, "align_corners": bool(align)}
                attrs.update({"size": size} if size else {"scale_factor": scale})
                function_case("interpolate", [x], [y], attrs, 64, True, floor=1)
        if mode in ["bilinear", "bicubic"]:
            y = F.interpolate(x, (2, 3), mode=mode, antialias=True)
            function_case("interpolate", [x], [y], {"mode": mode, "size": [2, 3], "align_corners": False, "antialias": True},
                          64, True, floor=1, onnx=18)


FAMILIES = [resizing]
