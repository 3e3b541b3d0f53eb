"""One model in one peer, in a process of its own: prints a line of JSON.

    python peer.py onnxruntime|openvino FOLDER THREADS SECONDS
"""
import glob
import json
import os
import statistics
import sys
import time

import numpy as np


def memory(field):
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith(field + ":"):
                return int(line.split()[1]) * 1024
    return 0


def onnxruntime(path, inputs, threads):
    import onnxruntime as rt
    before = memory("VmRSS")
    start = time.perf_counter()
    options = rt.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    session = rt.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    feed = {"x%d" % i: x for i, x in enumerate(inputs)}
    return before, start, lambda: session.run(None, feed)[0]


def openvino(path, inputs, threads):
    import openvino as ov
    before = memory("VmRSS")
    start = time.perf_counter()
    # On processors with bfloat16 OpenVINO would compute in it, unless asked for f32.
    model = ov.Core().compile_model(path, "CPU", {
        "INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": 1,
        "INFERENCE_PRECISION_HINT": "f32"})
    request = model.create_infer_request()
    for i, x in enumerate(inputs):
        request.set_input_tensor(i, ov.Tensor(x))

    def run():
        request.infer()
        return request.get_output_tensor(0).data
    return before, start, run


def main():
    system, folder, threads, seconds = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
    inputs = [np.load(path) for path in sorted(glob.glob(os.path.join(folder, "x*.npy")))]
    want = np.load(os.path.join(folder, "y.npy"))
    make = {"onnxruntime": onnxruntime, "openvino": openvino}[system]
    before, start, run = make(os.path.join(folder, "model.onnx"), inputs, threads)
    got = np.array(run())
    ready = time.perf_counter() - start
    times, end = [], time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < end:
        begin = time.perf_counter()
        run()
        times.append(time.perf_counter() - begin)
    print(json.dumps({"median_ms": 1e3 * statistics.median(times), "ready_ms": 1e3 * ready,
                      "peak_bytes": memory("VmHWM") - before,
                      "difference": float(np.abs(got - want).max() / np.abs(want).max())}))


if __name__ == "__main__":
    main()
