"""Runs a model in ONNX Runtime with what every node gives as a result, and names the first node, in the order of the
file, that gives something else than VALUES: `first_difference.py MODEL INPUTS VALUES` (both .npz, by name) prints JSON:
{"compared", "first"}, `first` empty or {"node", "op", "operator", "source", "value", "problem"}. Exit code 77: a package
is missing."""

import json
import sys

try:
    import numpy
    import onnx
    import onnxruntime

    import check_models
except ImportError as missing:
    print(missing, file=sys.stderr)
    sys.exit(77)


def main():
    path, inputs, values = sys.argv[1:]
    model = onnx.load(path)
    want = dict(numpy.load(values))
    names = [name for node in model.graph.node for name in node.output if name]
    results = {output.name for output in model.graph.output}
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names if name not in results)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    got = dict(zip(names, session.run(names, dict(numpy.load(inputs)))))
    first, compared = {}, 0
    for node in model.graph.node:
        for name in node.output:
            if first or name not in want:
                continue
            compared += 1
            problem = check_models.difference(name, got[name], want[name], 1e-5, 1e-6)
            if problem:
                first = {"node": node.name, "op": node.op_type, "value": name, "problem": problem,
                         "operator": check_models.property_of(node, "dyad.operator"),
                         "source": check_models.property_of(node, "dyad.source")}
    json.dump({"compared": compared, "first": first}, sys.stdout)


main()
