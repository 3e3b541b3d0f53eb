"""Checks ONNX files: `check_models.py MANIFEST` prints a JSON report for each model.

MANIFEST holds [{"model", "run", "cases": [{"inputs", "outputs"}], "tolerance", "floor"}]; inputs and outputs are
.npz files whose names are those of the model's. Every model goes through the onnx package's checker with shape
inference; those with "run" through ONNX Runtime too, whose results must lie within `tolerance` times the expected
element plus `floor` times the largest. Exit code 77: a package is missing.
"""

import json
import sys

try:
    import numpy
    import onnx
    import onnxruntime
except ImportError as missing:
    print(missing, file=sys.stderr)
    sys.exit(77)


def all_nodes(graph):
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from all_nodes(attribute.g)


def type_text(value):
    tensor = value.type.tensor_type
    dims = [d.dim_param or d.dim_value for d in tensor.shape.dim]
    return [onnx.TensorProto.DataType.Name(tensor.elem_type), dims]


def property_of(node, key):
    return next((entry.value for entry in node.metadata_props if entry.key == key), "")


def describe(model):
    return {
        "ir_version": model.ir_version,
        "opset": model.opset_import[0].version,
        "inputs": {value.name: type_text(value) for value in model.graph.input},
        "outputs": {value.name: type_text(value) for value in model.graph.output},
        "weights": {
            weight.name: {
                "shape": list(weight.dims),
                "external": {entry.key: entry.value for entry in weight.external_data},
            }
            for weight in model.graph.initializer
        },
        "nodes": [
            {
                "op": node.op_type,
                "operator": property_of(node, "dyad.operator"),
                "source": property_of(node, "dyad.source"),
            }
            for node in all_nodes(model.graph)
        ],
    }


def difference(name, got, want, tolerance, floor):
    if got.dtype != want.dtype or got.shape != want.shape:
        return f"{name}: got {got.dtype}{list(got.shape)}, expected {want.dtype}{list(want.shape)}"
    if got.dtype.kind != "f":
        return "" if numpy.array_equal(got, want) else f"{name}: got {got}, expected {want}"
    finite = numpy.abs(want[numpy.isfinite(want)])
    largest = finite.max() if finite.size else 0
    close = numpy.isclose(got, want, rtol=tolerance, atol=floor * largest, equal_nan=True)
    if close.all():
        return ""
    worst = numpy.nanmax(numpy.abs(got - want))
    return f"{name}: {numpy.count_nonzero(~close)} of {close.size} elements differ, by up to {worst}: got {got}, expected {want}"


def run(entry):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(entry["model"], options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    for number, case in enumerate(entry["cases"]):
        got = dict(zip(names, session.run(names, dict(numpy.load(case["inputs"])))))
        for name, want in numpy.load(case["outputs"]).items():
            text = difference(name, got[name], want, entry["tolerance"], entry["floor"])
            if text:
                return f"case {number}: {text}"
    return ""


def report(entry):
    result = {"error": ""}
    try:
        onnx.checker.check_model(entry["model"], full_check=True)
        result.update(describe(onnx.load(entry["model"], load_external_data=False)))
        if entry["run"]:
            result["error"] = run(entry)
    except Exception as error:
        result["error"] = f"{type(error).__name__}: {error}"
    return result


if __name__ == "__main__":
    with open(sys.argv[1]) as file:
        manifest = json.load(file)
    json.dump([report(entry) for entry in manifest], sys.stdout)
