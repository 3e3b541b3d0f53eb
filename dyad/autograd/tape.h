#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "dyad/core/tensor_impl.h"
#include "dyad/ir/op_info.h"

namespace dyad::autograd {

class TapeNode;
using Hook = std::function<Tensor(const Tensor&)>;

/// A tensor kept for the backward pass, with the version of its memory at that time.
struct SavedTensor {
  Tensor tensor;
  std::uint32_t version = 0;
};

/// What the tape knows of one input of an operator: its type, where its gradient goes (a node's
/// output, or a leaf; neither when it wants none), and its value when the rule reads it.
struct InputRecord {
  Shape shape;
  DType dtype = DType::f32;
  std::uint32_t output = 0;
  Ref<TapeNode> node;
  Ref<TensorImpl> leaf;
  SavedTensor saved;

  [[nodiscard]] bool needs_grad() const noexcept { return node || leaf; }
};

struct OutputRecord {
  Shape shape;
  DType dtype = DType::f32;
  SavedTensor saved;  ///< an alias without a place on the tape, so that a node does not own itself
  std::unique_ptr<std::vector<Hook>> hooks;
};

/// One executed operator on the tape. Inputs and outputs lie behind the node in the same block of
/// memory.
class TapeNode final : public RefCounted<TapeNode> {
 public:
  static Ref<TapeNode> make(const OpInfo& op, const void* attrs, Loc loc, std::size_t inputs,
                            std::size_t outputs);
  /// Releases a chain of any length without recursion.
  static void destroy(TapeNode* node) noexcept;

  [[nodiscard]] const OpInfo& op() const noexcept { return *op_; }
  [[nodiscard]] const void* attrs() const noexcept { return attrs_ ? attrs_->data() : nullptr; }
  [[nodiscard]] Loc loc() const noexcept { return loc_; }
  /// Later nodes have larger numbers, so descending order is a reverse topological one.
  [[nodiscard]] std::uint64_t sequence() const noexcept { return sequence_; }
  [[nodiscard]] std::span<InputRecord> inputs() noexcept;
  [[nodiscard]] std::span<OutputRecord> outputs() noexcept;
  /// Drops saved tensors; a later backward through this node is a GradError.
  void release_saved() noexcept;
  [[nodiscard]] bool released() const noexcept { return released_; }

 private:
  TapeNode(const OpInfo& op, const void* attrs, Loc loc, std::size_t inputs, std::size_t outputs);
  ~TapeNode();
  const OpInfo* op_;
  Ref<Attrs> attrs_;
  Loc loc_;
  std::uint64_t sequence_;
  std::uint32_t input_count_;
  std::uint32_t output_count_;
  bool released_ = false;
};

/// A tensor's place on the tape, or, for a leaf, its accumulated gradient and hooks.
class TapeMeta final : public GradMeta {
 public:
  Ref<TapeNode> node;
  std::uint32_t output = 0;
  Tensor grad;
  std::vector<Hook> hooks;

  static void* operator new(std::size_t bytes) { return detail::pool_allocate(bytes); }
  static void operator delete(void* block, std::size_t bytes) noexcept {
    detail::pool_free(block, bytes);
  }
};

/// The gradient side of `impl`, or null.
[[nodiscard]] inline TapeMeta* meta_of(const TensorImpl& impl) noexcept {
  return static_cast<TapeMeta*>(impl.grad_meta.get());
}

/// True when an executed operator with these inputs belongs on the tape now.
[[nodiscard]] bool should_record(const OpInfo& op, TensorRefs inputs) noexcept;

/// Puts an executed operator on the tape: its floating outputs track gradients from now on.
void record(const OpInfo& op, TensorRefs inputs, const void* attrs, std::span<Tensor> outputs,
            Loc loc);

/// After `target` was overwritten with `value`: its gradient is the value's from now on. GradError
/// for a leaf that is differentiated by, and for a tensor that shares memory with tracked views,
/// whose gradients would be wrong.
void check_write(const Tensor& target, Loc loc);
void after_write(const Tensor& target, const Tensor& value);

/// Adds `gradient` to leaf.grad() (runs the leaf's hooks first).
void accumulate(TensorImpl& leaf, Tensor gradient, bool create_graph);

}  // namespace dyad::autograd
