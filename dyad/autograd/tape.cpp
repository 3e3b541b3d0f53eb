#include "dyad/autograd/tape.h"

#include <algorithm>
#include <memory>
#include <new>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "dyad/autograd/grad_mode.h"
#include "dyad/base/error.h"
#include "dyad/core/recording_notes.h"
#include "dyad/ir/recorded.h"
#include "dyad/ir/substitute.h"
#include "dyad/ops/arithmetic.h"

namespace dyad::autograd {
namespace {

thread_local std::uint64_t last_sequence = 0;  // owned by TapeNode::set_sequence

thread_local std::vector<TapeNode*>* release_list =
    nullptr;  // owned by the outermost TapeNode::dispose

std::size_t block_size(std::size_t inputs, std::size_t outputs) noexcept {
  static_assert(sizeof(TapeNode) % alignof(InputRecord) == 0 &&
                sizeof(InputRecord) % alignof(OutputRecord) == 0);
  return sizeof(TapeNode) + inputs * sizeof(InputRecord) + outputs * sizeof(OutputRecord);
}

/// The same memory without a place on the tape.
Tensor alias(const TensorImpl& impl) {
  auto copy = make_ref<TensorImpl>(impl);
  copy->grad_meta = nullptr;
  copy->requires_grad = false;
  return Tensor(std::move(copy));
}

}  // namespace

Ref<TapeNode> TapeNode::make(const OpInfo& op, const void* attrs, Loc loc, std::size_t inputs,
                             std::size_t outputs) {
  void* block = detail::pool_allocate(block_size(inputs, outputs));
  return Ref<TapeNode>(::new (block) TapeNode(op, attrs, loc, inputs, outputs));
}

TapeNode::TapeNode(const OpInfo& op, const void* attrs, Loc loc, std::size_t inputs,
                   std::size_t outputs)
    : GradMeta(Kind::node),
      op_(&op),
      attrs_(op.attrs == &attrs_info<NoAttrs> ? Ref<Attrs>() : Attrs::copy_of(*op.attrs, attrs)),
      loc_(loc),
      input_count_(static_cast<std::uint32_t>(inputs)),
      output_count_(static_cast<std::uint32_t>(outputs)) {
  std::uninitialized_default_construct_n(this->inputs().data(), inputs);
  std::uninitialized_default_construct_n(this->outputs().data(), outputs);
}

TapeNode::~TapeNode() {
  for (InputRecord& input : inputs()) let_go(input);
  std::destroy_n(inputs().data(), input_count_);
  std::destroy_n(outputs().data(), output_count_);
}

std::span<InputRecord> TapeNode::inputs() noexcept {
  return {reinterpret_cast<InputRecord*>(this + 1), input_count_};
}

std::span<OutputRecord> TapeNode::outputs() noexcept {
  return {reinterpret_cast<OutputRecord*>(reinterpret_cast<InputRecord*>(this + 1) + input_count_),
          output_count_};
}

void TapeNode::dispose() noexcept {
  if (release_list) {
    release_list->push_back(this);
    return;
  }
  std::vector<TapeNode*> pending;
  release_list = &pending;
  for (TapeNode* node = this; node;) {
    const std::size_t bytes = block_size(node->input_count_, node->output_count_);
    node->~TapeNode();
    detail::pool_free(node, bytes);
    node = pending.empty() ? nullptr : pending.back();
    if (node) pending.pop_back();
  }
  release_list = nullptr;
}

void TapeNode::set_sequence() noexcept {
  std::uint64_t latest = last_sequence;
  for (const InputRecord& input : inputs()) {
    if (input.node) latest = std::max(latest, input.node->sequence());
  }
  sequence_ = last_sequence = latest + 1;
}

std::uint64_t latest_sequence() noexcept { return last_sequence; }

void TapeNode::settle_sizes(const SymbolMap& sizes) {
  const auto settle = [&](Shape& shape, const Tensor& kept) {
    for (Dim& dim : shape) {
      if (dim.is_symbolic()) dim = evaluate(dim, sizes);
    }
    // As a value of the graph it would still have sizes with symbols. Weights, which other threads
    // may be reading, stand for none.
    if (kept.defined() && kept.is_concrete() && kept.impl()->recorded)
      kept.impl()->recorded = nullptr;
  };
  for (InputRecord& input : inputs()) {
    if (input.left_out) input.left_out->recorded = nullptr;
  }
  if (attrs_) {
    if (Ref<Attrs> numbers = substitute_symbols(attrs_->info(), attrs_->data(), sizes))
      attrs_ = std::move(numbers);
  }
  for (InputRecord& input : inputs()) settle(input.shape, input.value());
  for (OutputRecord& output : outputs()) settle(output.shape, output.saved.tensor);
}

void TapeNode::release_saved() {
  before_release(*this);
  for (InputRecord& input : inputs()) input.saved.tensor = Tensor();
  for (OutputRecord& output : outputs()) output.saved.tensor = Tensor();
  released_ = true;
}

bool should_record(const OpInfo& op, TensorRefs inputs) noexcept {
  const bool through_parts = op.kind == BodyKind::opaque && op.expand;
  if (!grad_enabled() || !(op.grad || through_parts)) return false;
  for (const Tensor* input : inputs) {
    if (input->impl() && input->impl()->requires_grad) return true;
  }
  return false;
}

void record(const OpInfo& op, TensorRefs inputs, const void* attrs, std::span<Tensor> outputs,
            Loc loc, const Kept* kept) {
  Ref<TapeNode> owner = TapeNode::make(op, attrs, loc, inputs.size(), outputs.size());
  TapeNode& node = *owner;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    TensorImpl* impl = inputs[i]->impl();
    if (!impl) continue;
    InputRecord& input = node.inputs()[i];
    input.is_there = true;
    input.shape = shape_of(*inputs[i]);
    input.dtype = impl->dtype;
    if (impl->requires_grad) {
      if (TapeNode* from = node_of(*impl)) {
        input.node = Ref<TapeNode>(from);
        input.output = impl->grad_output;
      } else {
        input.leaf = *inputs[i];
      }
    }
    input.saved.see(*impl);
    if (saves(op.saved_inputs, i) && (!kept || kept->inputs[i]) && !input.leaf.defined() &&
        !leave_out(input, *impl))
      input.saved.tensor = *inputs[i];
  }
  node.set_sequence();
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    TensorImpl* impl = outputs[i].impl();
    if (!impl) continue;
    OutputRecord& output = node.outputs()[i];
    output.shape = shape_of(outputs[i]);
    output.dtype = impl->dtype;
    output.saved.see(*impl);
    if (saves(op.saved_outputs, i) && (!kept || kept->outputs[i]))
      output.saved.tensor = alias(*impl);
    if (!is_differentiable(impl->dtype)) continue;
    // NOLINTNEXTLINE(bugprone-use-after-move,clang-analyzer-cplusplus.Move): in the last turn alone
    impl->grad_meta = i + 1 == outputs.size() ? std::move(owner) : owner;
    impl->grad_output = static_cast<std::uint32_t>(i);
    impl->requires_grad = true;
    if (op.kind == BodyKind::view) impl->storage->mark_tracked_view();
  }
}

void check_write(const Tensor& target, const Tensor& value, int handles, Loc loc) {
  const TensorImpl& impl = *target.impl();
  if (!grad_enabled()) return;
  if (!impl.requires_grad) {
    if (!value.impl()->requires_grad || !is_differentiable(impl.dtype)) return;
    if (!impl.storage || impl.storage->use_count() <= handles) return;
    throw GradError("in-place write of a value that tracks gradients to " + type_string(target) +
                        ", whose memory other tensors share: they would hold it without its "
                        "gradient; write under NoGrad or a detach()ed value, or build the result "
                        "with where() or concat()",
                    loc);
  }
  if (target.is_leaf()) {
    throw GradError("in-place write to a leaf tensor that requires gradients (" +
                        type_string(target) +
                        "): its gradient would be lost; write under NoGrad, or to a clone()",
                    loc);
  }
  if (impl.storage->has_tracked_view()) {
    throw GradError(
        "in-place write to " + type_string(target) +
            ", which shares memory with a view that tracks gradients: the view's gradient "
            "would be wrong; write to a clone(), or build the result with where() or concat()",
        loc);
  }
}

namespace {

/// Stands for a saved tensor that was overwritten: a pass that reads it is refused by its version,
/// which is not the one saved, so it needs none of the memory.
Tensor stale(const TensorImpl& impl, std::uint32_t saved) {
  Tensor made = alias(impl);
  TensorImpl& stands = *made.impl();
  stands.storage = Storage::allocate(0);
  stands.data = stands.storage->data();
  if (stands.storage->version() == saved) stands.storage->bump_version();
  return made;
}

/// `now`, which a tensor that was written is about to own, and what it was computed from may keep
/// that very tensor and would never go: something else stands for it there. Older nodes than the
/// one that the tensor had, number `before`, have not seen it.
void keep_apart(TensorImpl& impl, TapeNode& now, std::uint64_t before) {
  if (impl.use_count() == 1 || !impl.storage) return;
  std::unordered_set<const TapeNode*> seen{&now};
  std::vector<TapeNode*> open{&now};
  while (!open.empty()) {
    TapeNode& node = *open.back();
    open.pop_back();
    for (InputRecord& input : node.inputs()) {
      if (input.saved.tensor.impl() == &impl && input.saved.version != impl.storage->version())
        input.saved.tensor = stale(impl, input.saved.version);
      TapeNode* const from = input.node.get();
      if (from && from->sequence() > before && seen.insert(from).second) open.push_back(from);
    }
  }
}

}  // namespace

void after_write(const Tensor& target, const Tensor& value) {
  TensorImpl& impl = *target.impl();
  if (impl.storage) impl.storage->bump_version();
  if (!grad_enabled() || !is_differentiable(impl.dtype)) return;
  if (value.impl()->requires_grad) {
    // A leaf has no place on the tape to share: multiplying by one makes a value that has.
    const Tensor source = value.is_leaf() ? mul(value, 1) : value;
    if (TapeNode* const now = node_of(*source.impl())) {
      const TapeNode* const old = node_of(impl);
      keep_apart(impl, *now, old ? old->sequence() : 0);
    }
    impl.grad_meta = source.impl()->grad_meta;
    impl.grad_output = source.impl()->grad_output;
    impl.requires_grad = true;
  } else if (impl.requires_grad) {
    impl.grad_meta = nullptr;
    impl.requires_grad = false;
  }
}

LeafGrad& make_leaf_grad(TensorImpl& impl) {
  if (!impl.grad_meta) impl.grad_meta = make_ref<LeafGrad>();
  return *leaf_grad_of(impl);
}

Tensor through_hooks(const std::vector<Hook>& hooks, Tensor gradient, Loc loc) {
  for (const Hook& hook : hooks) {
    Tensor replaced = hook(gradient);
    if (!replaced.defined()) continue;
    const std::string rule = "a hook replaced the gradient " + type_string(gradient) + " by " +
                             type_string(replaced) + ": the two must have the same ";
    if (!(replaced.shape() == gradient.shape())) throw ShapeError(rule + "shape", loc);
    if (replaced.dtype() != gradient.dtype()) throw DTypeError(rule + "dtype", loc);
    gradient = std::move(replaced);
  }
  return gradient;
}

void accumulate(const Tensor& leaf, Tensor gradient, bool create_graph) {
  LeafGrad& kept = make_leaf_grad(*leaf.impl());
  const GradMode mode(create_graph);
  gradient = through_hooks(kept.hooks, std::move(gradient), Loc().user());
  Evaluator::current().note_grad(leaf, false);
  if (kept.grad.defined()) {
    kept.grad = add(kept.grad, gradient);
  } else {
    const TensorImpl& impl = *gradient.impl();
    // Somebody else's memory, or a broadcast view, must not become a grad that may be changed in
    // place.
    auto* const recording =
        Evaluator::is_eager() ? nullptr : dynamic_cast<RecordingNotes*>(&Evaluator::current());
    const bool own = impl.use_count() == 1 && impl.storage && impl.storage->use_count() == 1 &&
                     impl.contiguous && (!recording || recording->keeps_order(gradient));
    kept.grad = own ? std::move(gradient) : gradient.clone();
  }
}

}  // namespace dyad::autograd
