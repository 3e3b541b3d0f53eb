#pragma once

#include <atomic>
#include <compare>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "dyad/autograd/backward.h"
#include "dyad/base/flat_map.h"
#include "dyad/exec/executable.h"
#include "dyad/exec/path.h"
#include "dyad/runtime/background.h"
#include "dyad/runtime/cancel.h"

namespace dyad::exec {

/// A value by its place in the recording: the same in all paths that share the node.
struct ValueId {
  int node = -1;
  int index = 0;
  [[nodiscard]] auto operator<=>(const ValueId&) const noexcept = default;
};
struct ValueIdHash {
  std::size_t operator()(const ValueId& id) const noexcept {
    return static_cast<std::size_t>(id.node) * 31 + static_cast<std::size_t>(id.index);
  }
};
[[nodiscard]] inline ValueId id_of(const Value& value) noexcept {
  return {value.node->id(), value.index};
}

/// The values of one replayed call so far.
using Environment = FlatMap<ValueId, Tensor>;

/// A stretch of a recording without host reads, compiled: it takes the arguments and values of
/// earlier stretches, and gives those that later ones, the decision at its end or the caller need.
class Segment {
 public:
  /// Nodes begin..end-1 of `path`. `writes`: tensors that it assigns when it runs.
  Segment(std::shared_ptr<const Path> path, int begin, int end, std::span<const Write> writes,
          ExecutableOptions options);

  /// `graph`, written again after that of `whole`, in its place: it takes `inputs` and gives
  /// `exposed`, each some of those that `whole` takes and gives.
  Segment(const Segment& whole, Ref<GraphImpl> graph, std::span<const ValueId> inputs,
          std::vector<ValueId> exposed);

  /// Asks for a value made here; compiles anew at the next run when it was not given before.
  void expose(ValueId value);
  /// What it takes from outside beside the arguments.
  [[nodiscard]] const std::vector<ValueId>& externals() const noexcept { return externals_; }
  /// What a value of the recording is in the graph; none where it is not there.
  [[nodiscard]] Value value_of(const Value& recorded) const;
  /// The arguments and those, as the graph's placeholders have them.
  [[nodiscard]] std::vector<ValueId> inputs() const;
  /// Whether it needs the elements of an input, or of the captured `tensor`.
  [[nodiscard]] bool looks_at(ValueId input, const Tensor& tensor) const;
  /// What it gives, as the graph's outputs have it.
  [[nodiscard]] const std::vector<ValueId>& exposed() const noexcept { return exposed_; }
  [[nodiscard]] bool makes(ValueId value) const noexcept {
    return value.node >= begin_ && value.node < end_;
  }

  /// Runs `compiled`, its executable(), on the arguments and the values in `env`, and adds what it
  /// gives, which may lie where the arguments do whose bits are set in `given_away`.
  void run(Executable& compiled, std::span<const Tensor> arguments, Environment& env,
           const CancelToken* cancel, std::uint64_t given_away = 0) const;
  /// Compiles now when needed.
  Executable& executable();

  /// The segment as it is now, for another thread to compile.
  struct Ahead {
    Ref<GraphImpl> graph;  ///< a copy; none when it is compiled already
    std::vector<ValueId> exposed;
    ExecutableOptions options;
  };
  /// `value`, which is exposed and wanted for nothing else, becomes that of an argument, or of
  /// another value from outside: it may be made where that lies.
  void write_back(ValueId target, ValueId value);
  [[nodiscard]] Ahead ahead() const;
  /// Compiles that, plans a run on values that lie as those in `layouts` do, and adds what is known
  /// of the values that it would give. The next run finds it, unless expose() has been called
  /// since.
  void compile(const Ahead& ahead, std::span<const Tensor> arguments, Environment& layouts);
  /// What it was compiled to; before its first run only the number of operators is known.
  [[nodiscard]] ExecutableStats stats() const;
  /// The steps that it was compiled to, if it has run; with the times that a profile took.
  [[nodiscard]] std::vector<ExplainedKernel> kernels(const StepProfile* profile) const;
  /// What the passes do to it, called `name` in reports. Compiles now when needed.
  [[nodiscard]] std::vector<ExplainedPasses> explain_passes(const std::string& name);
  /// The recorded graph of this stretch.
  [[nodiscard]] const GraphImpl& graph() const noexcept { return *graph_; }

 private:
  Value resolve(Value recorded);
  /// A value of an earlier stretch, given at each run.
  Value bring_in(Value recorded);
  /// With what is written back, by number.
  [[nodiscard]] ExecutableOptions options_now() const;
  /// Brings in what tells the sizes that only data of earlier stretches told.
  void bind_sizes(const Node& node);
  std::shared_ptr<const Path> path_;
  int begin_, end_;
  ExecutableOptions options_;
  Ref<GraphImpl> graph_;
  std::unordered_map<ValueId, Value, ValueIdHash> values_;
  std::vector<ValueId> externals_;
  std::vector<ValueId> exposed_;
  std::vector<std::pair<ValueId, ValueId>> written_back_;  ///< targets and values
  /// Compiled anew at the next run.
  void forget_executable() {
    executable_ = nullptr;
    ready_ = nullptr;
  }
  mutable std::mutex mutex_;  // of exposed_ and executable_, which the first run makes
  std::shared_ptr<Executable> executable_;
  std::atomic<Executable*> ready_ = nullptr;  // the same one: runs find it without the mutex
};

class PartialBackward;

/// All recorded ways through one function under the same assumptions: segments joined by the
/// numbers that the host read.
class DecisionTree {
 public:
  DecisionTree(const std::shared_ptr<const Path>& first, ExecutableOptions options);

  /// Adds another way; false when it is one already known.
  bool add(const std::shared_ptr<const Path>& path);

  /// What a replayed call gives.
  struct Outcome {
    std::exception_ptr error;  ///< of an operator; nothing has been written then
    int leaf = -1;  ///< -1: a host read took a value never seen, or it is not among those allowed;
                    ///< nothing has been written
    std::string unseen;  ///< that value
    Loc unseen_at;       ///< where it was read
    std::string seen;    ///< the values that it took before
    std::vector<Tensor> results;
    Environment env;
  };
  /// `allowed`: the leaves at which it may end; null for all. `given_away`: see CompiledCore::call.
  Outcome run(std::span<const Tensor> arguments, const CancelToken* cancel,
              const std::vector<std::size_t>* allowed = nullptr, std::uint64_t given_away = 0);

  /// Compiles the newest way in the background, for calls like the one that was recorded.
  void compile_ahead(std::span<const Tensor> arguments);
  /// The same at once, by this thread.
  void compile_now(std::span<const Tensor> arguments) const;
  /// Whether a call may run now: nothing is being compiled in the background. After a while it
  /// takes back what has not begun, and waits for the rest.
  [[nodiscard]] bool ready() const;
  /// Returns when nothing is being compiled in the background.
  void wait() const;

  /// A way through.
  struct Leaf {
    std::shared_ptr<const Path> path;
    std::shared_ptr<Segment> backward;         ///< null when the results cannot be differentiated
    std::shared_ptr<PartialBackward> partial;  ///< the same for passes through some results only
  };
  [[nodiscard]] const std::vector<Leaf>& leaves() const noexcept { return leaves_; }
  /// Every segment of the call itself, parents first.
  [[nodiscard]] std::vector<Segment*> segments() const;
  /// The most values that any one host read has taken, and its line.
  [[nodiscard]] std::size_t most_outcomes(Loc& loc) const;

  /// The gradients that `part`, compiled of a leaf's backward part, gives for the seeds: of its
  /// leaves, then of its arguments. `seeds` has an undefined tensor for a result that the pass does
  /// not come to. `sizes`: those of the call, which tell how many steps its loops took.
  static std::vector<autograd::GradientPart> backward(const Leaf& from, Segment& part,
                                                      std::span<const Tensor> arguments,
                                                      Environment env,
                                                      std::span<const Tensor> seeds,
                                                      const SymbolMap& sizes);

 private:
  struct WayAhead;
  struct Fork {
    std::shared_ptr<Segment> segment;
    std::shared_ptr<const Path> path;  ///< the first that came this way
    int decision = -1;                 ///< index in that path of the decision at its end, or -1
    int leaf = -1;
    std::map<std::int64_t, std::unique_ptr<Fork>> next;
  };
  std::unique_ptr<Fork> grow(const std::shared_ptr<const Path>& path, std::size_t decision,
                             std::vector<Fork*>& chain);
  void finish_leaf(const std::shared_ptr<const Path>& path, const std::vector<Fork*>& chain);
  static void need(const std::vector<Fork*>& chain, ValueId value);
  /// What compiling the newest way takes.
  [[nodiscard]] std::shared_ptr<WayAhead> way_ahead(std::span<const Tensor> arguments) const;
  /// Lets the last stretch of a way make what arguments and gradients become where these lie.
  static void write_back(const Path& path, Segment& last, const Segment* backward);
  /// Lets go of the gradients that the call replaces without a look at them, as its zero_grad does:
  /// otherwise a step would hold old and new ones.
  void forget_replaced_gradients() const;

  ExecutableOptions options_;  ///< of every segment
  std::unique_ptr<Fork> root_;
  std::vector<Leaf> leaves_;
  std::vector<Fork*> newest_;  ///< the forks on the way to the last leaf
  std::vector<std::unique_ptr<runtime::BackgroundTask>> tasks_;  ///< not all over yet
};

}  // namespace dyad::exec
