#include "dyad/onnx/export.h"

#include <fmt/format.h>

#include "dyad/base/error.h"
#include "dyad/ir/graph_ops.h"
#include "dyad/onnx/model_file.h"

namespace dyad::onnx {
namespace {

/// What a function did to tensors from outside.
std::vector<Value> writes_of(const GraphImpl& graph) {
  std::vector<Value> writes;
  for (const auto& node : graph.nodes()) {
    if (&node->op() == &kAssignOp) writes.push_back(node->output());
  }
  return writes;
}

}  // namespace

std::string to_bytes(const Graph& graph, const SaveOptions& options, Loc loc) {
  Draft model = to_model(*graph.impl(), {}, options, loc.user());
  return serialize(model, loc.user());
}

void save(const std::string& path, const Graph& graph, const SaveOptions& options, Loc loc) {
  Draft model = to_model(*graph.impl(), {}, options, loc.user());
  write(path, model, options, loc.user());
}

namespace detail {

void save_function(const std::string& path, const Function& function, std::span<const Input> inputs,
                   const SaveOptions& options, Loc loc) {
  Graph graph;
  static_cast<void>(graph.define(
      [&] {
        std::vector<Tensor> given;
        for (const Input& input : inputs) {
          given.push_back(placeholder(input.name, input.dtype, input.shape, loc));
        }
        return function(given);
      },
      loc));
  Draft model = to_model(*graph.impl(), writes_of(*graph.impl()), options, loc.user());
  write(path, model, options, loc.user());
}

void fail_arity(std::size_t inputs, Loc loc) {
  throw ValueError(fmt::format("onnx::save: {} inputs are described, but the model cannot be "
                               "called with {} tensors",
                               inputs, inputs),
                   loc.user());
}

}  // namespace detail
}  // namespace dyad::onnx
