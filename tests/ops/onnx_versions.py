"""Prints onnx_versions.txt: ONNX's operators and the opsets that brought a version of them, by the schemas of the onnx package."""

import onnx.defs

versions = {}
for schema in onnx.defs.get_all_schemas_with_history():
    if schema.domain == "":
        versions.setdefault(schema.name, set()).add(schema.since_version)
for name in sorted(versions):
    print(name, *sorted(versions[name]))
