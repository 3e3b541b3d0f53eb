"""Writes data/detection: what surrounds the networks of detectors (proposals, boxes by level, suppression, padding, images of any
size), as both exporters of PyTorch write it, with the results of ONNX Runtime. Sizes are open, and data decide on many of them.
`python tests/onnx/make_detection_models.py` from the root of the repository; needs torch, onnxscript, onnx and onnxruntime."""

import pathlib
import shutil
import warnings

import numpy as np
import onnx
import onnxruntime as ort
import torch
from onnx import numpy_helper
from onnxscript import opset18 as op
from torch import nn
from torch.nn import functional as F
from torch.onnx import symbolic_helper

FOLDER = pathlib.Path("tests/onnx/data/detection")
RNG = np.random.default_rng(11)
IOU = 0.5
MOST = 2**31  # boxes of a class


@torch.library.custom_op("detection::nms", mutates_args=())
def nms(boxes: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
    """What exporting runs: the order, nothing suppressed. The files have NonMaxSuppression in its place."""
    return torch.argsort(scores, descending=True)


@nms.register_fake
def _(boxes, scores):
    return boxes.new_empty([torch.library.get_ctx().new_dynamic_size()], dtype=torch.int64)


def nms_of_script(g, boxes, scores):
    boxes = symbolic_helper._unsqueeze_helper(g, boxes, [0])
    scores = symbolic_helper._unsqueeze_helper(g, symbolic_helper._unsqueeze_helper(g, scores, [0]), [0])
    most = g.op("Constant", value_t=torch.tensor([MOST], dtype=torch.long))
    kept = g.op("NonMaxSuppression", boxes, scores, most, g.op("Constant", value_t=torch.tensor([IOU])))
    return symbolic_helper._squeeze_helper(g, symbolic_helper._slice_helper(g, kept, axes=[1], starts=[2], ends=[3]), [1])


def nms_of_dynamo(boxes, scores):
    kept = op.NonMaxSuppression(op.Unsqueeze(boxes, [0]), op.Unsqueeze(scores, [0, 1]), op.Constant(value_ints=[MOST]), op.Constant(value_floats=[IOU]))
    return op.Squeeze(op.Slice(kept, [2], [3], [1]), [1])


def f32(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def boxes(n, size=100.0):
    low, extent = RNG.uniform(0, size * 0.7, (n, 2)), RNG.uniform(2, size * 0.3, (n, 2))
    return np.concatenate([low, low + extent], 1).astype(np.float32)


def scores(n, most=1.0):
    return RNG.uniform(0, most, n).astype(np.float32)


def export(name, model, open_axes, *input_sets, exporters=("script", "dynamo")):
    """`open_axes`: of each input, axis -> name."""
    args = tuple(torch.from_numpy(x) for x in input_sets[0])
    names = [f"x{i}" for i in range(len(args))]
    for exporter in exporters:
        folder = FOLDER / f"{name}_{exporter}"
        folder.mkdir(parents=True)
        path = folder / "model.onnx"
        if exporter == "script":
            torch.onnx.export(model.eval(), args, path, dynamo=False, opset_version=17, input_names=names, dynamic_axes=dict(zip(names, open_axes)))
        else:
            shapes = tuple(dict.fromkeys(axes, torch.export.Dim.DYNAMIC) for axes in open_axes)
            torch.onnx.export(model.eval(), args, path, dynamo=True, opset_version=18, input_names=names, dynamic_shapes=shapes, external_data=False,
                              verbose=False, custom_translation_table={torch.ops.detection.nms.default: nms_of_dynamo})
            small = onnx.load(path)  # without the stacks of the exporter
            for node in small.graph.node:
                node.ClearField("metadata_props")
                node.ClearField("doc_string")
            onnx.save(small, path)
        (folder / "tolerance.txt").write_text("1e-3 1e-5\n")
        session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
        for k, inputs in enumerate(input_sets):
            data = folder / f"test_data_set_{k}"
            data.mkdir()
            feeds = dict(zip([i.name for i in session.get_inputs()], inputs))
            results = dict(zip([o.name for o in session.get_outputs()], session.run(None, feeds)))
            for kind, values in (("input", feeds), ("output", results)):
                for i, (value_name, value) in enumerate(values.items()):
                    (data / f"{kind}_{i}.pb").write_bytes(numpy_helper.from_array(value, value_name).SerializeToString())


class Masks(nn.Module):
    """One mask, taken of several tensors, and again."""

    def forward(self, box, score):
        keep = score > 0.2
        return box[keep] * score[keep][:, None], torch.where(keep)[0], box[score > 0.2] + 1


class MasksWritten(nn.Module):
    def forward(self, x, score):
        written = x.clone()
        mask = score > 0
        written[mask] = x[mask] * 2
        return written, x.masked_scatter(x > 0.5, (x * 3).flip(0))


class Proposals(nn.Module):
    """The best anchors decoded, clipped, without small and unlikely ones, suppressed."""

    def forward(self, deltas, anchors, objectness):
        best, at = objectness.topk(min(50, objectness.shape[0]))
        d, a = deltas[at], anchors[at]
        extent = a[:, 2:] - a[:, :2]
        centre = d[:, :2] * extent + a[:, :2] + 0.5 * extent
        extent = d[:, 2:].clamp(max=4.135).exp() * extent
        box = torch.cat([centre - extent / 2, centre + extent / 2], 1)
        box = torch.stack((box[..., 0::2].clamp(0, 100), box[..., 1::2].clamp(0, 90)), dim=box.dim()).reshape(box.shape)
        keep = torch.where((box[:, 2] - box[:, 0] >= 1) & (box[:, 3] - box[:, 1] >= 1))[0]
        box, best = box[keep], best.sigmoid()[keep]
        keep = torch.where(best >= 0.3)[0]
        box, best = box[keep], best[keep]
        keep = torch.ops.detection.nms(box, best)[:10]
        return box[keep], best[keep]


class Levels(nn.Module):
    """Boxes by their size to the level that suits, and together again."""

    def __init__(self):
        super().__init__()
        self.heads = nn.ModuleList([nn.Linear(8, 6), nn.Linear(8, 6)])

    def forward(self, x, roi):
        area = (roi[:, 2] - roi[:, 0]) * (roi[:, 3] - roi[:, 1])
        level = torch.floor(4 + torch.log2(torch.sqrt(area) / 224 + 1e-6)).clamp(2, 3).to(torch.int64) - 2
        parts = [head(x[torch.where(level == k)[0]]) for k, head in enumerate(self.heads)]
        merged = torch.zeros((level.size(0), 6), dtype=x.dtype)
        for k, part in enumerate(parts):
            index = torch.where(level == k)[0].view(-1, 1)
            merged = merged.scatter(0, index.expand(index.size(0), part.size(1)), part)
        return merged


class Detections(nn.Module):
    """Scores of classes to boxes, each class suppressed by itself."""

    def forward(self, logits, deltas):
        score = logits.softmax(-1)
        count, classes = score.shape
        label = torch.arange(classes).view(1, -1).expand_as(score)
        box = deltas.reshape(-1, classes, 4)[:, 1:].reshape(-1, 4)
        score, label = score[:, 1:].reshape(-1), label[:, 1:].reshape(-1)
        found = torch.where(score > 0.2)[0]
        box, score, label = box[found], score[found], label[found]
        apart = label.to(box) * (box.max() + 1)
        keep = torch.ops.detection.nms(box + apart[:, None], score)[:10]
        return box[keep], score[keep], label[keep]


@torch.jit.script
def suppressed(box, score, label):
    if box.numel() == 0:
        return torch.empty((0,), dtype=torch.int64)
    return torch.ops.detection.nms(box + (label.to(box) * (box.max() + 1))[:, None], score)


class Suppressed(nn.Module):
    """The same with a branch for none at all."""

    def forward(self, box, score, label):
        found = torch.where(score > 0.5)[0]
        box, score, label = box[found], score[found], label[found]
        keep = suppressed(box, score, label)[:10]
        return box[keep], score[keep] * 2, label[keep]


class Lengths(nn.Module):
    """A mask as wide as the longest."""

    def forward(self, x, length):
        return x * 2, torch.arange(length.max())[None] < length[:, None]


class Padded(nn.Module):
    """As YOLO exports it: a mask, suppression, and always as many rows."""

    def forward(self, prediction):
        rows = prediction.transpose(1, 2)[0]
        box, score_of = rows[:, :4], rows[:, 4:]
        score, label = score_of.max(1)
        mask = score > 0.3
        box, score, label = box[mask], score[mask], label[mask]
        box = torch.cat([box[:, :2] - box[:, 2:] / 2, box[:, :2] + box[:, 2:] / 2], 1)
        keep = torch.ops.detection.nms(box + label[:, None].to(box.dtype) * 4096, score)[:20]
        found = torch.cat([box[keep], score[keep].view(-1, 1), label[keep].view(-1, 1).to(box.dtype)], 1)
        return F.pad(found, (0, 0, 0, 20 - found.shape[0]))


class Yolo(nn.Module):
    """A backbone, a neck that joins two resolutions, and boxes on a grid, for images of any size."""

    def __init__(self):
        super().__init__()

        def conv(i, o, stride=1):
            return nn.Sequential(nn.Conv2d(i, o, 3, stride, 1), nn.SiLU())

        self.down = nn.ModuleList([conv(3, 4, 2), conv(4, 8, 2), conv(8, 8, 2)])
        self.join = conv(16, 8)
        self.heads = nn.ModuleList([nn.Conv2d(8, 7, 1), nn.Conv2d(8, 7, 1)])

    def forward(self, x):
        b = self.down[1](self.down[0](x))
        c = self.down[2](b)
        joined = self.join(torch.cat([F.interpolate(c, scale_factor=2, mode="nearest"), b], 1))
        rows, centres, strides = [], [], []
        for feature, head, stride in zip((joined, c), self.heads, (4, 8)):
            y = head(feature)
            n, _, height, width = y.shape
            row, column = torch.meshgrid(torch.arange(height, dtype=torch.float32) + 0.5, torch.arange(width, dtype=torch.float32) + 0.5, indexing="ij")
            centres.append(torch.stack((column, row), -1).view(-1, 2))
            strides.append(torch.full((height * width, 1), float(stride)))
            rows.append(y.view(n, 7, -1))
        y, centre, stride = torch.cat(rows, 2), torch.cat(centres).t()[None], torch.cat(strides).t()
        return torch.cat([(y[:, :2].sigmoid() * 2 - 0.5 + centre) * stride, y[:, 2:4].exp() * stride, y[:, 4:].sigmoid()], 1)


class Pyramid(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.across = nn.Conv2d(3, 4, 3, 2, 1), nn.Conv2d(4, 4, 3, 2, 1), nn.Conv2d(4, 4, 1)

    def forward(self, x):
        a = self.a(x)
        b = self.b(a)
        return self.across(a) + F.interpolate(b, size=a.shape[-2:]), self.across(a) + F.interpolate(b, scale_factor=2.0)


class Scaled(nn.Module):
    """Sizes that go through floats, and padding to a multiple."""

    def forward(self, x):
        return F.interpolate(x, scale_factor=2.0, mode="bilinear", recompute_scale_factor=True), F.pad(x, (0, (8 - x.shape[3] % 8) % 8))


def prediction(n):
    return np.concatenate([RNG.uniform(10, 90, (2, n)), RNG.uniform(5, 30, (2, n)), RNG.uniform(0, 1, (3, n)) ** 2])[None].astype(np.float32)


def main():
    warnings.filterwarnings("ignore")
    torch.manual_seed(0)
    torch.onnx.register_custom_op_symbolic("detection::nms", nms_of_script, 11)
    shutil.rmtree(FOLDER, ignore_errors=True)
    n, image = {0: "n"}, {0: "batch", 2: "height", 3: "width"}
    export("masks", Masks(), [n, n], *[(boxes(k), scores(k, most)) for k, most in ((9, 1), (30, 1), (4, 0.1), (2, 1))])
    export("masks_written", MasksWritten(), [n, n], *[(f32(k, 5), f32(k)) for k in (6, 9)])
    export("proposals", Proposals(), [n, n, n], *[(f32(k, 4) * np.float32(0.2), boxes(k), f32(k)) for k in (80, 120, 55)])
    export("levels", Levels(), [n, n], *[(f32(k, 8), boxes(k, 600)) for k in (20, 7, 50)])
    export("detections", Detections(), [n, n], *[(f32(k, 4) * 2, np.concatenate([boxes(k) for _ in range(4)], 1)) for k in (20, 7, 50)])
    export("padded", Padded(), [{2: "n"}], *[(prediction(k),) for k in (40, 100, 3)], (prediction(5) * 0,))
    export("suppressed", Suppressed(), [n, n, n], *[(boxes(k), scores(k, most), RNG.integers(0, 3, k)) for k, most in ((9, 1), (30, 1), (4, 0.1))],
           exporters=["script"])
    export("lengths", Lengths(), [n, n], *[(f32(len(v)), np.array(v)) for v in ([1, 3, 2, 2], [5, 1, 0])], exporters=["script"])
    for name, model, sizes in (("yolo", Yolo(), ((1, 32, 32), (2, 16, 24), (1, 8, 40))),
                               ("pyramid", Pyramid(), ((1, 16, 16), (2, 8, 12), (1, 4, 20))),
                               ("scaled", Scaled(), ((1, 8, 10), (2, 9, 13), (1, 4, 16)))):
        export(name, model, [image], *[(f32(b, 3, h, w),) for b, h, w in sizes])


if __name__ == "__main__":
    main()
