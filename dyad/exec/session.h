#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dyad/exec/explain.h"
#include "dyad/exec/graph.h"
#include "dyad/exec/memory_use.h"

namespace dyad::exec {
class StepProfile;
}

namespace dyad {

/// A value for a placeholder, named or given by its tensor. A host number takes the placeholder's
/// dtype.
struct Feed {
  Feed(std::string name, const Arg& value) : name(std::move(name)), value(value.tensor()) {}
  Feed(const char* name, const Arg& value) : Feed(std::string(name), value) {}
  Feed(Tensor placeholder, const Arg& value)
      : placeholder(std::move(placeholder)), value(value.tensor()) {}

  std::string name;
  Tensor placeholder;
  Tensor value;
};

struct VerifyReport;

/// How a session runs its graph.
struct SessionOptions {
  /// Allows what changes bits, and no more than dyad/passes/fast_math.h lists: arithmetic with
  /// numbers is shortened; convolutions take in norms, sums and activations behind them, products
  /// with constants sums and activations, so that NaN may become a number; softmaxes and norms that
  /// are written out are one call; attention that is written out is computed by tiles; images stay
  /// in blocks of channels, large batches run in parts. Without effect under DetectAnomaly.
  bool fast_math = false;
  int threads = 0;  ///< of its kernels: 0 for as many as set_num_threads() says
  /// Bytes that the intermediate values of a run may take (0: no limit), as that of CompileOptions:
  /// where they take more at the sizes of a first run, more of them are computed again.
  std::size_t memory_limit = 0;
};

/// Runs a graph: feeds in, fetches out. Compiles what a set of fetches needs at its first use and
/// keeps it. Threads may run one session at the same time; runs that write variables take turns.
class Session {
 public:
  explicit Session(Graph graph, SessionOptions options = {});
  ~Session();
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;

  /// The values of `fetches`, in order, each in memory of its own. Only what they need runs; a
  /// variable is written when the result of its `assign` is fetched (or needed). Throws GraphError
  /// (a feed that is missing, unknown or given twice; a fetch of another graph), DTypeError and
  /// ShapeError (a feed that does not fit its placeholder, naming both types), CancelledError,
  /// AnomalyError (under DetectAnomaly) and what operators throw on data; after an exception no
  /// variable has changed.
  std::vector<Tensor> run(const std::vector<Tensor>& fetches, const std::vector<Feed>& feeds = {},
                          Loc loc = std::source_location::current());

  /// Compiles what a run with these feeds needs, without running it; nothing where data
  /// decide on sizes. Errors as of run().
  void prepare(const std::vector<Tensor>& fetches, const std::vector<Feed>& feeds = {},
               Loc loc = std::source_location::current());

  /// The memory that a run with these feeds needs; compiles nothing. Nothing where data decide on
  /// sizes. Errors as of run().
  [[nodiscard]] std::optional<exec::MemoryUse> memory(const std::vector<Tensor>& fetches,
                                                      const std::vector<Feed>& feeds = {},
                                                      Loc loc = std::source_location::current());

  /// Stops the runs in progress, from another thread: they throw CancelledError. No effect
  /// otherwise.
  void cancel() const noexcept;

  /// Computes what a run with these feeds would fetch operator by operator, and as it is compiled,
  /// and compares all bits; names the first operator that differs and the pass that makes it, as
  /// verify() does of functions (dyad/exec/verify.h). Writes no variable and draws no numbers.
  /// Errors as of run().
  [[nodiscard]] VerifyReport verify(const std::vector<Tensor>& fetches,
                                    const std::vector<Feed>& feeds = {},
                                    Loc loc = std::source_location::current());

  /// What was compiled so far, a recording for each set of fetches: operators, kernels, memory;
  /// with the times of its kernels while `profile` lived, if there is one
  /// (dyad/exec/step_profile.h).
  [[nodiscard]] Explanation explain(const exec::StepProfile* profile = nullptr) const;
  /// What each pass of the compiler does to what a run with these fetches needs: runs the passes
  /// once more. GraphError: a fetch of another graph.
  [[nodiscard]] std::vector<ExplainedPasses> explain_passes(
      const std::vector<Tensor>& fetches, Loc loc = std::source_location::current());

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace dyad
