#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dyad/core/tensor.h"
#include "dyad/exec/explain.h"
#include "dyad/exec/memory_use.h"
#include "dyad/ir/graph.h"
#include "dyad/passes/recompute.h"
#include "dyad/runtime/cancel.h"

namespace dyad::exec {

class StepProfile;

/// An output that becomes the value of a placeholder; both by number.
struct WrittenBack {
  int placeholder = 0, output = 0;
};

struct ExecutableOptions {
  /// Passes left out, by name. ValueError when one is unknown or needed (`dyad passes` lists them).
  std::vector<std::string> passes_off = {};
  /// Allows the rewrites that `dyad/passes/fast_math.h` lists, which change bits.
  bool fast_math = false;
  /// With fast_math: images stay in blocks of channels between convolutions. Unless it says
  /// otherwise that is done where the CPU is faster so.
  std::optional<bool> channel_blocks = {};
  /// The first operator that makes a NaN or an infinity throws AnomalyError. With the passes
  /// "widen_calls", "join_epilogues", "fuse" and "fuse_rows" off, each operator has a kernel of its
  /// own; the kernels that write variables are not looked at.
  bool check_finite = false;
  /// What passes are told of memory: how much there may be, sizes to count with.
  passes::RecomputeOptions memory = {};
  /// Plans kept, one for each combination of sizes and strides met and each thread that runs at the
  /// time; the least recently used goes.
  std::size_t max_plans = 128;
  /// Runs of a plan after which its sizes get a version of their own: the graph with numbers for
  /// symbols goes through the passes once more. 8 combinations of sizes may have one. 0: none.
  std::int64_t hot_runs = 0;
  bool hot_in_background = false;  ///< otherwise the run waits for it
  /// Outputs that the caller copies to placeholders after the run, unless they lie there already:
  /// where nothing else lies there they do.
  std::vector<WrittenBack> written_back = {};
  /// Called with the graph as given (pass "input") and after each pass.
  std::function<void(std::string_view pass, const GraphImpl& graph)> dump = {};
};

/// What became of a graph.
struct ExecutableStats {
  int nodes = 0;  ///< operators in the graph as given: no placeholders, variables, constants
  int lowered_nodes = 0;  ///< the same after the passes
  int kernels = 0;        ///< launched by a run of the latest plan
  int views = 0;          ///< operators of the latest plan that only look at memory differently
  int plans = 0;          ///< made so far
  std::size_t arena_bytes = 0;              ///< memory for intermediate values, of the latest plan
  std::size_t live_peak = 0;                ///< least that any packing of them needs
  double lower_ms = 0;                      ///< time for passes
  double plan_ms = 0;                       ///< time for the latest plan, kernels included
  std::vector<std::string> hot_sizes = {};  ///< that have versions of their own: `s0 = 64`
  /// Why operators share a kernel or run together on a few rows, and why not; each once.
  std::vector<std::string> notes = {};
};

/// Adds it to what is told of a recording.
void add_to(ExplainedRecording& told, const ExecutableStats& stats);

/// Whether the kernel of a library operator succeeds whatever its values are.
[[nodiscard]] bool never_fails(const Node& node);

/// Runs one operator as eager mode does: what passes compute constants with.
[[nodiscard]] std::vector<Tensor> evaluate_node(const Node& node, std::span<const Tensor> inputs);
/// The same where its attributes have symbols.
[[nodiscard]] std::vector<Tensor> evaluate_node_at(const Node& node, std::span<const Tensor> inputs,
                                                   const SymbolMap& sizes);

/// How many nodes of a graph are operators: no placeholders, variables or constants.
[[nodiscard]] int count_operators(const GraphImpl& graph);

/// A graph made ready to run (in parts, where some sizes only data tell: up to the operator that
/// makes them, and behind it): lowered once, then planned for each combination of sizes (memory,
/// kernels) and run. Gives the bits that eager execution gives, unless fast_math is asked for.
class Executable {
 public:
  /// Lowers the graph; the graph itself stays as it is and must not change any more.
  explicit Executable(Ref<GraphImpl> graph, ExecutableOptions options = {});
  ~Executable();
  Executable(Executable&&) noexcept;
  Executable& operator=(Executable&&) noexcept;

  /// Runs the graph on the values of its placeholders, in their order, and gives its outputs, each
  /// in memory of its own. Variables are written at the end, after everything that can fail; after
  /// an exception none has changed. Errors carry `where` (the user's call) and the line that
  /// declared the node: ShapeError and DTypeError (a value that does not fit its placeholder),
  /// CancelledError, and what operators throw on data. Threads may run it at the same time, each
  /// with memory of its own; where variables are written they take turns.
  /// `given_away`: bit i lets outputs lie where placeholder i does, when nobody else has its memory
  /// and nothing can fail any more.
  std::vector<Tensor> run(std::span<const Tensor> placeholders, const CancelToken* cancel = nullptr,
                          Loc where = {}, std::uint64_t given_away = 0);

  /// The same for the graph inside a control node, under the symbols of the graph around it.
  /// `places` (none, or one for each output, undefined where it does not matter): row-major tensors
  /// in whose memory the outputs are made where that can be done; they lie elsewhere where not.
  /// `given_away`: as of `run`, of what nobody needs even if the graph fails; an output that is
  /// such a placeholder lies where it does.
  std::vector<Tensor> run_region(std::span<const Tensor> placeholders, const SymbolMap& outer,
                                 const CancelToken* cancel, Loc where,
                                 std::span<const Tensor> places = {}, std::uint64_t given_away = 0);

  /// Makes the plan for values like these, of which only types and strides are looked at, without
  /// running it; nothing where data decide on sizes. Gives what is known of a run's outputs:
  /// tensors of their types and strides, without memory.
  std::vector<Tensor> prepare(std::span<const Tensor> placeholders, Loc where = {});

  /// What a run on values like these needs; makes no kernels. Nothing where data decide on sizes.
  [[nodiscard]] std::optional<MemoryUse> memory(std::span<const Tensor> placeholders,
                                                Loc where = {}) const;

  [[nodiscard]] ExecutableStats stats() const;
  /// The steps of the latest plan, those inside of branches and loops after the step that runs
  /// them; with the times that a profile took of them.
  [[nodiscard]] std::vector<ExplainedKernel> kernels(const StepProfile* profile) const;
  /// Runs the passes once more and tells what each does: to the graph, which reports call `name`,
  /// or to its parts where data decide on sizes; then to the graphs inside of branches and loops.
  [[nodiscard]] std::vector<ExplainedPasses> explain_passes(const std::string& name) const;
  [[nodiscard]] const GraphImpl& graph() const noexcept;
  /// The graph after the passes.
  [[nodiscard]] const GraphImpl& lowered() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace dyad::exec
