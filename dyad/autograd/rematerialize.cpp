#include "dyad/autograd/rematerialize.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "dyad/autograd/grad_mode.h"
#include "dyad/autograd/tape.h"
#include "dyad/core/autocast_switch.h"
#include "dyad/core/evaluator.h"
#include "dyad/ir/substitute.h"

namespace dyad::autograd {
namespace {

// Of all that nodes of several threads' tapes share: watches, and MadeAgain. Held while a value is
// computed only where memory is about to change: then nodes may not go meanwhile.
std::recursive_mutex& shared_state() {
  static auto* mutex = new std::recursive_mutex;  // immortal: nodes may go after static destructors
  return *mutex;
}

TapeWatch& watch_of(Storage& storage) {
  // Whoever watches memory is a TapeWatch.
  if (WriteWatch* const known = storage.watch()) return static_cast<TapeWatch&>(*known);
  return static_cast<TapeWatch&>(storage.set_watch(make_ref<TapeWatch>()));
}

/// What an output can be computed from: tensors that the tape holds, unchanged since.
class Sources {
 public:
  /// `most_bytes`: what computing it may read and write.
  explicit Sources(std::size_t most_bytes) : bytes_left_(most_bytes) {}

  /// False where that is not enough, or something is not there.
  bool find(TapeNode& node, std::uint32_t output) {
    const OutputRecord& record = node.outputs()[output];
    if (record.saved.tensor.defined()) return add(record.saved.tensor, record.saved.version);
    const OpInfo& op = node.op();
    const bool is_view = op.kind == BodyKind::view;
    if (steps_left_-- == 0 || node.released() || op.effect != Effect::pure ||
        !(op.cheap || is_view) || has_symbols(*op.attrs, node.attrs()))
      return false;
    // What others have left out is computed for them anyway.
    const bool is_free = record.again || (is_view && !op.may_copy);
    if (!is_free && !take(record.shape, record.dtype)) return false;
    return std::ranges::all_of(node.inputs(), [&](const InputRecord& input) {
      if (!input.is_there) return true;
      if (!is_free && !take(input.shape, input.dtype)) return false;
      if (input.value().defined()) return add(input.value(), input.saved.version);
      return input.node && input.node->outputs()[input.output].saved.saw_same(input.saved) &&
             find(*input.node, input.output);
    });
  }
  [[nodiscard]] std::span<Storage* const> all() const noexcept { return sources_; }

 private:
  bool take(const Shape& shape, DType dtype) noexcept {
    std::size_t bytes = size_of(dtype);
    for (const Dim size : shape) {
      if (!size.is_number()) return false;
      bytes *= static_cast<std::size_t>(size.number());
    }
    if (bytes > bytes_left_) return false;
    bytes_left_ -= bytes;
    return true;
  }
  bool add(const Tensor& held, std::uint32_t version) {
    const TensorImpl& impl = *held.impl();
    if (impl.kind != TensorImpl::Kind::concrete) return false;
    if (!impl.storage) return true;
    if (impl.storage->version() != version) return false;
    sources_.push_back(impl.storage.get());
    return true;
  }

  std::size_t bytes_left_;
  int steps_left_ = 8;
  std::vector<Storage*> sources_;
};

void forget_sources(const TapeNode& node, std::uint32_t output, MadeAgain& again) noexcept {
  for (const Ref<TapeWatch>& source : again.sources) source->remove(node, output);
  again.sources.clear();
}

/// An output of a node, from what the tape holds. Where inputs have left it out and `is_kept`, they
/// will find it there.
Tensor value_of(TapeNode& node, std::uint32_t output, bool is_kept);

Tensor compute(TapeNode& node, std::uint32_t output) {
  const std::span<InputRecord> records = node.inputs();
  std::vector<Tensor> inputs(records.size()), outputs(node.outputs().size());
  std::vector<const Tensor*> refs;
  for (std::size_t i = 0; i < records.size(); ++i) {
    const InputRecord& input = records[i];
    refs.push_back(&inputs[i]);
    if (!input.is_there) continue;
    inputs[i] = input.value().defined() ? input.value() : value_of(*input.node, input.output, true);
  }
  // As it was computed first: by what the tape knows, whatever is going on now.
  const NoGrad no_tape;
  const AutocastSwitch no_cast({});
  const Evaluator::Scope eager(Evaluator::eager());
  Evaluator::eager().apply(node.op(), refs, node.attrs(), outputs, node.loc());
  return std::move(outputs[output]);
}

Tensor value_of(TapeNode& node, std::uint32_t output, bool is_kept) {
  const OutputRecord& record = node.outputs()[output];
  if (record.saved.tensor.defined()) return record.saved.tensor;
  {
    const std::scoped_lock lock(shared_state());
    if (record.again && record.again->value.defined()) return record.again->value;
  }
  Tensor value = compute(node, output);
  const std::scoped_lock lock(shared_state());
  if (is_kept && record.again && !record.again->value.defined()) {
    record.again->value = value;
    forget_sources(node, output, *record.again);
  }
  return value;
}

}  // namespace

void TapeWatch::before_write() {
  const std::scoped_lock lock(shared_state());
  while (!outputs_.empty()) {
    const auto [node, output] = outputs_.back();
    (void)value_of(*node, output, true);  // and so takes it out of the list
  }
}

void TapeWatch::add(TapeNode& node, std::uint32_t output) { outputs_.emplace_back(&node, output); }

void TapeWatch::remove(const TapeNode& node, std::uint32_t output) noexcept {
  std::erase_if(outputs_,
                [&](const auto& one) { return one.first == &node && one.second == output; });
}

bool leave_out(InputRecord& input, const TensorImpl& value) {
  if (!input.node || value.kind != TensorImpl::Kind::concrete || !value.storage) return false;
  const auto bytes = static_cast<std::size_t>(value.numel()) * size_of(value.dtype);
  if (bytes < RematerializeFrom::current() || bytes == 0) return false;
  TapeNode& node = *input.node;
  OutputRecord& record = node.outputs()[input.output];
  // What was written to the tensor since counts, and so does the memory: a write gives a tensor the
  // place on the tape of the value that it takes.
  if (record.saved.tensor.defined() || !record.saved.saw_same(input.saved)) return false;

  const std::scoped_lock lock(shared_state());
  if (!record.again) {
    constexpr std::size_t kMostTimes = 4;
    Sources sources(kMostTimes * bytes);
    if (!sources.find(node, input.output)) return false;
    // Memory that the tape holds anyway.
    if (std::ranges::find(sources.all(), value.storage.get()) != sources.all().end()) return false;
    record.again = std::make_unique<MadeAgain>();
    for (Storage* source : sources.all()) {
      TapeWatch& watch = watch_of(*source);
      watch.add(node, input.output);
      record.again->sources.emplace_back(&watch);
    }
  }
  ++record.again->readers;
  TapeWatch& watch = watch_of(*value.storage);
  input.left_out =
      std::make_unique<LeftOut>(LeftOut{Ref<TapeWatch>(&watch), watch.writes(), value.recorded});
  return true;
}

Tensor make_again(InputRecord& input) {
  bool others = false;
  {
    const std::scoped_lock lock(shared_state());
    others = input.node->outputs()[input.output].again->readers > 1;
  }
  // A handle of its own: the recorded value and the place on the tape are this input's.
  auto impl = make_ref<TensorImpl>(*value_of(*input.node, input.output, others).impl());
  impl->recorded = input.left_out->recorded;
  impl->grad_meta = input.node;
  impl->grad_output = input.output;
  impl->requires_grad = true;
  return Tensor(std::move(impl));
}

std::uint32_t version_now(const InputRecord& input) noexcept {
  return input.saved.version + (input.left_out->watch->writes() - input.left_out->writes);
}

void let_go(InputRecord& input) noexcept {
  if (!input.left_out) return;
  input.left_out = nullptr;
  std::unique_ptr<MadeAgain> last;  // goes without the lock
  const std::scoped_lock lock(shared_state());
  OutputRecord& record = input.node->outputs()[input.output];
  if (--record.again->readers > 0) return;
  forget_sources(*input.node, input.output, *record.again);
  last = std::move(record.again);
}

void before_release(TapeNode& node) {
  for (InputRecord& input : node.inputs()) let_go(input);
  // As before a write: others must not need it any more.
  const auto make_from = [](const Tensor& held) {
    if (held.defined() && held.impl()->storage) held.impl()->storage->before_write();
  };
  for (const InputRecord& input : node.inputs()) make_from(input.saved.tensor);
  for (std::size_t i = 0; i < node.outputs().size(); ++i) {
    const OutputRecord& output = node.outputs()[i];
    make_from(output.saved.tensor);
    if (output.again) (void)value_of(node, static_cast<std::uint32_t>(i), true);
  }
}

}  // namespace dyad::autograd
