#include "dyad/autograd/tape.h"

#include <atomic>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "dyad/autograd/grad_mode.h"
#include "dyad/base/error.h"
#include "dyad/ir/recorded.h"
#include "dyad/ops/arithmetic.h"

namespace dyad::autograd {
namespace {

std::atomic<std::uint64_t> next_sequence{0};  // owned by the tape: orders nodes of all threads

thread_local std::vector<TapeNode*>* release_list =
    nullptr;  // owned by the outermost TapeNode::destroy

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

bool is_tracked_view(const TensorImpl& impl) noexcept {
  const TapeMeta* meta = meta_of(impl);
  return meta && meta->node && meta->node->op().kind == BodyKind::view;
}

}  // namespace

Ref<TapeNode> TapeNode::make(const OpInfo& op, const void* attrs, Loc loc, std::size_t inputs,
                             std::size_t outputs) {
  void* block = detail::pool_allocate(block_size(inputs, outputs));
  return Ref<TapeNode>(::new (block) TapeNode(op, attrs, loc, inputs, outputs));
}

TapeNode::TapeNode(const OpInfo& op, const void* attrs, Loc loc, std::size_t inputs,
                   std::size_t outputs)
    : op_(&op),
      attrs_(op.attrs == &attrs_info<NoAttrs> ? Ref<Attrs>() : Attrs::copy_of(*op.attrs, attrs)),
      loc_(loc),
      sequence_(next_sequence.fetch_add(1, std::memory_order_relaxed)),
      input_count_(static_cast<std::uint32_t>(inputs)),
      output_count_(static_cast<std::uint32_t>(outputs)) {
  std::uninitialized_default_construct_n(this->inputs().data(), inputs);
  std::uninitialized_default_construct_n(this->outputs().data(), outputs);
}

TapeNode::~TapeNode() {
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

void TapeNode::destroy(TapeNode* node) noexcept {
  if (release_list) {
    release_list->push_back(node);
    return;
  }
  std::vector<TapeNode*> pending;
  release_list = &pending;
  while (node) {
    const std::size_t bytes = block_size(node->input_count_, node->output_count_);
    node->~TapeNode();
    detail::pool_free(node, bytes);
    node = pending.empty() ? nullptr : pending.back();
    if (node) pending.pop_back();
  }
  release_list = nullptr;
}

void TapeNode::release_saved() noexcept {
  for (InputRecord& input : inputs()) input.saved.tensor = Tensor();
  for (OutputRecord& output : outputs()) output.saved.tensor = Tensor();
  released_ = true;
}

bool should_record(const OpInfo& op, TensorRefs inputs) noexcept {
  if (!grad_enabled() || !op.grad) return false;
  for (const Tensor* input : inputs) {
    if (input->impl() && input->impl()->requires_grad) return true;
  }
  return false;
}

void record(const OpInfo& op, TensorRefs inputs, const void* attrs, std::span<Tensor> outputs,
            Loc loc) {
  Ref<TapeNode> node = TapeNode::make(op, attrs, loc, inputs.size(), outputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    TensorImpl* impl = inputs[i]->impl();
    if (!impl) continue;
    InputRecord& input = node->inputs()[i];
    input.shape = shape_of(*inputs[i]);
    input.dtype = impl->dtype;
    if (impl->requires_grad) {
      const TapeMeta* meta = meta_of(*impl);
      if (meta && meta->node) {
        input.node = meta->node;
        input.output = meta->output;
      } else {
        input.leaf = Ref<TensorImpl>(impl);
      }
    }
    if (op.saved_inputs >> i & 1u) input.saved = {*inputs[i], impl->storage->version()};
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    TensorImpl* impl = outputs[i].impl();
    if (!impl) continue;
    OutputRecord& output = node->outputs()[i];
    output.shape = shape_of(outputs[i]);
    output.dtype = impl->dtype;
    if (op.saved_outputs >> i & 1u) output.saved = {alias(*impl), impl->storage->version()};
    if (!is_floating(impl->dtype)) continue;
    auto meta = make_ref<TapeMeta>();
    meta->node = node;
    meta->output = static_cast<std::uint32_t>(i);
    impl->grad_meta = meta;
    impl->requires_grad = true;
    if (op.kind == BodyKind::view) impl->storage->mark_tracked_view();
  }
}

void check_write(const Tensor& target, Loc loc) {
  const TensorImpl& impl = *target.impl();
  if (!impl.requires_grad || !grad_enabled()) return;
  if (target.is_leaf()) {
    throw GradError("in-place write to a leaf tensor that requires gradients (" +
                        type_string(target) +
                        "): its gradient would be lost; write under NoGrad, or to a clone()",
                    loc);
  }
  if (is_tracked_view(impl) || impl.storage->has_tracked_view()) {
    throw GradError(
        "in-place write to " + type_string(target) +
            ", which shares memory with a view that tracks gradients: the view's gradient "
            "would be wrong; write to a clone(), or build the result with where() or concat()",
        loc);
  }
}

void after_write(const Tensor& target, const Tensor& value) {
  TensorImpl& impl = *target.impl();
  if (impl.storage) impl.storage->bump_version();
  if (!grad_enabled() || !is_floating(impl.dtype)) return;
  if (value.impl()->requires_grad) {
    auto meta = make_ref<TapeMeta>();
    // A leaf has no place on the tape to share: multiplying by one makes a value that has.
    const Tensor source = value.is_leaf() ? mul(value, 1) : value;
    const TapeMeta* from = meta_of(*source.impl());
    meta->node = from->node;
    meta->output = from->output;
    impl.grad_meta = meta;
    impl.requires_grad = true;
  } else if (impl.requires_grad) {
    impl.grad_meta = nullptr;
    impl.requires_grad = false;
  }
}

void accumulate(TensorImpl& leaf, Tensor gradient, bool create_graph) {
  if (!leaf.grad_meta) leaf.grad_meta = make_ref<TapeMeta>();
  TapeMeta& meta = *meta_of(leaf);
  for (const Hook& hook : meta.hooks) {
    if (Tensor replaced = hook(gradient); replaced.defined()) gradient = std::move(replaced);
  }
  const GradMode mode(create_graph);
  Evaluator::current().note_grad(Tensor(Ref<TensorImpl>(&leaf)), false);
  if (meta.grad.defined()) {
    meta.grad = add(meta.grad, gradient);
  } else {
    const TensorImpl& impl = *gradient.impl();
    // Somebody else's memory, or a broadcast view, must not become a grad that may be changed in
    // place.
    const bool own =
        impl.use_count() == 1 && impl.storage && impl.storage->use_count() == 1 && impl.contiguous;
    meta.grad = own ? std::move(gradient) : gradient.clone();
  }
}

}  // namespace dyad::autograd
