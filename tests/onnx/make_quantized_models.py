"""Writes data/quantized: models that ONNX Runtime's quantisation made of small networks, and models of one operator of its
own domain each, with inputs and with what ONNX Runtime computes, in the layout of ONNX's backend tests
(`python tests/onnx/make_quantized_models.py`; needs onnx and onnxruntime)."""

import pathlib
import shutil
import tempfile

import numpy as np
import onnx
import onnx.helper as make
import onnxruntime as ort
from onnx import TensorProto, numpy_helper
from onnxruntime import quantization as tools

FOLDER = pathlib.Path(__file__).parent / "data" / "quantized"
rng = np.random.RandomState(5)


def session_of(model):
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def write(name, model, inputs, relative=1e-5, absolute=1e-6):
    folder = FOLDER / name
    sets = folder / "test_data_set_0"
    sets.mkdir(parents=True)
    for part in (model.graph.node, model.graph.value_info):  # names of a tool's own
        for item in part:
            item.doc_string = ""
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    (folder / "tolerance.txt").write_text(f"{relative} {absolute}\n")
    outputs = session_of(model).run(None, inputs)
    for kind, arrays in (("input", inputs.values()), ("output", outputs)):
        for i, array in enumerate(arrays):
            (sets / f"{kind}_{i}.pb").write_bytes(numpy_helper.from_array(np.asarray(array)).SerializeToString())


def node_model(op, inputs, constants, outputs=1, **attrs):
    """One node of ONNX Runtime's domain: `inputs` and `constants` by position; None for an absent one."""
    given = {**inputs, **constants}
    names = [f"x{i}" if given.get(i) is not None else "" for i in range(max(given) + 1)]
    results = [f"y{i}" for i in range(outputs)]
    node = make.make_node(op, names, results, domain="com.microsoft", **attrs)
    infos = [make.make_tensor_value_info(f"x{i}", make.np_dtype_to_tensor_dtype(v.dtype), v.shape) for i, v in inputs.items()]
    held = [numpy_helper.from_array(np.asarray(v), f"x{i}") for i, v in constants.items() if v is not None]
    graph = make.make_graph([node], op, infos, [onnx.ValueInfoProto(name=r) for r in results], held)
    model = make.make_model(graph, opset_imports=[make.make_opsetid("", 17), make.make_opsetid("com.microsoft", 1)])
    model.ir_version = 8
    return model, {f"x{i}": v for i, v in inputs.items()}


def node_case(name, op, inputs, constants, relative=0.0, absolute=1.0, **attrs):
    """Numbers of 8 bits may differ by one: a sum that lies between two may be rounded either way."""
    write(name, *node_model(op, inputs, constants, **attrs), relative, absolute)


def u8(*shape):
    return rng.randint(0, 256, size=shape).astype(np.uint8)


def i8(*shape):
    return rng.randint(-127, 128, size=shape).astype(np.int8)


def f32(*shape):
    return rng.uniform(-2, 2, size=shape).astype(np.float32)


def scale(x):
    return np.float32(x)


def operators():
    for op in ("Add", "Mul"):
        node_case(f"qlinear_{op.lower()}", f"QLinear{op}", {0: u8(2, 3, 4), 3: u8(3, 1)},
                  {1: scale(0.03), 2: np.uint8(120), 4: scale(0.05), 5: np.uint8(3), 6: scale(0.06), 7: np.uint8(100)})
    node_case("qlinear_add_i8", "QLinearAdd", {0: i8(3, 4), 3: i8(4)},
              {1: scale(0.03), 2: np.int8(-5), 4: scale(0.05), 5: np.int8(7), 6: scale(0.08), 7: np.int8(1)})
    node_case("qlinear_sigmoid", "QLinearSigmoid", {0: u8(3, 7)},
              {1: scale(0.05), 2: np.uint8(128), 3: scale(1 / 256), 4: np.uint8(0)})
    node_case("qlinear_leaky_relu", "QLinearLeakyRelu", {0: i8(3, 7)},
              {1: scale(0.05), 2: np.int8(3), 3: scale(0.04), 4: np.int8(-20)}, alpha=0.1)
    node_case("qlinear_global_average_pool", "QLinearGlobalAveragePool", {0: u8(2, 3, 4, 5)},
              {1: scale(0.05), 2: np.uint8(100), 3: scale(0.02), 4: np.uint8(90)}, channels_last=0)
    node_case("qlinear_global_average_pool_last", "QLinearGlobalAveragePool", {0: u8(2, 4, 5, 3)},
              {1: scale(0.05), 2: np.uint8(100), 3: scale(0.02), 4: np.uint8(90)}, channels_last=1)
    node_case("qlinear_average_pool", "QLinearAveragePool", {0: u8(1, 2, 5, 6)},
              {1: scale(0.05), 2: np.uint8(100), 3: scale(0.04), 4: np.uint8(90)}, kernel_shape=[3, 2], strides=[2, 1],
              pads=[1, 0, 1, 1])
    node_case("qlinear_concat", "QLinearConcat", {2: u8(2, 3), 5: u8(2, 2)},
              {0: scale(0.1), 1: np.uint8(10), 3: scale(0.07), 4: np.uint8(20), 6: scale(0.1), 7: np.uint8(10)}, axis=1)
    node_case("qlinear_softmax", "QLinearSoftmax", {0: u8(3, 5)},
              {1: scale(0.03), 2: np.uint8(50), 3: scale(1 / 256), 4: np.uint8(0)}, axis=-1, opset=13)
    node_case("qlinear_softmax_flat", "QLinearSoftmax", {0: u8(2, 3, 2)},
              {1: scale(0.03), 2: np.uint8(50), 3: scale(1 / 256), 4: np.uint8(0)}, axis=1, opset=12)
    node_case("qlinear_where", "QLinearWhere", {0: rng.rand(2, 4) < 0.5, 1: u8(2, 4), 4: u8(4)},
              {2: scale(0.05), 3: np.uint8(3), 5: scale(0.02), 6: np.uint8(30), 7: scale(0.06), 8: np.uint8(9)})
    for name, extra, tolerance in [("", {7: scale(0.9), 8: np.uint8(70)}, (0, 1)), ("_to_float", {}, (1e-5, 1e-5))]:
        node_case(f"qgemm{name}", "QGemm", {0: u8(3, 4)},
                  {1: scale(0.03), 2: np.uint8(110), 3: i8(5, 4), 4: np.array([0.01, 0.02, 0.03, 0.01, 0.05], np.float32),
                   5: np.zeros(5, np.int8), 6: rng.randint(-500, 500, size=5).astype(np.int32), **extra}, *tolerance, transB=1,
                  alpha=1.5)
    node_case("matmul_integer_to_float", "MatMulIntegerToFloat", {0: u8(2, 3, 4)},
              {1: i8(4, 5), 2: scale(0.03), 3: np.array([0.01, 0.02, 0.03, 0.01, 0.05], np.float32), 4: np.uint8(110),
               5: np.zeros(5, np.int8), 6: f32(5)}, 1e-5, 1e-5)
    node_case("dynamic_quantize_matmul", "DynamicQuantizeMatMul", {0: f32(3, 8)},
              {1: i8(8, 5), 2: scale(0.03), 3: np.int8(0), 4: f32(5)}, 1e-4, 1e-4)
    hidden, width = 3, 4
    weights = [i8(1, n, 4 * hidden) for n in (width, hidden)]
    # The runtime quantises the hidden state of every step as well.
    node_case("dynamic_quantize_lstm", "DynamicQuantizeLSTM", {0: f32(5, 2, width)},
              {1: weights[0], 2: weights[1], 3: f32(1, 8 * hidden), 8: np.array([0.004], np.float32),
               9: np.array([0], np.int8), 10: np.array([0.004], np.float32), 11: np.array([0], np.int8)}, 0.02, 0.01,
              outputs=3, hidden_size=hidden, direction="forward")
    columns, rows = 40, 6
    for name, bits, block, with_zero in [("4", 4, 16, False), ("4_zero_points", 4, 16, True), ("8", 8, 32, True)]:
        blocks = -(-columns // block)
        zeros = {3: u8(rows * (-(-blocks * bits // 8)))} if with_zero else {}
        node_case(f"matmul_{name}_bits", "MatMulNBits", {0: f32(3, columns)},
                  {1: u8(rows, blocks, block * bits // 8), 2: rng.uniform(0.01, 0.1, size=rows * blocks).astype(np.float32),
                   **zeros}, 1e-4, 1e-4, K=columns, N=rows, bits=bits, block_size=block)


def network():
    """Two convolutions and a linear layer, or three linear layers."""
    def graph(nodes, weights, shape):
        infos = [make.make_tensor_value_info("x", TensorProto.FLOAT, shape)]
        results = [make.make_tensor_value_info("y", TensorProto.FLOAT, [None, 5])]
        held = [numpy_helper.from_array(v, k) for k, v in weights.items()]
        model = make.make_model(make.make_graph(nodes, "g", infos, results, held), opset_imports=[make.make_opsetid("", 17)])
        model.ir_version = 8
        return model

    cnn = graph([
        make.make_node("Conv", ["x", "w1", "b1"], ["c1"], "conv1", pads=[1, 1, 1, 1]),
        make.make_node("Relu", ["c1"], ["r1"], "relu1"),
        make.make_node("Conv", ["r1", "w2", "b2"], ["c2"], "conv2", strides=[2, 2]),
        make.make_node("Relu", ["c2"], ["r2"], "relu2"),
        make.make_node("GlobalAveragePool", ["r2"], ["p"], "pool"),
        make.make_node("Flatten", ["p"], ["f"], "flatten"),
        make.make_node("Gemm", ["f", "w3", "b3"], ["y"], "linear"),
    ], {"w1": f32(4, 3, 3, 3) / 3, "b1": f32(4) / 10, "w2": f32(6, 4, 3, 3) / 4, "b2": f32(6) / 10, "w3": f32(6, 5),
        "b3": f32(5)}, [None, 3, 8, 8])
    mlp = graph([
        make.make_node("MatMul", ["x", "w1"], ["m1"], "up"),
        make.make_node("Add", ["m1", "b1"], ["a1"], "bias1"),
        make.make_node("Relu", ["a1"], ["r1"], "relu1"),
        make.make_node("MatMul", ["r1", "w2"], ["m2"], "down"),
        make.make_node("Add", ["m2", "b2"], ["y"], "bias2"),
    ], {"w1": f32(6, 16), "b1": f32(16), "w2": f32(16, 5), "b2": f32(5)}, [None, 6])
    return cnn, mlp


class Samples(tools.CalibrationDataReader):
    def __init__(self, shape):
        self.samples = iter([{"x": f32(*shape)} for _ in range(4)])

    def get_next(self):
        return next(self.samples, None)


def whole_models():
    cnn, mlp = network()
    with tempfile.TemporaryDirectory() as folder:
        plain, made = pathlib.Path(folder) / "plain.onnx", pathlib.Path(folder) / "made.onnx"
        onnx.save(mlp, plain)
        for name, dtype in [("i8", tools.QuantType.QInt8), ("u8", tools.QuantType.QUInt8)]:
            tools.quantize_dynamic(plain, made, weight_type=dtype)
            write(f"mlp_dynamic_{name}", onnx.load(made), {"x": f32(4, 6)}, 1e-4, 1e-4)
        onnx.save(cnn, plain)
        for name, form in [("qdq", tools.QuantFormat.QDQ), ("qoperator", tools.QuantFormat.QOperator)]:
            for channels in (False, True):
                tools.quantize_static(plain, made, Samples((2, 3, 8, 8)), quant_format=form, per_channel=channels,
                                      activation_type=tools.QuantType.QUInt8, weight_type=tools.QuantType.QInt8)
                # A result is a number of 8 bits times a scale, and may be one off.
                write(f"cnn_static_{name}{'_by_channel' if channels else ''}", onnx.load(made), {"x": f32(2, 3, 8, 8)}, 0, 0.05)


def reordered_columns():
    """Blocks of columns that are no neighbours."""
    rows, columns = 6, 40
    order = rng.permutation(np.repeat(np.arange(3), 16)[:columns]).astype(np.int32)
    node_case("matmul_4_bits_reordered", "MatMulNBits", {0: f32(3, columns)},
              {1: u8(rows, 3, 8), 2: rng.uniform(0.01, 0.1, size=rows * 3).astype(np.float32), 4: order},
              1e-4, 1e-4, K=columns, N=rows, bits=4, block_size=16)


if __name__ == "__main__":
    shutil.rmtree(FOLDER, ignore_errors=True)
    operators()
    whole_models()
    reordered_columns()
    print(len(list(FOLDER.iterdir())), "models,", sum(p.stat().st_size for p in FOLDER.rglob("*") if p.is_file()), "bytes")
