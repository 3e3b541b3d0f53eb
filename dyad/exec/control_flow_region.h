#pragma once

#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "dyad/exec/control_flow.h"
#include "dyad/ir/graph_evaluator.h"

namespace dyad::exec {

/// The tensors from outside that the graphs of one control operator use.
class Captures {
 public:
  /// The number of `tensor` among them.
  std::size_t index_of(const Tensor& tensor);
  [[nodiscard]] std::span<const Tensor> tensors() const noexcept { return tensors_; }

 private:
  std::vector<Tensor> tensors_;
  std::unordered_map<const TensorImpl*, std::size_t> index_;
};

/// The number of the tensor that a capture's placeholder stands for.
[[nodiscard]] std::size_t capture_of(const Node& placeholder);

/// Records a function as a graph of its own: its parameters are placeholders, and so is every
/// tensor that it uses from outside.
class RegionEvaluator : public GraphEvaluator {
 public:
  /// `construct` names the control operator in messages; its graph becomes a part of the one that
  /// `into` records, unless it becomes a part of none.
  RegionEvaluator(std::string_view construct, Captures& captures, GraphEvaluator* into = nullptr)
      : GraphEvaluator(make_ref<GraphImpl>()),
        construct_(construct),
        into_(into),
        captures_(captures) {}

  /// The region is of a call on data: what its graph cannot tell of sizes, who is current around
  /// it when it is recorded knows, and notes that it was asked.
  void ask_around() noexcept { asks_around_ = true; }

  /// Records `fn` on parameters of these types.
  void record(const TensorFunction& fn, std::span<const Type> parameters, Loc loc);
  /// The finished graph: parameters, then all captures (those of the operator's other graphs too).
  [[nodiscard]] Ref<GraphImpl> finish() const;

  /// Whether data in the region tell this size.
  [[nodiscard]] bool is_of_data(Dim size) const;
  /// By names that no graph around it has, nor gets later.
  void bind_unknown_sizes(Types& types) override;

  /// The type that a tensor, of the region or from outside, has in the region.
  [[nodiscard]] Type type_inside(const Tensor& tensor) const;
  /// Whether the types are one: where sizes may be asked, they may have other names.
  [[nodiscard]] bool is_one_type(const Type& a, const Type& b) const;
  /// A tensor of the region for `tensor`, captured when it comes from outside.
  Tensor inside(const Tensor& tensor, Loc loc);

  void apply(const OpInfo& op, TensorRefs inputs, const void* attrs, std::span<Tensor> outputs,
             Loc loc) override;
  const Shape& shape(const Tensor& tensor) override;
  [[nodiscard]] Dim peek(Dim size) const override;
  std::int64_t dim_value(Dim dim, Loc loc) override;
  bool dim_equal(Dim a, Dim b, Loc loc) override;
  bool dim_less(Dim a, Dim b, Loc loc) override;
  void write(const Tensor& target, const Tensor& value, Loc loc) override;
  void set_random_state(const RandomKey& state, Loc loc) override;
  void note_literal(const Tensor& tensor) override;
  std::vector<Tensor> backward(std::span<const Tensor> outputs, std::span<const Tensor> grads,
                               std::span<const Tensor> inputs, bool retain_graph, bool create_graph,
                               Loc loc) override;

 protected:
  void replace(Value memory, Value now, Loc loc) override;
  /// True for the placeholder of a tensor from outside.
  [[nodiscard]] bool is_capture(Value value) const noexcept;

  /// A name for a size that data in the region tell.
  virtual Dim fresh_size();

 private:
  [[nodiscard]] bool is_ours(const Tensor& tensor) const noexcept;
  /// Who is asked of sizes that the graph does not know; nobody where they have no values, or data
  /// in a region tell them.
  [[nodiscard]] Evaluator* who_knows(Dim a = {}, Dim b = {}) const;
  [[noreturn]] void fail_write_outside(const std::string& type, Loc loc) const;

  std::string_view construct_;
  GraphEvaluator* into_;
  Evaluator* around_ = nullptr;  // who called record()
  bool asks_around_ = false;
  Captures& captures_;
  std::vector<Dim> of_data_;  ///< symbols
  std::vector<Value> parameters_;
  std::unordered_map<std::size_t, Value> placeholder_of_;  // capture -> its placeholder here
};

/// Appends the nodes of `region` to `into`, its placeholders replaced by `arguments`; gives what
/// its outputs are there.
std::vector<Value> inline_region(const GraphImpl& region, const Ref<GraphImpl>& into,
                                 std::span<const Value> arguments);

/// Appends a control node to the graph that `outer` records.
std::vector<Tensor> append_control(GraphEvaluator& outer, const OpInfo& op, Ref<Attrs> attrs,
                                   std::span<const Tensor> inputs,
                                   std::vector<Ref<GraphImpl>> regions, Types types, Loc loc);

}  // namespace dyad::exec
