#include "dyad/exec/executable_steps.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

#include "dyad/base/error.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/exec/anomaly.h"
#include "dyad/exec/step_profile.h"
#include "dyad/ops/attrs/indexing.h"
#include "dyad/runtime/launch.h"
#include "dyad/runtime/op_kernel.h"

namespace dyad::exec {
namespace {

class KernelStep final : public Step {
 public:
  KernelStep(const Node* node, runtime::KernelLaunch launch)
      : Step(node), launch_(std::move(launch)) {}
  void run(Plan&, const RunContext&) override { launch_.run(); }
  void** address(int operand) noexcept { return launch_.address(operand); }
  runtime::KernelLaunch& launch() noexcept { return launch_; }

 private:
  runtime::KernelLaunch launch_;
};

class TogetherStep final : public Step {
 public:
  explicit TogetherStep(std::vector<std::unique_ptr<Step>> steps)
      : Step(&steps.front()->node()), steps_(std::move(steps)), group_(launches_of(steps_)) {}
  void run(Plan& plan, const RunContext& context) override {
    StepProfile* const profile = StepProfile::active();
    if (!profile) {
      group_.run();
      return;
    }
    for (const auto& step : steps_)
      StepProfile::time(profile, step->node(), [&] { step->run(plan, context); });
  }
  [[nodiscard]] bool times_itself() const noexcept override { return true; }
  void add_nodes(std::vector<const Node*>& to) const override {
    for (const auto& step : steps_) step->add_nodes(to);
  }

 private:
  static std::vector<runtime::KernelLaunch*> launches_of(
      const std::vector<std::unique_ptr<Step>>& steps) {
    std::vector<runtime::KernelLaunch*> launches;
    for (const auto& step : steps) launches.push_back(&static_cast<KernelStep&>(*step).launch());
    return launches;
  }

  std::vector<std::unique_ptr<Step>> steps_;
  runtime::LaunchGroup group_;
};

class OpaqueStep final : public Step {
 public:
  OpaqueStep(const Node* node, Ref<Attrs> attrs, std::vector<Tensor> inputs,
             std::vector<Tensor> outputs, std::uint64_t constants, bool spoils)
      : Step(node),
        kernel_(*runtime::find_kernel(node->op())),
        attrs_(std::move(attrs)),
        inputs_(std::move(inputs)),
        outputs_(std::move(outputs)),
        constants_(constants),
        spoils_(spoils) {}
  void run(Plan&, const RunContext&) override {
    kernel_.run({node().op(), attrs_->data(), inputs_, outputs_, node().loc(), constants_, &memo_,
                 spoils_});
  }

 private:
  const runtime::OpKernel& kernel_;
  Ref<Attrs> attrs_;
  std::vector<Tensor> inputs_, outputs_;
  std::uint64_t constants_;
  bool spoils_;
  std::unique_ptr<runtime::KernelMemo> memo_;
};

/// Bit i: the step's input i is a literal of the graph.
std::uint64_t constants_among(const Plan& plan, const DraftStep& draft) {
  std::uint64_t constants = 0;
  for (std::size_t i = 0; i < std::min<std::size_t>(draft.reads.size(), 64); ++i) {
    if (draft.reads[i] < 0) continue;
    const int buffer = plan.slots[static_cast<std::size_t>(draft.reads[i])].buffer;
    if (plan.buffers[static_cast<std::size_t>(buffer)].source == Source::constant) {
      constants |= std::uint64_t{1} << i;
    }
  }
  return constants;
}

class CopyStep final : public Step {
 public:
  CopyStep(const Node* node, Tensor from, Tensor to)
      : Step(node), from_(std::move(from)), to_(std::move(to)) {}
  void run(Plan&, const RunContext&) override { runtime::run_copy(to_, from_); }

 private:
  Tensor from_, to_;
};

/// By name, for their kernels: a program need not have the operators themselves.
constexpr OpInfo kTakeSaved{.name = "gather"}, kPutBack{.name = "scatter"};

/// Keeps the elements of a variable that a slice or a scatter is about to replace.
class SaveStep final : public Step {
 public:
  SaveStep(const Node* node, Ref<Attrs> attrs, Tensor variable, Tensor index, Tensor saved)
      : Step(node),
        attrs_(std::move(attrs)),
        variable_(std::move(variable)),
        index_(std::move(index)),
        saved_(std::move(saved)) {}

  void run(Plan&, const RunContext&) override {
    variable_.impl()->storage->before_write();
    if (index_.defined()) {
      call(kTakeSaved, {variable_, index_}, saved_);
    } else {
      runtime::run_copy(saved_, part());
    }
    // What is kept of its contents elsewhere, such as packed weights, is so no more.
    variable_.impl()->storage->bump_version();
  }
  void undo() noexcept override {
    if (index_.defined()) {
      call(kPutBack, {variable_, index_, saved_}, variable_);
    } else {
      runtime::run_copy(part(), saved_);
    }
    variable_.impl()->storage->bump_version();
  }

 private:
  void call(const OpInfo& op, const std::vector<Tensor>& inputs, Tensor& output) const {
    runtime::find_kernel(op)->run({op, attrs_->data(), inputs, {&output, 1}, node().loc()});
  }
  [[nodiscard]] Tensor part() const {
    const TensorImpl& whole = *variable_.impl();
    const Shape& shape = saved_.impl()->shape;
    const ViewLayout layout =
        node().is("select_scatter")
            ? ops::select_layout(*static_cast<const ops::SelectAttrs*>(attrs_->data()), whole.shape,
                                 whole.strides, shape)
            : ops::slice_layout(*static_cast<const ops::SliceAttrs*>(attrs_->data()), whole.shape,
                                whole.strides, shape);
    return make_view(variable_, shape, layout.strides, layout.offset);
  }

  Ref<Attrs> attrs_;
  Tensor variable_, index_, saved_;
};

class CheckedStep final : public Step {
 public:
  CheckedStep(std::unique_ptr<Step> step, std::vector<Tensor> inputs, std::vector<Tensor> outputs)
      : Step(&step->node()),
        step_(std::move(step)),
        inputs_(std::move(inputs)),
        outputs_(std::move(outputs)) {}
  void run(Plan& plan, const RunContext& context) override {
    step_->run(plan, context);
    std::vector<const Tensor*> inputs;
    for (const Tensor& input : inputs_) inputs.push_back(&input);
    check_finite(node().op(), inputs, outputs_, node().loc());
  }

 private:
  std::unique_ptr<Step> step_;
  std::vector<Tensor> inputs_, outputs_;
};

/// Strides of the results of a reduction in the space of its input: row-major over the kept axes,
/// 0 along the reduced ones.
Strides reduced_strides(std::span<const std::int64_t> space,
                        std::span<const std::int64_t> reduced) {
  Strides strides(space.size(), 0);
  std::int64_t step = 1;
  for (std::size_t axis = space.size(); axis-- > 0;) {
    if (std::ranges::find(reduced, static_cast<std::int64_t>(axis)) != reduced.end()) continue;
    strides[axis] = step;
    step *= space[axis];
  }
  return strides;
}

}  // namespace

KernelParts::KernelParts(const Plan& plan, const DraftStep& draft)
    : program(program_of(*draft.node, *draft.attrs, plan.symbols)) {
  const auto tensor = [&](int slot) -> const Tensor& {
    return plan.slots[static_cast<std::size_t>(slot)].tensor;
  };
  // A reduction's space is that of its element, which no operand need have in full.
  space = program.is_reduction ? program.space : tensor(draft.writes[0]).shape();
  for (const int slot : draft.reads) {
    inputs.push_back(runtime::LaunchOperand::of(tensor(slot), space.numbers()));
  }
  if (program.counts) {
    inputs.push_back(
        {.dtype = DType::i64, .strides = contiguous_strides(space), .index = true, .origin = 0});
  }
  for (const int slot : draft.writes) {
    outputs.push_back({.dtype = tensor(slot).dtype(),
                       .strides = program.is_reduction
                                      ? reduced_strides(space.numbers(), program.reduced)
                                      : tensor(slot).impl()->strides});
  }
}

runtime::KernelLaunch KernelParts::launch(std::span<const std::int64_t> sizes,
                                          runtime::KernelBatch& batch) const {
  return program.is_reduction
             ? runtime::KernelLaunch::reduction(program.name, program.reduction, sizes,
                                                program.reduced, inputs, outputs, &batch)
             : runtime::KernelLaunch::pointwise(program.name, program.pointwise, sizes, inputs,
                                                outputs, &batch);
}

std::unique_ptr<Step> make_kernel_step(Plan& plan, const DraftStep& draft,
                                       runtime::KernelBatch& batch) {
  const KernelParts parts(plan, draft);
  auto step = std::make_unique<KernelStep>(draft.node, parts.launch(parts.space.numbers(), batch));
  for (std::size_t i = 0; i < draft.reads.size(); ++i)
    plan.patch_address(draft.reads[i], step->address(static_cast<int>(i)));
  for (std::size_t i = 0; i < draft.writes.size(); ++i)
    plan.patch_address(draft.writes[i], step->address(static_cast<int>(parts.inputs.size() + i)));
  return step;
}

std::unique_ptr<Step> make_together_step(std::vector<std::unique_ptr<Step>> steps) {
  return std::make_unique<TogetherStep>(std::move(steps));
}

std::unique_ptr<Step> make_opaque_step(Plan& plan, const DraftStep& draft) {
  return std::make_unique<OpaqueStep>(
      draft.node, draft.attrs,
      patched_tensors(plan, draft.reads, runtime::find_kernel(draft.node->op())->packs),
      patched_tensors(plan, draft.writes), constants_among(plan, draft), draft.spoils >= 0);
}

std::unique_ptr<Step> make_copy_step(Plan& plan, const DraftStep& draft) {
  return std::make_unique<CopyStep>(draft.node, patched_tensors(plan, draft.reads)[0],
                                    patched_tensors(plan, draft.writes)[0]);
}

std::unique_ptr<Step> make_save_step(Plan& plan, const DraftStep& draft) {
  const std::vector<Tensor> reads = patched_tensors(plan, draft.reads);
  return std::make_unique<SaveStep>(draft.node, draft.attrs, reads[0], reads[1],
                                    patched_tensors(plan, draft.writes)[0]);
}

std::unique_ptr<Step> make_checked_step(Plan& plan, const DraftStep& draft,
                                        std::unique_ptr<Step> step) {
  return std::make_unique<CheckedStep>(std::move(step), patched_tensors(plan, draft.reads),
                                       patched_tensors(plan, draft.writes));
}

std::vector<Tensor> patched_tensors(Plan& plan, std::span<const int> slots, int packed) {
  std::vector<Tensor> tensors;
  for (const int slot : slots) {
    if (slot < 0) {
      tensors.emplace_back();
      continue;
    }
    plan.patch_tensor(slot);
    if (static_cast<int>(tensors.size()) != packed) plan.keep_contents(slot);
    tensors.push_back(plan.slots[static_cast<std::size_t>(slot)].tensor);
  }
  return tensors;
}

}  // namespace dyad::exec
