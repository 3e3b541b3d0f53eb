"""Checks models of the cases of data/*.json: the onnx package's checker with shape inference, and ONNX
Runtime, whose results must be those of the case. FOLDER/models holds the models one after the other,
FOLDER/models.json says which case each one is of, what it shows, and its size. Prints a JSON report: how many models
of each operator ran, for how many there is no kernel in that runtime, and what failed. Exit code 77: a package is
missing."""

import collections
import json
import math
import pathlib
import sys

try:
    import numpy as np
    import onnx
    import onnxruntime as ort
except ImportError as missing:
    print(missing, file=sys.stderr)
    sys.exit(77)

# ONNX Runtime takes no bf16 from NumPy: such models are checked, not run.
DTYPES = {"f64": np.float64, "f32": np.float32, "f16": np.float16, "i64": np.int64, "i32": np.int32,
          "i16": np.int16, "i8": np.int8, "u64": np.uint64, "u32": np.uint32, "u16": np.uint16, "u8": np.uint8,
          "bool": np.bool_}
# Another library's functions are less exact than Dyad's.
TOLERANCE = {"f64": 1e-6, "f32": 1e-5, "f16": 2e-3}
# What puts elements into an order.
ORDERED = {"sort", "topk", "kthvalue", "unique", "median", "nanmedian values", "quantile", "argmax", "argmin", "norm",
           "scatter_max", "scatter_min", "isin"}
RANGE = {"i64": 63, "i32": 31, "i16": 15, "i8": 7, "u64": 63, "u32": 31, "u16": 15, "u8": 7}

# What is written as a Scan.
SCANNED = {"cumprod", "cummax", "cummin", "logcumsumexp"}
# Without VNNI, ONNX Runtime adds pairs of products of u8 and i8 in 16 bits, which saturate.
ADDS_BYTES_EXACTLY = "vnni" in pathlib.Path("/proc/cpuinfo").read_text()


def array(encoded):
    dtype, shape, elements = encoded
    return np.array([float(x) if isinstance(x, str) else x for x in elements], DTYPES[dtype]).reshape(shape)


def defined(case, want):
    """Where ONNX says what the result is. It does not for what a NaN does in a sign or a maximum over elements, where
    it goes in an order, nor for floats converted to an integer dtype that cannot hold them, and so quantised."""
    if case["op"] in ORDERED and any(x == "nan" for encoded in case["in"] if encoded for x in encoded[2]):
        return np.zeros(want.shape, bool)
    if case["op"] in ("sign", "max", "min", "argmax", "argmin", "max_pool"):
        return ~np.isnan(want)
    if case["op"] == "cast" and case["out"][0][0] in RANGE and case["in"][0][0][0] in "fb":
        source = [math.nan if x is True else float(x) for x in case["in"][0][2]]
        low = -1 if case["out"][0][0][0] == "u" else -math.inf
        return np.array([low < x and abs(x) < 2.0 ** RANGE[case["out"][0][0]] for x in source])
    if case["op"] == "matmul_integer" and 0 in case["in"][0][1]:  # ONNX Runtime leaves such sums as memory was
        return np.zeros(want.shape, bool)
    dtypes = {encoded[0] for encoded in case["in"] if encoded}
    if case["op"].startswith(("matmul_integer", "conv_integer", "qlinear_")) and {"u8", "i8"} <= dtypes:
        return np.full(want.shape, ADDS_BYTES_EXACTLY)
    if case["op"] in ("quantize_linear", "fake_quantize") and len(case["in"][0][2]) == want.size:
        return np.array([x not in ("nan", "inf", "-inf") for x in case["in"][0][2]], bool).reshape(want.shape)
    return np.ones(want.shape, bool)


def difference(got, want, dtype, where, floor):
    if got.dtype != want.dtype or got.shape != want.shape:
        return f"{got.dtype}{list(got.shape)}, not {want.dtype}{list(want.shape)}"
    if dtype in TOLERANCE:
        good = np.isclose(got, want, TOLERANCE[dtype], TOLERANCE[dtype] / 10 * max(1, floor), equal_nan=True)
    else:
        good = got == want
    bad = np.flatnonzero(np.atleast_1d(~good & where).ravel())
    if bad.size == 0:
        return ""
    return f"element {bad[0]} is {got.ravel()[bad[0]]}, not {want.ravel()[bad[0]]}"


def has_wide_softplus(model, case):
    """The runtime has no Softplus of f64. In opset 18 alone it takes log(exp(x) + 1), which overflows, in its place."""
    wide = any(x is not None and x[0] == "f64" for x in case["in"])
    return wide and any(node.op_type == "Softplus" for node in onnx.load_from_string(model).graph.node)


def main():
    folder = pathlib.Path(sys.argv[1])
    cases = [case for path in sorted((pathlib.Path(__file__).parent / "data").glob("*.json"))
             for case in json.loads(path.read_text())]
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    ran, unsupported, failures = collections.Counter(), collections.Counter(), []
    models = (folder / "models").open("rb")
    for entry in json.loads((folder / "models.json").read_text()):
        model = models.read(entry["size"])
        case = cases[entry["case"]]
        tensors = [x for x in case["in"] + case["out"] if x is not None]
        name = f"{case['op']} {case.get('attrs', '')} {[x and x[:2] for x in case['in']]} ({entry['shows']})"
        try:
            onnx.checker.check_model(model, full_check=True)
            if any(x[0] not in DTYPES for x in tensors):
                continue
            if entry["shows"] == "opset 18" and has_wide_softplus(model, case):
                unsupported[case["op"]] += 1
                continue
            if case["op"] in SCANNED and 0 in case["in"][0][1]:  # its Scan over nothing ends the process
                unsupported[case["op"]] += 1
                continue
            session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
            inputs = {f"x{i}": array(x) for i, x in enumerate(case["in"]) if x is not None}
            used = {x.name for x in session.get_inputs()}
            results = session.run(None, {k: v for k, v in inputs.items() if k in used})
        except Exception as error:  # its exceptions have no common base
            # Its products of transposed matrices take no empty batch, nor its parts of SoftmaxCrossEntropyLoss,
            # which is written where the file does not say that the batch is empty.
            open_loss = case["op"] == "cross_entropy" and entry["shows"] == "open sizes"
            empty = (open_loss or case["op"] in ("affine_grid", "avg_pool_backward")) and 0 in case["in"][0][1]
            if empty or any(reason in str(error) for reason in
                            ("NOT_IMPLEMENTED", "data type is not supported", "does not support double yet")):
                unsupported[case["op"]] += 1
            else:
                failures.append(f"{name}: {str(error)[:400]}")
            continue
        ran[case["op"]] += 1
        for got, encoded in zip(results, case["out"]):
            want = array(encoded)
            where = defined(case, want)
            problem = difference(got, want, encoded[0], where, case.get("floor", 0))
            if problem and where.any():
                failures.append(f"{name}: {problem}")
    json.dump({"ran": ran, "unsupported": unsupported, "failures": failures}, sys.stdout)


main()
