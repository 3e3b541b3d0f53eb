#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "dyad/exec/session.h"
#include "dyad/onnx/export.h"

namespace dyad::onnx {

/// How far values may be from those of the source: |got - want| <= relative * |want| + floor * the
/// largest |want| of the tensor. Of f16 and bf16 four of their rounding steps, if that is more.
struct VerifyOptions {
  double relative = 1e-5;
  double floor = 1e-6;
  /// What the file was saved with; its opset and the names of its results are read off it.
  SaveOptions save = {};
};

/// A value of a file that is not what the source says.
struct NodeDifference {
  std::string value;    ///< its name in the file
  std::string node;     ///< the node that gives it; empty for a weight
  std::string op;       ///< of the node: `Gemm`
  std::string dyad_op;  ///< the operator of the source that the node is part of: `linear`
  std::string source;   ///< the line of the source: `model.cpp:41`
  std::string problem;  ///< what differs: type, or an element
  double largest = 0;   ///< the largest difference of an element; 0 when types differ
  std::vector<std::int64_t> index;  ///< of the element where it is
};

/// What verify() found.
struct VerifyReport {
  std::string file;
  int results = 0;     ///< compared
  int values = 0;      ///< compared beside them: what nodes give
  int nodes = 0;       ///< of the file's outermost graph
  double largest = 0;  ///< difference of an element of a result, relative to the largest one
  std::optional<NodeDifference> first;  ///< in the order of the file

  [[nodiscard]] explicit operator bool() const noexcept { return !first; }
};
/// A sentence or two.
[[nodiscard]] std::string to_string(const VerifyReport& report);

/// Runs a file that `graph` was written to, and the graph, on the same inputs, and compares what
/// every node gives (and every weight is) in the order of the file: values, dtypes, shapes. A file
/// that cannot be run in a later place is compared up to there. All values are kept in memory at
/// once. OnnxError for a file that is no model, GraphError for inputs that do not fit the graph.
[[nodiscard]] VerifyReport verify(const std::string& path, const Graph& graph,
                                  const std::vector<Feed>& inputs,
                                  const VerifyOptions& options = {},
                                  Loc loc = std::source_location::current());
/// The same of a file in memory.
[[nodiscard]] VerifyReport verify_bytes(std::string_view bytes, const Graph& graph,
                                        const std::vector<Feed>& inputs,
                                        const VerifyOptions& options = {},
                                        Loc loc = std::source_location::current());

/// What every node of a file's outermost graph gives, by the names in the file and in its order: to
/// compare with another runtime, node by node.
[[nodiscard]] TensorDict node_values(const std::string& path, const std::vector<Feed>& inputs,
                                     Loc loc = std::source_location::current());

namespace detail {

[[nodiscard]] VerifyReport verify_function(const std::string& path, const Function& function,
                                           std::span<const Tensor> inputs,
                                           const VerifyOptions& options, Loc loc);

}  // namespace detail

/// The same of a model, or a function of tensors, that was saved: `onnx::verify("model.onnx",
/// model, {images})`, inputs in the order of save(). Results are compared with those of an eager
/// call.
template <class Model>
  requires(!std::is_convertible_v<Model&, const Graph&>)
[[nodiscard]] VerifyReport verify(const std::string& path, Model&& model,
                                  const std::vector<Tensor>& inputs, VerifyOptions options = {},
                                  Loc loc = std::source_location::current()) {
  using Plain = std::remove_cvref_t<Model>;
  if constexpr (nn::Module<Plain>) {
    options.save.weights.add_all("", nn::state_dict(model));
  }
  const auto function = [&](std::span<const Tensor> tensors) {
    return detail::call_with(model, tensors, loc, std::index_sequence<>{});
  };
  return detail::verify_function(path, function, inputs, options, loc);
}

}  // namespace dyad::onnx
