"""Writes what fuzzing starts from: small valid files of each format, into tests/fuzz/corpus/TARGET.

    python tests/fuzz/make_corpus.py          (from the source folder; needs numpy and onnx)

Files that are there already, such as those that were once read wrongly, stay.
"""

import gzip
import io
import json
import pathlib
import struct

import numpy
import onnx
from onnx import TensorProto, helper

CORPUS = pathlib.Path("tests/fuzz/corpus")
MOST_BYTES = 700  # of a model


def write(target, name, data):
    path = CORPUS / target / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def models():
    """One small model of each operator that ONNX's own tests have, and this project's own cases."""
    cases = pathlib.Path(onnx.__file__).parent / "backend/test/data/node"
    smallest = {}
    for path in sorted(cases.glob("*/model.onnx")):
        size = path.stat().st_size
        if size > MOST_BYTES:
            continue
        model = onnx.load(path)
        key = (tuple(sorted({n.op_type for n in model.graph.node})), len(model.functions) > 0)
        if key not in smallest or size < smallest[key][0]:
            smallest[key] = (size, path)
    for _, path in smallest.values():
        write("onnx", f"{path.parent.name}.onnx", path.read_bytes())
    for path in sorted(pathlib.Path("tests/onnx/cases").glob("*/model.onnx")):
        if path.stat().st_size <= MOST_BYTES:
            write("onnx", f"{path.parent.name}.onnx", path.read_bytes())
    fused = {}
    for path in sorted(pathlib.Path("tests/onnx/data/fused").glob("*/model.onnx")):
        nodes = onnx.load(path).graph.node
        op = nodes[0].op_type
        if len(nodes) > 1:
            continue
        if op not in fused or path.stat().st_size < fused[op].stat().st_size:
            fused[op] = path
    for path in fused.values():
        write("onnx", f"fused_{path.parent.name}.onnx", path.read_bytes())
    write("onnx", "backwards.onnx", backwards().SerializeToString())
    write("onnx", "functions.onnx", functions().SerializeToString())
    write("onnx", "initializers.onnx", initializers().SerializeToString())


def backwards():
    """Nodes that stand before what they read, in a branch too; a size that is compared and chosen."""
    float_type = helper.make_tensor_type_proto(TensorProto.FLOAT, ["n", 3])

    def branch(op):
        nodes = [helper.make_node(op, ["t"], ["r"]), helper.make_node("Add", ["x", "x"], ["t"])]
        return helper.make_graph(nodes, op, [], [helper.make_value_info("r", float_type)])

    nodes = [helper.make_node("Expand", ["z", "chosen"], ["y"]),
             helper.make_node("If", ["any"], ["z"], then_branch=branch("Neg"), else_branch=branch("Abs")),
             helper.make_node("Where", ["open", "size", "least"], ["chosen"]),
             helper.make_node("ReduceMax", ["number"], ["any"], keepdims=0),
             helper.make_node("Not", ["open"], ["number_"]), helper.make_node("Or", ["open", "number_"], ["number"]),
             helper.make_node("GreaterOrEqual", ["size", "least"], ["open"]), helper.make_node("Shape", ["x"], ["size"])]
    graph = helper.make_graph(nodes, "g", [helper.make_value_info("x", float_type)],
                              [helper.make_value_info("y", float_type)], [helper.make_tensor("least", TensorProto.INT64, [2], [0, 3])])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def functions():
    """Functions that call one another, with an attribute that is passed on."""
    float_type = helper.make_tensor_type_proto(TensorProto.FLOAT, ["n"])
    scale = helper.make_node("LeakyRelu", ["x"], ["y"])
    scale.attribute.append(
        onnx.AttributeProto(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT))
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("own", 1)]
    inner = helper.make_function("own", "inner", ["x"], ["y"], [scale], imports, ["slope"])
    calls = [helper.make_node("inner", ["x"], ["t"], domain="own", slope=0.25),
             helper.make_node("inner", ["t"], ["y"], domain="own", slope=0.75)]
    outer = helper.make_function("own", "outer", ["x"], ["y"], calls, imports)
    graph = helper.make_graph([helper.make_node("outer", ["x"], ["y"], domain="own")], "g",
                              [helper.make_value_info("x", float_type)], [helper.make_value_info("y", float_type)])
    return helper.make_model(graph, functions=[inner, outer], opset_imports=imports, ir_version=10)


def initializers():
    """Tensors in every form that a message has for them."""
    tensors = [
        helper.make_tensor("raw", TensorProto.FLOAT, [2], numpy.ones(2, numpy.float32).tobytes(), raw=True),
        helper.make_tensor("floats", TensorProto.FLOAT, [2], [1.0, 2.0]),
        helper.make_tensor("halves", TensorProto.FLOAT16, [2], [1.0, 2.0]),
        helper.make_tensor("ints", TensorProto.INT64, [1], [1]),
        helper.make_tensor("nibbles", TensorProto.INT4, [3], [1, -2, 3]),
        helper.make_tensor("texts", TensorProto.STRING, [1], [b"a"]),
        helper.make_tensor("complex", TensorProto.COMPLEX64, [1], [1 + 2j]),
    ]
    values = helper.make_tensor("sparse", TensorProto.FLOAT, [1], [5.0])
    positions = helper.make_tensor("positions", TensorProto.INT64, [1], [1])
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])]
    nodes = [helper.make_node("Sum", ["raw", "floats", "sparse"], ["y"])]
    graph = helper.make_graph(nodes, "g", [], outputs, initializer=tensors)
    graph.sparse_initializer.append(helper.make_sparse_tensor(values, positions, [2]))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def arrays():
    for name, array in {
        "floats": numpy.arange(6, dtype=numpy.float32).reshape(2, 3),
        "big_endian": numpy.arange(3, dtype=">i4"),
        "fortran": numpy.asfortranarray(numpy.arange(6, dtype=numpy.int64).reshape(2, 3)),
        "bools": numpy.array([True, False]),
        "scalar": numpy.float64(2.5),
        "empty": numpy.zeros((0, 3), numpy.uint8),
    }.items():
        file = io.BytesIO()
        numpy.save(file, array)
        write("npy", f"{name}.npy", file.getvalue())
    for name, save in {"stored": numpy.savez, "deflated": numpy.savez_compressed}.items():
        file = io.BytesIO()
        save(file, a=numpy.ones(3, numpy.float32), b=numpy.zeros((2, 0), numpy.int64))
        write("npz", f"{name}.npz", file.getvalue())
    file = io.BytesIO()
    numpy.savez(file)
    write("npz", "empty.npz", file.getvalue())


def safetensors(header, data):
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def tensor_files():
    two = {"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
           "b": {"dtype": "I64", "shape": [1, 1], "data_offsets": [8, 16]}}
    write("safetensors", "two.safetensors", safetensors(two, bytes(16)))
    write("safetensors", "metadata.safetensors",
          safetensors({"__metadata__": {"k": "v"}, "e": {"dtype": "BF16", "shape": [0], "data_offsets": [0, 0]}}, b""))
    write("safetensors", "empty.safetensors", safetensors({}, b""))
    position = {"format": 1, "generator": {"seed": 7, "offset": 2}, "loader": {"seed": 1, "epoch": 2, "batch": 3},
                "schedule": 5}
    metadata = {"dyad.checkpoint": json.dumps(position), "note": "of the program"}
    one = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
    write("checkpoint", "bare.safetensors", safetensors({"__metadata__": metadata}, b""))
    write("checkpoint", "model.safetensors", safetensors({"__metadata__": metadata, "model.w": one}, bytes(8)))
    two = {"__metadata__": metadata, "model.w": one, "optimizer.0.step": {**one, "data_offsets": [8, 16]}}
    write("checkpoint", "optimizer.safetensors", safetensors(two, bytes(16)))


def programs():
    """A graph, functions that read a number on the host and write a tensor, or pad what they get."""
    weight = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}

    def program(name, kind, body, graphs, layouts):
        said = {"format": 1, "kind": kind, "body": body, "inputs": ["x"], "outputs": ["y"], "graphs": len(graphs),
                "layouts": layouts, "generator": {"seed": 7, "offset": 2}}
        metadata = {"dyad.program": json.dumps(said), "note.epoch": "3"}
        metadata.update({f"dyad.graph.{i}": text for i, text in enumerate(graphs)})
        write("program", name, safetensors({"__metadata__": metadata, "state.w": weight}, bytes(8)))

    program("graph.safetensors", "graph", {"graph": 0, "initial_keys": []},
            ["graph {\n  %x = placeholder : f32[n, 2] @a.cpp:1\n  %w = variable : f32[2]\n"
             "  %0 = mul(%x, %w) : f32[n, 2]\n  return %0\n}\n"], {})
    program("constant.safetensors", "graph", {"graph": 0, "initial_keys": [2]},
            ["graph {\n  %x = placeholder : f32[2]\n  %w = variable \"w\" of \"w\" : f32[2]\n"
             "  %0, %4 = random_key() {count = 2} : i64[], i64[]\n  %1 = constant [1.0, 2.0] : f32[2]\n"
             "  %2 = add(%w, %1) : f32[2]\n  %3 = assign(%w, %2) : f32[2]\n  return %3\n}\n"], {})
    start = ("graph {\n  %x = placeholder : f32[s0, 2]\n  %w = variable : f32[2]\n  %0 = mul(%x, %w) : f32[s0, 2]\n"
             "  %1 = sum(%0) {axes = [], keepdim = false} : f32[]\n  %2 = gt(%1, %1) : bool[]\n")
    graphs = [start + "  return\n}\n", start + "  %3 = neg(%1) : f32[]\n  return\n}\n"]
    paths = [{"graph": i, "arguments": 1, "strides_matter": False, "captures": ["w"], "outputs": [[3 + 2 * i, 0]],
              "decisions": [{"value": [4, 0], "position": 5, "outcome": i, "read": "bool", "at": "a.cpp:2"}],
              "guards": [{"compare": "less", "a": "s0", "b": "9", "answer": 1, "at": ""}], "grads": [],
              "grad_captures": [], "grad_writes": [], "writes": [{"variable": "w", "value": [1, 0]}]}
             for i in range(2)]
    recording = {"overlap": False, "layouts": [{"strides": [2, 1], "contiguous": True}], "paths": paths}
    program("function.safetensors", "function", {"name": "f", "numbers": [1], "fast_math": False, "recordings": [recording]}, graphs,
            {"w": [1]})
    mean = ("graph {\n  %x = placeholder : f32[s0, 2]\n  %w = variable : f32[2]\n  %0 = mul(%x, %w) : f32[s0, 2]\n"
            "  %1 = sum(%0) {axes = [0], keepdim = false} : f32[2]\n  return\n}\n")
    path = {**paths[0], "graph": 0, "outputs": [[3, 0], [2, 0]], "decisions": [], "writes": [], "guards": [],
            "recorded_at": {"symbols": ["s0"], "sizes": [3]}, "layout_sizes": []}
    recording = {"overlap": False, "layouts": [{"strides": [2, 1], "contiguous": True}], "paths": [path], "small_sizes": []}
    body = {"name": "padded", "numbers": [1], "fast_math": False, "memory_limit": 0, "hot_calls": 64,
            "buckets": [{"argument": 0, "axis": 0, "sizes": [4, 8]}], "recordings": [recording]}
    program("padded.safetensors", "function", body, [mean], {"w": [1]})


def tables():
    idx = struct.pack(">BBBBII", 0, 0, 8, 2, 2, 3) + bytes(range(6))
    write("idx", "bytes.idx", idx)
    write("idx", "floats.idx", struct.pack(">BBBBIf", 0, 0, 0x0D, 1, 1, 1.5))
    write("idx", "packed.idx.gz", gzip.compress(idx, mtime=0))
    write("csv", "plain.csv", b"1,2.5\n3,-4e-1\n")
    write("csv", "quoted.csv", b'x,"y"\r\n1,2\r\n"3", 4 \r\n\r\n')
    write("csv", "missing.csv", b"1,,3\n,5,\n")
    write("csv", "packed.csv.gz", gzip.compress(b"1,2\n3,4\n", mtime=0))


def line_tables():
    """Sections .debug_line of DWARF 4: names of folders and files, then what makes the rows."""
    end = b"\x00\x01\x01"

    def unit(names, program):
        header = bytes([1, 1, 1, 0xFB, 14, 13]) + bytes([0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1]) + names
        rest = struct.pack("<HI", 4, len(header)) + header + program
        return struct.pack("<I", len(rest)) + rest

    def at(address):
        return b"\x00\x09\x02" + struct.pack("<Q", address)

    one = unit(b"\x00a.cpp\x00\x00\x00\x00\x00", at(0x1000) + b"\x01\x02\x02" + end)
    # Line 7, then 4 bytes and 2 lines on, a discriminator, 17 bytes on, line 3, the second file, 256 bytes on.
    steps = (at(0x1000) + b"\x03\x06\x01\x05\x81\x01\x0a" + bytes([13 + 5 + 2 + 14 * 4]) + b"\x00\x02\x04\x03\x08" +
             b"\x03\x7a\x06\x01\x04\x02\x01\x09\x00\x01\x01\x02\x04" + end)
    two = unit(b"/src\x00\x00model.cpp\x00\x01\x00\x00b.cpp\x00\x00\x00\x00\x00", steps)
    write("line_table", "one.bin", one)
    write("line_table", "two_units.bin", two + one)
    write("line_table", "no_rows.bin", unit(b"\x00\x00", b""))


GRAPHS = {
    "types": """graph {
  %x = placeholder : f32[batch, 4] @train.cpp:3
  %w = variable : f32[4, 3]
  %0 = matmul(%x, %w) : f32[batch, 3] @train.cpp:5
  %1 = constant [1.0, -0.5, nan] : f32[3]
  %2 = add(%0, %1) : f32[batch, 3] @"my file.cpp":6
  %3 = sum(%2) {axes = [1], keepdim = false} : f32[batch]
  return %3
}
""",
    "data": """graph {
  %x = placeholder : f32[n]
  %4 = constant #a : i64[2]
  %5 = gather(%x, %4) {axis = 0}
  return %5
}
data {
  #a = "AAAAAAAAAAABAAAAAAAAAA=="
}
""",
    "names": """graph {  // a comment
  %"the input" = placeholder "x" : f32[n, 2*n + 1]
  %rows = reshape(%"the input") {shape = [-1]}
  %found = nonzero(%rows)
  return %found, %rows
}
""",
    "sizes": """graph {
  %x = placeholder : i64[a, floordiv(b, 2), max(a, 3)]
  %0 = expand(%x) {shape = [2, a, floordiv(b, 2), max(a, 3)]}
  %1 = slice(%0) {axis = 0, start = 0, end = 1, step = 1}
  return %1
}
""",
    "regions": """graph {
  %p = placeholder : bool[]
  %x = placeholder : f32[3]
  %0 = cond(%p, %x) : f32[3] region {
    %a = placeholder "a" : f32[3]
    %1 = tanh(%a)
    return %1
  } region {
    %a = placeholder "a" : f32[3]
    return %a
  }
  return %0
}
""",
}


def graphs():
    for name, text in GRAPHS.items():
        write("graph_text", f"{name}.txt", text.encode())


if __name__ == "__main__":
    graphs()
    models()
    arrays()
    tensor_files()
    programs()
    tables()
    line_tables()
