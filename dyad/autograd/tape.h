#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "dyad/autograd/rematerialize.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/ir/op_info.h"

namespace dyad::autograd {

class TapeNode;  // NOLINT(cppcoreguidelines-virtual-class-destructor): only its Ref destroys it
using Hook = std::function<Tensor(const Tensor&)>;

/// A tensor kept for the backward pass, with the version of its memory at that time.
struct SavedTensor {
  Tensor tensor;
  std::uint32_t version = 0;
  const Storage* memory = nullptr;  ///< which one; it may be gone

  /// Notes both, without the tensor.
  void see(const TensorImpl& impl) noexcept {
    memory = impl.storage.get();
    if (memory) version = memory->version();
  }
  /// Whether both saw the same contents.
  [[nodiscard]] bool saw_same(const SavedTensor& other) const noexcept {
    return memory == other.memory && version == other.version;
  }
};

/// What the tape knows of one input of an operator: its type, where its gradient goes (a node's
/// output, or a leaf; neither when it wants none), and its value when the rule reads it.
struct InputRecord {
  Shape shape;
  DType dtype = DType::f32;
  bool is_there = false;  ///< false for an optional input that is absent
  std::uint32_t output = 0;
  Ref<TapeNode> node;
  Tensor leaf;
  SavedTensor saved;                  ///< of a leaf, and of what is not kept, without the tensor
  std::unique_ptr<LeftOut> left_out;  ///< the rule reads the value, and `node` makes it again

  [[nodiscard]] bool needs_grad() const noexcept { return node || leaf.defined(); }
  /// The value, where the record holds it.
  [[nodiscard]] const Tensor& value() const noexcept {
    return leaf.defined() ? leaf : saved.tensor;
  }
  [[nodiscard]] bool has_value() const noexcept { return left_out || value().defined(); }
};

struct OutputRecord {
  Shape shape;
  DType dtype = DType::f32;
  SavedTensor saved;  ///< an alias without a place on the tape, so that a node does not own itself
  std::unique_ptr<MadeAgain> again;  ///< for those that have left it out
  std::unique_ptr<std::vector<Hook>> hooks;
};

/// One executed operator on the tape. Inputs and outputs lie behind the node in the same block of
/// memory.
class TapeNode final : public GradMeta {
 public:
  static Ref<TapeNode> make(const OpInfo& op, const void* attrs, Loc loc, std::size_t inputs,
                            std::size_t outputs);
  [[nodiscard]] const OpInfo& op() const noexcept { return *op_; }
  [[nodiscard]] const void* attrs() const noexcept { return attrs_ ? attrs_->data() : &kNone; }
  [[nodiscard]] Loc loc() const noexcept { return loc_; }
  /// Larger than those of the nodes that the inputs come from and of earlier nodes of the thread,
  /// so descending order is a reverse topological one, and that of the program.
  [[nodiscard]] std::uint64_t sequence() const noexcept { return sequence_; }
  /// Gives the node its number, when its inputs are known.
  void set_sequence() noexcept;
  [[nodiscard]] std::span<InputRecord> inputs() noexcept;
  [[nodiscard]] std::span<OutputRecord> outputs() noexcept;
  /// Puts numbers in the place of symbols: a recording that knew sizes by symbols is over.
  void settle_sizes(const SymbolMap& sizes);
  /// Drops saved tensors; a later backward through this node is a GradError. First computes what
  /// other nodes have left out (MemoryError).
  void release_saved();
  [[nodiscard]] bool released() const noexcept { return released_; }

 private:
  TapeNode(const OpInfo& op, const void* attrs, Loc loc, std::size_t inputs, std::size_t outputs);
  ~TapeNode();
  /// Releases a chain of any length without recursion.
  void dispose() noexcept override;

  static constexpr NoAttrs kNone{};
  const OpInfo* op_;
  Ref<Attrs> attrs_;  ///< null when the operator has none
  Loc loc_;
  std::uint64_t sequence_ = 0;
  std::uint32_t input_count_;
  std::uint32_t output_count_;
  bool released_ = false;
};

/// What a leaf keeps of the backward passes.
class LeafGrad final : public GradMeta {
 public:
  LeafGrad() noexcept : GradMeta(Kind::leaf) {}
  Tensor grad;
  /// Leaves of their own whose grad holds what came as rows alone (row_grad.h): which, and they.
  Tensor index, rows;
  std::vector<Hook> hooks;

 private:
  void dispose() noexcept override { delete this; }
};

/// The node of the tape that computed `impl` (its output number impl.grad_output); null for a leaf.
[[nodiscard]] inline TapeNode* node_of(const TensorImpl& impl) noexcept {
  GradMeta* meta = impl.grad_meta.get();
  return meta && meta->kind() == GradMeta::Kind::node ? static_cast<TapeNode*>(meta) : nullptr;
}
/// What the leaf `impl` has kept so far; null when that is nothing, or when it was computed.
[[nodiscard]] inline LeafGrad* leaf_grad_of(const TensorImpl& impl) noexcept {
  GradMeta* meta = impl.grad_meta.get();
  return meta && meta->kind() == GradMeta::Kind::leaf ? static_cast<LeafGrad*>(meta) : nullptr;
}
/// The same, made if need be; `impl` is a leaf.
LeafGrad& make_leaf_grad(TensorImpl& impl);
/// The gradient accumulated in `leaf`; undefined when there is none.
[[nodiscard]] inline Tensor grad_of(const TensorImpl& leaf) noexcept {
  const LeafGrad* kept = leaf_grad_of(leaf);
  return kept ? kept->grad : Tensor();
}

/// True when an executed operator with these inputs belongs on the tape now.
[[nodiscard]] bool should_record(const OpInfo& op, TensorRefs inputs) noexcept;

/// A row whose `saved_inputs` or `saved_outputs` is this saves every one of them, however many.
inline constexpr std::uint32_t kSavesAll = ~std::uint32_t{0};
[[nodiscard]] inline bool saves(std::uint32_t saved, std::size_t i) noexcept {
  return saved == kSavesAll || (i < 32 && (saved >> i & 1u));
}

/// What a node of the tape keeps where the row does not say it: one flag for each tensor.
struct Kept {
  std::vector<bool> inputs, outputs;
};

/// The number of the thread's latest node.
[[nodiscard]] std::uint64_t latest_sequence() noexcept;

/// Puts an executed operator on the tape: its floating outputs track gradients from now on. With
/// `kept`, of what the row saves only the tensors that it names.
void record(const OpInfo& op, TensorRefs inputs, const void* attrs, std::span<Tensor> outputs,
            Loc loc, const Kept* kept = nullptr);

/// Before `target` is overwritten with `value`: GradError for a leaf that is differentiated by, for
/// a tensor that shares memory with tracked views, whose gradients would be wrong, and for a value
/// that tracks gradients in memory that other tensors share, which would not track it: more than
/// `handles`, the program's own one and those of a recording.
void check_write(const Tensor& target, const Tensor& value, int handles, Loc loc);
/// After the write: the gradient of `target` is the value's from now on.
void after_write(const Tensor& target, const Tensor& value);

/// The gradient after a tensor's hooks, each of which may replace it. ShapeError, DTypeError for a
/// replacement of another type, at the line of the operator that `loc` names.
[[nodiscard]] Tensor through_hooks(const std::vector<Hook>& hooks, Tensor gradient, Loc loc);

/// Adds `gradient` to leaf.grad() (runs the leaf's hooks first).
void accumulate(const Tensor& leaf, Tensor gradient, bool create_graph);

}  // namespace dyad::autograd
