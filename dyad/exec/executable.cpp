#include "dyad/exec/executable.h"

#include <algorithm>
#include <chrono>
#include <list>
#include <mutex>

#include "dyad/base/error.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/exec/eager.h"
#include "dyad/exec/executable_bind.h"
#include "dyad/exec/executable_plan.h"
#include "dyad/exec/executable_planner.h"
#include "dyad/ir/graph_ops.h"
#include "dyad/passes/fused_op.h"
#include "dyad/passes/lower.h"

namespace dyad::exec {
namespace {

double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

/// Runs one operator as eager mode does.
std::vector<Tensor> evaluate_constant(const Node& node, std::span<const Tensor> inputs) {
  std::vector<const Tensor*> refs;
  for (const Tensor& input : inputs) refs.push_back(&input);
  std::vector<Tensor> outputs(node.types().size());
  execute(node.op(), refs, node.attrs().data(), outputs, node.loc());
  return outputs;
}

/// Sizes and strides of values: what a plan depends on besides symbols from outside.
std::vector<std::int64_t> key_of(std::span<const Tensor> values) {
  std::vector<std::int64_t> key;
  for (const Tensor& value : values) {
    const TensorImpl& impl = *value.impl();
    const auto sizes = impl.shape.numbers();
    key.insert(key.end(), sizes.begin(), sizes.end());
    key.insert(key.end(), impl.strides.begin(), impl.strides.end());
  }
  return key;
}

/// True when the plan was made for values like these.
bool fits(const Plan& plan, std::span<const Tensor> values, const SymbolMap& outer) {
  std::size_t at = 0;
  const auto same = [&](std::span<const std::int64_t> numbers) {
    if (plan.key.size() - at < numbers.size()) return false;
    const bool equal = std::equal(numbers.begin(), numbers.end(),
                                  plan.key.begin() + static_cast<std::ptrdiff_t>(at));
    at += numbers.size();
    return equal;
  };
  for (std::size_t i = 0; i < values.size(); ++i) {
    const TensorImpl* impl = values[i].impl();
    if (!impl || impl->kind != TensorImpl::Kind::concrete || impl->dtype != plan.dtypes[i] ||
        static_cast<int>(impl->shape.size()) != plan.ranks[i] || !same(impl->shape.numbers()) ||
        !same(impl->strides)) {
      return false;
    }
  }
  return plan.outer == outer;
}

}  // namespace

struct Executable::State {
  State(Ref<GraphImpl> given, ExecutableOptions given_options)
      : graph(std::move(given)), options(std::move(given_options)) {
    const auto start = std::chrono::steady_clock::now();
    passes::LowerOptions lower;
    lower.evaluate = evaluate_constant;
    lower.fuse = options.fuse;
    lower.dump = options.dump;
    lowered = passes::lower(*graph, lower);
    for (const auto& node : lowered->nodes()) {
      if (&node->op() == &kAssignOp) {
        written.push_back(node->inputs()[0].node->attrs_as<VariableAttrs>().tensor);
      }
      if (node->op().kind != BodyKind::control || &node->op() == &passes::kFusedOp) continue;
      for (const Ref<GraphImpl>& region : node->regions()) {
        regions[node.get()].push_back(std::make_unique<Executable>(region, options));
      }
    }
    stats.nodes = count_operators(*graph);
    stats.lowered_nodes = count_operators(*lowered);
    stats.lower_ms = milliseconds_since(start);
  }

  /// The plan for values like these: the one used last, another one kept, or a new one.
  Plan& plan_for(std::span<const Tensor> values, const SymbolMap& outer, Loc where) {
    if (values.size() == graph->placeholders().size()) {
      for (auto it = plans.begin(); it != plans.end(); ++it) {
        if (!fits(**it, values, outer)) continue;
        if (it != plans.begin()) plans.splice(plans.begin(), plans, it);
        return *plans.front();
      }
    }
    const auto start = std::chrono::steady_clock::now();
    const SymbolMap symbols = bind_symbols(*graph, values, outer, where);
    if (!symbols.entries().empty()) check_types(*graph, symbols, where);
    std::unique_ptr<Plan> plan = make_plan(*lowered, symbols, values, regions, options.check_finite);
    plan->key = key_of(values);
    for (const Tensor& value : values) {
      plan->dtypes.push_back(value.dtype());
      plan->ranks.push_back(value.rank());
    }
    plan->outer = outer;
    plans.push_front(std::move(plan));
    if (plans.size() > options.max_plans) plans.pop_back();

    Plan& made = *plans.front();
    ++stats.plans;
    stats.kernels = made.kernels;
    stats.views = made.views;
    stats.arena_bytes = made.arena_bytes;
    stats.live_peak = made.live_peak;
    stats.plan_ms = milliseconds_since(start);
    return made;
  }

  std::vector<Tensor> run(std::span<const Tensor> values, const SymbolMap& outer,
                          const CancelToken* cancel, Loc where) {
    const std::scoped_lock lock(mutex);
    std::vector<Tensor> copies;
    values = apart_from_written(values, copies);
    Plan& plan = plan_for(values, outer, where);
    return plan.run(values, cancel, where);
  }

  /// `values` with a copy in the place of each that lies in the memory of a variable which the run
  /// writes.
  std::span<const Tensor> apart_from_written(std::span<const Tensor> values,
                                             std::vector<Tensor>& copies) const {
    for (std::size_t i = 0; i < values.size(); ++i) {
      const bool shared = std::ranges::any_of(written, [&](const Tensor& variable) {
        return values[i].defined() && values[i].is_concrete() &&
               values[i].impl()->storage == variable.impl()->storage;
      });
      if (!shared) continue;
      if (copies.empty()) copies.assign(values.begin(), values.end());
      copies[i] = make_empty(values[i].dtype(), values[i].shape());
      copy_into(copies[i], values[i]);
    }
    return copies.empty() ? values : std::span<const Tensor>(copies);
  }

  Ref<GraphImpl> graph, lowered;
  std::vector<Tensor> written;  // the tensors of assigned variables
  ExecutableOptions options;
  RegionExecutables regions;
  std::mutex mutex;
  std::list<std::unique_ptr<Plan>> plans;  // the most recently used first
  ExecutableStats stats;
};

int count_operators(const GraphImpl& graph) {
  return static_cast<int>(std::ranges::count_if(graph.nodes(), [](const auto& node) {
    return &node->op() != &kPlaceholderOp && &node->op() != &kVariableOp &&
           &node->op() != &kConstantOp;
  }));
}

Executable::Executable(Ref<GraphImpl> graph, ExecutableOptions options)
    : state_(std::make_unique<State>(std::move(graph), std::move(options))) {}
Executable::~Executable() = default;
Executable::Executable(Executable&&) noexcept = default;
Executable& Executable::operator=(Executable&&) noexcept = default;

std::vector<Tensor> Executable::run(std::span<const Tensor> placeholders, const CancelToken* cancel,
                                    Loc where) {
  return state_->run(placeholders, {}, cancel, where);
}

std::vector<Tensor> Executable::run_region(std::span<const Tensor> placeholders,
                                           const SymbolMap& outer, const CancelToken* cancel,
                                           Loc where) {
  return state_->run(placeholders, outer, cancel, where);
}

void Executable::prepare(std::span<const Tensor> placeholders, Loc where) {
  const std::scoped_lock lock(state_->mutex);
  static_cast<void>(state_->plan_for(placeholders, {}, where));
}

ExecutableStats Executable::stats() const {
  const std::scoped_lock lock(state_->mutex);
  return state_->stats;
}

const GraphImpl& Executable::graph() const noexcept { return *state_->graph; }
const GraphImpl& Executable::lowered() const noexcept { return *state_->lowered; }

}  // namespace dyad::exec
