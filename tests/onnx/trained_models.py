"""Inputs for trained models that others made, and what ONNX Runtime gives for them: `trained_models.py FOLDER`.

The models lie in the packages of tests/python/models.txt, which are not imported. FOLDER/manifest.json gets
[{"name", "model", "state": {input: output}, "runs": [{"inputs", "outputs"}]}]; inputs and outputs are .npz files. Inputs that are
`state` of a recurrent model and are not in a file are outputs of the run before. Exit code 77: a package is missing.
"""

import importlib.util
import json
import pathlib
import sys

try:
    import numpy as np
    import onnxruntime
except ImportError as missing:
    print(missing, file=sys.stderr)
    sys.exit(77)


def model_path(package, path):
    spec = importlib.util.find_spec(package)
    if spec is None:
        print(f"there is no package {package}", file=sys.stderr)
        sys.exit(77)
    return pathlib.Path(spec.submodule_search_locations[0]) / path


def voice(rate, seconds, pitch=130.0):
    """Vowels with pauses: a pulse train through resonances that move, and noise."""
    rng = np.random.default_rng(3)
    count = int(rate * seconds)
    t = np.arange(count) / rate
    phase = 2 * np.pi * np.cumsum(pitch * (1 + 0.1 * np.sin(2 * np.pi * 2.5 * t))) / rate
    sound = np.zeros(count)
    for harmonic in range(1, int(rate / 2 / pitch / 1.2)):
        frequency = harmonic * pitch
        gain = sum(np.exp(-(((frequency - centre - 150 * np.sin(2 * np.pi * 3 * t)) / 120) ** 2)) for centre in (650, 1150, 2500))
        sound += gain * np.sin(harmonic * phase)
    loudness = np.clip(np.sin(2 * np.pi * 1.3 * t) + 0.4, 0, 1)
    return (0.15 * sound * loudness + 0.003 * rng.standard_normal(count)).astype(np.float32)


# 5 x 7 dots each.
GLYPHS = {
    "D": "11110 10001 10001 10001 10001 10001 11110",
    "y": "00000 00000 10001 10001 01111 00001 01110",
    "a": "00000 00000 01110 00001 01111 10001 01111",
    "d": "00001 00001 01101 10011 10001 10001 01111",
    "2": "01110 10001 00001 00110 01000 10000 11111",
    "0": "01110 10001 10011 10101 11001 10001 01110",
    "6": "00110 01000 10000 11110 10001 10001 01110",
    "4": "00010 00110 01010 10010 11111 00010 00010",
    " ": "00000 00000 00000 00000 00000 00000 00000",
}


def smooth(image, width):
    kernel = np.ones(width) / width
    for axis in (0, 1):
        image = np.apply_along_axis(np.convolve, axis, image, kernel, mode="same")
    return image


def written(text, height, width, scale, top, left):
    """Dark text on a light, slightly uneven ground, as [1, 3, height, width] from -1 to 1."""
    ink = np.zeros((height, width))
    for i, letter in enumerate(text):
        dots = np.array([[int(dot) for dot in row] for row in GLYPHS[letter].split()])
        x = left + i * 6 * scale
        ink[top : top + 7 * scale, x : x + 5 * scale] = np.kron(dots, np.ones((scale, scale)))
    ground = 0.9 + 0.05 * np.sin(np.arange(width) / 40)[None, :] + 0 * ink
    grey = ground - 0.75 * smooth(ink, max(2, scale // 2 + 1))
    return np.repeat((2 * grey - 1)[None, None], 3, axis=1).astype(np.float32)


def chunks(rate, size, context, batch=1):
    """Windows of a recording that overlap by `context`; the rows of a batch begin at different places."""
    sounds = [voice(rate, 1.6, 110.0 + 40 * row) for row in range(batch)]
    padded = np.stack([np.concatenate([np.zeros(context, np.float32), sound]) for sound in sounds])
    return [padded[:, at : at + size + context] for at in range(0, 24 * size, size)]


def speech(model, rates=(16000,), batches=(1, 3), with_rate=True):
    """Streams: the state of a chunk goes into the next one."""
    runs = []
    for rate in rates:
        size, context = (512, 64) if rate == 16000 else (256, 32)
        for batch in batches:
            for number, sound in enumerate(chunks(rate, size, context, batch)):
                inputs = {"input": sound}
                if with_rate:
                    inputs["sr"] = np.array(rate, np.int64)
                if number == 0:
                    inputs["state"] = np.zeros((2, batch, 128), np.float32)
                runs.append(inputs)
    return {"name": model, "package": "silero_vad", "path": f"data/{model}.onnx", "state": {"state": "stateN"}, "runs": runs}


def speech_of_whole_recordings():
    runs = []
    for length in (24, 7):
        windows = np.concatenate(chunks(16000, 512, 64))[:length]
        zero = np.zeros((1, 1, 128), np.float32)
        runs.append({"input": windows[:, None].reshape(-1, 576), "h": zero, "c": zero})
        runs.append({"input": windows})  # the states of the run before
    return {
        "name": "silero_vad_16k_sequence",
        "package": "silero_vad",
        "path": "data/silero_vad_16k_sequence.onnx",
        "state": {"h": "hn", "c": "cn"},
        "runs": runs,
    }


def text(name, file, images):
    runs = [{"x": np.concatenate(batch)} for batch in images]
    return {"name": name, "package": "rapidocr_onnxruntime", "path": f"models/{file}.onnx", "state": {}, "runs": runs}


def file_types():
    """The first and the last 1,024 bytes of files, filled up with 256."""
    here = pathlib.Path(__file__)
    contents = [
        here.read_bytes(),
        (here.parent / "trained_test.cpp").read_bytes(),
        (here.parent / "data/backend_cases.tsv").read_bytes(),
        b'{"name": "dyad", "layers": ["base", "core", "ir"], "numbers": [1, 2.5, -3e7]}\n' * 20,
        b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + bytes(range(256)) * 8,
        (here.parents[2] / "docs/onnx.md").read_bytes(),
    ]

    def tokens(data):
        data = data.strip()
        first, last = list(data[:1024]), list(data[-1024:])
        return first + [256] * (1024 - len(first)) + [256] * (1024 - len(last)) + last

    rows = np.array([tokens(data) for data in contents], np.int32)
    return {
        "name": "magika standard_v3_3",
        "package": "magika",
        "path": "models/standard_v3_3/model.onnx",
        "state": {},
        "runs": [{"bytes": rows}, {"bytes": rows[:1]}, {"bytes": rows[2:5]}],
    }


def models():
    line = [written("Dyad 2026", 48, 320, 5, 7, 15)]
    return [
        speech("silero_vad", rates=(16000, 8000)),
        speech("silero_vad_16k_op15"),
        speech("silero_vad_half", with_rate=False),
        speech("silero_vad_op18_ifless", rates=(16000, 8000)),
        speech("silero_vad_openvino_16k", batches=(1,), with_rate=False),
        speech_of_whole_recordings(),
        text("PP-OCRv4 detection", "ch_PP-OCRv4_det_infer",
             [[written("Dyad 2026", 160, 320, 4, 60, 40)], [written("2026 Dyad", 96, 256, 3, 30, 20)] * 2]),
        text("PP-OCRv4 recognition", "ch_PP-OCRv4_rec_infer",
             [line, [written("Dyad 4", 48, 200, 5, 7, 8), written("2046", 48, 200, 5, 7, 20)]]),
        text("PP-OCR direction", "ch_ppocr_mobile_v2.0_cls_infer",
             [[image[..., ::-1, ::-1], image] for image in [written("Dyad 2026", 48, 192, 3, 12, 10)]] + [line]),
        file_types(),
    ]


def run(entry, folder):
    path = model_path(entry["package"], entry["path"])
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    state, runs = {}, []
    for number, given in enumerate(entry["runs"]):
        given = {name: np.asarray(value, order="C") for name, value in given.items()}
        inputs = {**state, **given}
        outputs = dict(zip(names, session.run(names, inputs)))
        state = {name: outputs[source] for name, source in entry["state"].items()}
        stem = str(folder / f"{entry['name'].replace(' ', '_')}_{number}")
        np.savez(stem + "_in.npz", **given)
        np.savez(stem + "_out.npz", **outputs)
        runs.append({"inputs": stem + "_in.npz", "outputs": stem + "_out.npz"})
    return {"name": entry["name"], "model": str(path), "state": entry["state"], "runs": runs}


if __name__ == "__main__":
    target = pathlib.Path(sys.argv[1])
    manifest = [run(entry, target) for entry in models()]
    (target / "manifest.json").write_text(json.dumps(manifest))
