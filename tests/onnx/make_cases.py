"""Writes the models of tests/onnx/refused, and those of tests/onnx/cases, in the layout of ONNX's backend tests: what ONNX Runtime gives
for each is what Dyad must give. Run from the root of the repository: python tests/onnx/make_cases.py"""

import itertools
import pathlib
import shutil

import numpy as np
import onnx
import onnxruntime as ort
from onnx import numpy_helper, parser

ROOT = pathlib.Path("tests/onnx/cases")
REFUSED = pathlib.Path("tests/onnx/refused")
RNG = np.random.default_rng(7)


def f32(*shape):
    return RNG.uniform(-1, 1, shape).astype(np.float32)


def i64(*values):
    return np.array(values, np.int64)


def case(name, opset, text, *input_sets, domains="", results=None):
    """A model in ONNX's text form, and inputs for it, in order. `results` where the runtime's Python cannot pass the inputs."""
    input_sets = [[x if isinstance(x, (list, dict)) else np.asarray(x) for x in each] for each in input_sets]
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
        for i, value in enumerate(results or session.run(None, dict(zip(names, inputs)))):
            write(data / f"output_{i}.pb", value, model.graph.output[i].name)


def map_of(value, name=""):
    """The runtime has maps in the order of their keys; models give them in that of their classes, which is the same here."""
    proto = onnx.MapProto(name=name)
    if isinstance(next(iter(value)), str):
        proto.key_type = onnx.TensorProto.STRING
        proto.string_keys.extend(key.encode() for key in value)
    else:
        proto.key_type = onnx.TensorProto.INT64
        proto.keys.extend(value)
    proto.values.CopyFrom(numpy_helper.from_list([np.asarray(each, object if isinstance(each, str) else np.float32) for each in value.values()]))
    return proto


def write(path, value, name):
    if isinstance(value, list) and isinstance(value[0], dict):
        proto = onnx.SequenceProto(name=name, elem_type=onnx.SequenceProto.MAP, map_values=[map_of(each) for each in value])
    elif isinstance(value, list):
        proto = numpy_helper.from_list(value, name)
    elif isinstance(value, dict):
        proto = map_of(value, name)
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


def words(*values, shape=None):
    made = np.array(values, dtype=object)
    return made if shape is None else made.reshape(shape)


def strings():
    case("strings_joined_and_split", 20, """
agraph (string[n, 2] a, string[2] b) => (string[n, 2] c, string[n, 2, k] p, int64[n, 2] counts, string[n, 2, l] q, int64[n, 2] m) {
  c = StringConcat (a, b)
  p, counts = StringSplit <delimiter: string = "-"> (c)
  q, m = StringSplit <maxsplit: int = 1> (a)
}""", [words("x-y", " two  words ", "", "a b c", shape=(2, 2)), words("-", "z")])
    case("strings_matched", 20, """
agraph (string[n] x) => (bool[n] y) {
  y = RegexFullMatch <pattern: string = "[a-z]+(\\\\d{2,3}|-)?"> (x)
}""", [words("abc", "abc12", "abc1", "a-", "", "A12", "x1234")])
    for case_of, name in [("UPPER", "up"), ("LOWER", "down")]:
        case(f"strings_normalized_{name}", 17, f"""
agraph (string[n] x) => (string[m] y) {{
  y = StringNormalizer <locale: string = "C", case_change_action: string = "{case_of}", is_case_sensitive: int = 0, stopwords: strings = ["The", "a"]> (x)
}}""", [words("The", "Cat", "A", "mat", "the")], [words("a", "A")])
    case("tf_idf_of_strings", 17, """
agraph (string[n, 5] x) => (float[n, 6] y, float[n, 6] z) {
  y = TfIdfVectorizer <max_gram_length: int = 2, min_gram_length: int = 1, max_skip_count: int = 1, mode: string = "TFIDF", ngram_counts: ints = [0, 3], ngram_indexes: ints = [5, 0, 2, 1, 4], pool_strings: strings = ["a", "b", "c", "a", "b", "b", "c"], weights: floats = [0.5, 2.0, 3.0, 1.5, 0.25]> (x)
  z = TfIdfVectorizer <max_gram_length: int = 2, min_gram_length: int = 2, max_skip_count: int = 0, mode: string = "IDF", ngram_counts: ints = [0, 3], ngram_indexes: ints = [5, 0, 2, 1, 4], pool_strings: strings = ["a", "b", "c", "a", "b", "b", "c"], weights: floats = [0.5, 2.0, 3.0, 1.5, 0.25]> (x)
}""", [words("a", "b", "b", "c", "d", "c", "a", "x", "b", "c", shape=(2, 5))])
    case("strings_to_numbers_and_back", 17, """
agraph (string[n] x, float[n] z, int64[n] i) => (float[n] y, string[n] t, string[n] j, int64[n] k) {
  y = Cast <to: int = 1> (x)
  t = Cast <to: int = 8> (z)
  j = Cast <to: int = 8> (i)
  k = Cast <to: int = 7> (j)
}""", [words("1.5", "-2e3", "7", "0.1"), np.array([1.5, -0.25, 3, 1024.125], np.float32), i64(1, -20, 3, 0)])
    case("strings_chosen", 19, """
agraph (string[n] x, string[n] y, int64[m] at) => (string[n] z, string[m] g, bool[n] same, string[k] both) {
  same = Equal (x, y)
  z = Where (same, x, y)
  g = Gather (x, at)
  both = Concat <axis: int = 0> (x, y)
}""", [words("a", "b", ""), words("a", "c", ""), i64(2, 0)])


ML = ', "ai.onnx.ml": 3'


def learned():
    x = f32(5, 3)
    case("ml_scaled", 17, """
agraph (float[n, 3] x) => (float[n, 3] s, float[n, 3] a, float[n, 3] b, float[n, 3] c, float[n, 3] i, float[n, 3] t, float[n, 6] v, float[n, 2] p) {
  s = ai.onnx.ml.Scaler <offset: floats = [0.5, -1.0, 0.0], scale: floats = [2.0, 3.0, 0.5]> (x)
  a = ai.onnx.ml.Normalizer <norm: string = "MAX"> (x)
  b = ai.onnx.ml.Normalizer <norm: string = "L1"> (x)
  c = ai.onnx.ml.Normalizer <norm: string = "L2"> (x)
  i = ai.onnx.ml.Imputer <imputed_value_floats: floats = [1.0, 2.0, 3.0], replaced_value_float: float = 0.25> (x)
  t = ai.onnx.ml.Binarizer <threshold: float = 0.25> (x)
  v = ai.onnx.ml.FeatureVectorizer <inputdimensions: ints = [3, 3]> (x, s)
  at = Constant <value = int64[2] {2, 0}> ()
  p = ai.onnx.ml.ArrayFeatureExtractor (x, at)
}""", [np.abs(np.vstack([x, [[0.25, 1, 2]]]).astype(np.float32))], domains=ML)
    case("ml_encoded", 17, """
agraph (string[n] w, int64[n] k) => (int64[n] a, string[n] b, float[n] c, float[n, 3] d, float[n, 2] e, int64[n] f) {
  a = ai.onnx.ml.LabelEncoder <keys_strings: strings = ["x", "y"], values_int64s: ints = [7, 8], default_int64: int = -3> (w)
  b = ai.onnx.ml.LabelEncoder <keys_int64s: ints = [1, 2], values_strings: strings = ["one", "two"]> (k)
  c = ai.onnx.ml.LabelEncoder <keys_strings: strings = ["x", "z"], values_floats: floats = [0.5, 1.5], default_float: float = 9.0> (w)
  d = ai.onnx.ml.OneHotEncoder <cats_strings: strings = ["x", "y", "z"]> (w)
  e = ai.onnx.ml.OneHotEncoder <cats_int64s: ints = [2, 1]> (k)
  f = ai.onnx.ml.CategoryMapper <cats_strings: strings = ["x", "y"], cats_int64s: ints = [10, 20], default_int64: int = 0> (w)
}""", [words("x", "y", "q", "z"), i64(1, 2, 3, 1)], domains=ML)
    coefficients = ", ".join(f"{v:.4f}" for v in f32(9))
    three, one = coefficients, ", ".join(coefficients.split(", ")[:3])
    for transform in ["NONE", "SOFTMAX", "LOGISTIC"]:
        case(f"ml_linear_{transform.lower()}", 17, f"""
agraph (float[n, 3] x) => (float[n, 3] r, string[n] l, float[n, 3] s, int64[n] m, float[n, 2] t) {{
  r = ai.onnx.ml.LinearRegressor <targets: int = 3, coefficients: floats = [{three}], intercepts: floats = [0.1, 0.2, 0.3], post_transform: string = "NONE"> (x)
  l, s = ai.onnx.ml.LinearClassifier <classlabels_strings: strings = ["a", "b", "c"], coefficients: floats = [{three}], intercepts: floats = [0.1, 0.2, 0.3], post_transform: string = "{transform}"> (x)
  m, t = ai.onnx.ml.LinearClassifier <classlabels_ints: ints = [4, 6], coefficients: floats = [{one}], intercepts: floats = [-0.1], post_transform: string = "{'NONE' if transform == 'SOFTMAX' else transform}"> (x)
}}""", [x], domains=ML)
    vectors = ", ".join(f"{v:.4f}" for v in f32(6))
    for kind in ["LINEAR", "POLY", "RBF", "SIGMOID"]:
        case(f"ml_svm_regressor_{kind.lower()}", 17, f"""
agraph (float[n, 3] x) => (float[n, 1] y) {{
  y = ai.onnx.ml.SVMRegressor <kernel_type: string = "{kind}", kernel_params: floats = [0.5, 0.25, 2.0], n_supports: int = 2, coefficients: floats = [0.75, -1.25], rho: floats = [0.125], support_vectors: floats = [{vectors}]> (x)
}}""", [x], domains=ML)
    # Two trees: a stump of three nodes, and one of five.
    nodes = """nodes_treeids: ints = [0, 0, 0, 1, 1, 1, 1, 1], nodes_nodeids: ints = [0, 1, 2, 0, 1, 2, 3, 4],
  nodes_featureids: ints = [0, 0, 0, 1, 2, 0, 0, 0], nodes_values: floats = [0.1, 0.0, 0.0, -0.2, 0.3, 0.0, 0.0, 0.0],
  nodes_modes: strings = ["BRANCH_LEQ", "LEAF", "LEAF", "BRANCH_LEQ", "BRANCH_LEQ", "LEAF", "LEAF", "LEAF"],
  nodes_truenodeids: ints = [1, 0, 0, 1, 3, 0, 0, 0], nodes_falsenodeids: ints = [2, 0, 0, 2, 4, 0, 0, 0],
  nodes_missing_value_tracks_true: ints = [1, 0, 0, 0, 0, 0, 0, 0]"""
    with_nan = x.copy()
    with_nan[0, 0] = np.nan
    with_nan[1, 1] = np.nan
    votes = "class_treeids: ints = [0, 0, 1, 1, 1], class_nodeids: ints = [1, 2, 2, 3, 4]"
    for aggregate in ["SUM", "AVERAGE", "MIN", "MAX"]:
        case(f"ml_trees_{aggregate.lower()}", 17, f"""
agraph (float[n, 3] x) => (float[n, 2] y) {{
  y = ai.onnx.ml.TreeEnsembleRegressor <n_targets: int = 2, aggregate_function: string = "{aggregate}", base_values: floats = [0.5, -0.5],
  {nodes}, target_treeids: ints = [0, 0, 1, 1, 1, 1], target_nodeids: ints = [1, 2, 2, 3, 4, 4],
  target_ids: ints = [0, 0, 1, 1, 1, 0], target_weights: floats = [1.0, 2.0, -3.0, 4.0, 0.5, -1.5]> (x)
}}""", [with_nan], domains=ML)
    weights = {"positive": "0.3, 0.1, 0.4, 0.2, 0.05", "any": "0.3, -0.1, -0.4, 0.2, 0.05"}
    for (name, values), voted in itertools.product(weights.items(), [0, 1]):
        for transform in ["NONE", "LOGISTIC"]:
            case(f"ml_trees_binary_{name}_{voted}_{transform.lower()}", 17, f"""
agraph (float[n, 3] x) => (int64[n] y, float[n, 2] z) {{
  y, z = ai.onnx.ml.TreeEnsembleClassifier <classlabels_int64s: ints = [5, 6], post_transform: string = "{transform}",
  {nodes}, {votes}, class_ids: ints = [{voted}, {voted}, {voted}, {voted}, {voted}], class_weights: floats = [{values}]> (x)
}}""", [x], domains=ML)
    for transform in ["NONE", "SOFTMAX", "SOFTMAX_ZERO", "LOGISTIC"]:
        case(f"ml_trees_classes_{transform.lower()}", 17, f"""
agraph (float[n, 3] x) => (string[n] y, float[n, 3] z) {{
  y, z = ai.onnx.ml.TreeEnsembleClassifier <classlabels_strings: strings = ["p", "q", "r"], post_transform: string = "{transform}",
  {nodes}, {votes}, class_ids: ints = [0, 1, 2, 1, 0], class_weights: floats = [1.0, 2.0, -3.0, 4.0, 0.5]> (x)
}}""", [x], domains=ML)


def support_vector_classifiers():
    x, vectors = f32(6, 3), f32(6, 3)
    vectors_text = ", ".join(f"{v:.4f}" for v in vectors.ravel())

    def classifier(name, classes, counts, rest, transform="NONE", kernel="RBF", labels="ints"):
        pairs = classes * (classes - 1) // 2
        coefficients = ", ".join(f"{v:.4f}" for v in f32((classes - 1) * sum(counts)))
        rho = ", ".join(f"{v:.4f}" for v in 0.3 * f32(pairs))
        if rest:
            rest = "".join(f", prob_{a}: floats = [{', '.join(f'{v:.4f}' for v in m + f32(pairs))}]" for a, m in (("a", -2), ("b", 0)))
        names = ", ".join(str(3 * k + 4) if labels == "ints" else f'"c{k}"' for k in range(classes))
        case(f"ml_svm_{name}", 17, f"""
agraph (float[n, 3] x) => ({'int64' if labels == 'ints' else 'string'}[n] y, float[n, k] z) {{
  y, z = ai.onnx.ml.SVMClassifier <classlabels_{labels}: {labels} = [{names}], kernel_type: string = "{kernel}", kernel_params: floats = [0.5, 0.25, 2.0],
  coefficients: floats = [{coefficients}], rho: floats = [{rho}], support_vectors: floats = [{vectors_text}],
  vectors_per_class: ints = [{', '.join(map(str, counts))}], post_transform: string = "{transform}"{rest or ''}> (x)
}}""", [x], domains=ML)

    for kernel in ["LINEAR", "POLY", "RBF", "SIGMOID"]:
        classifier(f"three_{kernel.lower()}", 3, [1, 3, 2], False, kernel=kernel, labels="strings")
    for transform in ["NONE", "LOGISTIC", "SOFTMAX"]:
        classifier(f"two_{transform.lower()}", 2, [2, 4], False, transform)
    classifier("two_probabilities", 2, [2, 4], True)
    classifier("three_probabilities", 3, [1, 3, 2], True)
    classifier("four_probabilities_softmax", 4, [1, 2, 2, 1], True, "SOFTMAX", labels="strings")
    for name, sign, classes in [("signed", 1, 2), ("positive", 0, 2), ("three", 1, 3)]:
        values = f32(classes * 3) if sign else np.abs(f32(classes * 3))
        names = ", ".join(map(str, range(classes)))
        case(f"ml_svm_linear_{name}", 17, f"""
agraph (float[n, 3] x) => (int64[n] y, float[n, {classes}] z) {{
  y, z = ai.onnx.ml.SVMClassifier <classlabels_ints: ints = [{names}], kernel_type: string = "LINEAR", kernel_params: floats = [0.0, 0.0, 0.0], coefficients: floats = [{', '.join(f'{v:.4f}' for v in values)}], rho: floats = [0.1], post_transform: string = "LOGISTIC"> (x)
}}""", [x], domains=ML)


def maps():
    x = f32(4, 3)
    case("ml_scores_with_names", 17, """
agraph (float[n, 3] x) => (seq(map(string, float)) y, seq(map(int64, float)) z) {
  y = ai.onnx.ml.ZipMap <classlabels_strings: strings = ["a", "b", "c"]> (x)
  z = ai.onnx.ml.ZipMap <classlabels_int64s: ints = [1, 2, 5]> (x)
}""", [x], domains=ML)
    case("ml_words_counted", 17, """
agraph (map(string, float) x, map(int64, float) k) => (float[1, 4] y, float[1, 3] z) {
  y = ai.onnx.ml.DictVectorizer <string_vocabulary: strings = ["the", "a", "cat", "dog"]> (x)
  z = ai.onnx.ml.DictVectorizer <int64_vocabulary: ints = [7, 1, 3]> (k)
}""", [{"cat": 2.0, "zebra": 1.0, "the": 3.0}, {1: 0.5, 7: -1.0}], [{"dog": 1.5}, {3: 2.5}], domains=ML)
    case("ml_maps_flattened", 17, """
agraph (map(int64, float) x) => (float[1, k] d, float[1, 6] s, int64[1, k] i) {
  d = ai.onnx.ml.CastMap <cast_to: string = "TO_FLOAT", map_form: string = "DENSE"> (x)
  s = ai.onnx.ml.CastMap <cast_to: string = "TO_FLOAT", map_form: string = "SPARSE", max_map: int = 6> (x)
  i = ai.onnx.ml.CastMap <cast_to: string = "TO_INT64"> (x)
}""", [{4: 2.0, 1: -3.0, 2: 7.0}], domains=ML)
    case("ml_map_of_texts", 17, """
agraph (map(int64, string) x, map(int64, float) k) => (string[1, n] t, float[1, n] f, int64[1, n] i, string[1, m] u) {
  t = ai.onnx.ml.CastMap <cast_to: string = "TO_STRING"> (x)
  f = ai.onnx.ml.CastMap <cast_to: string = "TO_FLOAT"> (x)
  i = ai.onnx.ml.CastMap <cast_to: string = "TO_INT64"> (x)
  u = ai.onnx.ml.CastMap <cast_to: string = "TO_STRING"> (k)
}""", [{9: "25", 3: "-1"}, {2: 0.5, 1: -3.0}], domains=ML,
         results=[np.array([["-1", "25"]], object), np.array([[-1, 25]], np.float32), np.array([[-1, 25]], np.int64), np.array([["-3", "0.5"]], object)])


def old_meanings():
    case("scan_of_sequences_with_lengths", 8, """
agraph (int64[b] lengths, float[b, 2] first, float[b, t, 2] x) => (float[b, 2] last, float[b, t, 2] all) {
  last, all = Scan <num_scan_inputs: int = 1, body = graph (float[2] s, float[2] v) => (float[2] r, float[2] o) {
    r = Add (s, v)
    o = Mul (r, v)
  }> (lengths, first, x)
}""", [i64(2, 4, 1), f32(3, 2), f32(3, 4, 2)])
    for rounding in ["floor", "round_prefer_floor"]:
        case(f"resize_as_tensorflow_{rounding}", 11, f"""
agraph (float[1, 1, 4, 5] x) => (float[1, 1, h, w] y, float[1, 1, g, v] z) {{
  roi = Constant <value = float[0] {{}}> ()
  up = Constant <value = float[4] {{1.0, 1.0, 2.5, 3.0}}> ()
  down = Constant <value = float[4] {{1.0, 1.0, 0.6, 0.5}}> ()
  y = Resize <mode: string = "nearest", coordinate_transformation_mode: string = "tf_half_pixel_for_nn", nearest_mode: string = "{rounding}"> (x, roi, up)
  z = Resize <mode: string = "nearest", coordinate_transformation_mode: string = "tf_half_pixel_for_nn", nearest_mode: string = "{rounding}"> (x, roi, down)
}}""", [f32(1, 1, 4, 5)])


def refused(name, opset, text, domains=""):
    """A model that Dyad does not run."""
    model = parser.parse_model(f'<ir_version: 8, opset_import: ["": {opset}{domains}]>\n{text}')
    folder = REFUSED / name
    folder.mkdir(parents=True)
    onnx.save(model, folder / "model.onnx")


def refusals():
    refused("operators", 17, """
agraph (float[n] x, bool c) => (float[n] y) {
  [first] a = com.example.Magic (x)
  [second] b = If (c) <then_branch = graph () => (float[n] p) { [inner] p = Mystery (a) },
                       else_branch = graph () => (float[n] q) { q = Neg (a) }>
  d = Neg (b)
  y = org.example.Wonder (d)
}""", domains=', "com.example": 2')
    refused("map_said_to_be_a_tensor", 17, """
agraph (float[n, 2] x) => (float[n, 2] y) {
  y = ai.onnx.ml.ZipMap <classlabels_int64s: ints = [1, 2]> (x)
}""", domains=ML)
    refused("attributes", 17, """
agraph (float[n, 3, 4, 4] x, string[n] s, bool c) => (float[n] y, bool[n] m) {
  half = Constant <value = float[4] {1.0, 1.0, 0.5, 0.5}> ()
  [large] a = Resize <mode: string = "linear", coordinate_transformation_mode: string = "tf_half_pixel_for_nn"> (x, , half)
  [after] b = Relu (a)
  [unknown] d = com.example.Magic (b)
  [norm] e = ai.onnx.ml.Normalizer <norm: string = "L3"> (x)
  [branch] f = If (c) <then_branch = graph () => (float[n] p) { [inner] p = ai.onnx.ml.Normalizer <norm: string = "L4"> (x) },
                       else_branch = graph () => (float[n] q) { q = Neg (x) }>
  [last] y = Add (d, e)
  [match] m = Not (c)
}""", domains=ML + ', "com.example": 2')
    refused("behind_sizes", 17, """
agraph (float[n] x, float[1, 3, 4, 4] image) => (float[m] y, float[1, 3, 2, 2] z) {
  axis = Constant <value = int64[1] {0}> ()
  half = Constant <value = float[4] {1.0, 1.0, 0.5, 0.5}> ()
  shape = Shape (x)
  count = Squeeze (shape)
  y = Loop (count, , x) <body = graph (int64 i, bool c, float[k] v) => (bool d, float[l] w) {
    d = Identity (c)
    one = Unsqueeze (i, axis)
    f = Cast <to: int = 1> (one)
    w = Concat <axis: int = 0> (v, f)
  }>
  [large] z = Resize <mode: string = "linear", coordinate_transformation_mode: string = "tf_half_pixel_for_nn"> (image, , half)
}""")
    refused("empty_optional", 18, """
agraph (float[n] x) => (float[n] y) {
  nothing = Optional <type: type_proto = float[n]> ()
  [get] y = OptionalGetElement (nothing)
}""")
    refused("position", 17, """
agraph (float[n] x) => (float[n] y) {
  s = SequenceConstruct (x, x)
  three = Constant <value = int64 {3}> ()
  [at] y = SequenceAt (s, three)
}""")
    refused("random_condition", 17, """
agraph (float[n] x) => (float[m] y) {
  r = RandomUniform <shape: ints = [1]> ()
  half = Constant <value = float {0.5}> ()
  c = Less (r, half)
  [if] y = If (c) <then_branch = graph () => (float[k] p) { p = Concat <axis: int = 0> (x, x) },
                   else_branch = graph () => (float[n] q) { q = Neg (x) }>
}""")
    refused("fused", 17, """
agraph (float[b, s, 8] x, float[8, 24] w, float[24] c, int32[b] ends, int32 total, int64[1] place, float[9, 4] table, float[8] scale)
    => (float[b, s, 8] a, float[b, s, 8] d, float[b, s, 8] e, float[b, s, 8] f, float[b, s, 8] g, float[8, 8] h) {
  [turns] a = com.microsoft.Attention <num_heads: int = 2, do_rotary: int = 1> (x, w, c)
  [no_heads] d = com.microsoft.MultiHeadAttention <num_heads: int = 0> (x, x, x)
  [smooth] e = com.microsoft.GroupQueryAttention <num_heads: int = 1, kv_num_heads: int = 1, smooth_softmax: int = 1>
    (x, x, x, , , ends, total)
  [scaled] f = com.microsoft.RotaryEmbedding <scale: float = 2.0> (x, place, table, table)
  [mean] g, average = com.microsoft.SkipSimplifiedLayerNormalization (x, x, scale)
  [used] other = Neg (average)
  [sine] h = com.microsoft.FusedGemm <activation: string = "Sin", transB: int = 1> (w, w)
}""", domains=', "com.microsoft": 1')
    refused("pattern", 20, """
agraph (string[n] x) => (bool[n] y) { [match] y = RegexFullMatch <pattern: string = "(a"> (x) }""")
    refused("tree_of_itself", 17, """
agraph (float[n, 1] x) => (float[n, 1] y) {
  [tree] y = ai.onnx.ml.TreeEnsembleRegressor <n_targets: int = 1, nodes_treeids: ints = [0, 0], nodes_nodeids: ints = [0, 1],
  nodes_featureids: ints = [0, 0], nodes_values: floats = [0.1, 0.2], nodes_modes: strings = ["BRANCH_LT", "BRANCH_LT"],
  nodes_truenodeids: ints = [1, 1], nodes_falsenodeids: ints = [1, 1], target_treeids: ints = [0], target_nodeids: ints = [1],
  target_ids: ints = [0], target_weights: floats = [1.0]> (x)
}""", domains=ML)


def sizes():
    """Sizes that data decide, that go through floats, and that have several names."""
    case("sizes_of_two_names", 17, """
agraph (float[batch, 3] x, float[batch_size, 3] y, float[rows, 2] z) => (float[n, 3] s, float[n, 8] c, float[m, 3] r) {
  s = Add (x, y)
  c = Concat <axis: int = 1> (x, s, z)
  shape = Shape (z)
  first = Slice (shape, zero, one)
  all = Concat <axis: int = 0> (first, three)
  r = Reshape (x, all)
}""".replace("{\n", "{\n  zero = Constant <value = int64[1] {0}> ()\n  one = Constant <value = int64[1] {1}> ()\n  three = Constant <value = int64[1] {3}> ()\n", 1),
         [f32(4, 3), f32(4, 3), f32(4, 2)], [f32(2, 3), f32(2, 3), f32(2, 2)])
    case("sizes_that_data_decide_meet", 17, """
agraph (float[n] x, float[n] y) => (float[m] s, float[2, m] c, float[m] w, float[n] z) {
  zero = Constant <value = float {0.0}> ()
  p = Greater (x, zero)
  a = Compress (x, p)
  q = Less (zero, x)
  b = Compress (y, q)
  s = Mul (a, b)
  axis = Constant <value = int64[1] {0}> ()
  u = Unsqueeze (a, axis)
  v = Unsqueeze (b, axis)
  c = Concat <axis: int = 0> (u, v)
  t = Less (b, zero)
  w = Where (t, a, zero)
  at = NonZero (p)
  places = Transpose (at)
  z = ScatterND (x, places, b)
}""", [f32(9), f32(9)], [f32(4), f32(4)], [np.abs(f32(3)), f32(3)], [-np.abs(f32(3)), f32(3)])
    case("sizes_counted_by_data", 17, """
agraph (float[n, 4] x, int64[n] lengths) => (float[k, 2] e, int64[l] r, float[o, 4] s) {
  zero = Constant <value = float {0.0}> ()
  first = Constant <value = int64 {0}> ()
  one = Constant <value = int64 {1}> ()
  none = Constant <value = int64[1] {0}> ()
  two = Constant <value = int64[1] {2}> ()
  mask = Greater (x, zero)
  any = Cast <to: int = 7> (mask)
  of_all = ReduceSum <keepdims: int = 0> (any)
  count = Unsqueeze (of_all, none)
  wide = Concat <axis: int = 0> (count, two)
  e = ConstantOfShape (wide)
  most = ReduceMax <keepdims: int = 0> (lengths)
  r = Range (first, most, one)
  longest = Unsqueeze (most, none)
  s = Slice (x, none, longest)
}""",
         [f32(5, 4), i64(1, 3, 2, 2, 1)], [f32(3, 4), i64(2, 2, 1)])
    case("sizes_in_floats", 17, """
agraph (float[n, m] x) => (float[a, b] y, float[c] z, float[d] g, float[e] h, float[p] q) {
  zero = Constant <value = int64 {0}> ()
  one = Constant <value = int64 {1}> ()
  first = Constant <value = int64[1] {0}> ()
  none = Constant <value = float {0.0}> ()
  unit = Constant <value = float {1.0}> ()
  half = Constant <value = float {1.5}> ()
  three = Constant <value = float {3.0}> ()
  shape = Shape (x)
  n = Gather (shape, zero)
  m = Gather (shape, one)
  nf = Cast <to: int = 1> (n)
  mf = Cast <to: int = 1> (m)
  more = Mul (nf, half)
  down = Floor (more)
  parts = Div (mf, three)
  up = Ceil (parts)
  both = Cast <to: int = 7> (down)
  rows = Unsqueeze (both, first)
  part = Cast <to: int = 7> (up)
  columns = Unsqueeze (part, first)
  wanted = Concat <axis: int = 0> (rows, columns)
  y = ConstantOfShape (wanted)
  z = Range (none, mf, unit)
  product = Mul (n, m)
  quotient = Div (product, n)
  gs = Unsqueeze (quotient, first)
  g = ConstantOfShape (gs)
  rest = Mod (m, n)
  hs = Unsqueeze (rest, first)
  h = ConstantOfShape (hs)
  whole = Div (m, n)
  qs = Unsqueeze (whole, first)
  q = ConstantOfShape (qs)
}""", [f32(3, 7)], [f32(10, 21)], [f32(2, 4)])
    case("sizes_in_a_branch", 17, """
agraph (float[n, 3] x, float[m, 3] y, float t) => (float[k, 3] z, float[l, 3] w) {
  zero = Constant <value = float {0.0}> ()
  p = Greater (t, zero)
  z = If (p) <then_branch = graph () => (float[n, 3] a) {
    a = Add (x, y)
  }, else_branch = graph () => (float[n, 3] b) {
    b = Sub (x, y)
  }>
  count = Constant <value = int64 {3}> ()
  w = Loop (count, , x) <body = graph (int64 i, bool c, float[n, 3] v) => (bool d, float[n, 3] u) {
    d = Identity (c)
    u = Mul (v, y)
  }>
}""", [f32(2, 3), f32(2, 3), f32()], [f32(4, 3), f32(4, 3), -np.abs(f32())])
    case("image_and_its_half", 17, """
agraph (float[1, 2, h, w] x, float[2, 2, 1, 1] k) => (float[1, 4, h, w] y, float[1, 2, h, w] z) {
  scales = Constant <value = float[4] {1.0, 1.0, 2.0, 2.0}> ()
  small = Conv <strides: ints = [2, 2]> (x, k)
  large = Resize <mode: string = "nearest", coordinate_transformation_mode: string = "asymmetric", nearest_mode: string = "floor"> (small, , scales)
  y = Concat <axis: int = 1> (x, large)
  z = Add (x, large)
}""", [f32(1, 2, 4, 6), f32(2, 2, 1, 1)], [f32(1, 2, 2, 2), f32(2, 2, 1, 1)])
    x, vectors = f32(6, 3), f32(6, 3)
    listed = ", ".join(f"{v:.4f}" for v in vectors.ravel())
    # The second of both scores is memory that ONNX Runtime does not write.
    case("ml_svm_two_probit", 17, f"""
agraph (float[n, 3] x) => (int64[n] y, float[n, 1] first) {{
  y, z = ai.onnx.ml.SVMClassifier <classlabels_ints: ints = [4, 7], kernel_type: string = "LINEAR", kernel_params: floats = [0.5, 0.25, 2.0],
    coefficients: floats = [0.1, 0.02, -0.03, 0.05, 0.08, -0.1], rho: floats = [0.4], support_vectors: floats = [{listed}],
    vectors_per_class: ints = [2, 4], post_transform: string = "PROBIT"> (x)
  from = Constant <value = int64[1] {{0}}> ()
  to = Constant <value = int64[1] {{1}}> ()
  first = Slice (z, from, to, to)
}}""", [x], domains=ML)
    case("scan_backwards_with_lengths", 8, """
agraph (int64[b] lengths, float[b, 2] first, float[b, t, 2] x, float[b, t, 2] y) => (float[b, 2] last, float[b, t, 2] all) {
  last, all = Scan <num_scan_inputs: int = 2, directions: ints = [1, 0], body = graph (float[2] s, float[2] v, float[2] w) => (float[2] r, float[2] o) {
    h = Mul (s, v)
    r = Add (h, w)
    o = Sub (r, v)
  }> (lengths, first, x, y)
}""", [i64(2, 4, 1), f32(3, 2), f32(3, 4, 2), f32(3, 4, 2)])

    # 10 * 0.7 is 6.9999998807907104, and 7 when it is rounded.
    case("sizes_rounded_in_floats", 17, """
agraph (float[n] x) => (float[m] y) {
  part = Constant <value = float {0.7}> ()
  shape = Shape (x)
  n = Cast <to: int = 1> (shape)
  some = Mul (n, part)
  wanted = Cast <to: int = 7> (some)
  y = ConstantOfShape (wanted)
}""", [f32(10)], [f32(3)], [f32(20)])

    case("sizes_from_the_end", 17, """
agraph (float[n, 4] x, int64[n] lengths) => (float[k, 4] s, float[m, 4] y) {
  none = Constant <value = int64[1] {0}> ()
  far = Constant <value = int64[1] {100}> ()
  most = ReduceMax <keepdims: int = 0> (lengths)
  longest = Unsqueeze (most, none)
  s = Slice (x, none, longest)
  back = Neg (longest)
  y = Slice (x, back, far)
}""", [f32(5, 4), i64(1, 3, 2, 2, 1)], [f32(3, 4), i64(0, 0, 0)])


def main():
    for root in (ROOT, REFUSED):
        shutil.rmtree(root, ignore_errors=True)
    for make in (control, sequences, versions, strings, learned, support_vector_classifiers, maps, old_meanings, refusals, sizes):
        make()


main()
