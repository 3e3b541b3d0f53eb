#include "dyad/runtime/launch.h"

#include <algorithm>
#include <utility>

#include "dyad/base/error.h"
#include "dyad/codegen/kernel_provider.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/runtime/kernel_call.h"
#include "dyad/runtime/threads.h"

namespace dyad::runtime {

LaunchOperand LaunchOperand::of(const Tensor& tensor, std::span<const std::int64_t> space) {
  const TensorImpl& t = *tensor.impl();
  return {.dtype = t.dtype,
          .data = t.data,
          .strides = broadcast_strides(t.shape.numbers(), t.strides, space)};
}

namespace {

/// An index operand's is its origin.
void* address_of(const LaunchOperand& o) {
  return o.index ? reinterpret_cast<void*>(o.origin) : o.data;
}

}  // namespace

struct KernelLaunch::State {
  explicit State(codegen::Iteration space) : call(std::move(space)) {}

  KernelCall call;
  std::vector<void*> data;
  std::vector<std::size_t> place_of;  ///< caller's operand -> the kernel's
  std::vector<std::uint64_t> slots;
};

KernelLaunch::KernelLaunch(std::unique_ptr<State> state) noexcept : state_(std::move(state)) {}
KernelLaunch::KernelLaunch(KernelLaunch&&) noexcept = default;
KernelLaunch& KernelLaunch::operator=(KernelLaunch&&) noexcept = default;
KernelLaunch::~KernelLaunch() = default;

struct KernelBatch::State {
  std::vector<KernelCall*> calls;
  std::vector<codegen::KernelRecipe> recipes;
};

KernelBatch::KernelBatch() : state_(std::make_unique<State>()) {}
KernelBatch::~KernelBatch() = default;

void KernelBatch::finish() {
  std::vector<const codegen::KernelRecipe*> recipes;
  for (const codegen::KernelRecipe& recipe : state_->recipes) recipes.push_back(&recipe);
  const codegen::CompileTeam team{team_size(), [](int count, const std::function<void(int)>& job) {
                                    parallel_for(0, count, 1,
                                                 [&](std::int64_t lo, std::int64_t hi) {
                                                   for (std::int64_t i = lo; i < hi; ++i)
                                                     job(static_cast<int>(i));
                                                 });
                                  }};
  const auto kernels = codegen::KernelProvider::instance().get(recipes, team);
  for (std::size_t i = 0; i < kernels.size(); ++i) state_->calls[i]->prepare(kernels[i]);
  *state_ = {};
}

KernelLaunch KernelLaunch::prepared(std::unique_ptr<State> state, codegen::KernelRecipe recipe,
                                    KernelBatch* batch) {
  if (batch) {
    state->call.specialize(recipe);
    batch->state_->calls.push_back(&state->call);
    batch->state_->recipes.push_back(std::move(recipe));
  } else {
    state->call.prepare(std::move(recipe));
  }
  return KernelLaunch(std::move(state));
}

KernelLaunch KernelLaunch::pointwise(const std::string& name, const ScalarProgram& program,
                                     std::span<const std::int64_t> space,
                                     std::span<const LaunchOperand> inputs,
                                     std::span<const LaunchOperand> outputs, KernelBatch* batch) {
  auto state = std::make_unique<State>(codegen::Iteration(space));
  std::vector<DType> in, out;
  const auto add = [&](const LaunchOperand& o) {
    state->call.space.add(o.strides);
    state->place_of.push_back(state->data.size());
    state->data.push_back(address_of(o));
  };
  for (const LaunchOperand& o : inputs) {
    add(o);
    in.push_back(o.dtype);
  }
  for (const LaunchOperand& o : outputs) {
    add(o);
    out.push_back(o.dtype);
  }
  codegen::KernelRecipe recipe = codegen::pointwise_recipe(name, program, in, out);
  for (std::size_t i = 0; i < inputs.size(); ++i) recipe.inputs[i].index = inputs[i].index;
  state->slots.resize(static_cast<std::size_t>(program.param_count()));
  return prepared(std::move(state), std::move(recipe), batch);
}

KernelLaunch KernelLaunch::reduction(const std::string& name, const ReductionProgram& program,
                                     std::span<const std::int64_t> space,
                                     std::span<const std::int64_t> reduced,
                                     std::span<const LaunchOperand> inputs,
                                     std::span<const LaunchOperand> outputs, KernelBatch* batch) {
  const AxisOrder order(space.size(), reduced);
  auto state = std::make_unique<State>(
      codegen::Iteration(order.permuted(space), static_cast<int>(reduced.size())));
  const auto add_index = [&] {
    state->call.space.add_index();
    state->data.push_back(nullptr);
  };
  std::vector<DType> in, out;
  for (std::size_t i = 0; i <= inputs.size(); ++i) {
    if (static_cast<int>(i) == program.index_input) add_index();
    if (i == inputs.size()) break;
    state->call.space.add(order.permuted(inputs[i].strides));
    state->place_of.push_back(state->data.size());
    state->data.push_back(address_of(inputs[i]));
    in.push_back(inputs[i].dtype);
  }
  for (const LaunchOperand& o : outputs) {
    state->call.space.add(order.permuted(o.strides));
    state->place_of.push_back(state->data.size());
    state->data.push_back(o.data);
    out.push_back(o.dtype);
  }
  codegen::KernelRecipe recipe = codegen::reduction_recipe(name, program, in, out);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].index) recipe.inputs[state->place_of[i]].index = true;
  }
  state->slots.resize(static_cast<std::size_t>(program.map.param_count()));
  return prepared(std::move(state), std::move(recipe), batch);
}

void** KernelLaunch::address(int operand) noexcept {
  return &state_->data[state_->place_of[static_cast<std::size_t>(operand)]];
}

std::span<std::uint64_t> KernelLaunch::slots() noexcept { return state_->slots; }

void KernelLaunch::send_past_caches() noexcept { state_->call.past_caches = true; }

void KernelLaunch::run() { state_->call.run(state_->data.data(), state_->slots.data()); }

void KernelLaunch::run_at(std::span<void* const> operands) const {
  void* data[codegen::kMaxOperands];
  std::copy(state_->data.begin(), state_->data.end(), data);
  for (std::size_t i = 0; i < operands.size(); ++i) data[state_->place_of[i]] = operands[i];
  state_->call.run(data, state_->slots.data());
}

const codegen::CompiledKernel& KernelLaunch::kernel() const noexcept {
  return *state_->call.kernel;
}

namespace {

/// Work is counted in these: that many take as long as what is worth a thread.
constexpr std::int64_t kSharesOfGrain = 64;

}  // namespace

void LaunchGroup::plan() {
  std::int64_t end = 0;
  for (KernelLaunch* launch : launches_) {
    const KernelCall& call = launch->state_->call;
    if (!call.is_plain() || call.units() == 0) continue;
    const double grains = static_cast<double>(call.units()) / static_cast<double>(call.grain());
    end += std::max<std::int64_t>(1, static_cast<std::int64_t>(grains * kSharesOfGrain));
    shared_.push_back(launch);
    ends_.push_back(end);
  }
}

void LaunchGroup::run_shares(std::int64_t lo, std::int64_t hi) const {
  const auto first = std::ranges::upper_bound(ends_, lo);
  for (auto i = static_cast<std::size_t>(first - ends_.begin()); i < ends_.size(); ++i) {
    const std::int64_t begin = i == 0 ? 0 : ends_[i - 1], shares = ends_[i] - begin;
    if (begin >= hi) return;
    const KernelLaunch::State& state = *shared_[i]->state_;
    // Threads meet where a vector of results, and mostly a line of memory, ends.
    const auto unit_at = [&](std::int64_t share) {
      constexpr std::int64_t kVector = 16;
      if (share <= 0) return std::int64_t{0};
      if (share >= shares) return state.call.units();
      const double part = static_cast<double>(share) / static_cast<double>(shares);
      return static_cast<std::int64_t>(part * static_cast<double>(state.call.units())) / kVector *
             kVector;
    };
    const std::int64_t from = unit_at(lo - begin), to = unit_at(hi - begin);
    if (from < to) state.call.run_units(state.data.data(), state.slots.data(), from, to);
  }
}

void LaunchGroup::run() {
  if (shared_.empty()) plan();
  for (KernelLaunch* launch : launches_) {
    if (!launch->state_->call.is_plain()) launch->run();
  }
  parallel_for(0, ends_.empty() ? 0 : ends_.back(), kSharesOfGrain,
               [&](std::int64_t lo, std::int64_t hi) { run_shares(lo, hi); });
}

}  // namespace dyad::runtime
