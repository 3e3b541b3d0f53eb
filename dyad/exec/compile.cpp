#include "dyad/exec/compile.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <source_location>
#include <string>
#include <string_view>
#include <thread>

#include "dyad/autograd/grad_mode.h"
#include "dyad/base/by_thread.h"
#include "dyad/base/error.h"
#include "dyad/base/finally.h"
#include "dyad/base/log.h"
#include "dyad/core/autocast_switch.h"
#include "dyad/core/generator.h"
#include "dyad/exec/cancel_scope.h"
#include "dyad/exec/compiled_call.h"
#include "dyad/exec/recorder.h"
#include "dyad/exec/recording.h"
#include "dyad/exec/segment.h"
#include "dyad/exec/varying_sizes.h"
#include "dyad/passes/pipeline.h"
#include "dyad/runtime/cancel.h"
#include "dyad/runtime/threads.h"

namespace dyad::exec {
namespace {

std::string refusal_of(const Path& path) {
  return path.refusal + (path.refused_at ? " (" + to_string(path.refused_at) + ")" : "");
}

/// What Background::automatic means in this process.
bool compiles_in_background() {
  static const bool answer = [] {
    const char* const wanted = std::getenv("DYAD_BACKGROUND");  // NOLINT(concurrency-mt-unsafe)
    return wanted ? std::string_view(wanted) == "1" : runtime::available_cores() > 2;
  }();
  return answer;
}

/// Calls the function where its operators run as they are called: they are what can be cancelled.
FlatResult run_eagerly(const CompiledCore::Body& body, std::span<const Tensor> arguments,
                       const CancelToken& token) {
  const CancelScope cancellable(&token);
  FlatResult result = body(arguments);
  token.check();
  return result;
}

/// A number among the options of compile(), which has a least value.
void check_option(std::string_view name, std::int64_t given, std::int64_t least,
                  std::string_view meaning, Loc loc) {
  if (given >= least) return;
  throw ValueError(
      fmt::format("compile: {} = {}, but must be {} or more: {}", name, given, least, meaning),
      loc.user());
}

bool in_background(const CompileOptions& options) {
  return options.background == Background::always ||
         (options.background == Background::automatic && compiles_in_background());
}

/// Whether recordings are compiled by another thread. Calls that run eagerly meanwhile would escape
/// OnRecompile::fail.
bool compiles_ahead(const CompileOptions& options) {
  const bool suits =
      options.on_recompile != OnRecompile::fail || options.background == Background::always;
  return suits && in_background(options);
}

/// A run of a compiled function, which has the lock of its recordings. What it calls on its thread,
/// from a kernel of the program's own, must not wait for that.
class InRun {
 public:
  explicit InRun(const void* function)
      : function_(function), outer_(std::exchange(innermost(), this)) {}
  ~InRun() { innermost() = outer_; }
  InRun(const InRun&) = delete;
  InRun& operator=(const InRun&) = delete;

  /// Whether this thread is in a run of the function.
  [[nodiscard]] static bool of(const void* function) {
    const InRun* at = innermost();
    while (at && at->function_ != function) at = at->outer_;
    return at != nullptr;
  }

 private:
  static InRun*& innermost() {
    thread_local InRun* run = nullptr;
    return run;
  }
  const void* function_;
  InRun* outer_;
};

}  // namespace

struct CompiledCore::State {
  CompileOptions options;
  Loc loc;
  CancelSource cancels;
  mutable MutexByThread mutex;  ///< of the recordings: replays share it
  std::recursive_mutex turns;   ///< of calls that write what other calls see
  std::atomic<bool> takes_turns = false;
  std::atomic<std::thread::id> recorder_thread;  ///< which calls the function and has the mutex
  std::vector<std::unique_ptr<Recording>> recordings;
  VaryingSizes sizes{options, loc};
  std::atomic<int> lost_waits = 0;    ///< of calls in a row that were to be recorded
  std::map<CallKey, int> waited;      ///< calls that were not kept, see tells_too_little
  bool sealed = false;                ///< there is no function to record
  mutable std::mutex misses_mutex;    ///< of misses
  std::vector<ExplainedMiss> misses;  ///< the last few
  std::atomic<bool> warned = false;   ///< that calls run eagerly
  CountByThread calls, replays;       ///< the others are few
  std::atomic<std::int64_t> recorded = 0, rechecks = 0, eager = 0, early = 0;

  /// What becomes of a call.
  enum class Way : std::uint8_t { replay, recheck, record, eager, early };
  struct Found {
    Way way = Way::record;
    Recording* recording = nullptr;
    SymbolMap symbols;
    Mismatch reason;
    [[nodiscard]] bool is_small() const { return has_small_sizes(symbols); }
  };

  FlatResult call(std::span<const Tensor> arguments, std::span<const std::int64_t> numbers,
                  const Body& body, const NamesOf& names, std::uint64_t given_away);
  std::unique_lock<MutexByThread> lock_alone();
  Found find(const CallKey& key, std::span<const Tensor> arguments) const;
  std::pair<FlatResult, std::shared_ptr<Path>> record(Recorder& recorder, const Body& body,
                                                      const CancelToken& token);
  FlatResult record_first(const CallKey& key, std::span<const Tensor> arguments, const Body& body,
                          const NamesOf& names, const CancelToken& token, Mismatch reason);
  FlatResult record_again(Recording& recording, const SymbolMap& symbols,
                          std::span<const Tensor> arguments, const Body& body,
                          const CancelToken& token);
  Way way_of_miss(const Mismatch& reason) const;
  FlatResult record_small(Recording& recording, const SymbolMap& symbols,
                          std::span<const Tensor> arguments, const Body& body,
                          const CancelToken& token);
  std::optional<FlatResult> replay(const Found& found, std::span<const Tensor> arguments,
                                   std::uint64_t given_away, const CancelToken& token,
                                   std::optional<Mismatch>& miss);
  std::optional<Mismatch> tells_too_little(const Recording& made,
                                           std::span<const Tensor> arguments);
  [[nodiscard]] std::string warning_of(const Found& found) const;
  void note_miss(Mismatch reason);
  void check_limits(Recording& recording) const;
  /// GraphError when this thread is in the function while it is recorded.
  void check_is_outside(std::string_view what) const {
    if (recorder_thread.load() != std::this_thread::get_id()) return;
    throw GraphError(fmt::format("{}: {} from inside the function while it is recorded; call it "
                                 "after the call",
                                 options.name, what),
                     Loc(std::source_location::current()).user());
  }
  void wait_for_compilation() const {
    for (const auto& recording : recordings) {
      if (recording->tree) recording->tree->wait();
      if (const DecisionTree* const padded = recording->padded_tree()) padded->wait();
    }
  }
  void begin_tree(Recording& recording, const std::shared_ptr<const Path>& path,
                  std::any skeleton) const;
  void compile_for(const Recording& recording, std::span<const Tensor> arguments,
                   const SymbolMap& sizes, bool now) const;
};

ExecutableOptions executable_options(const CompileOptions& options) {
  return {.passes_off = options.passes_off,
          .fast_math = options.fast_math,
          .memory = {.memory_limit = options.memory_limit},
          .hot_runs = options.hot_calls,
          .hot_in_background = in_background(options)};
}

CompiledCore::CompiledCore(CompileOptions options, Loc loc) : state_(std::make_unique<State>()) {
  passes::check_passes_off(options.passes_off, loc.user());
  check_option("threads", options.threads, 0, "0 takes as many as set_num_threads() says", loc);
  check_option("max_outcomes", options.max_outcomes, 1,
               "values of one host read, of which the first call has one", loc);
  check_option("max_recordings", options.max_recordings, 1,
               "recordings, of which the first call makes one", loc);
  check_option("hot_calls", options.hot_calls, 0, "calls with the same sizes, 0 for never", loc);
  for (const VaryingAxis& one : options.varying) {
    constexpr std::int64_t kMost = std::int64_t{1} << 62;
    if (one.min >= 0 && one.min <= one.max && one.max >= 2 && one.min < kMost &&
        (one.max < kMost || one.max == kAnySize))
      continue;
    throw ValueError(fmt::format("compile: varying has sizes from {} to {}, but they must be 0 or "
                                 "more, the smallest first, and reach 2",
                                 one.min, one.max),
                     loc.user());
  }
  for (const Buckets& one : options.buckets) {
    if (are_buckets(one.sizes)) continue;
    throw ValueError(fmt::format("compile: buckets has the sizes [{}], but they must be 2 or more, "
                                 "the smallest first, each once",
                                 fmt::join(one.sizes, ", ")),
                     loc.user());
  }
  if (!options.buckets.empty() && !options.dynamic_sizes)
    throw ValueError("compile: buckets are for sizes that vary: they need dynamic_sizes",
                     loc.user());
  check_option("memory_limit", options.memory_limit, 0, "bytes, 0 for no limit", loc);
  state_->options = std::move(options);
  state_->loc = loc;
}

CompiledCore::CompiledCore(CompileOptions options, Loc loc,
                           std::vector<std::unique_ptr<Recording>> recordings)
    : CompiledCore(std::move(options), loc) {
  state_->options.recheck = false;
  state_->sealed = true;
  for (const auto& recording : recordings)
    state_->takes_turns = state_->takes_turns || recording->writes_outside;
  state_->recordings = std::move(recordings);
}

CompiledCore::~CompiledCore() = default;

const CompileOptions& CompiledCore::options() const noexcept { return state_->options; }

std::unique_lock<std::recursive_mutex> CompiledCore::between_calls() const {
  state_->check_is_outside("saving");
  return std::unique_lock(state_->turns);
}

void CompiledCore::visit(const std::function<void(const Recording&)>& see,
                         const std::function<void()>& then) const {
  const std::shared_lock lock(state_->mutex);
  for (const auto& recording : state_->recordings) see(*recording);
  if (then) then();
}

FlatResult CompiledCore::call(std::span<const Tensor> arguments,
                              std::span<const std::int64_t> numbers, const Body& body,
                              const NamesOf& names, std::uint64_t given_away) {
  const bool symbolic = std::any_of(arguments.begin(), arguments.end(),
                                    [](const Tensor& t) { return t.is_symbolic(); });
  if (!symbolic) state_->sizes.check_ranges(arguments);
  // Inside another recording or a graph's definition the function is simply part of it.
  if (!state_->sealed && (!Evaluator::is_eager() || symbolic || DetectAnomaly::active()))
    return run_eagerly(body, arguments, state_->cancels.begin());
  std::optional<ThreadScope> threads;
  if (state_->options.threads > 0) threads.emplace(state_->options.threads);
  return state_->call(arguments, numbers, body, names, given_away);
}

CompiledCore::State::Found CompiledCore::State::find(const CallKey& key,
                                                     std::span<const Tensor> arguments) const {
  Found found;
  const Recording* newest = nullptr;  // of the same kind of call
  std::optional<Mismatch> reason;     // why that does not serve it
  std::optional<Found> unproved;      // serves the call if a comparison says so
  for (auto it = recordings.rbegin(); it != recordings.rend(); ++it) {
    Recording& recording = **it;
    if (recording.key != key) continue;
    SymbolMap symbols;
    std::optional<Mismatch> differs = recording.mismatch(key, arguments, symbols);
    if (!differs && sealed) differs = recording.hidden_layout(arguments, symbols);
    if (!differs) {
      found.way = recording.runs_eagerly() ? Way::eager : Way::replay;
      found.recording = &recording;
      found.symbols = std::move(symbols);
      if (sealed || !recording.is_unproved(found.symbols)) return found;
      found.way = Way::recheck;
      if (!unproved) unproved = found;
      continue;
    }
    if (newest) continue;
    newest = &recording;
    reason = std::move(differs);
  }
  if (unproved) return *std::move(unproved);
  if (reason && !reason->loc) reason->loc = newest->line_of(*reason);
  found.reason = reason ? *std::move(reason) : difference_of_kind(recordings, key, arguments);
  if (sealed) {
    throw GraphError("'" + options.name + "' has no recording for this call: " + found.reason.text +
                         "; call the function so before it is saved",
                     Loc(std::source_location::current()).user(), found.reason.loc);
  }
  if (recordings.empty()) return found;
  if (!found.reason.loc) found.reason.loc = loc;
  found.way = way_of_miss(found.reason);
  return found;
}

/// How a call goes on that fits nothing recorded. RecompileError when that is forbidden.
CompiledCore::State::Way CompiledCore::State::way_of_miss(const Mismatch& reason) const {
  if (options.on_recompile == OnRecompile::fail) {
    throw RecompileError("compiled function '" + options.name + "', call " +
                             std::to_string(calls.total()) +
                             " fits no recording, and on_recompile forbids another: " + reason.text,
                         reason.loc ? reason.loc : loc);
  }
  const bool records = options.on_recompile == OnRecompile::compile &&
                       static_cast<int>(recordings.size()) < options.max_recordings;
  return records ? Way::record : Way::eager;
}

FlatResult CompiledCore::State::call(std::span<const Tensor> arguments,
                                     std::span<const std::int64_t> numbers, const Body& body,
                                     const NamesOf& names, std::uint64_t given_away) {
  ++calls;
  const CancelToken token = cancels.begin();
  const CallKey key = key_of(arguments, numbers);
  std::unique_lock<std::recursive_mutex> turn;
  const auto take_turn = [&] {
    if (takes_turns && !turn) turn = std::unique_lock(turns);
  };
  take_turn();
  Way way = Way::record;
  std::optional<Mismatch> miss;  // why the call fits nothing recorded
  std::string warning;
  bool counts_as_recheck = false;
  const bool is_inside = InRun::of(this);
  {
    std::shared_lock lock(mutex, std::defer_lock);
    if (!is_inside) lock.lock();
    if (takes_turns && !turn && !is_inside) {  // another thread has recorded the first that writes
      lock.unlock();
      take_turn();
      lock.lock();
    }
    const Found found = find(key, arguments);
    way = found.way;
    if (!found.recording) miss = found.reason;
    if (way == Way::eager && !warned) warning = warning_of(found);
    const InRun inside(this);
    if (way == Way::replay) {
      // Without checks nobody asks which call it is, and threads need not count together.
      const std::int64_t call = options.recheck ? ++found.recording->calls->value : 0;
      if (std::has_single_bit(static_cast<std::uint64_t>(call))) {
        ++rechecks;
        counts_as_recheck = true;
        way = Way::recheck;
        if (call == 2) compile_for(*found.recording, arguments, found.symbols, true);
      } else if (!found.recording->is_ready()) {
        way = Way::early;
      } else if (auto result = replay(found, arguments, given_away, token, miss)) {
        return *std::move(result);
      } else if (miss->is_error) {
        way = Way::eager;
      } else if (found.is_small()) {
        way = Way::recheck;
      } else {
        way = options.on_recompile == OnRecompile::compile ? Way::recheck : way_of_miss(*miss);
      }
    }
  }
  std::unique_lock<MutexByThread> alone;
  if (way == Way::recheck || way == Way::record) {
    if (!is_inside) alone = lock_alone();
    if (!alone) {
      if (counts_as_recheck) --rechecks;
      way = Way::eager;
      miss = Mismatch{is_inside ? "a run of the function itself made it"
                                : "calls of other threads left it no time to be recorded",
                      {}};
    }
  }
  if (alone) {
    const std::unique_lock lock = std::move(alone);
    // Another thread may have recorded in the meantime, or forgotten what there was.
    const Found found = find(key, arguments);
    miss = found.recording ? std::optional<Mismatch>() : found.reason;
    if (found.way == Way::recheck) {
      if (way != Way::recheck) ++rechecks;
      ++found.recording->calls->value;
      return record_small(*found.recording, found.symbols, arguments, body, token);
    }
    if (found.way == Way::replay) {
      if (way == Way::recheck)
        return record_again(*found.recording, found.symbols, arguments, body, token);
      ++found.recording->calls->value;
      const InRun inside(this);
      if (!found.recording->is_ready()) {
        way = Way::early;
      } else if (auto result = replay(found, arguments, given_away, token, miss)) {
        return *std::move(result);
      } else if (miss->is_error) {
        way = Way::eager;
      } else if (options.on_recompile == OnRecompile::compile || found.is_small()) {
        return record_again(*found.recording, found.symbols, arguments, body, token);
      } else {
        static_cast<void>(way_of_miss(*miss));
      }
    }
    if (found.way == Way::record)
      return record_first(key, arguments, body, names, token, found.reason);
  }
  // The function may call itself: of the locks its thread holds none but the turn.
  take_turn();
  if (way == Way::early) {
    ++early;
    return run_eagerly(body, arguments, token);
  }
  ++eager;
  if (!warning.empty() && !warned.exchange(true)) log(LogLevel::warning, warning);
  if (miss) note_miss(*std::move(miss));
  return run_eagerly(body, arguments, token);
}

/// The recordings for one call alone, once the runs of other threads are over; nothing when that
/// takes long, and sooner after each time that it did.
std::unique_lock<MutexByThread> CompiledCore::State::lock_alone() {
  constexpr std::chrono::milliseconds kPatience{1000};
  constexpr int kMostHalvings = 8;
  for (;;) {
    std::unique_lock alone(mutex, kPatience / (1 << std::min(lost_waits.load(), kMostHalvings)));
    if (alone) {
      lost_waits = 0;
      return alone;
    }
    // What is recorded is needed, however long the function takes.
    if (recorder_thread.load() != std::thread::id()) continue;
    ++lost_waits;
    return alone;
  }
}

/// What is said, once, when a call that was to be compiled runs eagerly; empty where it was not.
std::string CompiledCore::State::warning_of(const Found& found) const {
  const std::string name = fmt::format("compiled function '{}' ({})", options.name, to_string(loc));
  if (found.recording)
    return fmt::format("{} runs eagerly: {}", name, found.recording->why_eager());
  if (options.on_recompile != OnRecompile::compile) return {};
  return fmt::format(
      "{}, call {}, runs eagerly, because none of its {} recordings (max_recordings) serves it: "
      "{}. "
      "Numbers and lengths of lists are part of a recording; pass what changes often as a tensor",
      name, calls.total(), recordings.size(), found.reason.text);
}

/// Notes why a call ran eagerly.
void CompiledCore::State::note_miss(Mismatch reason) {
  constexpr std::size_t kKept = 8;
  const std::scoped_lock lock(misses_mutex);
  if (misses.size() == kKept) misses.erase(misses.begin());
  misses.push_back({calls.total(), std::move(reason.text), reason.loc ? reason.loc : loc});
}

void CompiledCore::State::check_limits(Recording& recording) const {
  Loc loc;
  // Reads that have few outcomes each make many ways together.
  const auto most_ways = static_cast<std::size_t>(options.max_outcomes) * 16;
  if (recording.tree->leaves().size() > most_ways) {
    recording.refusal = fmt::format(
        "more than {} ways lead through the host's branches (16 times max_outcomes); where one of "
        "two tensors is meant, where(condition, a, b) is one way",
        most_ways);
    return;
  }
  const std::size_t outcomes = recording.tree->most_outcomes(loc);
  if (outcomes <= static_cast<std::size_t>(options.max_outcomes)) return;
  recording.refusal = "what the host reads at " + to_string(loc) + " took " +
                      std::to_string(outcomes) + " values (max_outcomes is " +
                      std::to_string(options.max_outcomes) +
                      "); where only a comparison matters, compare the tensor itself, as in "
                      "if (x > 1), and only its answer is recorded";
}

/// Why a recording of this call would serve no other sizes, though its axes are said to vary: it
/// takes 0 and 1 for numbers. What is recorded at other sizes serves such calls, too, so the first
/// few make none.
std::optional<Mismatch> CompiledCore::State::tells_too_little(const Recording& made,
                                                              std::span<const Tensor> arguments) {
  constexpr int kMostCalls = 8;
  const bool is_known = std::ranges::any_of(
      recordings, [&](const auto& recording) { return recording->key == made.key; });
  if (is_known || !options.dynamic_sizes || options.on_recompile == OnRecompile::fail) return {};
  // Without a recording those that are said to vary, as shapes_for found them.
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const Shape& shape = arguments[i].impl()->shape;
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
      const std::int64_t size = shape[axis].number();
      if (!sizes.varies(made.key, i, axis) || size > 1) continue;
      if (++waited[made.key] > kMostCalls) return {};
      return Mismatch{fmt::format("axis {} of {} is {}, which tells nothing of other sizes: a call "
                                  "at 2 or more is recorded for all",
                                  axis, made.argument(i), size),
                      {}};
    }
  }
  return {};
}

/// Calls the function while it is recorded.
std::pair<FlatResult, std::shared_ptr<Path>> CompiledCore::State::record(Recorder& recorder,
                                                                         const Body& body,
                                                                         const CancelToken& token) {
  recorder_thread = std::this_thread::get_id();
  const Finally recorded_it([&] { recorder_thread = std::thread::id(); });
  const Evaluator::Scope scope(recorder);
  const CancelScope cancellable(&token);  // of the gradients of the results, too
  FlatResult result = run_eagerly(body, recorder.arguments(), token);
  auto path = std::make_shared<Path>(recorder.finish(result.tensors, loc));
  ++recorded;
  return {std::move(result), std::move(path)};
}

FlatResult CompiledCore::State::record_first(const CallKey& key, std::span<const Tensor> arguments,
                                             const Body& body, const NamesOf& names,
                                             const CancelToken& token, Mismatch reason) {
  auto recording = std::make_unique<Recording>();
  SymbolMap hints;
  recording->key = key;
  recording->shapes = sizes.shapes_for(key, arguments, recordings, hints);
  if (names) recording->names = names();
  recording->reason = std::move(reason.text);
  recording->reason_loc = reason.loc;
  for (std::size_t i = 0; i < arguments.size(); ++i)
    recording->types.push_back(type_string(arguments[i].dtype(), recording->shapes[i]));
  Recorder recorder(recording->shapes, arguments, hints, loc);
  recorder.assume(sizes.ranges_of(recording->shapes));
  auto [result, path] = record(recorder, body, token);
  watch_backward(*path, result.tensors, recording->tape_need, loc);
  recording->calls->value = 1;
  recording->learn(*path);
  if (recording->writes_outside) takes_turns = true;
  if (auto waits = tells_too_little(*recording, arguments)) {
    note_miss(*std::move(waits));
    return result;
  }
  recording->overlap = recording->writes_overlap(arguments);
  recording->layouts = layouts_of(arguments);
  for (const Tensor& argument : arguments) recording->gaps.push_back(has_gaps(*argument.impl()));
  if (!path->refusal.empty()) {
    recording->refusal = refusal_of(*path);
  } else {
    begin_tree(*recording, path, result.skeleton);
    compile_for(*recording, arguments, path->hints, false);
  }
  recordings.push_back(std::move(recording));
  return result;
}

/// Makes `path` the only way through the recording.
void CompiledCore::State::begin_tree(Recording& recording, const std::shared_ptr<const Path>& path,
                                     std::any skeleton) const {
  recording.tree = std::make_shared<DecisionTree>(path, executable_options(options));
  recording.skeletons = {std::move(skeleton)};
  recording.bucketed = nullptr;
  recording.add_buckets(path, options);
}

/// Has the way recorded last compiled for calls like this one, with those sizes: by another thread,
/// or by this one `now`.
void CompiledCore::State::compile_for(const Recording& recording, std::span<const Tensor> arguments,
                                      const SymbolMap& sizes, bool now) const {
  if (now == compiles_ahead(options) || !recording.refusal.empty()) return;
  const auto compile = [&](DecisionTree& tree, std::span<const Tensor> given) {
    if (now) {
      tree.compile_now(given);
    } else {
      tree.compile_ahead(given);
    }
  };
  if (recording.bucketed && !has_small_sizes(sizes)) {
    if (const auto padded = recording.bucketed->padded(arguments, sizes))
      return compile(*recording.bucketed->tree(), padded->arguments);
  }
  compile(*recording.tree, arguments);
}

FlatResult CompiledCore::State::record_again(Recording& recording, const SymbolMap& symbols,
                                             std::span<const Tensor> arguments, const Body& body,
                                             const CancelToken& token) {
  if (has_small_sizes(symbols)) return record_small(recording, symbols, arguments, body, token);
  Recorder recorder(recording.shapes, arguments, symbols, loc);
  recorder.assume(sizes.ranges_of(recording.shapes));
  auto [result, path] = record(recorder, body, token);
  watch_backward(*path, result.tensors, recording.tape_need, loc);
  if (!path->refusal.empty()) {
    recording.refusal = refusal_of(*path);
    return result;
  }
  bool begins_anew = false;
  for (const DecisionTree::Leaf& leaf : recording.tree->leaves()) {
    std::size_t common = 0;
    if (auto difference = compare_paths(*leaf.path, *path, common)) {
      if (difference->in_loop) {
        // This call did too few steps of a loop to tell it from what was recorded.
        if (count_loops(*path) <= count_loops(*leaf.path)) return result;
        begins_anew = true;
        continue;
      }
      if (recording.learn_strides(arguments)) return result;
      const Loc at = difference->second ? difference->second : difference->first;
      // Calls to come would get what it was.
      std::erase_if(recordings, [&](const auto& one) { return one.get() == &recording; });
      throw GraphError(
          "compiled function '" + options.name + "', call " + std::to_string(calls.total()) +
              ": it did something else than when it was recorded: " + difference->text +
              "; it depends on something of the host that a recording cannot see: pass that as an "
              "argument "
              "(a number is a guard, a tensor an input), or compile with recheck = false if it is "
              "meant",
          at);
    }
  }
  recording.learn(*path);
  if (recording.writes_outside) takes_turns = true;
  if (begins_anew) {
    recording.small.clear();  // told of the ways of the tree that was
    begin_tree(recording, path, result.skeleton);
    compile_for(recording, arguments, path->hints, false);
  } else if (recording.tree->add(path)) {
    recording.skeletons.push_back(result.skeleton);
    if (recording.bucketed) recording.bucketed->add(path);
    check_limits(recording);
    compile_for(recording, arguments, path->hints, false);
  }
  return result;
}

/// Sizes of 0 and 1 may change what the function does where no guard tells. What it does at them is
/// recorded and compared; where it differs, the next such call makes a recording of its own.
FlatResult CompiledCore::State::record_small(Recording& recording, const SymbolMap& symbols,
                                             std::span<const Tensor> arguments, const Body& body,
                                             const CancelToken& token) {
  Recorder recorder(recording.shapes, arguments, symbols, loc);
  recorder.assume(sizes.ranges_of(recording.shapes));
  auto [result, path] = record(recorder, body, token);
  watch_backward(*path, result.tensors, recording.tape_need, loc);
  recording.compare_small(symbols, *path, arguments);
  return result;
}

/// Nothing when a host read took a value that was never recorded, which `miss` tells; nothing has
/// been written then.
std::optional<FlatResult> CompiledCore::State::replay(const Found& found,
                                                      std::span<const Tensor> arguments,
                                                      std::uint64_t given_away,
                                                      const CancelToken& token,
                                                      std::optional<Mismatch>& miss) {
  const Recording& recording = *found.recording;
  // Calls that draw nothing do not meet at the generator's lock.
  std::optional<RandomKey> random_state;
  if (recording.draws) random_state = default_generator().state();
  DecisionTree::Outcome outcome;
  std::optional<BucketedCalls::Call> padded;
  {
    const NoGrad no_tape;
    const AutocastSwitch as_recorded(std::nullopt);
    const CancelScope whole(nullptr);  // it looks itself, until it begins to write
    const bool all = sealed && !recording.layout_hiding(found.symbols).is_symbolic();
    if (recording.bucketed && !found.is_small())
      padded = recording.bucketed->padded(arguments, found.symbols);
    if (padded) {
      outcome = recording.bucketed->tree()->run(padded->arguments, &token);
      if (outcome.leaf >= 0 && !outcome.error) recording.bucketed->cut_results(*padded, outcome);
    } else {
      outcome = recording.tree->run(arguments, &token,
                                    all ? nullptr : recording.ways_at(found.symbols), given_away);
    }
  }
  if (outcome.error) {
    if (sealed || recording.tells_the_host) std::rethrow_exception(outcome.error);
    // The function may catch it. Nothing has been written: it can be called.
    if (random_state) default_generator().set_state(*random_state);
    miss = Mismatch{"an operator failed in compiled code", {}, true};
    return std::nullopt;
  }
  if (outcome.leaf < 0) {
    if (sealed && outcome.unseen.empty()) {
      throw GraphError("'" + options.name + "': no recorded call with " +
                           sizes_string(small_sizes_of(found.symbols)) +
                           " went this way through the host's branches",
                       Loc(std::source_location::current()).user());
    }
    if (sealed) {
      throw GraphError("'" + options.name + "': what the host reads at " +
                           to_string(outcome.unseen_at) + " is " + outcome.unseen +
                           ", which it was in no recorded call",
                       Loc(std::source_location::current()).user(), outcome.unseen_at);
    }
    // The call starts again, eagerly.
    if (random_state) default_generator().set_state(*random_state);
    if (outcome.unseen.empty()) {
      miss = Mismatch{"a way through the host's branches that no call with " +
                          sizes_string(small_sizes_of(found.symbols)) + " took before",
                      {}};
      return std::nullopt;
    }
    miss =
        Mismatch{"the host read " + outcome.unseen + ", before " + outcome.seen, outcome.unseen_at};
    return std::nullopt;
  }
  ++replays;
  const DecisionTree& tree = padded ? *recording.bucketed->tree() : *recording.tree;
  attach_backward(tree, outcome, arguments, found.symbols, recording.tape_need, loc,
                  recording.bucketed.get(), padded ? &*padded : nullptr);
  return FlatResult{std::move(outcome.results),
                    recording.skeletons[static_cast<std::size_t>(outcome.leaf)]};
}

Explanation CompiledCore::explain(const StepProfile* profile) const {
  state_->check_is_outside("explain()");
  const std::shared_lock lock(state_->mutex);
  state_->wait_for_compilation();
  const std::int64_t replays = state_->replays.total();  // first: other threads go on calling
  Explanation page{.name = state_->options.name,
                   .loc = state_->loc,
                   .calls = state_->calls.total(),
                   .replays = replays,
                   .recorded = state_->recorded,
                   .rechecks = state_->rechecks,
                   .eager = state_->eager,
                   .early = state_->early,
                   .recordings = {},
                   .misses = {}};
  {
    const std::scoped_lock misses_lock(state_->misses_mutex);
    page.misses = state_->misses;
  }
  for (const auto& recording : state_->recordings)
    page.recordings.push_back(recording->explain(profile));
  return page;
}

std::vector<CompiledGraph> CompiledCore::graphs() const {
  const auto share = [](const GraphImpl& graph) {
    return std::shared_ptr<const GraphImpl>(
        &graph, [keep = Ref<const GraphImpl>(&graph)](const GraphImpl*) {});
  };
  state_->check_is_outside("graphs()");
  const std::shared_lock lock(state_->mutex);
  state_->wait_for_compilation();
  std::vector<CompiledGraph> found;
  for (const auto& recording : state_->recordings) {
    if (!recording->tree) continue;
    const DecisionTree* const padded = recording->padded_tree();
    for (Segment* segment : (padded ? *padded : *recording->tree).segments())
      found.push_back({share(segment->graph()), share(segment->executable().lowered())});
  }
  return found;
}

std::vector<ExplainedPasses> CompiledCore::explain_passes() const {
  state_->check_is_outside("explain_passes()");
  const std::shared_lock lock(state_->mutex);
  state_->wait_for_compilation();
  std::vector<ExplainedPasses> all;
  for (std::size_t i = 0; i < state_->recordings.size(); ++i) {
    std::vector<ExplainedPasses> more =
        state_->recordings[i]->explain_passes("recording " + std::to_string(i + 1));
    std::ranges::move(more, std::back_inserter(all));
  }
  return all;
}

void CompiledCore::cancel() noexcept { state_->cancels.cancel(); }

void CompiledCore::reset() {
  state_->check_is_outside("reset()");
  const std::unique_lock lock(state_->mutex);
  state_->recordings.clear();
  state_->sizes.forget();
  state_->waited.clear();
  const std::scoped_lock misses_lock(state_->misses_mutex);
  state_->misses.clear();
}

}  // namespace dyad::exec
