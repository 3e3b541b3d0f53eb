#pragma once

#include <span>
#include <unordered_map>
#include <vector>

#include "dyad/core/evaluator.h"
#include "dyad/exec/path.h"

namespace dyad::exec {

/// Executes every operator as eager mode does and writes down what it did. Tensors made on the way
/// carry their value in the graph; others that operators meet are captures, read anew at each run.
class Recorder final : public Evaluator {
 public:
  /// `shapes` are those of the arguments, with symbols where a size may vary; `hints` their values
  /// now.
  Recorder(std::span<const Shape> shapes, std::span<const Tensor> arguments, SymbolMap hints,
           Loc loc);

  /// The arguments to call the function with: the caller's memory, known to this recording.
  [[nodiscard]] std::span<const Tensor> arguments() const noexcept { return arguments_; }

  /// Ends the recording with the function's results.
  [[nodiscard]] Path finish(std::span<const Tensor> results, Loc loc);

  void apply(const OpInfo& op, TensorRefs inputs, const void* attrs, std::span<Tensor> outputs,
             Loc loc) override;
  Dim size(const Tensor& tensor, int axis) override;
  std::int64_t dim_value(Dim dim, Loc loc) override;
  bool dim_equal(Dim a, Dim b, Loc loc) override;
  bool dim_less(Dim a, Dim b, Loc loc) override;
  void host_access(const Tensor& tensor, Loc loc) override;
  double read_double(const Tensor& tensor, Loc loc) override;
  std::int64_t read_int(const Tensor& tensor, Loc loc) override;
  bool read_bool(const Tensor& tensor, Loc loc) override;
  void write(const Tensor& target, const Tensor& value, Loc loc) override;
  std::vector<Tensor> backward(std::span<const Tensor> outputs, std::span<const Tensor> grads,
                               std::span<const Tensor> inputs, bool retain_graph, bool create_graph,
                               Loc loc) override;
  void note_literal(const Tensor& tensor) override;
  void note_grad(const Tensor& leaf, bool overwrites) override;
  void note_host_state(const Ref<HostState>& state) override;

 private:
  /// A tensor from outside the function that it used.
  struct Capture {
    Tensor tensor;
    Value value;  ///< its current value: the variable, or what was written since
    bool written = false;
  };

  [[nodiscard]] bool is_ours(const Tensor& tensor) const noexcept;
  Value value_of(const Tensor& tensor, Loc loc);
  Value capture(const Tensor& tensor, Loc loc);
  void set_value(const Tensor& tensor, Value value);
  void decide(const Tensor& tensor, std::int64_t outcome, Decision::Kind kind, Loc loc);
  /// The position of an argument's alias, or -1.
  [[nodiscard]] int argument_index(const Tensor& tensor) const noexcept;
  /// Records the gradients of the results by what they were computed from, for a backward() after
  /// the call.
  void record_backward(std::span<const Tensor> results, Loc loc);
  void refuse(std::string reason, Loc loc);
  void check_types(const Node& node, std::span<const Tensor> outputs) const;

  Ref<GraphImpl> graph_;
  std::vector<Tensor> arguments_;
  std::vector<Value> argument_values_;
  std::unordered_map<const TensorImpl*, Capture> captures_;
  std::vector<const TensorImpl*> capture_order_;
  std::vector<Tensor> literals_;  ///< filled by the host during this call
  std::vector<bool> written_arguments_;
  Path path_;
};

}  // namespace dyad::exec
