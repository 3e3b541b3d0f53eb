#pragma once

#include <cstdint>
#include <forward_list>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "dyad/core/tensor.h"

namespace dyad {

struct OpInfo;
struct RandomKey;

/// A number of the host that library objects own and that operators never see, but that decides
/// which operators run: train or eval mode. Reading it through `value()` lets a recording notice;
/// copies of its owner share it.
class HostState : public RefCounted<HostState> {
 public:
  explicit HostState(std::int64_t value, std::string name)
      : value_(value), name_(std::move(name)) {}
  [[nodiscard]] std::int64_t value() const;
  /// The value now, without noting it.
  [[nodiscard]] std::int64_t peek() const noexcept { return value_; }
  void set(std::int64_t value) noexcept { value_ = value; }
  [[nodiscard]] const std::string& name() const noexcept { return name_; }

 private:
  std::int64_t value_;
  std::string name_;
};

using TensorRefs = std::span<const Tensor* const>;

/// What running an operator means in this thread: execute it, put it into a graph, or both.
/// Operators and Tensor's methods reach higher layers only through it.
class Evaluator {
 public:
  virtual ~Evaluator() = default;

  /// Runs or records `op` on `inputs` with its attributes (the struct that the row names) and fills
  /// `outputs`.
  virtual void apply(const OpInfo& op, TensorRefs inputs, const void* attrs,
                     std::span<Tensor> outputs, Loc loc) = 0;

  /// The sizes of `tensor`: numbers in eager mode, symbols where the evaluator has them.
  [[nodiscard]] virtual const Shape& shape(const Tensor& tensor) = 0;
  /// The program asked for that size at `loc`; what it decides by it later has no line of its own.
  virtual void note_asked(Dim /*size*/, Loc /*loc*/) {}
  /// What `size` is in this run, without noting that the program knows: itself where nothing tells.
  [[nodiscard]] virtual Dim peek(Dim size) const { return size; }
  /// The value of a symbolic Dim that the program asks to know (guards when recording).
  virtual std::int64_t dim_value(Dim dim, Loc loc) = 0;
  /// Those of all sizes of a shape: one list for as long as this evaluator lives.
  [[nodiscard]] std::span<const std::int64_t> values(const Shape& shape);
  /// The outcome of comparing two Dims that the text cannot decide: a == b, or a < b.
  virtual bool dim_equal(Dim a, Dim b, Loc loc) = 0;
  virtual bool dim_less(Dim a, Dim b, Loc loc) = 0;

  /// The host is about to use the elements of `tensor` as memory (data(), to_vector(), DLPack):
  /// a deferred tensor is computed, a recorder takes note. When it returns the tensor has data. Not
  /// called for a concrete tensor in eager mode. Unless overridden: GraphError without data.
  virtual void host_access(const Tensor& tensor, Loc loc);

  /// The host reads the only element of `tensor` as a number of its dtype (widened to f64 or i64).
  virtual double read_double(const Tensor& tensor, Loc loc) = 0;
  virtual std::int64_t read_int(const Tensor& tensor, Loc loc) = 0;
  virtual bool read_bool(const Tensor& tensor, Loc loc) = 0;

  /// Overwrites the elements of `target` (a tensor or a view) with `value`, of the same shape and
  /// dtype.
  virtual void write(const Tensor& target, const Tensor& value, Loc loc) = 0;

  /// Runs `op` in the memory of `target`, one of its inputs, where that comes to the same as
  /// writing its result there; false, and nothing done, otherwise.
  virtual bool try_in_place(const OpInfo& /*op*/, TensorRefs /*inputs*/, const void* /*attrs*/,
                            const Tensor& /*target*/) {
    return false;
  }

  /// Runs `op` in the memory of its first input, which the caller gives up, where nobody else holds
  /// that: it is the result then. False, and nothing done, otherwise.
  virtual bool apply_over(const OpInfo& /*op*/, TensorRefs /*inputs*/, const void* /*attrs*/,
                          Loc /*loc*/) {
    return false;
  }

  /// Gradients of `outputs` weighted by `grads` (undefined: ones for a scalar): accumulated into
  /// leaves, or, when `inputs` is given, returned in their order.
  virtual std::vector<Tensor> backward(std::span<const Tensor> outputs,
                                       std::span<const Tensor> grads,
                                       std::span<const Tensor> inputs, bool retain_graph,
                                       bool create_graph, Loc loc) = 0;

  /// The program makes a tensor that the host fills (a literal, a span): a constant of what is
  /// being recorded, with the elements that it has when an operator first takes it.
  virtual void note_literal(const Tensor& /*tensor*/) {}
  /// The program reads, or overwrites, the accumulated gradient of a leaf.
  virtual void note_grad(const Tensor& /*leaf*/, bool /*overwrites*/) {}
  /// What the program does next follows from the strides of the call's arguments.
  virtual void note_strides() {}
  /// The program reads a switch of the host (train or eval mode) whose value shapes what it does
  /// next.
  virtual void note_host_state(const Ref<HostState>& /*state*/) {}
  /// The program sets the default generator (manual_seed): what is drawn from here on follows from
  /// it, at each run of what is being recorded. Not called in eager mode. Unless overridden: sets
  /// it now.
  virtual void set_random_state(const RandomKey& state, Loc loc);

  /// The evaluator of this thread: the innermost Scope's, otherwise the eager one.
  [[nodiscard]] static Evaluator& current();
  /// The eager one.
  [[nodiscard]] static Evaluator& eager() noexcept;
  /// True when the eager evaluator is the current one: nothing is being recorded.
  [[nodiscard]] static bool is_eager() noexcept;
  /// Set once by the exec layer before main.
  static void install_default(Evaluator& eager) noexcept;

  /// Makes `evaluator` current in this thread while it lives.
  class Scope {
   public:
    explicit Scope(Evaluator& evaluator) noexcept;
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Evaluator* previous_;
  };

 private:
  std::forward_list<std::pair<Shape, Ints>> told_;
};

}  // namespace dyad
