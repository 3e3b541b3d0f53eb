#include "dyad/exec/executable.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <iterator>
#include <list>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "dyad/base/by_thread.h"
#include "dyad/base/error.h"
#include "dyad/base/finally.h"
#include "dyad/base/log.h"
#include "dyad/base/no_loc_scope.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/exec/compile_scope.h"
#include "dyad/exec/control_flow_ops.h"
#include "dyad/exec/eager.h"
#include "dyad/exec/executable_bind.h"
#include "dyad/exec/executable_control.h"
#include "dyad/exec/executable_draft.h"
#include "dyad/exec/executable_errors.h"
#include "dyad/exec/executable_plan.h"
#include "dyad/exec/executable_planner.h"
#include "dyad/exec/pass_log.h"
#include "dyad/exec/small_sizes.h"
#include "dyad/exec/step_profile.h"
#include "dyad/ir/graph_constants.h"
#include "dyad/ir/graph_ops.h"
#include "dyad/ir/substitute.h"
#include "dyad/ir/undecided.h"
#include "dyad/passes/fused_op.h"
#include "dyad/passes/hoist.h"
#include "dyad/passes/lower.h"
#include "dyad/passes/node_cost.h"
#include "dyad/passes/stages.h"
#include "dyad/runtime/background.h"
#include "dyad/runtime/op_kernel.h"
#include "dyad/runtime/threads.h"

namespace dyad::exec {
namespace {

double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

/// Each once.
void add_notes(std::vector<std::string>& to, const std::vector<std::string>& notes) {
  std::unordered_set<std::string> known(to.begin(), to.end());
  for (const std::string& note : notes) {
    if (known.insert(note).second) to.push_back(note);
  }
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

/// A graph after the passes, with the executables of the graphs inside its control nodes.
struct Lowered {
  Ref<GraphImpl> graph;
  RegionExecutables regions;
  std::vector<std::string> notes;  ///< of the passes, some more than once
};

void compile_regions(const Node& node, const ExecutableOptions& options, Lowered& into) {
  if (node.op().kind != BodyKind::control) return;
  ExecutableOptions inside = options;
  inside.hot_runs = 0;
  for (const Ref<GraphImpl>& region : node.regions())
    into.regions[&node].push_back(std::make_unique<Executable>(region, inside));
}

Lowered lower(const GraphImpl& graph, const ExecutableOptions& options) {
  const NoLocScope own_lines;  // also where a library function is what calls
  const std::vector<ContentsHold> read = hold_constants(graph);
  Lowered made;
  passes::LowerOptions how = lower_options(options);
  how.fusion.note = how.rows.note = [&](Loc where, const std::string& text) {
    made.notes.push_back(to_string(where) + ": " + text);
  };
  made.graph = passes::lower(graph, how);
  if (!read.empty()) let_constants_shed(*made.graph);  // what was made of those that may
  for (const auto& node : made.graph->nodes()) {
    if (!passes::is_kernels(*node)) compile_regions(*node, options, made);
  }
  return made;
}

/// Sizes that come often: the graph with them as numbers.
struct HotSizes {
  std::vector<std::int64_t> key;     ///< of the plans for them
  std::vector<Tensor> placeholders;  ///< values of these sizes and strides, without memory
  PlaceholderUse use;
  SymbolMap symbols;
  std::unique_ptr<const Lowered> lowered;  ///< null until it is made
  std::unique_ptr<runtime::BackgroundTask> task;
};
/// For how many combinations of sizes there are versions.
constexpr std::size_t kMostHot = 8;

}  // namespace

struct Executable::State {
  State(Ref<GraphImpl> given, ExecutableOptions given_options)
      : graph(std::move(given)),
        options(std::move(given_options)),
        written_back(std::exchange(options.written_back, {})) {
    const auto start = std::chrono::steady_clock::now();
    stats.nodes = count_operators(*graph);
    cut();
    if (!stages.empty()) {
      const std::vector<ContentsHold> read = hold_constants(*graph);
      lowered.graph = graph;
      for (const auto& node : graph->nodes()) note_written(*node);
      for (const passes::Stage& stage : stages) {
        parts.push_back(std::make_unique<Executable>(stage.graph, options));
        if (stage.open) compile_regions(*stage.open, options, lowered);
      }
      return;
    }
    try {
      lowered = lower(*graph, options);
    } catch (const UndecidedError& question) {
      lowered.graph = graph;
      undecided = question.what();
    }
    for (const auto& node : lowered.graph->nodes()) note_written(*node);
    if (!options.check_finite) find_takeable();
    stats.lowered_nodes = count_operators(*lowered.graph);
    stats.lower_ms = milliseconds_since(start);
  }

  /// Into parts, where sizes are open. What is the same in every step of a loop that runs between
  /// two of them is moved before it here: their passes do not see it.
  void cut() {
    stages = passes::cut_at_open_sizes(*graph);
    const bool any_loop = std::ranges::any_of(stages, [](const passes::Stage& stage) {
      return stage.open && &stage.open->op() == &kWhileOp;
    });
    if (!any_loop || std::ranges::find(options.passes_off, "hoist") != options.passes_off.end())
      return;
    graph = passes::hoist(*graph, never_fails);
    stages = passes::cut_at_open_sizes(*graph);
  }

  void find_takeable() {
    const auto placeholders =
        graph->placeholders().first(std::min<std::size_t>(graph->placeholders().size(), 64));
    for (std::size_t i = 0; i < placeholders.size(); ++i) {
      const auto is_like = [&](Value output) {
        return output.type().is_tensor() && output.type().same_as(placeholders[i].type());
      };
      const bool is_target = std::ranges::any_of(written_back, [&](const WrittenBack& one) {
        return one.placeholder == static_cast<int>(i);
      });
      if (!is_target && std::ranges::any_of(graph->outputs(), is_like))
        takeable |= std::uint64_t{1} << i;
    }
  }

  void note_written(const Node& node) {
    if (&node.op() != &kAssignOp) return;
    written.push_back(node.inputs()[0].node->attrs_as<VariableAttrs>().tensor);
  }

  /// Runs the stages and what stands between them, whose results tell the sizes of the next.
  std::vector<Tensor> run_stages(std::span<const Tensor> values, const SymbolMap& outer,
                                 const CancelToken* cancel, Loc where) {
    SymbolMap symbols = bind_symbols(*graph, values, outer, where);
    std::unordered_map<Value, Tensor, ValueHash> made;
    for (std::size_t i = 0; i < values.size(); ++i) made[graph->placeholders()[i]] = values[i];
    std::vector<Tensor> results;
    for (std::size_t i = 0; i < stages.size(); ++i) {
      std::vector<Tensor> inputs;
      for (const Value v : stages[i].inputs) inputs.push_back(made.at(v));
      results = parts[i]->run_region(inputs, symbols, cancel, where);
      if (i + 1 == stages.size()) give_as_made(stages[i].outputs, made, results);
      for (std::size_t k = 0; k < results.size(); ++k) made[stages[i].outputs[k]] = results[k];
      if (stages[i].open) run_open(*stages[i].open, made, symbols, cancel, where);
    }
    return results;
  }

  /// What earlier stages made the last one passes on, row by row: it is given as it was made.
  void give_as_made(std::span<const Value> outputs,
                    const std::unordered_map<Value, Tensor, ValueHash>& made,
                    std::span<Tensor> results) const {
    for (std::size_t k = 0; k < results.size(); ++k) {
      const auto known = made.find(outputs[k]);
      if (known != made.end() && &outputs[k].node->op() != &kPlaceholderOp &&
          std::ranges::count(outputs, outputs[k]) == 1)
        results[k] = known->second;
    }
  }

  /// What a node between stages takes, as it lies eagerly.
  static Tensor operand(Value value, const std::unordered_map<Value, Tensor, ValueHash>& made,
                        const SymbolMap& symbols) {
    if (!value) return {};
    value = passes::before_writes(value);
    if (const auto known = made.find(value); known != made.end()) return known->second;
    const Node& node = *value.node;
    if (&node.op() == &kVariableOp) return node.attrs_as<VariableAttrs>().tensor;
    if (&node.op() == &kConstantOp) return node.attrs_as<ConstantAttrs>().value;
    std::vector<Tensor> inputs;
    for (const Value input : node.inputs()) inputs.push_back(operand(input, made, symbols));
    return evaluate_node_at(node, inputs, symbols)[static_cast<std::size_t>(value.index)];
  }

  void run_open(const Node& node, std::unordered_map<Value, Tensor, ValueHash>& made,
                SymbolMap& symbols, const CancelToken* cancel, Loc where) {
    std::vector<Tensor> operands;
    operands.reserve(node.inputs().size());
    for (const Value v : node.inputs()) operands.push_back(operand(v, made, symbols));
    const Ref<Attrs> attrs = attrs_with(node, symbols);
    std::vector<Tensor> outputs(node.types().size());
    const auto run = [&] {
      if (const auto inside = lowered.regions.find(&node); inside != lowered.regions.end()) {
        outputs = run_control(node, std::move(operands), inside->second, {symbols, cancel, where});
        return;
      }
      std::vector<const Tensor*> inputs;
      inputs.reserve(operands.size());
      for (const Tensor& each : operands) inputs.push_back(&each);
      execute(node.op(), inputs, attrs->data(), outputs, node.loc());
    };
    try {
      StepProfile::time(StepProfile::active(), node, run);
    } catch (const Error& error) {
      rethrow_at(error, where, node.loc());
    }
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      bind_told(node.types()[i].shape(), outputs[i], symbols);
      made[{const_cast<Node*>(&node), static_cast<int>(i)}] = outputs[i];
    }
  }

  using Plans = std::list<std::unique_ptr<Plan>>;
  /// Plans that no run uses, the most recently used first, of threads of one slot.
  struct alignas(kCacheLine) Shelf {
    std::mutex mutex;
    Plans plans;
  };

  /// A plan for values like these, for one run: the one used last, another one kept, or a new one.
  /// While a run has it, runs of other threads take others.
  Plans take_plan(std::span<const Tensor> values, const SymbolMap& outer, Loc where,
                  PlaceholderUse use) {
    Plans taken;
    const bool may_fit = values.size() == graph->placeholders().size();
    for (std::size_t i = 0; may_fit && i < shelves.size(); ++i) {
      Shelf& shelf = shelves[(thread_slot() + i) % shelves.size()];  // its own first
      const std::scoped_lock lock(shelf.mutex);
      for (auto it = shelf.plans.begin(); it != shelf.plans.end(); ++it) {
        if ((*it)->use != use || !fits(**it, values, outer)) continue;
        taken.splice(taken.begin(), shelf.plans, it);
        return taken;
      }
    }
    const auto start = std::chrono::steady_clock::now();
    const SymbolMap symbols = bind_symbols(*graph, values, outer, where);
    if (!symbols.entries().empty()) check_types(*graph, symbols, where);
    if (!undecided.empty()) {
      taken.push_front(plan_by_numbers(symbols, values, use, start));
    } else {
      const Lowered& version = lowered_for(key_of(values), use);
      taken.push_front(plan_for(version, symbols, values, use));
      note_plan(*taken.front(), version, start);
    }
    taken.front()->outer = outer;
    return taken;
  }

  /// A plan of a version for these sizes alone, which it keeps: how they compare decided what the
  /// graph is when it was recorded.
  std::unique_ptr<Plan> plan_by_numbers(const SymbolMap& symbols, std::span<const Tensor> values,
                                        PlaceholderUse use,
                                        std::chrono::steady_clock::time_point start) {
    Lowered made = lower_for(symbols);
    made.notes.push_back("compiled for each combination of sizes: " + undecided);
    auto version = std::make_shared<const Lowered>(std::move(made));
    std::unique_ptr<Plan> plan = plan_for(*version, {}, values, use);
    plan->version = version;
    note_plan(*plan, *version, start);
    return plan;
  }

  [[nodiscard]] Lowered lower_for(const SymbolMap& sizes) const {
    const auto number_of = [&](Dim symbol) {
      const std::int64_t* const number = sizes.find(symbol);
      return number ? Dim(*number) : symbol;
    };
    return lower(*with_sizes(*graph, number_of), options);
  }

  /// The version for such values: that of their sizes, if there is one.
  const Lowered& lowered_for(const std::vector<std::int64_t>& key, PlaceholderUse use) {
    const std::scoped_lock lock(mutex);
    const HotSizes* const known = find_hot(key, use);
    return known && known->lowered ? *known->lowered : lowered;
  }

  [[nodiscard]] const HotSizes* find_hot(const std::vector<std::int64_t>& key,
                                         PlaceholderUse use) const {
    const auto at = std::ranges::find_if(
        hot, [&](const HotSizes& sizes) { return sizes.use == use && sizes.key == key; });
    return at == hot.end() ? nullptr : &*at;
  }

  std::unique_ptr<Plan> plan_for(const Lowered& version, const SymbolMap& symbols,
                                 std::span<const Tensor> values, PlaceholderUse use) const {
    const std::span<const WrittenBack> back(written_back);
    auto made = make_plan(*version.graph, &version == &lowered ? symbols : SymbolMap(), values,
                          version.regions, options.check_finite,
                          use.writes_back ? back : back.first(0), use);
    made->is_hot = &version != &lowered;
    made->use = use;
    made->key = key_of(values);
    for (const Tensor& value : values) {
      made->dtypes.push_back(value.dtype());
      made->ranks.push_back(value.rank());
    }
    return made;
  }

  /// Tells of the latest plan.
  void note_plan(const Plan& made, const Lowered& version,
                 std::chrono::steady_clock::time_point start) {
    const std::scoped_lock lock(mutex);
    ++stats.plans;
    stats.kernels = made.kernels;
    stats.notes = made.notes;
    stats.views = made.views;
    stats.arena_bytes = made.arena_bytes;
    stats.live_peak = made.live_peak;
    planned = {.of = &version, .keeps = made.version, .nodes = {}, .symbols = made.symbols};
    for (const auto& step : made.steps) step->add_nodes(planned.nodes);
    stats.plan_ms = milliseconds_since(start);
  }

  ~State() {
    // Each of them looks at all: the list goes when the last is over.
    for (HotSizes& sizes : hot) sizes.task = nullptr;
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  /// Counts a run of `plan`: sizes that come often get a version of their own.
  void count_run(Plan& plan, std::span<const Tensor> values) {
    ++plan.runs;
    if (plan.runs != options.hot_runs || plan.symbols.entries().empty() ||
        !plan.outer.entries().empty())
      return;
    HotSizes* sizes = nullptr;
    {
      const std::scoped_lock lock(mutex);
      if (hot.size() == kMostHot || find_hot(plan.key, plan.use)) return;
      sizes = &hot.emplace_back(HotSizes{.key = plan.key,
                                         .placeholders = {},
                                         .use = plan.use,
                                         .symbols = plan.symbols,
                                         .lowered = nullptr,
                                         .task = nullptr});
    }
    for (const Tensor& value : values) sizes->placeholders.push_back(without_memory(value));
    if (!options.hot_in_background) return try_to_specialise(*sizes, {});
    sizes->task = std::make_unique<runtime::BackgroundTask>(
        [this, sizes, threads = runtime::team_size()](const CancelToken& stop) {
          const CompileScope scope(threads);
          try_to_specialise(*sizes, stop);
        });
  }

  /// Without a version for `sizes` where none can be made: the run that asks for it has had its
  /// effect, and can be neither taken back nor repeated.
  void try_to_specialise(HotSizes& sizes, const CancelToken& stop) {
    try {
      specialise(sizes, stop);
    } catch (const std::exception& error) {
      log(LogLevel::debug, std::string("no version for frequent sizes: ") + error.what());
    }
  }

  /// Makes the version for `sizes`, and a plan for them, which later runs find.
  void specialise(HotSizes& sizes, const CancelToken& stop) {
    const auto start = std::chrono::steady_clock::now();
    auto version = std::make_unique<const Lowered>(lower_for(sizes.symbols));
    stop.check();
    auto plan = plan_for(*version, {}, sizes.placeholders, sizes.use);
    note_plan(*plan, *version, start);
    const std::scoped_lock lock(mutex);
    sizes.lowered = std::move(version);
    ++hot_versions;
    for (Shelf& shelf : shelves) {
      const std::scoped_lock shelf_lock(shelf.mutex);
      std::erase_if(shelf.plans, [&](const auto& other) { return is_outdone(*other); });
    }
    plan->hot_versions = hot_versions;
    Shelf& shelf = shelves[thread_slot()];
    const std::scoped_lock shelf_lock(shelf.mutex);
    shelf.plans.push_front(std::move(plan));
  }

  /// Whether there is a version for the sizes of a plan that was made without.
  [[nodiscard]] bool is_outdone(const Plan& plan) const {
    if (plan.is_hot || !plan.outer.entries().empty()) return false;
    const HotSizes* const known = find_hot(plan.key, plan.use);
    return known && known->lowered;
  }

  /// Keeps a plan for runs to come: the thread whose caches have it takes it first.
  void put_back(Plans& taken) noexcept {
    Plan& plan = *taken.front();
    if (const int now = hot_versions.load(std::memory_order_acquire); plan.hot_versions != now) {
      const std::scoped_lock lock(mutex);
      if (is_outdone(plan)) return;
      plan.hot_versions = now;
    }
    const bool is_new = std::exchange(plan.is_new, false);
    {
      Shelf& shelf = shelves[thread_slot()];
      const std::scoped_lock lock(shelf.mutex);
      shelf.plans.splice(shelf.plans.begin(), taken);
    }
    if (is_new) let_one_go();
  }

  /// Where more plans are kept than should be, lets that go which threads of the slot with the most
  /// of them used longest ago.
  void let_one_go() noexcept {
    std::size_t all = 0, most = 0;
    Shelf* fullest = nullptr;
    for (Shelf& shelf : shelves) {
      const std::scoped_lock lock(shelf.mutex);
      all += shelf.plans.size();
      if (shelf.plans.size() <= most) continue;
      most = shelf.plans.size();
      fullest = &shelf;
    }
    if (all <= options.max_plans) return;
    const std::scoped_lock lock(fullest->mutex);
    if (!fullest->plans.empty()) fullest->plans.pop_back();
  }

  std::vector<Tensor> run(std::span<const Tensor> values, const SymbolMap& outer,
                          const CancelToken* cancel, Loc where, std::span<const Tensor> places = {},
                          PlaceholderUse use = {}) {
    std::unique_lock<std::mutex> turn;
    if (!written.empty()) turn = std::unique_lock(turns);
    std::vector<Tensor> copies;
    values = apart_from_written(values, copies);
    if (!stages.empty()) return run_stages(values, outer, cancel, where);
    use.writes_back = lie_alone(values);
    use.given_away &= takeable;
    use.may_spoil = use.may_spoil && use.given_away != 0;
    Plans taken = take_plan(values, outer, where, use);
    const Finally kept([&] { put_back(taken); });
    std::vector<Tensor> results = taken.front()->run(values, cancel, where, places);
    if (options.hot_runs > 0) count_run(*taken.front(), values);
    return results;
  }

  /// Of the sizes around this graph those that it names: others ask for no plan of their own.
  SymbolMap sizes_named(const SymbolMap& around) {
    const auto is_named = [&](Dim symbol) {
      return std::ranges::any_of(named, [&](Dim known) { return known.same_as(symbol); });
    };
    std::call_once(named_once, [&] {
      static_cast<void>(with_sizes(*graph, [&](Dim symbol) {
        if (!is_named(symbol)) named.push_back(symbol);
        return symbol;
      }));
    });
    SymbolMap sizes;
    for (const auto& [symbol, number] : around.entries()) {
      if (is_named(symbol)) sizes.bind(symbol, number);
    }
    return sizes;
  }

  /// Whether there are values that the caller wants written, and nothing else lies where they do.
  [[nodiscard]] bool lie_alone(std::span<const Tensor> values) const {
    const auto lies_at = [&](const Tensor& tensor, std::size_t placeholder) {
      return tensor.impl()->storage == values[placeholder].impl()->storage;
    };
    if (written_back.empty()) return false;
    return std::ranges::all_of(written_back, [&](const WrittenBack& one) {
      const auto at = static_cast<std::size_t>(one.placeholder);
      for (std::size_t i = 0; i < values.size(); ++i) {
        if (i != at && lies_at(values[i], at)) return false;
      }
      return std::ranges::none_of(graph->variables(), [&](Value variable) {
        return lies_at(variable.node->attrs_as<VariableAttrs>().tensor, at);
      });
    });
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

  /// The steps of a plan, in their order, and the sizes that it is for.
  struct Planned {
    const Lowered* of = nullptr;
    std::shared_ptr<const void> keeps;  ///< that version, where only plans do
    std::vector<const Node*> nodes;
    SymbolMap symbols;
  };

  Ref<GraphImpl> graph;
  Lowered lowered;
  std::string undecided;  // what could not be known for all sizes; each plan's have a version then
  std::vector<Tensor> written;  // the tensors of assigned variables
  ExecutableOptions options;
  std::vector<WrittenBack> written_back;
  std::uint64_t takeable =
      0;  // bit i: an output has the type of placeholder i, which nobody writes
  std::vector<passes::Stage> stages;  // when some sizes only data tell: the graph in parts
  std::vector<std::unique_ptr<Executable>> parts;
  std::once_flag named_once;
  std::vector<Dim> named;             // symbols
  std::mutex turns;                   // of runs that write variables
  std::mutex mutex;                   // of what follows
  ExecutableStats stats;              // with the latest plan's notes alone
  Planned planned;                    // what the latest plan runs, whoever has it
  std::atomic<int> hot_versions = 0;  // how many there are: what a plan has seen needs no look
  std::vector<Shelf> shelves = std::vector<Shelf>(kThreadSlots);
  std::list<HotSizes> hot;
};

bool never_fails(const Node& node) {
  const runtime::OpKernel* const kernel = runtime::find_kernel(node.op());
  return kernel && (kernel->cannot_fail || kernel->in_place);
}

std::vector<Tensor> evaluate_node(const Node& node, std::span<const Tensor> inputs) {
  return evaluate_node_at(node, inputs, {});
}

std::vector<Tensor> evaluate_node_at(const Node& node, std::span<const Tensor> inputs,
                                     const SymbolMap& sizes) {
  std::vector<const Tensor*> refs;
  for (const Tensor& input : inputs) refs.push_back(&input);
  std::vector<Tensor> outputs(node.types().size());
  execute(node.op(), refs, attrs_with(node, sizes)->data(), outputs, node.loc());
  return outputs;
}

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
                                    Loc where, std::uint64_t given_away) {
  return state_->run(placeholders, {}, cancel, where, {}, {.given_away = given_away});
}

std::vector<Tensor> Executable::run_region(std::span<const Tensor> placeholders,
                                           const SymbolMap& outer, const CancelToken* cancel,
                                           Loc where, std::span<const Tensor> places,
                                           std::uint64_t given_away) {
  return state_->run(placeholders, state_->sizes_named(outer), cancel, where, places,
                     {.given_away = given_away, .may_spoil = true});
}

std::vector<Tensor> Executable::prepare(std::span<const Tensor> placeholders, Loc where) {
  std::vector<Tensor> outputs;
  if (!state_->stages.empty()) return outputs;
  State::Plans taken =
      state_->take_plan(placeholders, {}, where, {.writes_back = !state_->written_back.empty()});
  const Plan& plan = *taken.front();
  for (const int slot : plan.outputs) {
    outputs.push_back(without_memory(plan.slots[static_cast<std::size_t>(slot)].tensor));
  }
  state_->put_back(taken);
  for (const auto& [node, regions] : state_->lowered.regions) {
    if (&node->op() != &passes::kPartsOp) continue;
    Executable& part = *regions.front();
    static_cast<void>(part.prepare(without_memory(part.graph().placeholders()), where));
  }
  return outputs;
}

std::optional<MemoryUse> Executable::memory(std::span<const Tensor> placeholders, Loc where) const {
  if (!state_->stages.empty() || !state_->undecided.empty()) return {};
  const SymbolMap symbols = bind_symbols(*state_->graph, placeholders, {}, where);
  if (!symbols.entries().empty()) check_types(*state_->graph, symbols, where);
  return measure_memory(*state_->lowered.graph, symbols, placeholders, state_->lowered.regions);
}

ExecutableStats Executable::stats() const {
  const std::scoped_lock lock(state_->mutex);
  ExecutableStats stats = state_->stats;
  stats.notes.clear();
  if (stats.plans > 0) {
    if (state_->planned.of) add_notes(stats.notes, state_->planned.of->notes);
    add_notes(stats.notes, state_->stats.notes);
  }
  const auto add = [&](const ExecutableStats& part) {
    stats.lowered_nodes += part.lowered_nodes;
    stats.kernels += part.kernels;
    add_notes(stats.notes, part.notes);
    stats.views += part.views;
    stats.plans += part.plans;
    stats.arena_bytes += part.arena_bytes;
    stats.live_peak = std::max(stats.live_peak, part.live_peak);
    stats.lower_ms += part.lower_ms;
    stats.plan_ms += part.plan_ms;
  };
  for (std::size_t i = 0; i < state_->parts.size(); ++i) {
    add(state_->parts[i]->stats());
    const int open = state_->stages[i].open ? 1 : 0;
    stats.lowered_nodes += open;
    stats.kernels += open;
  }
  for (const HotSizes& sizes : state_->hot) {
    if (sizes.lowered) stats.hot_sizes.push_back(sizes_string(sizes.symbols));
  }
  for (const auto& [node, regions] : state_->lowered.regions) {
    if (&node->op() != &passes::kPartsOp) continue;
    ExecutableStats part = regions.front()->stats();
    part.lower_ms = 0;  // counted with the graph around it
    add(part);
  }
  return stats;
}

void add_to(ExplainedRecording& told, const ExecutableStats& stats) {
  told.compiled = told.compiled || stats.plans > 0;
  told.nodes += stats.nodes;
  told.plans += stats.plans;
  told.kernels += stats.kernels;
  told.compile_ms += stats.lower_ms + stats.plan_ms;
  told.fusion.insert(told.fusion.end(), stats.notes.begin(), stats.notes.end());
  told.memory += static_cast<std::int64_t>(stats.arena_bytes);
  add_notes(told.hot_sizes, stats.hot_sizes);
}

std::vector<ExplainedKernel> Executable::kernels(const StepProfile* profile) const {
  const std::scoped_lock lock(state_->mutex);
  std::vector<ExplainedKernel> all;
  const auto append = [&](const Executable& inner) {
    std::vector<ExplainedKernel> more = inner.kernels(profile);
    all.insert(all.end(), std::make_move_iterator(more.begin()),
               std::make_move_iterator(more.end()));
  };
  for (const auto& part : state_->parts) append(*part);
  for (const Node* node : state_->planned.nodes) {
    const passes::NodeCost cost = passes::cost_of(*node, state_->planned.symbols);
    ExplainedKernel& kernel = all.emplace_back(ExplainedKernel{
        .parts = parts_of(*node), .bytes = cost.bytes, .operations = cost.operations});
    if (const StepTime* time = profile ? profile->find(*node) : nullptr) {
      kernel.calls = time->calls;
      kernel.seconds = time->seconds;
    }
    const RegionExecutables& regions = state_->planned.of->regions;
    if (const auto inner = regions.find(node); inner != regions.end()) {
      for (const auto& region : inner->second) append(*region);
    }
  }
  return all;
}

std::vector<ExplainedPasses> Executable::explain_passes(const std::string& name) const {
  std::vector<ExplainedPasses> all;
  if (state_->stages.empty())
    all.push_back(exec::explain_passes(*state_->graph, name, state_->options));
  const auto append = [&](const Executable& inner, const std::string& part) {
    std::vector<ExplainedPasses> more = inner.explain_passes(name + ", " + part);
    std::ranges::move(more, std::back_inserter(all));
  };
  const auto numbered = [](std::string_view what, std::size_t i, std::size_t count) {
    return count == 1 ? std::string(what) : fmt::format("{} {} of {}", what, i + 1, count);
  };
  for (std::size_t i = 0; i < state_->parts.size(); ++i)
    append(*state_->parts[i], numbered("part", i, state_->parts.size()));
  for (const auto& node : state_->lowered.graph->nodes()) {
    const auto inside = state_->lowered.regions.find(node.get());
    if (inside == state_->lowered.regions.end()) continue;
    const std::string of = fmt::format(" of the {}{}", node->op().name,
                                       node->loc() ? " at " + to_string(node->loc()) : "");
    for (std::size_t i = 0; i < inside->second.size(); ++i)
      append(*inside->second[i], numbered("region", i, inside->second.size()) + of);
  }
  return all;
}

const GraphImpl& Executable::graph() const noexcept { return *state_->graph; }
const GraphImpl& Executable::lowered() const noexcept { return *state_->lowered.graph; }

}  // namespace dyad::exec
