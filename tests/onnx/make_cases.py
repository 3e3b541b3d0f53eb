"""Writes the models of tests/onnx/cases, in the layout of ONNX's backend tests: what ONNX Runtime gives
for each is what Dyad must give. Run from the root of the repository: python tests/onnx/make_cases.py"""

import pathlib
import shutil

import numpy as np
import onnx
import onnxruntime as ort
from onnx import numpy_helper, parser

ROOT = pathlib.Path("tests/onnx/cases")
RNG = np.random.default_rng(7)


def f32(*shape):
    return RNG.uniform(-1, 1, shape).astype(np.float32)


def i64(*values):
    return np.array(values, np.int64)


def case(name, opset, text, *input_sets, domains=""):
    """A model in ONNX's text form, and inputs for it, in order."""
    input_sets = [[x if isinstance(x, list) else np.asarray(x) for x in each] for each in input_sets]
    model = parser.parse_model(f'<ir_version: 8, opset_import: ["": {opset}{domains}]>\n{text}')
    onnx.checker.check_model(model)
    folder = ROOT / name
    folder.mkdir(parents=True)
    onnx.save(model, folder / "model.onnx")
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for k, inputs in enumerate(input_sets):
        data = folder / f"test_data_set_{k}"
        data.mkdir()
        names = [i.name for i in model.graph.input]
        for i, value in enumerate(inputs):
            write(data / f"input_{i}.pb", value, names[i])
        results = session.run(None, dict(zip(names, inputs)))
        for i, value in enumerate(results):
            write(data / f"output_{i}.pb", value, model.graph.output[i].name)


def write(path, value, name):
    if isinstance(value, list):
        proto = numpy_helper.from_list(value, name)
    else:
        proto = numpy_helper.from_array(np.asarray(value), name)
    path.write_bytes(proto.SerializeToString())


def control():
    case("loop_until_data_says", 17, """
agraph (float[n] x) => (float[n] y) {
  limit = Constant <value = float {8.0}> ()
  most = Constant <value = int64 {100}> ()
  go = Constant <value = bool {1}> ()
  y = Loop (most, go, x) <body = graph (int64 i, bool c, float[n] v) => (bool d, float[n] w) {
    w = Add (v, v)
    size = ReduceMax <keepdims: int = 0> (w)
    d = Less (size, limit)
  }>
}""", [np.abs(f32(3)) + 0.1], [np.abs(f32(5)) + 0.01])
    case("loop_stacks_until_data_says", 17, """
agraph (float[n] x) => (float[n] y, float[m, n] all) {
  limit = Constant <value = float {8.0}> ()
  most = Constant <value = int64 {12}> ()
  y, all = Loop (most, , x) <body = graph (int64 i, bool c, float[n] v) => (bool d, float[n] w, float[n] z) {
    w = Add (v, v)
    z = Identity (v)
    size = ReduceMax <keepdims: int = 0> (w)
    d = Less (size, limit)
  }>
}""", [np.abs(f32(3)) + 0.1], [np.abs(f32(2)) * 0 + 9])
    case("loop_without_bound_stacks", 17, """
agraph (float[2] x) => (float[2] y, float[m, 2] all) {
  go = Constant <value = bool {1}> ()
  limit = Constant <value = float {8.0}> ()
  y, all = Loop (, go, x) <body = graph (int64 i, bool c, float[2] v) => (bool d, float[2] w, float[2] z) {
    w = Add (v, v)
    z = Identity (v)
    size = ReduceMax <keepdims: int = 0> (w)
    d = Less (size, limit)
  }>
}""", [np.array([1, 2], np.float32)], [np.array([0.3, 0.1], np.float32)])
    case("loop_grows_its_state", 17, """
agraph (float[n] x, int64 count) => (float[m] y) {
  y = Loop (count, , x) <body = graph (int64 i, bool c, float[k] v) => (bool d, float[l] w) {
    d = Identity (c)
    one = Unsqueeze (i, axis)
    f = Cast <to: int = 1> (one)
    w = Concat <axis: int = 0> (v, f)
  }>
}""".replace("y = Loop", "axis = Constant <value = int64[1] {0}> ()\n  y = Loop"),
         [f32(3), i64(4)[0]], [f32(2), i64(0)[0]])
    case("loop_reads_from_outside", 17, """
agraph (float[b, 4] x, float[4] step) => (float[b, 4] y, float[3, b, 4] all)
<float[4, 4] w = {0.5,0,0,0, 0,0.5,0,0, 0,0,0.5,0, 0.1,0,0,0.5}> {
  count = Constant <value = int64 {3}> ()
  shifted = Mul (step, step)
  y, all = Loop (count, , x) <body = graph (int64 i, bool c, float[b, 4] v) => (bool d, float[b, 4] u, float[b, 4] s) {
    d = Identity (c)
    p = MatMul (v, w)
    u = Add (p, shifted)
    s = Tanh (u)
  }>
}""", [f32(2, 4), f32(4)], [f32(1, 4), f32(4)])
    case("loop_of_no_steps", 17, """
agraph (float[2] x, int64 count) => (float[2] y, float[m, 2] all) {
  y, all = Loop (count, , x) <body = graph (int64 i, bool c, float[2] v) => (bool d, float[2] w, float[2] z) {
    d = Identity (c)
    w = Neg (v)
    z = Add (w, w)
  }>
}""", [f32(2), i64(0)[0]], [f32(2), i64(3)[0]])
    case("loop_in_a_loop", 17, """
agraph (float[n] x, int64 count) => (float[n] y) {
  two = Constant <value = int64 {2}> ()
  y = Loop (count, , x) <body = graph (int64 i, bool c, float[n] v) => (bool d, float[n] w) {
    d = Identity (c)
    w = Loop (two, , v) <body = graph (int64 j, bool e, float[n] p) => (bool f, float[n] q) {
      f = Identity (e)
      k = Add (i, j)
      g = Cast <to: int = 1> (k)
      q = Add (p, g)
    }>
  }>
}""", [f32(3), i64(3)[0]])
    case("if_gives_other_shapes", 17, """
agraph (float[n] x) => (float[m] y) {
  zero = Constant <value = float {0.0}> ()
  total = ReduceSum <keepdims: int = 0> (x)
  positive = Greater (total, zero)
  y = If (positive) <then_branch = graph () => (float[k] a) { a = Concat <axis: int = 0> (x, x) },
                     else_branch = graph () => (float[1] b) { b = ReduceMin <keepdims: int = 1> (x) }>
}""", [np.abs(f32(3))], [-np.abs(f32(3))])
    case("if_by_data_in_a_graph", 17, """
agraph (float[n] x, float[n] z) => (float[n] y) {
  zero = Constant <value = float {0.0}> ()
  total = ReduceSum <keepdims: int = 0> (x)
  positive = Greater (total, zero)
  y = If (positive) <then_branch = graph () => (float[n] a) { a = Mul (x, z) },
                     else_branch = graph () => (float[n] b) {
    small = Less (total, one)
    b = If (small) <then_branch = graph () => (float[n] p) { p = Neg (z) },
                    else_branch = graph () => (float[n] q) { q = Identity (x) }>
  }>
}""".replace("total = ", "one = Constant <value = float {-1.0}> ()\n  total = "),
         [np.abs(f32(3)), f32(3)], [-np.abs(f32(3)), f32(3)], [f32(3) * 0 - 0.1, f32(3)])
    case("scan_along_other_axes", 17, """
agraph (float[b] start, float[b, t, 2] x, float[t, b] z) => (float[b] last, float[b, t] ys, float[t, b, 2] zs) {
  last, ys, zs = Scan <num_scan_inputs: int = 2, scan_input_axes: ints = [1, 0],
                       scan_input_directions: ints = [0, 1], scan_output_axes: ints = [1, 0],
                       scan_output_directions: ints = [1, 0],
                       body = graph (float[b] s, float[b, 2] p, float[b] q) => (float[b] u, float[b] y, float[b, 2] r) {
    sum = ReduceSum <keepdims: int = 0> (p, last_axis)
    v = Add (s, sum)
    u = Mul (v, q)
    y = Identity (u)
    r = Tanh (p)
  }> (start, x, z)
}""".replace("last, ys, zs = Scan", "last_axis = Constant <value = int64[1] {-1}> ()\n  last, ys, zs = Scan"),
         [f32(2), f32(2, 5, 2), f32(5, 2)], [f32(1), f32(1, 3, 2), f32(3, 1)])


def sequences():
    case("sequence_split_and_joined", 17, """
agraph (float[n, 3] x, int64 at) => (float[n, 3] y, float[k, 3] z, int64 count) {
  two = Constant <value = int64 {2}> ()
  parts = SplitToSequence <axis: int = 0> (x, two)
  y = ConcatFromSequence <axis: int = 0> (parts)
  z = SequenceAt (parts, at)
  count = SequenceLength (parts)
}""", [f32(5, 3), i64(1)[0]], [f32(4, 3), i64(-1)[0]])
    case("sequence_in_a_loop", 17, """
agraph (seq(float[n]) xs, int64 count) => (float[m] y) {
  empty = SequenceEmpty ()
  some = Loop (count, , empty) <body = graph (int64 i, bool c, seq(float[n]) v) => (bool d, seq(float[n]) w) {
    d = Identity (c)
    e = SequenceAt (xs, i)
    f = Add (e, e)
    w = SequenceInsert (v, f)
  }>
  y = ConcatFromSequence <axis: int = 0> (some)
}""", [[f32(2), f32(3), f32(1)], i64(2)[0]], [[f32(2)], i64(1)[0]])
    case("sequence_as_a_result", 17, """
agraph (float[n] x, seq(float[m]) more) => (seq(float[k]) all) {
  position = Constant <value = int64 {0}> ()
  y = Neg (x)
  all = SequenceInsert (more, y, position)
}""", [f32(2), [f32(3)]], [f32(1), [f32(3), f32(2)]])


def versions():
    case("upsample_of_version_7", 8, """
agraph (float[1, 2, h, w] x) => (float[1, 2, a, b] y) {
  y = Upsample <mode: string = "nearest", scales: floats = [1.0, 1.0, 2.0, 3.0]> (x)
}""", [f32(1, 2, 2, 3)])
    case("resize_of_version_10", 10, """
agraph (float[1, 1, 4, 4] x) => (float[1, 1, a, b] y, float[1, 1, c, d] z) {
  down = Constant <value = float[4] {1, 1, 0.6, 0.6}> ()
  up = Constant <value = float[4] {1, 1, 1.5, 2}> ()
  y = Resize <mode: string = "nearest"> (x, down)
  z = Resize <mode: string = "linear"> (x, up)
}""", [f32(1, 1, 4, 4)])
    case("roi_align_of_version_10", 10, """
agraph (float[1, 2, 8, 8] x, float[2, 4] rois, int64[2] images) => (float[2, 2, 3, 3] y) {
  y = RoiAlign <output_height: int = 3, output_width: int = 3, sampling_ratio: int = 2, spatial_scale: float = 0.5> (x, rois, images)
}""", [f32(1, 2, 8, 8), np.array([[0, 0, 7, 7], [2, 3, 12, 9]], np.float32), i64(0, 0)])
    case("max_pool_column_by_column", 12, """
agraph (float[2, 2, 4, 6] x) => (float[2, 2, 2, 3] y, int64[2, 2, 2, 3] at) {
  y, at = MaxPool <kernel_shape: ints = [2, 2], strides: ints = [2, 2], storage_order: int = 1> (x)
}""", [f32(2, 2, 4, 6)])
    case("average_pool_dilated", 19, """
agraph (float[1, 2, 9, 8] x) => (float[1, 2, a, b] y, float[1, 2, c, d] z) {
  y = AveragePool <kernel_shape: ints = [3, 2], dilations: ints = [2, 3], strides: ints = [2, 1], pads: ints = [1, 1, 2, 1]> (x)
  z = AveragePool <kernel_shape: ints = [2, 2], dilations: ints = [2, 2], count_include_pad: int = 1, pads: ints = [1, 0, 1, 0], ceil_mode: int = 1, strides: ints = [2, 2]> (x)
}""", [f32(1, 2, 9, 8)])
    case("sizes_that_must_agree", 17, """
agraph (float[n] a, float[m] b) => (float[k] y, int64[1] s) {
  y = Add (a, b)
  s = Shape (b)
}""", [f32(3), f32(3)], [f32(1), f32(4)])


def main():
    if ROOT.exists():
        shutil.rmtree(ROOT)
    for make in (control, sequences, versions):
        make()


main()
