#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "dyad/core/evaluator.h"
#include "dyad/ir/graph.h"

namespace dyad {

/// True when the two concrete tensors have a byte in common (by the range that each spans).
[[nodiscard]] bool share_memory(const Tensor& a, const Tensor& b) noexcept;

/// What is asked of sizes that have no values.
enum class SizeQuestion : std::uint8_t { value, equal, less };

/// Operators called while it is current become nodes of its graph and give symbolic tensors.
/// Concrete tensors met on the way become variables (captures), host numbers become constants of
/// the dtype that they are promoted to, composites stay whole. A write in place gives the tensor's
/// memory a new value in the graph, made by the rows of the views that it is written through: what
/// is read later, through the tensor or anything that shares its memory, comes from that value.
class GraphEvaluator : public Evaluator {
 public:
  explicit GraphEvaluator(Ref<GraphImpl> graph) : graph_(std::move(graph)) {}

  [[nodiscard]] const Ref<GraphImpl>& graph() const noexcept { return graph_; }
  /// From here on concrete tensors met on the way become constants, but for those that are
  /// variables already.
  void capture_constants() noexcept { captures_constants_ = true; }
  /// The value that stands for `tensor` in this graph now (after the writes so far); GraphError for
  /// a tensor of another graph, for a deferred one, and for one that shares memory with an assigned
  /// variable.
  Value value_of(const Tensor& tensor, const OpInfo* user, Loc loc);

  void apply(const OpInfo& op, TensorRefs inputs, const void* attrs, std::span<Tensor> outputs,
             Loc loc) override;
  /// Puts a fresh symbol in place of each size that only a run can tell (unknown_size).
  virtual void bind_unknown_sizes(Types& types) { graph_->bind_unknown_sizes(types); }
  const Shape& shape(const Tensor& tensor) override;
  /// GraphError that names the sizes and the ways out: sizes have no values in a graph.
  std::int64_t dim_value(Dim dim, Loc loc) override;
  bool dim_equal(Dim a, Dim b, Loc loc) override;
  bool dim_less(Dim a, Dim b, Loc loc) override;
  /// GraphError that names the ways out (cond, fetching, compile): there is no data to read.
  double read_double(const Tensor& tensor, Loc loc) override;
  std::int64_t read_int(const Tensor& tensor, Loc loc) override;
  bool read_bool(const Tensor& tensor, Loc loc) override;
  void host_access(const Tensor& tensor, Loc loc) override;
  /// GraphError when only strides, which the graph does not know, can tell what shares memory with
  /// the target; ValueError for a broadcast one.
  void write(const Tensor& target, const Tensor& value, Loc loc) override;
  /// `value` for those who want with it all writes in place so far to tensors from outside: a run
  /// that computes it does them.
  Tensor after_writes(const Tensor& value, Loc loc);
  /// GraphError that names `gradients`; the exec layer, which may reach the gradient rules,
  /// overrides it.
  std::vector<Tensor> backward(std::span<const Tensor> outputs, std::span<const Tensor> grads,
                               std::span<const Tensor> inputs, bool retain_graph, bool create_graph,
                               Loc loc) override;

 protected:
  /// What the handle stands for after the writes so far.
  Value now(const GraphValue& handle);
  /// The same, for a handle that follows no writes too.
  Value renewed(const GraphValue& handle);
  /// What the target shows becomes `value`: its memory gets a new value, which `replace` puts
  /// there.
  void write_through(const Placed& target, Value value, Loc loc);
  /// From here on `memory` holds `now`: for a captured tensor by an `assign` node.
  virtual void replace(Value memory, Value now, Loc loc);
  /// The new values of the tensors from outside that have been written in place.
  [[nodiscard]] virtual std::vector<Value> writes() const;
  /// What is being done relies on the result of `view` lying in its input's memory: GraphError when
  /// that is not sure.
  virtual void require_view(const Node& view, const Placed& place, Loc loc);
  /// Says that the result of `view` lies where `input` does.
  static void place_in(const Placed& input, GraphValue& view);

 private:
  Value capture(const Tensor& tensor, Loc loc);
  [[nodiscard]] Placed place_of(const Tensor& tensor, const OpInfo* user, Loc loc);
  void check_no_overlap(Value written, Loc loc) const;
  [[noreturn]] void fail_undecided(SizeQuestion asked, Dim a, Dim b, Loc loc) const;
  [[noreturn]] void fail_read(const Tensor& tensor, std::string_view read, Loc loc) const;

  Ref<GraphImpl> graph_;
  bool captures_constants_ = false;
  const InferIn* inferring_ = nullptr;  // the call whose types are being inferred, for messages
};

}  // namespace dyad
