"""Trains in ONNX Runtime: `train_steps.py MODEL BATCHES STEPS RESULT` runs a model that onnx::save_training wrote, STEPS
times, on the arrays `NAME.STEP` of BATCHES (.npz); what it calls `next.NAME` is the input NAME of the next step, and the
first step has the defaults of the file. RESULT (.npz) gets the state after the last step and `loss`, a number for each
step. Exit code 77: a package is missing."""

import sys

try:
    import numpy
    import onnx
    import onnxruntime
except ImportError as missing:
    print(missing, file=sys.stderr)
    sys.exit(77)


def main():
    path, batches, steps, result = sys.argv[1:]
    onnx.checker.check_model(path, full_check=True)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    outputs = [output.name for output in session.get_outputs()]
    batches = dict(numpy.load(batches))
    state, losses = {}, []
    for step in range(int(steps)):
        fed = {x.name: batches[f"{x.name}.{step}"] for x in session.get_inputs()}
        changed = {x.name: batches[f"{x.name}.{step}"] for x in session.get_overridable_initializers()
                   if f"{x.name}.{step}" in batches}
        results = dict(zip(outputs, session.run(None, {**fed, **state, **changed})))
        losses.append(results.pop("loss"))
        state = {name.removeprefix("next."): value for name, value in results.items()}
    numpy.savez(result, loss=numpy.array(losses), **state)


main()
