#pragma once

#include <string>
#include <vector>

#include "dyad/onnx/benchmark.h"
#include "dyad/onnx/inputs.h"

namespace dyad::tool {

/// True for what `io::save` writes: a name that ends in .dyad.
[[nodiscard]] bool is_program(const std::string& path);

enum class ProgramView { table, json, text };
/// Prints inputs, outputs, tensors and notes of a program; as text its graphs.
void inspect_program(const std::string& path, ProgramView view);

/// Runs a program once, on inputs from files, or drawn as for ONNX models (floats normal, other
/// numbers 0; sizes that nothing tells are 2), and gives its results by name. GraphError for an
/// input that is neither given nor drawn, and for a name that no input or size has.
[[nodiscard]] std::vector<onnx::NamedValue> run_program(const std::string& path,
                                                        const onnx::InputOptions& options);

/// Times a program on such inputs.
[[nodiscard]] onnx::Benchmark bench_program(const std::string& path,
                                            const onnx::BenchmarkOptions& options);

}  // namespace dyad::tool
