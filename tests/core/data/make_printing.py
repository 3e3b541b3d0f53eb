"""Writes printing.txt: arrays and what NumPy prints for them, the reference of printing_test.cpp."""
import pathlib
import numpy as np

NAMES = {"float64": "f64", "float32": "f32", "float16": "f16", "int64": "i64", "int32": "i32", "int16": "i16",
         "int8": "i8", "uint8": "u8", "bool": "bool"}


def number(value):
    return float(value).hex() if isinstance(value, np.floating) else str(int(value))


def cases():
    for dtype in NAMES:
        yield np.array([[1, 2, 3], [4, 5, 6]], dtype)
        yield np.array(1, dtype)
        yield np.zeros((0, 3), dtype)
        yield np.zeros((1,), dtype)
    for dtype in ("float64", "float32", "float16"):
        with np.errstate(over="ignore"):
            for values in ([0.1, 0.25, 3], [1e-5, 1], [1e10, 1], [123456, 1], [1e6, 999], [1e5, 2e5], [2e5, 1234567.0],
                           [np.nan, 1.5], [np.inf, -np.inf, 2], [-np.inf, 1], [np.inf, 1], [np.nan, np.nan], [np.inf], [-np.inf],
                           [np.nan, 1e20], [-0.0, 0.0], [0, 0], [1 / 3, 2 / 3], [-1.5, 22.25], [1e-4, 1e-3],
                           [9.99e-5], [1000, 999.5], [1, 1000], [1, 1001], [1e-300, 1e300], [1e-10, 5e-8], [123.456789012345],
                           [0.30000000000000004], [2.5e-8, 0], [1.123456789, 1e9], [65504, 1], [0.123456785, 0.5]):
                yield np.array(values, dtype)
            for value in (0, -0.0, 0.1, 1, -2.5, 1e15, 1e16, 1.5e20, 1e-4, 9e-5, 1e-7, np.nan, np.inf, -np.inf, 16777217000.0, 1 / 3, 123456.789):
                yield np.array(value, dtype)
    for shape in ((2, 2, 2), (1, 1, 1, 1), (2, 1, 3), (3, 2, 2, 2), (30,), (2, 25), (5, 40)):
        yield np.arange(np.prod(shape), dtype="int64").reshape(shape) - 3
        yield (np.arange(np.prod(shape), dtype="float32") / 7).reshape(shape)
        yield np.arange(np.prod(shape)).reshape(shape) % 3 == 0
    for shape in ((1001,), (1000,), (40, 40), (2, 600), (600, 2), (11, 10, 10), (7, 7, 7, 7), (1200, 1)):
        yield np.arange(np.prod(shape), dtype="int32").reshape(shape)
        yield (np.arange(np.prod(shape), dtype="float64") / 3).reshape(shape)
    yield np.array([[-128, 127], [0, 5]], "int8")
    yield np.array([np.iinfo("int64").min, np.iinfo("int64").max])
    yield np.array([255, 0], "uint8")
    random = np.random.default_rng(3)
    for i in range(120):
        dtype = ("float64", "float32", "float16")[i % 3]
        shape = tuple(random.integers(1, 6, random.integers(1, 4)))
        spread = random.choice([0.5, 1, 3, 8])
        values = random.normal(size=shape) * 10 ** random.uniform(-spread, spread, shape if random.random() < 0.5 else ())
        with np.errstate(over="ignore"):
            yield values.round(random.integers(0, 9)).astype(dtype)


with open(pathlib.Path(__file__).with_name("printing.txt"), "w") as out:
    for array in cases():
        values = array.reshape(-1)
        # Long arrays are ramps: the first values and how many.
        if array.size > 200:
            text = f"ramp {array.size}" + (" 3" if array.dtype.kind == "f" else " 1")
        else:
            text = " ".join(number(v) for v in values)
        shape = " ".join(str(s) for s in array.shape)
        print(f"{NAMES[str(array.dtype)]} | {shape} | {text}\n{str(array)}\n", file=out)
        print("----", file=out)
