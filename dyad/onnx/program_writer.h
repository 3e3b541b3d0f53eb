#pragma once

#include "dyad/ir/graph.h"
#include "dyad/ir/onnx_emitter.h"

namespace dyad::onnx {

/// Writes a pointwise operator that has no form of its own by what it computes for each element:
/// its scalar program as ONNX operators, elementary functions by their names. Fails for programs
/// that read the bits of floats, and before opset 18 for those that work on the bits of integers.
void write_program(OnnxEmitter& emitter, const Node& node);

/// Uniform numbers of a seed and of each counter, i64, in the shape of the counters: the generator
/// as ONNX operators, from opset 18 on.
[[nodiscard]] std::string write_uniform(OnnxEmitter& emitter, const std::string& seed,
                                        const std::string& counters, DType dtype);

}  // namespace dyad::onnx
