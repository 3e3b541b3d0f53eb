#pragma once

#include <string>
#include <utility>
#include <vector>

#include "dyad/onnx/inputs.h"

namespace dyad::tool {

/// True for what `io::save` writes: a name that ends in .dyad.
[[nodiscard]] bool is_program(const std::string& path);

/// Prints inputs, outputs, tensors and notes of a program; with `text` its graphs.
void inspect_program(const std::string& path, bool text);

/// Runs a program once, on inputs from files, or drawn as for ONNX models (floats normal, other
/// numbers 0; sizes that nothing tells are 2), and gives its results by name. GraphError for an
/// input that is neither given nor drawn, and for a name that no input or size has.
[[nodiscard]] std::vector<std::pair<std::string, onnx::ModelValue>> run_program(
    const std::string& path, const onnx::InputOptions& options);

}  // namespace dyad::tool
