#pragma once

#include "dyad/core/evaluator.h"
#include "dyad/core/tensor_list.h"

namespace dyad {

/// Define by run: executes each operator at once and, where inputs track gradients, puts it on the
/// tape. Stateless; symbolic inputs go to their graph instead.
class EagerEvaluator final : public Evaluator {
 public:
  static EagerEvaluator& instance();

  void apply(const OpInfo& op, TensorRefs inputs, const void* attrs, std::span<Tensor> outputs,
             Loc loc) override;
  const Shape& shape(const Tensor& tensor) override;
  std::int64_t dim_value(Dim dim, Loc loc) override;
  bool dim_equal(Dim a, Dim b, Loc loc) override;
  bool dim_less(Dim a, Dim b, Loc loc) override;
  double read_double(const Tensor& tensor, Loc loc) override;
  std::int64_t read_int(const Tensor& tensor, Loc loc) override;
  bool read_bool(const Tensor& tensor, Loc loc) override;
  void write(const Tensor& target, const Tensor& value, Loc loc) override;
  /// The same on data; `handles` of the target's memory count as one.
  static void write_data(const Tensor& target, const Tensor& value, int handles, Loc loc);
  bool try_in_place(const OpInfo& op, TensorRefs inputs, const void* attrs,
                    const Tensor& target) override;
  bool apply_over(const OpInfo& op, TensorRefs inputs, const void* attrs, Loc loc) override;
  std::vector<Tensor> backward(std::span<const Tensor> outputs, std::span<const Tensor> grads,
                               std::span<const Tensor> inputs, bool retain_graph, bool create_graph,
                               Loc loc) override;
};

namespace exec {

/// Executes one operator on concrete inputs, without the tape: the part that eager mode and
/// recording share. Composites run their expansion through the current evaluator.
void execute(const OpInfo& op, TensorRefs inputs, const void* attrs, std::span<Tensor> outputs,
             Loc loc);

/// Copies the elements of `value` into the memory of `target` (same shape and dtype, any strides).
void copy_into(const Tensor& target, const Tensor& value);
/// Whether element i of both lies at one address, for all i.
[[nodiscard]] bool lies_as(const Tensor& a, const Tensor& b);

/// The elements of a concrete tensor in memory of their own, row after row.
[[nodiscard]] Tensor row_major_copy(const Tensor& tensor);

/// True when several elements of a concrete tensor are one element in memory: expand() made it.
[[nodiscard]] bool is_broadcast(const TensorImpl& tensor) noexcept;

/// The inputs of a call, host numbers among them converted to the dtype that they meet.
class ConvertedNumbers {
 public:
  ConvertedNumbers(const OpInfo& op, TensorRefs inputs);
  /// Valid while this object and the original inputs live.
  [[nodiscard]] TensorRefs inputs() const noexcept { return inputs_; }

 private:
  TensorList converted_;
  InlineVector<const Tensor*, 4> refs_;
  TensorRefs inputs_;
};

}  // namespace exec
}  // namespace dyad
