#pragma once

#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "dyad/exec/padding.h"
#include "dyad/ir/graph.h"
#include "dyad/ir/graph_evaluator.h"

namespace dyad::exec {

/// A value of a recording in the graph of the padded one.
struct PaddedForm {
  Type type;                     ///< as recorded
  Value padded;                  ///< where the type has no padded symbol: the value; or none
  Value exact;                   ///< without padding, where somebody needed that
  std::vector<AxisParts> axes;   ///< of `padded`: empty lists for axes that are not padded
  std::vector<bool> is_uniform;  ///< axes along which all elements are one: any parts will do
};

/// Whether they are the same, as far as is known of the sizes of the recording.
[[nodiscard]] bool same_size(Dim a, Dim b);
[[nodiscard]] bool same_parts(const AxisParts& a, const AxisParts& b);
/// Whether no axis is padded.
[[nodiscard]] bool is_whole(const PaddedForm& form);

/// Writes a recorded graph again, node by node, for padded sizes.
class Padder {
 public:
  Padder(std::span<const PaddedSymbol> symbols, const SymbolMap& hints);

  [[nodiscard]] const Ref<GraphImpl>& graph() const noexcept { return graph_; }
  [[nodiscard]] GraphEvaluator& evaluator() noexcept { return evaluator_; }
  /// Whether a size, or one among those of a type, is to be padded.
  [[nodiscard]] bool is_padded(Dim size) const;
  [[nodiscard]] bool is_padded(const Type& type) const;
  [[nodiscard]] Dim pad(Dim size) const;
  [[nodiscard]] Type pad(const Type& type) const;

  /// A placeholder of the padded type: the first elements count.
  PaddedForm placeholder(const std::string& name, const Type& type, Loc loc);
  /// The scalar of a symbol's exact size, a new placeholder.
  void add_size(std::size_t symbol, const std::string& name, Loc loc);

  using Forms = std::vector<PaddedForm>;
  /// The forms of a node's outputs.
  Forms apply(const Node& node, Forms inputs);

  /// Nodes that run at exact sizes.
  [[nodiscard]] const std::vector<std::string>& exact() const noexcept { return exact_notes_; }
  /// The form of what has no padded symbol.
  [[nodiscard]] static PaddedForm plain(const Type& type, Value value);

 private:
  using Rule = std::optional<Forms>;

  /// Whether the sizes of a type, padded, are no smaller.
  [[nodiscard]] bool grows(const Type& type) const;
  [[nodiscard]] bool has_padded_attrs(const Node& node) const;
  Forms apply_exactly(const Node& node, Forms& inputs);
  /// Sees to it that there is the padded value; false where there cannot be one.
  bool make_padded(PaddedForm& form);
  Rule by_rule(const Node& node, Forms& inputs);
  Rule by_parts(const Node& node, const Forms& inputs);
  /// How a size changes when those that are padded grow.
  enum class Trend : std::uint8_t { same, up, down, unknown };
  [[nodiscard]] Trend trend(Dim size) const;

  Rule created(const Node& node, const Forms& inputs);
  Rule pointwise(const Node& node, Forms& inputs);
  Rule reduction(const Node& node, Forms& inputs);
  Rule moment(const Node& node, const PaddedForm& x, std::span<const int> padded_ones,
              std::vector<AxisParts> axes);
  Rule view(const Node& node, Forms& inputs);
  Rule reshape(const Node& node, PaddedForm& x);
  /// What lies along an axis at positions that are data, so that they do not matter to plans.
  /// `axes`: of the result.
  Forms picked(const Node& node, const PaddedForm& x, int axis, const Tensor& positions,
               std::vector<AxisParts> axes);
  Rule select_at_size(const Node& node, PaddedForm& x);
  /// `begin`: its first element at the sizes of the recording, and at `more` ones.
  Rule slice_at_size(const Node& node, PaddedForm& x, std::int64_t begin,
                     std::int64_t begin_at_more, const SymbolMap& more);
  Rule linear(const Node& node, Forms& inputs);
  Rule pad_axes(const Node& node, PaddedForm& x);
  Rule norm(const Node& node, Forms& inputs);
  Rule norm_backward(const Node& node, Forms& inputs);
  bool mask_keys(const Node& node, Forms& inputs, std::size_t first);
  Rule attention(const Node& node, Forms& inputs);
  Rule attention_backward(const Node& node, Forms& inputs);
  Rule sum_of_products(const Node& node, Forms& inputs);
  Rule matmul(const Node& node, Forms& inputs);
  Rule along_axes(const Node& node, Forms& inputs);
  Rule index_select(const Node& node, Forms& inputs);
  Rule gather(const Node& node, Forms& inputs);
  Rule scatter_add(const Node& node, Forms& inputs);
  Rule samples(const Node& node, Forms& inputs);
  /// `first`: the number of x among the inputs.
  Rule recurrent(const Node& node, Forms& inputs, std::size_t first);
  Rule running(const Node& node, Forms& inputs);
  Rule concat(const Node& node, Forms& inputs);

  /// The node for padded sizes, its outputs' axes those.
  Forms renamed(const Node& node, const Forms& inputs, std::vector<std::vector<AxisParts>> axes);
  /// Parts that suit all of them; nothing where two differ.
  struct AxisOf {
    const PaddedForm* form;
    int axis;
  };
  static std::optional<AxisParts> common_parts(std::span<const AxisOf> candidates);
  Value exact_of(PaddedForm& form);
  /// `form` with `value` where elements along these axes do not count.
  Value masked(const PaddedForm& form, std::span<const int> axes, double value);
  /// Makes the elements 0 that do not count.
  void zero_padding(PaddedForm& form);
  Tensor axis_mask(const AxisParts& parts);
  /// A size as an i64 scalar.
  Tensor exact_size(Dim size);

  [[nodiscard]] Tensor tensor(Value value) const { return symbolic_tensor(graph_, value); }
  [[nodiscard]] Value value(const Tensor& tensor) {
    return evaluator_.value_of(tensor, nullptr, Loc());
  }

  std::vector<PaddedSymbol> symbols_;
  SymbolMap hints_;
  Ref<GraphImpl> graph_ = make_ref<GraphImpl>();
  GraphEvaluator evaluator_{graph_};
  std::function<Dim(Dim)> rename_;
  std::vector<Value> sizes_;  // of the symbols, i64 scalars
  std::unordered_map<std::string, Value> masks_;
  std::vector<std::string> exact_notes_;
};

}  // namespace dyad::exec
