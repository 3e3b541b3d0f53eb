#pragma once

#include "dyad/core/evaluator.h"
#include "dyad/core/recording_notes.h"

namespace dyad::exec {

/// Does what another evaluator does: the one that was current when it was made, unless said. What
/// watches or changes operator calls, eager or recorded, derives from it.
class ForwardingEvaluator : public Evaluator, public RecordingNotes {
 public:
  ForwardingEvaluator() : ForwardingEvaluator(Evaluator::current()) {}
  explicit ForwardingEvaluator(Evaluator& to) : to_(to) {}

  /// What the operators that pass through here are given for `tensor`.
  [[nodiscard]] virtual Tensor stand_in(const Tensor& tensor) {
    auto* next = dynamic_cast<ForwardingEvaluator*>(&to_);
    return next ? next->stand_in(tensor) : tensor;
  }

  void apply(const OpInfo& op, TensorRefs inputs, const void* attrs, std::span<Tensor> outputs,
             Loc loc) override {
    to_.apply(op, inputs, attrs, outputs, loc);
  }
  const Shape& shape(const Tensor& tensor) override { return to_.shape(tensor); }
  void note_asked(Dim size, Loc loc) override { to_.note_asked(size, loc); }
  [[nodiscard]] Dim peek(Dim size) const override { return to_.peek(size); }
  std::int64_t dim_value(Dim dim, Loc loc) override { return to_.dim_value(dim, loc); }
  bool dim_equal(Dim a, Dim b, Loc loc) override { return to_.dim_equal(a, b, loc); }
  bool dim_less(Dim a, Dim b, Loc loc) override { return to_.dim_less(a, b, loc); }
  void host_access(const Tensor& tensor, Loc loc) override { to_.host_access(tensor, loc); }
  double read_double(const Tensor& tensor, Loc loc) override {
    return to_.read_double(tensor, loc);
  }
  std::int64_t read_int(const Tensor& tensor, Loc loc) override {
    return to_.read_int(tensor, loc);
  }
  bool read_bool(const Tensor& tensor, Loc loc) override { return to_.read_bool(tensor, loc); }
  void write(const Tensor& target, const Tensor& value, Loc loc) override {
    to_.write(target, value, loc);
  }
  std::vector<Tensor> backward(std::span<const Tensor> outputs, std::span<const Tensor> grads,
                               std::span<const Tensor> inputs, bool retain_graph, bool create_graph,
                               Loc loc) override {
    return to_.backward(outputs, grads, inputs, retain_graph, create_graph, loc);
  }
  void note_literal(const Tensor& tensor) override { to_.note_literal(tensor); }
  void note_grad(const Tensor& leaf, bool overwrites) override { to_.note_grad(leaf, overwrites); }
  void note_strides() override { to_.note_strides(); }
  void note_detached(const Tensor& of, const Tensor& made) override {
    if (auto* const notes = next()) notes->note_detached(of, made);
  }
  void note_hook(const Tensor& of, Loc loc) override {
    if (auto* const notes = next()) notes->note_hook(of, loc);
  }
  bool keeps_order(const Tensor& made) override {
    auto* const notes = next();
    return !notes || notes->keeps_order(made);
  }
  void begin_pass() override {
    if (auto* const notes = next()) notes->begin_pass();
  }
  void visit(std::uint64_t sequence) override {
    if (auto* const notes = next()) notes->visit(sequence);
  }
  void end_pass() override {
    if (auto* const notes = next()) notes->end_pass();
  }
  void open_rule(std::span<const Tensor> came) override {
    if (auto* const notes = next()) notes->open_rule(came);
  }
  void close_rule(std::span<const Tensor> made, std::span<const int> looked_for) override {
    if (auto* const notes = next()) notes->close_rule(made, looked_for);
  }
  void note_host_state(const Ref<HostState>& state) override { to_.note_host_state(state); }
  void set_random_state(const RandomKey& state, Loc loc) override {
    to_.set_random_state(state, loc);
  }

 protected:
  [[nodiscard]] Evaluator& to() const noexcept { return to_; }

 private:
  /// Where notes go; null where nothing is recorded.
  [[nodiscard]] RecordingNotes* next() const noexcept {
    return dynamic_cast<RecordingNotes*>(&to_);
  }

  Evaluator& to_;
};

}  // namespace dyad::exec
