"""Writes data/fused: models of one fused operator of ONNX Runtime each, with inputs and with what ONNX Runtime computes, as
make_quantized_models.py does (`python tests/onnx/make_fused_models.py`; needs onnx and onnxruntime)."""

import pathlib
import shutil

import numpy as np
import onnx
import onnx.helper as make
from make_quantized_models import session_of
from onnx import numpy_helper

FOLDER = pathlib.Path(__file__).parent / "data" / "fused"
rng = np.random.RandomState(7)
MICROSOFT = "com.microsoft"


def f32(*shape):
    return rng.uniform(-1, 1, size=shape).astype(np.float32)


def i32(*values):
    return np.array(values, np.int32)


def case(name, op, inputs, constants=None, outputs=1, domain=MICROSOFT, opset=17, open_sizes=None, tolerance=(1e-4, 1e-5),
         known=None, **attrs):
    """A node whose inputs and constants are given by position. `outputs` counts them, or says which are wanted.
    `open_sizes` has names for sizes, which are then no numbers in the model; `known` are the results where the runtime leaves
    some of them out."""
    given = {**inputs, **(constants or {})}
    wanted = [True] * outputs if isinstance(outputs, int) else outputs
    names = [f"x{i}" if i in given else "" for i in range(max(given) + 1)]
    results = [f"y{i}" if want else "" for i, want in enumerate(wanted)]
    node = make.make_node(op, names, results, domain=domain, **attrs)
    sizes = open_sizes or {}
    infos = [make.make_tensor_value_info(f"x{i}", make.np_dtype_to_tensor_dtype(v.dtype), [sizes.get(s, s) for s in v.shape])
             for i, v in inputs.items()]
    held = [numpy_helper.from_array(np.asarray(v), f"x{i}") for i, v in (constants or {}).items()]
    graph = make.make_graph([node], op, infos, [onnx.ValueInfoProto(name=r) for r in results if r], held)
    save(name, graph, [{f"x{i}": v for i, v in inputs.items()}], opset, tolerance, known)


def save(name, graph, input_sets, opset=17, tolerance=(1e-4, 1e-5), known=None):
    model = make.make_model(graph, opset_imports=[make.make_opsetid("", opset), make.make_opsetid(MICROSOFT, 1)])
    model.ir_version = 8
    (FOLDER / name).mkdir(parents=True)
    (FOLDER / name / "model.onnx").write_bytes(model.SerializeToString())
    (FOLDER / name / "tolerance.txt").write_text(f"{tolerance[0]} {tolerance[1]}\n")
    for k, inputs in enumerate(input_sets):
        data = FOLDER / name / f"test_data_set_{k}"
        data.mkdir()
        results = known or session_of(model).run(None, inputs)
        for kind, arrays in (("input", inputs.values()), ("output", results)):
            for i, array in enumerate(arrays):
                (data / f"{kind}_{i}.pb").write_bytes(numpy_helper.from_array(np.asarray(array)).SerializeToString())


BATCH_AND_LENGTH = {2: "batch", 5: "length"}


def norms():
    x, skip = f32(2, 5, 7), f32(2, 5, 7)
    scale, shift, bias = f32(7), f32(7), f32(7)
    both = {"open_sizes": BATCH_AND_LENGTH}
    case("skip_layer_norm", "SkipLayerNormalization", {0: x, 1: skip}, {2: scale, 3: shift, 4: bias}, epsilon=1e-5, **both)
    case("skip_layer_norm_sum", "SkipLayerNormalization", {0: x, 1: skip}, {2: scale, 3: shift}, [True, False, False, True], **both)
    total = x + skip + bias
    mean, deviation = total.mean(-1, keepdims=True), np.sqrt(total.var(-1, keepdims=True) + 1e-5)
    case("skip_layer_norm_statistics", "SkipLayerNormalization", {0: x, 1: skip}, {2: scale, 3: shift, 4: bias}, 4, epsilon=1e-5,
         known=[(total - mean) / deviation * scale + shift, mean, 1 / deviation, total], **both)
    case("skip_layer_norm_of_rows", "SkipLayerNormalization", {0: x, 1: skip[0]}, {2: scale, 4: bias}, [True, False, False, True],
         **both)
    case("skip_layer_norm_of_one", "SkipLayerNormalization", {0: x, 1: skip[:1]}, {2: scale, 3: shift}, **both)
    case("skip_simplified_layer_norm", "SkipSimplifiedLayerNormalization", {0: x, 1: skip}, {2: scale}, epsilon=1e-6, **both)
    case("skip_simplified_layer_norm_sum", "SkipSimplifiedLayerNormalization", {0: x[0], 1: skip[0]}, {2: scale, 3: bias},
         [True, False, False, True], epsilon=1e-6, open_sizes={5: "tokens"})
    case("simplified_layer_norm", "SimplifiedLayerNormalization", {0: x}, {1: scale}, 2, domain="", axis=-1, epsilon=1e-6,
         stash_type=1, **both)
    case("simplified_layer_norm_axis", "SimplifiedLayerNormalization", {0: x}, {1: f32(5, 7)}, domain="", axis=1,
         open_sizes={2: "batch"})
    case("layer_norm_13", "LayerNormalization", {0: x}, {1: scale, 2: shift}, 3, domain="", opset=13, axis=-1, **both)
    words, places, segments = f32(11, 7), f32(6, 7), f32(2, 7)
    ids = rng.randint(0, 11, size=(3, 5)).astype(np.int32)
    kinds = rng.randint(0, 2, size=(3, 5)).astype(np.int32)
    mask = (np.arange(5) < np.array([[3], [5], [1]])).astype(np.int32)
    sizes = {"open_sizes": {3: "batch", 5: "length"}}
    case("embed_layer_norm", "EmbedLayerNormalization", {0: ids, 1: kinds, 7: mask},
         {2: words, 3: places, 4: segments, 5: scale, 6: shift}, 3, epsilon=1e-6, **sizes)
    case("embed_layer_norm_places", "EmbedLayerNormalization", {0: ids, 8: np.array([[5, 4, 3, 2, 0]], np.int32)},
         {2: words, 3: places, 5: scale, 6: shift}, 2, **sizes)


def gelus():
    both = {"open_sizes": BATCH_AND_LENGTH}
    x, bias = 3 * f32(2, 5, 6), f32(6)
    case("bias_gelu", "BiasGelu", {0: x}, {1: bias}, **both)
    case("fast_gelu", "FastGelu", {0: x}, **both)
    case("fast_gelu_bias", "FastGelu", {0: x}, {1: bias}, **both)
    case("gelu", "Gelu", {0: x}, **both)
    case("quick_gelu", "QuickGelu", {0: x}, **both)
    case("quick_gelu_silu", "QuickGelu", {0: x}, alpha=1.0, **both)


def products():
    case("fused_matmul", "FusedMatMul", {0: f32(2, 3, 4, 5), 1: f32(2, 3, 6, 5)}, transB=1, alpha=0.125, open_sizes={2: "batch"})
    case("fused_matmul_columns", "FusedMatMul", {0: f32(5, 4)}, {1: f32(5, 3)}, transA=1, open_sizes={4: "n"})
    case("fused_matmul_batch", "FusedMatMul", {0: f32(4, 2, 3, 5), 1: f32(6, 2, 3, 5)}, transBatchA=1, transBatchB=1, transB=1,
         alpha=2.0)
    case("fused_matmul_batch_columns", "FusedMatMul", {0: f32(4, 2, 3, 5), 1: f32(2, 3, 4, 6)}, transBatchA=1, transA=1)
    case("fused_matmul_vector", "FusedMatMul", {0: f32(5), 1: f32(2, 5, 3)}, transA=1)
    case("transpose_matmul", "TransposeMatMul", {0: f32(2, 5, 4), 1: f32(2, 5, 3)}, transA=1)
    for activation, attrs in [("Relu", {}), ("LeakyRelu", {"activation_alpha": 0.2}), ("Sigmoid", {}), ("Tanh", {}),
                              ("Elu", {"activation_alpha": 0.7}), ("Softplus", {}), ("Softsign", {}),
                              ("HardSigmoid", {"activation_alpha": 0.3, "activation_beta": 0.4}),
                              ("ThresholdedRelu", {"activation_alpha": 0.5})]:
        case(f"fused_gemm_{activation.lower()}", "FusedGemm", {0: f32(3, 4)}, {1: f32(5, 4), 2: f32(5)}, transB=1, alpha=0.5,
             beta=1.5, activation=activation, open_sizes={3: "batch"}, **attrs)
    case("fused_gemm_no_bias", "FusedGemm", {0: f32(4, 3)}, {1: f32(4, 5)}, transA=1, activation="Relu")
    image, kernel, bias = f32(2, 4, 5, 7), f32(6, 2, 3, 2), f32(6)
    for activation, params in [("Relu", {}), ("LeakyRelu", {"activation_params": [0.2]}),
                               ("Clip", {"activation_params": [-0.3, 0.4]}), ("Sigmoid", {}), ("Tanh", {}),
                               ("HardSigmoid", {"activation_params": [0.3, 0.4]})]:
        case(f"fused_conv_{activation.lower()}", "FusedConv", {0: image}, {1: kernel, 2: bias}, activation=activation, group=2,
             strides=[1, 2], pads=[1, 0, 1, 1], dilations=[1, 1], kernel_shape=[3, 2], auto_pad="NOTSET",
             open_sizes={2: "batch"}, **params)
    case("fused_conv_sum", "FusedConv", {0: f32(2, 3, 6, 6), 3: f32(2, 4, 4, 4)}, {1: f32(4, 3, 3, 3), 2: f32(4)},
         activation="Relu", open_sizes={2: "batch"})


def tables_of(*frequencies):
    angles = np.outer(np.arange(9), frequencies)
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def attentions():
    both = {"open_sizes": BATCH_AND_LENGTH}
    x, weight, bias = f32(2, 5, 8), f32(8, 24), f32(24)
    held = {1: weight, 2: bias}
    three = np.stack([np.tril(np.ones((5, 5), np.int32)), np.ones((5, 5), np.int32)])
    masks = {"ends": i32(3, 5), "ends_and_begins": i32(4, 5, 1, 0), "keys": i32(1, 1, 1, 0, 1, 0, 1, 1, 1, 1).reshape(2, 5),
             "hidden": i32(0, 0, 0, 0, 0, 1, 1, 1, 0, 0).reshape(2, 5), "pairs": three}
    case("attention", "Attention", {0: x}, held, num_heads=2, **both)
    case("attention_scale", "Attention", {0: x}, held, num_heads=4, scale=0.3, **both)
    for name, mask in masks.items():
        sizes = {} if name == "ends_and_begins" else both
        case(f"attention_{name}", "Attention", {0: x, 3: mask}, held, num_heads=2, **sizes)
    case("attention_causal", "Attention", {0: x}, held, num_heads=2, unidirectional=1, **both)
    case("attention_causal_keys", "Attention", {0: x, 3: masks["keys"]}, held, num_heads=2, unidirectional=1,
         mask_filter_value=-50000.0, **both)
    case("attention_sizes", "Attention", {0: x}, {1: f32(8, 28), 2: f32(28)}, num_heads=2, qkv_hidden_sizes=[8, 8, 12], **both)
    past = f32(2, 2, 2, 3, 4)
    case("attention_past", "Attention", {0: x, 4: past}, held, 2, num_heads=2, unidirectional=1)
    case("attention_past_keys", "Attention", {0: x, 3: np.tile(i32(0, 1, 1, 1, 1, 1, 1, 0), (2, 1)), 4: past}, held, 2,
         num_heads=2, unidirectional=1)
    case("attention_bias", "Attention", {0: x, 5: f32(1, 2, 5, 5)}, held, num_heads=2, **both)
    case("attention_present", "Attention", {0: x}, held, 2, num_heads=2, unidirectional=1, **both)

    def some_bytes():
        return rng.randint(0, 256, size=(2, 5, 8)).astype(np.uint8)

    def small_weights():  # sums of two products are kept in 16 bits by the runtime on some CPUs
        return rng.randint(-60, 61, size=(8, 24)).astype(np.int8)

    case("q_attention", "QAttention", {0: some_bytes(), 5: masks["keys"]},
         {1: small_weights(), 2: bias, 3: np.float32(0.01),
          4: rng.uniform(0.001, 0.01, size=24).astype(np.float32), 6: np.uint8(120), 7: np.zeros(24, np.int8)}, num_heads=2, **both)
    case("q_attention_causal", "QAttention", {0: some_bytes()},
         {1: small_weights(), 2: bias, 3: np.float32(0.01), 4: np.float32(0.005),
          6: np.uint8(120), 7: np.int8(3)}, num_heads=4, unidirectional=1, **both)

    q, k, v, all_bias = f32(2, 5, 8), f32(2, 3, 8), f32(2, 3, 12), f32(28)
    cross = {"open_sizes": {2: "batch", 5: "length", 3: "keys"}}
    case("multi_head", "MultiHeadAttention", {0: q, 1: k, 2: v}, num_heads=2, **cross)
    case("multi_head_bias", "MultiHeadAttention", {0: q, 1: k, 2: v}, {3: all_bias}, num_heads=2, scale=0.4, **cross)
    case("multi_head_keys", "MultiHeadAttention", {0: q, 1: k, 2: v, 4: i32(1, 0, 1, 1, 1, 0).reshape(2, 3)}, num_heads=2, **cross)
    case("multi_head_ends", "MultiHeadAttention", {0: q, 1: k, 2: v, 4: i32(2, 3)}, num_heads=4, **cross)
    case("multi_head_score_bias", "MultiHeadAttention", {0: q, 1: k, 2: v, 5: f32(2, 2, 5, 3)}, num_heads=2,
         open_sizes={5: "length", 3: "keys"})
    case("multi_head_causal", "MultiHeadAttention", {0: q, 1: f32(2, 5, 8), 2: f32(2, 5, 8)}, num_heads=2, unidirectional=1, **both)
    case("multi_head_past", "MultiHeadAttention",
         {0: q, 1: f32(2, 5, 8), 2: f32(2, 5, 8), 6: f32(2, 2, 3, 4), 7: f32(2, 2, 3, 4)}, {3: f32(24)}, 3, num_heads=2,
         unidirectional=1)
    case("multi_head_ready", "MultiHeadAttention", {0: q, 1: f32(2, 2, 3, 4), 2: f32(2, 2, 3, 4)}, num_heads=2)

    cos, sin = tables_of(1.0, 0.1)
    places = np.array([[0, 1, 2, 3, 4], [3, 4, 5, 6, 8]], np.int64)
    for name, x, attrs, sizes in [("", f32(2, 5, 12), {}, both), ("_interleaved", f32(2, 5, 12), {"interleaved": 1}, both),
                                  ("_by_heads", f32(2, 3, 5, 4), {}, both),
                                  ("_part", f32(2, 5, 18), {"rotary_embedding_dim": 4, "num_heads": 3}, both)]:
        case(f"rotary{name}", "RotaryEmbedding", {0: x, 1: places}, {2: cos, 3: sin}, **attrs, **sizes)
    case("rotary_offset", "RotaryEmbedding", {0: f32(2, 5, 8), 1: np.array([3], np.int64)}, {2: cos, 3: sin}, **both)


def grouped():
    cos, sin = tables_of(1.0, 0.7, 0.5, 0.3, 0.1, 0.05, 0.02, 0.01)
    heads = {"num_heads": 4, "kv_num_heads": 2}

    q, k, v = f32(2, 5, 64), f32(2, 5, 32), f32(2, 5, 32)
    whole = {5: i32(4, 4), 6: np.int32(5)}
    tables = {7: cos, 8: sin}
    case("group_query", "GroupQueryAttention", {0: q, 1: k, 2: v}, whole, 3, **heads)
    case("group_query_rotary", "GroupQueryAttention", {0: q, 1: k, 2: v}, {**whole, **tables}, 3, do_rotary=1, **heads)
    case("group_query_interleaved", "GroupQueryAttention", {0: q, 1: k, 2: v, 3: f32(2, 2, 0, 16), 4: f32(2, 2, 0, 16)},
         {**whole, **tables}, 3, do_rotary=1, rotary_interleaved=1, **heads)
    case("group_query_packed", "GroupQueryAttention", {0: f32(2, 5, 128)}, {**whole, **tables}, 3, do_rotary=1, **heads)
    case("group_query_scaled", "GroupQueryAttention", {0: q, 1: k, 2: v}, whole, 3, scale=0.7, softcap=2.0, **heads)
    case("group_query_window", "GroupQueryAttention", {0: q, 1: k, 2: v}, whole, 3, local_window_size=2, **heads)
    case("group_query_bias", "GroupQueryAttention", {0: q, 1: k, 2: v, 10: f32(1, 4, 5, 5)}, whole, 3, **heads)
    # One more token behind three that are there: with caches that grow, and with caches that have room.
    step = {0: f32(2, 1, 64), 1: f32(2, 1, 32), 2: f32(2, 1, 32)}
    case("group_query_step", "GroupQueryAttention", {**step, 3: f32(2, 2, 3, 16), 4: f32(2, 2, 3, 16)},
         {5: i32(3, 3), 6: np.int32(4), **tables}, 3, do_rotary=1, **heads)
    room = [np.concatenate([f32(2, 2, 3, 16), np.zeros((2, 2, 4, 16), np.float32)], 2) for _ in range(2)]
    case("group_query_step_in_room", "GroupQueryAttention", {**step, 3: room[0], 4: room[1]},
         {5: i32(3, 3), 6: np.int32(4), **tables}, 3, do_rotary=1, **heads)
    case("group_query_step_window", "GroupQueryAttention", {**step, 3: f32(2, 2, 3, 16), 4: f32(2, 2, 3, 16)},
         {5: i32(3, 3), 6: np.int32(4)}, 3, local_window_size=2, **heads)
    uneven = [f32(2, 2, 3, 16) for _ in range(2)]
    for cache in uneven:
        cache[1, :, 2:] = 0
    case("group_query_step_uneven", "GroupQueryAttention", {**step, 3: uneven[0], 4: uneven[1]},
         {5: i32(3, 2), 6: np.int32(4), **tables}, 3, do_rotary=1, **heads)
    case("group_query_steps", "GroupQueryAttention",
         {0: f32(1, 2, 64), 1: f32(1, 2, 32), 2: f32(1, 2, 32), 3: f32(1, 2, 3, 16), 4: f32(1, 2, 3, 16)},
         {5: i32(4), 6: np.int32(5), **tables}, 3, do_rotary=1, **heads)


def decoder():
    """A layer as exporters of language models write it: caches that are empty, that grow, and that have room, by one graph."""
    cos, sin = tables_of(1.0, 0.7, 0.5, 0.3, 0.1, 0.05, 0.02, 0.01)
    held = {"cos": cos, "sin": sin, "weight": f32(32, 64), "scale": f32(32), "axes": np.array([1], np.int64), "one": np.int64(1)}
    nodes = [
        make.make_node("ReduceSum", ["mask", "axes"], ["lengths"], keepdims=1),
        make.make_node("Sub", ["lengths", "one"], ["last"]),
        make.make_node("Cast", ["last"], ["last_of_each"], to=onnx.TensorProto.INT32),
        make.make_node("Shape", ["mask"], ["sizes"]),
        make.make_node("Gather", ["sizes", "one"], ["longest"], axis=0),
        make.make_node("Cast", ["longest"], ["total"], to=onnx.TensorProto.INT32),
        make.make_node("SimplifiedLayerNormalization", ["x", "scale"], ["normal"], axis=-1, epsilon=1e-6, stash_type=1),
        make.make_node("MatMul", ["normal", "weight"], ["qkv"]),
        make.make_node("GroupQueryAttention", ["qkv", "", "", "k", "v", "last_of_each", "total", "cos", "sin"],
                       ["y", "k_out", "v_out"], domain=MICROSOFT, num_heads=2, kv_num_heads=1, do_rotary=1, local_window_size=-1, scale=0.25),
        make.make_node("SkipSimplifiedLayerNormalization", ["y", "x", "scale"], ["z", "", "", "sum"], domain=MICROSOFT,
                       epsilon=1e-6),
    ]
    infos = [make.make_tensor_value_info(name, dtype, shape) for name, dtype, shape in [
        ("x", onnx.TensorProto.FLOAT, ["batch", "length", 32]), ("mask", onnx.TensorProto.INT64, ["batch", "total"]),
        ("k", onnx.TensorProto.FLOAT, ["batch", 1, "past", 16]), ("v", onnx.TensorProto.FLOAT, ["batch", 1, "past", 16])]]
    graph = make.make_graph(nodes, "decoder", infos, [onnx.ValueInfoProto(name=r) for r in ("z", "sum", "k_out", "v_out")],
                            [numpy_helper.from_array(np.asarray(v), k) for k, v in held.items()])
    sets = []
    for batch, length, past, total in [(2, 5, 0, 5), (2, 1, 5, 6), (1, 3, 4, 7), (2, 1, 8, 6)]:
        caches = f32(2, batch, 1, past, 16)
        caches[:, :, :, total - length:] = 0
        sets.append({"x": f32(batch, length, 32), "mask": np.ones((batch, total), np.int64), "k": caches[0], "v": caches[1]})
    save("decoder", graph, sets)


if __name__ == "__main__":
    shutil.rmtree(FOLDER, ignore_errors=True)
    norms()
    gelus()
    products()
    attentions()
    grouped()
    decoder()
    print(len(list(FOLDER.iterdir())), "models,", sum(p.stat().st_size for p in FOLDER.rglob("*") if p.is_file()), "bytes")
