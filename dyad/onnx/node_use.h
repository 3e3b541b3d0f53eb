#pragma once

#include <string>

namespace dyad::onnx {

/// A node of a model: what it asks for, and whether Dyad has it.
struct NodeUse {
  std::string op;            ///< with its domain, unless that is ONNX's own: `com.microsoft.Gelu`
  int version = 0;           ///< of its domain, as the model imports it; 0 when it does not
  std::string node;          ///< `"conv1"`, `the node of "y"`
  std::string reason;        ///< why it cannot be run; empty when it can
  bool is_function = false;  ///< one of the model's own functions, whose nodes are listed too
};

/// `Conv 17, "conv1": Dyad has no such operator`.
[[nodiscard]] std::string to_string(const NodeUse& use);

}  // namespace dyad::onnx
