#include "dyad/exec/session.h"

#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <shared_mutex>

#include "dyad/autograd/grad_mode.h"
#include "dyad/base/by_thread.h"
#include "dyad/base/error.h"
#include "dyad/base/finally.h"
#include "dyad/core/generator.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/exec/assumed_sizes.h"
#include "dyad/exec/compared_graph.h"
#include "dyad/exec/executable.h"
#include "dyad/exec/executable_bind.h"
#include "dyad/exec/executable_errors.h"
#include "dyad/exec/graph_define.h"
#include "dyad/ir/graph_ops.h"
#include "dyad/passes/extract.h"
#include "dyad/passes/rewriter.h"
#include "dyad/runtime/cancel.h"
#include "dyad/runtime/threads.h"

namespace dyad {
namespace {

const std::string& name_of(Value placeholder) {
  return placeholder.node->attrs_as<PlaceholderAttrs>().name;
}

std::string text_of(Value placeholder) {
  return fmt::format("placeholder \"{}\": {}", name_of(placeholder), to_string(placeholder.type()));
}

/// What a set of fetches needs, compiled.
struct Program {
  Program(Ref<GraphImpl> part, exec::ExecutableOptions options)
      : executable(std::move(part), std::move(options)) {}
  std::string fetches;  // for explain() and explain_passes()
  exec::Executable executable;
};

/// The session's number of threads, where it has one.
class Threads {
 public:
  explicit Threads(const SessionOptions& options) {
    if (options.threads > 0) scope_.emplace(options.threads);
  }

 private:
  std::optional<ThreadScope> scope_;
};

/// Fed values by placeholder name.
class Feeds {
 public:
  Feeds(const Graph& graph, const std::vector<Feed>& feeds, Loc loc) : graph_(*graph.impl()) {
    for (const Feed& feed : feeds) {
      const Value placeholder = find(graph, feed, loc);
      const Tensor value = checked(placeholder, feed.value, loc);
      if (!values_.emplace(name_of(placeholder), value).second) {
        throw GraphError(fmt::format("{} is fed twice", text_of(placeholder)), loc,
                         placeholder.node->loc());
      }
    }
  }

  /// The sizes that are known by these values.
  [[nodiscard]] SymbolMap sizes() const {
    SymbolMap known;
    for (const auto& [name, value] : values_) {
      const Shape& declared = graph_.find_placeholder(name).type().shape();
      if (declared.rank() == value.rank()) exec::bind_told(declared, value, known);
    }
    return known;
  }

  [[nodiscard]] std::vector<Tensor> in_order(std::span<const Value> placeholders, Loc loc) const {
    std::vector<Tensor> ordered;
    for (const Value v : placeholders) {
      const auto found = values_.find(name_of(v));
      if (found == values_.end()) {
        throw GraphError(
            fmt::format("{} is not fed, but the fetches need it; add {{\"{}\", tensor}} "
                        "to the feeds",
                        text_of(v), name_of(v)),
            loc, v.node->loc());
      }
      ordered.push_back(found->second);
    }
    return ordered;
  }

 private:
  Value find(const Graph& graph, const Feed& feed, Loc loc) const {
    if (!feed.placeholder.defined()) {
      const Value named = graph_.find_placeholder(feed.name);
      if (named) return named;
      throw GraphError(fmt::format("a feed names \"{}\", but no placeholder has that name; {}",
                                   feed.name, exec::list_placeholders(graph_)),
                       loc);
    }
    const GraphValue* handle = graph_value(feed.placeholder);
    if (handle && handle->graph == graph.impl() && handle->value.node->is("placeholder")) {
      return handle->value;
    }
    throw GraphError(fmt::format("a feed is given for {}, which is no placeholder of this graph",
                                 type_string(feed.placeholder)),
                     loc, handle ? handle->value.node->loc() : Loc());
  }

  static Tensor checked(Value placeholder, const Tensor& value, Loc loc) {
    if (!value.defined() || !value.is_concrete()) {
      throw GraphError(
          fmt::format("{} is fed {}; it needs a tensor with data", text_of(placeholder),
                      value.defined() ? "a symbolic tensor" : "an undefined tensor"),
          loc, placeholder.node->loc());
    }
    if (value.impl()->is_number) return convert_number(value, placeholder.type().dtype());
    return value;
  }

  const GraphImpl& graph_;
  std::map<std::string, Tensor> values_;
};

}  // namespace

struct Session::State {
  /// Node and output of each fetch; whether every operator's results are looked at.
  using Key = std::pair<std::vector<std::pair<int, int>>, bool>;

  State(Graph of, SessionOptions how) : graph(std::move(of)), options(how) {}

  /// Compiled at the first use, for sizes such as those that `feeds` have, if there are any.
  Program& program_for(const std::vector<Tensor>& fetches, const Feeds* feeds, Loc loc) {
    Key key{{}, DetectAnomaly::active()};
    std::vector<Value> values;
    for (const Tensor& fetch : fetches) {
      const GraphValue* handle = fetch.defined() ? graph_value(fetch) : nullptr;
      if (!handle || handle->graph != graph.impl()) {
        throw GraphError(
            fmt::format("fetch {} is {}; fetches are values of the session's graph", values.size(),
                        !fetch.defined() ? "an undefined tensor"
                        : handle         ? "a tensor of another graph: " + type_string(fetch)
                                         : "no value of a graph: " + type_string(fetch)),
            loc, handle ? handle->value.node->loc() : Loc());
      }
      values.push_back(handle->value);
      key.first.emplace_back(handle->value.node->id(), handle->value.index);
    }
    const auto known = [&] {
      const auto found = programs.find(key);
      return found == programs.end() ? nullptr : found->second.get();
    };
    {
      const std::shared_lock lock(mutex);
      if (Program* const program = known()) return *program;
    }
    const std::scoped_lock lock(mutex);
    if (Program* const program = known()) return *program;  // of another thread, in the meantime

    const auto drawn_before = [&](const Node& node) {
      return graph.state()->initial_keys.contains(&node);
    };
    exec::require_told(*graph.impl(), loc);
    const exec::AssumedSizes assumed(graph.state());
    const SizeFacts::Scope facts(assumed);
    auto program = std::make_unique<Program>(passes::extract(*graph.impl(), values, drawn_before),
                                             how_to_compile(feeds, key.second));
    if (key.second) program->fetches = "(under DetectAnomaly) ";
    for (const Value v : values) {
      program->fetches +=
          fmt::format("{}{}: {} ({})", v == values.front() ? "" : ", ", v.node->op().name,
                      to_string(v.type()), to_string(v.node->loc()));
    }
    return *programs.emplace(std::move(key), std::move(program)).first->second;
  }

  [[nodiscard]] exec::ExecutableOptions how_to_compile(const Feeds* feeds,
                                                       bool check_finite) const {
    exec::ExecutableOptions how;
    how.check_finite = check_finite;
    if (check_finite) how.passes_off = {"widen_calls", "join_epilogues", "fuse", "fuse_rows"};
    how.fast_math = options.fast_math && !check_finite;
    how.memory.memory_limit = static_cast<std::int64_t>(options.memory_limit);
    if (feeds) how.memory.sizes = feeds->sizes();
    return how;
  }

  /// What is fed to a program, of sizes that the graph takes for granted.
  [[nodiscard]] std::vector<Tensor> inputs_of(const Program& program, const Feeds& fed,
                                              Loc loc) const {
    const GraphImpl& part = program.executable.graph();
    std::vector<Tensor> inputs = fed.in_order(part.placeholders(), loc);
    if (const std::span<const SizeRange> ranges = graph.impl()->ranges(); !ranges.empty()) {
      // What the run does not need may have decided what it is.
      SymbolMap sizes = exec::bind_symbols(part, inputs, {}, loc);
      const SymbolMap all = fed.sizes();
      for (const auto& [symbol, size] : all.entries()) {
        if (!sizes.find(symbol)) sizes.bind(symbol, size);
      }
      exec::check_assumed(ranges, sizes, loc);
    }
    return inputs;
  }

  Graph graph;
  SessionOptions options;
  MutexByThread mutex;  // of the programs: runs share it
  std::map<Key, std::unique_ptr<Program>> programs;
  CancelSource cancels;
  CountByThread calls, done;
};

Session::Session(Graph graph, SessionOptions options)
    : state_(std::make_unique<State>(std::move(graph), options)) {}
Session::~Session() = default;
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;

std::vector<Tensor> Session::run(const std::vector<Tensor>& fetches, const std::vector<Feed>& feeds,
                                 Loc loc) {
  loc = loc.user();
  exec::require_eager("a session", loc);
  ++state_->calls;
  const CancelToken token = state_->cancels.begin();
  const Threads threads(state_->options);
  const Feeds fed(state_->graph, feeds, loc);
  Program& program = state_->program_for(fetches, &fed, loc);
  std::vector<Tensor> results =
      program.executable.run(state_->inputs_of(program, fed, loc), &token, loc);
  ++state_->done;
  return results;
}

void Session::prepare(const std::vector<Tensor>& fetches, const std::vector<Feed>& feeds, Loc loc) {
  loc = loc.user();
  exec::require_eager("a session", loc);
  const Threads threads(state_->options);
  const Feeds fed(state_->graph, feeds, loc);
  Program& program = state_->program_for(fetches, &fed, loc);
  program.executable.prepare(state_->inputs_of(program, fed, loc), loc);
}

std::optional<exec::MemoryUse> Session::memory(const std::vector<Tensor>& fetches,
                                               const std::vector<Feed>& feeds, Loc loc) {
  loc = loc.user();
  exec::require_eager("a session", loc);
  const Threads threads(state_->options);
  const Feeds fed(state_->graph, feeds, loc);
  Program& program = state_->program_for(fetches, &fed, loc);
  return program.executable.memory(state_->inputs_of(program, fed, loc), loc);
}

VerifyReport Session::verify(const std::vector<Tensor>& fetches, const std::vector<Feed>& feeds,
                             Loc loc) {
  loc = loc.user();
  exec::require_eager("a session", loc);
  const Threads threads(state_->options);
  const Feeds fed(state_->graph, feeds, loc);
  Program& program = state_->program_for(fetches, &fed, loc);
  const std::vector<Tensor> inputs = state_->inputs_of(program, fed, loc);
  const GraphImpl& part = program.executable.graph();
  const exec::AssumedSizes assumed(state_->graph.state());
  const SizeFacts::Scope facts(assumed);
  passes::Rewriter without_writes(part);
  for (const auto& node : part.nodes()) {
    if (&node->op() == &kAssignOp) {
      without_writes.set(node->output(), without_writes.at(node->inputs()[1]));
    } else {
      without_writes.copy(*node);
    }
  }
  const Ref<GraphImpl> compared = without_writes.finish();
  const RandomKey before = default_generator().state();
  const Finally restored([&] { default_generator().set_state(before); });
  const NoGrad no_tape;
  exec::GraphFeed feed{.placeholders = {},
                       .sizes = exec::bind_symbols(part, inputs, {}, loc),
                       .outer = {},
                       .random = before,
                       .before = {}};
  for (std::size_t i = 0; i < inputs.size(); ++i)
    feed.placeholders.emplace(name_of(part.placeholders()[i]), inputs[i]);
  const exec::ComparedGraph both(*compared, std::move(feed), compared->outputs(),
                                 state_->how_to_compile(&fed, false));
  return {.operators = exec::count_operators(*compared),
          .values = static_cast<int>(both.wanted().size()),
          .refusal = {},
          .difference = both.find_first()};
}

void Session::cancel() const noexcept { state_->cancels.cancel(); }

Explanation Session::explain(const exec::StepProfile* profile) const {
  const std::shared_lock lock(state_->mutex);
  Explanation page;
  page.kind = "graph";
  page.replays = state_->done.total();  // first: other threads go on running
  page.calls = state_->calls.total();
  for (const auto& [key, program] : state_->programs) {
    ExplainedRecording& told = page.recordings.emplace_back();
    told.reason = "fetches " + program->fetches;
    for (const Value v : program->executable.graph().placeholders())
      told.arguments.push_back(fmt::format("\"{}\": {}", name_of(v), to_string(v.type())));
    told.ways = 1;
    exec::add_to(told, program->executable.stats());
    told.table = program->executable.kernels(profile);
  }
  return page;
}

std::vector<ExplainedPasses> Session::explain_passes(const std::vector<Tensor>& fetches, Loc loc) {
  loc = loc.user();
  exec::require_eager("a session", loc);
  const Threads threads(state_->options);
  const Program& program = state_->program_for(fetches, nullptr, loc);
  const exec::AssumedSizes assumed(state_->graph.state());
  const SizeFacts::Scope facts(assumed);
  return program.executable.explain_passes("fetches " + program.fetches);
}

}  // namespace dyad
