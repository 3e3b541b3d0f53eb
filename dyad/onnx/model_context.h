#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "dyad/ir/graph.h"
#include "dyad/onnx/proto_types.h"

namespace dyad::onnx {

/// A tensor of the model whose elements are filled in at the end, inline or in a file beside it.
struct Weight {
  pb::TensorProto* proto;
  Tensor tensor;
};

/// An operator that could not be written.
struct Problem {
  const Node* node;
  std::string text;
};

/// What the writers of a model and of its subgraphs share.
class ModelContext {
 public:
  /// Tensors of the model's state are called by these names. `training`: what layers do in training
  /// mode is written too.
  ModelContext(pb::GraphProto& graph, int opset,
               std::unordered_map<const TensorImpl*, std::string> weight_names,
               bool training = false)
      : graph_(graph), opset_(opset), training_(training), weight_names_(std::move(weight_names)) {}
  ModelContext(const ModelContext&) = delete;
  ModelContext& operator=(const ModelContext&) = delete;

  [[nodiscard]] int opset() const noexcept { return opset_; }
  [[nodiscard]] bool training() const noexcept { return training_; }
  /// `hint`, or `hint_2`, `hint_3`... when the model has that name: subgraphs see outer names.
  std::string fresh(std::string_view hint);

  /// Names of initializers of the outermost graph, which all subgraphs see; equal small ones are
  /// one.
  std::string weight(std::string_view hint, const Tensor& tensor);
  /// An initializer of that name; of an input it is what the input is when it is not fed.
  void default_value(const std::string& name, const Tensor& tensor);
  std::string constant(const Tensor& tensor);
  std::string integers(std::span<const std::int64_t> values);
  std::string integer(std::int64_t value);
  std::string scalar(double value, DType dtype);

  /// What is known of the dtypes of values.
  void set_dtype(const std::string& name, DType dtype) { dtypes_.insert_or_assign(name, dtype); }
  [[nodiscard]] std::optional<DType> dtype_of(const std::string& name) const;

  /// Notes an operator that could not be written, once for each line. What draws random numbers for
  /// it goes without saying.
  void add_problem(const Node& node, std::string text);
  [[nodiscard]] const std::vector<Problem>& problems() const noexcept { return problems_; }
  [[nodiscard]] const std::vector<Weight>& weights() const noexcept { return weights_; }
  /// Keeps a graph alive whose values have names.
  const Ref<GraphImpl>& keep(Ref<GraphImpl> graph) { return kept_.emplace_back(std::move(graph)); }

 private:
  std::string add(std::string_view hint, const Tensor& tensor);

  pb::GraphProto& graph_;
  int opset_;
  bool training_;
  std::unordered_map<const TensorImpl*, std::string> weight_names_;
  std::unordered_set<std::string> names_;
  std::unordered_map<std::string, DType> dtypes_;
  std::map<std::vector<std::int64_t>, std::string> integers_;
  std::map<std::int64_t, std::string> integer_;
  std::map<std::pair<std::uint64_t, DType>, std::string> scalars_;
  std::vector<Weight> weights_;
  std::vector<Problem> problems_;
  std::deque<Ref<GraphImpl>> kept_;
};

}  // namespace dyad::onnx
