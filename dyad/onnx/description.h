#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "dyad/base/loc.h"
#include "dyad/onnx/node_use.h"
#include "dyad/onnx/value_info.h"

namespace dyad::onnx {

/// What is in an ONNX file, whether Dyad can run it or not.
struct ModelDescription {
  /// Nodes of one operator.
  struct Operator {
    std::string op;  ///< with its domain, unless that is ONNX's own
    int version = 0;
    std::int64_t count = 0;
    bool is_supported = false;
    bool is_function = false;  ///< one of the model's own
  };
  /// An initializer.
  struct Parameter {
    std::string name;
    std::string type;  ///< `f32[64, 3, 7, 7]`
    std::uint64_t elements = 0, bytes = 0;
    std::string file;  ///< beside the model, which holds the elements; empty when the model does
  };

  std::string file;
  std::uint64_t file_bytes = 0;
  std::string producer, producer_version, graph;
  std::int64_t ir_version = 0;
  std::map<std::string, int> opsets;  ///< domain (empty: ONNX's own) -> version
  std::map<std::string, std::string> metadata;
  std::vector<ValueInfo> inputs, outputs;
  std::vector<Operator> operators;    ///< the most frequent first; of subgraphs and functions too
  std::vector<NodeUse> unsupported;   ///< all nodes that Dyad has no operator for
  std::vector<Parameter> parameters;  ///< in the file's order, those of subgraphs last

  [[nodiscard]] std::int64_t nodes() const noexcept;
  [[nodiscard]] std::uint64_t parameter_elements() const noexcept;
  [[nodiscard]] std::uint64_t parameter_bytes() const noexcept;
};

/// Reads what a model says of itself; weights in files beside it are not touched. IoError when the
/// file cannot be read, OnnxError when it is no model.
[[nodiscard]] ModelDescription describe(const std::string& path,
                                        Loc loc = std::source_location::current());

}  // namespace dyad::onnx
