#pragma once

#include <any>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "dyad/base/error.h"
#include "dyad/core/tensor.h"
#include "dyad/exec/explain.h"
#include "dyad/exec/flatten.h"
#include "dyad/exec/pack.h"

namespace dyad {

/// What a compiled function does with a call that fits nothing recorded before: arguments of other
/// types or sizes, a guard that fails, a value read by the host that is new.
enum class OnRecompile : std::uint8_t {
  compile,      ///< records it, too
  run_eagerly,  ///< runs it eagerly, and tells so in explain()
  fail,         ///< throws RecompileError
};

/// A call would have needed another recording, and OnRecompile::fail forbids that. The text tells
/// the argument, guard or host read, its old and new value, and the line.
class RecompileError : public Error {
  using Error::Error;
};

/// When what was recorded is compiled.
enum class Background : std::uint8_t {
  automatic,  ///< always where the process may use more than two cores, otherwise never; the
              ///< variable DYAD_BACKGROUND of the environment says 1 (always) or 0 (never) instead.
              ///< Never with OnRecompile::fail, which calls that run eagerly would escape
  always,     ///< at once, by another thread at idle priority; calls until then run eagerly
  never,      ///< by the second call before it does anything else; ways that are recorded later by
              ///< the next call that can use them
};

/// An axis of one of the tensors among the arguments of a compiled function, which are counted from
/// 0 in their order; a negative axis counts from the last one.
struct ArgumentAxis {
  int argument = 0, axis = 0;
};

/// An axis, counted as ArgumentAxis has it, whose size varies from `min` to `max`.
struct VaryingAxis {
  int argument = 0, axis = 0;
  std::int64_t min = 0, max = kAnySize;
};

/// Sizes up to which an axis of an argument is padded, the smallest first.
struct Buckets {
  ArgumentAxis axis;
  std::vector<std::int64_t> sizes;
};

/// How `compile` treats a function. Numbers below the least that they may be are a ValueError.
struct CompileOptions {
  bool dynamic_sizes =
      true;  ///< a size that varies becomes a symbol, so that one recording serves all its values
  /// Axes whose sizes are symbols from the first call on at which they are 2 or more: with them
  /// other policies than OnRecompile::compile let sizes vary, too. Equal ones of one range are one
  /// symbol. What a range decides, as one up to 512 does `x.size(0) <= 512`, is no guard. A call
  /// that has no such argument or axis, or a size out of its range, throws a ValueError.
  std::vector<VaryingAxis> varying = {};
  /// Pads arguments along these axes, which vary, to the next size given, computes on the padded
  /// ones and cuts the results, so that there are no more plans and library kernels than buckets:
  /// for sizes that seldom come again. What would mix elements with padding (sums, products,
  /// softmax) has it masked; operators of which that is not known run at the exact sizes
  /// (explain() names them). Sums along a padded axis may differ in their last bits, and random
  /// numbers are those of the padded size. Sizes beyond the last bucket, and functions that write
  /// a padded argument or return a view of one, run unpadded. Axes that are equally long at the
  /// first call are one size, of which one may be named.
  std::vector<Buckets> buckets = {};
  bool recheck = true;  ///< record again at the second call and at powers of two, and compare: host
                        ///< state that changed is an error, and what was recorded is forgotten
  OnRecompile on_recompile = OnRecompile::compile;  ///< from the second call on
  int max_outcomes = 16;  ///< values that one host read may take before the function runs eagerly,
                          ///< from 1 on
  int max_recordings = 32;  ///< recordings before the function runs eagerly, from 1 on
  int threads = 0;          ///< of its kernels: 0 for as many as set_num_threads() says
  /// Calls that find compilation under way run eagerly: with the same bits, and with what else the
  /// function does on the host. After a second they wait. What the compiler throws, the next call
  /// throws.
  Background background = Background::automatic;
  /// Replayed calls with the same sizes after which these, where they are symbols, get a version of
  /// their own: the passes see numbers, so that what they decide by sizes (what to compute again
  /// under `memory_limit`, the layouts of images, parts of a batch) suits these and not only those
  /// of the first call. At most 8 combinations of sizes get one, made where and when `background`
  /// says. Results have the same bits. 0: never.
  int hot_calls = 64;
  /// Bytes that the intermediate values of a run should take at most; 0: no limit. Values kept for
  /// the gradient that cheap pointwise operators give from others kept anyway are always computed
  /// again; over the limit all pointwise ones are, and then whole segments of the forward part,
  /// products and convolutions too, each once. Where that is not enough the run takes more;
  /// explain() tells how much. Results have the same bits.
  std::int64_t memory_limit = 0;
  std::string name = "function";  ///< in reports
  /// Passes of the compiler that are left out, by name: to find out what one of them does. The
  /// results are the same. ValueError when one is unknown or needed; `dyad passes` lists them.
  std::vector<std::string> passes_off = {};
  /// Allows what changes bits, and no more than dyad/passes/fast_math.h lists: arithmetic with
  /// numbers is shortened; convolutions take in norms, sums and activations behind them, products
  /// with constants sums and activations, so that NaN may become a number; softmaxes and norms that
  /// are written out are one call; attention that is written out is computed by tiles; images stay
  /// in blocks of channels, large batches run in parts.
  bool fast_math = false;
};

namespace exec {

class StepProfile;
struct ExecutableOptions;

/// What these say of how recordings run.
[[nodiscard]] ExecutableOptions executable_options(const CompileOptions& options);

/// The parts of a function's result: tensors that are defined, and the whole with others in their
/// places.
struct FlatResult {
  std::vector<Tensor> tensors;
  std::any skeleton;
};

struct Recording;

/// What `compile` keeps for a function: its recordings. Threads replay them at the same time; while
/// one records, the others wait.
class CompiledCore {
 public:
  CompiledCore(CompileOptions options, Loc loc);
  /// Recordings without their function, as a file holds them: no others are made. A call that none
  /// of them serves, or whose host reads take values that none has seen, is a GraphError that says
  /// why, and nothing is written.
  CompiledCore(CompileOptions options, Loc loc, std::vector<std::unique_ptr<Recording>> recordings);
  ~CompiledCore();

  using Body = std::function<FlatResult(std::span<const Tensor> arguments)>;
  /// Tells what the parts of the call are called.
  using NamesOf = std::function<pack::Names()>;
  /// Calls the function: `arguments` are the tensors among its arguments, `numbers` everything else
  /// that shapes the call. `given_away`: bit i lets results lie where argument i does, which nobody
  /// needs any more.
  FlatResult call(std::span<const Tensor> arguments, std::span<const std::int64_t> numbers,
                  const Body& body, const NamesOf& names = {}, std::uint64_t given_away = 0);

  [[nodiscard]] Explanation explain(const StepProfile* profile) const;
  [[nodiscard]] std::vector<CompiledGraph> graphs() const;
  [[nodiscard]] std::vector<ExplainedPasses> explain_passes() const;
  [[nodiscard]] const CompileOptions& options() const noexcept;
  /// For saving: while it is held no call of another thread is inside of a recording that writes
  /// what other calls see. GraphError inside of the function while it is recorded.
  [[nodiscard]] std::unique_lock<std::recursive_mutex> between_calls() const;
  /// Shows every recording, the first first, and calls `then`, until when all of them are there.
  /// Between calls.
  void visit(const std::function<void(const Recording&)>& see,
             const std::function<void()>& then = {}) const;
  void cancel() noexcept;
  void reset();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Whether one of the parameters keeps the type of the number that is given for it.
template <class Function>
inline constexpr bool kKeepsTypes = true;  // of several signatures
template <class R, class... A>
inline constexpr bool kKeepsTypes<R(A...)> =
    ((std::same_as<std::remove_cvref_t<A>, Arg> || std::same_as<std::remove_cvref_t<A>, Number>) ||
     ...);
template <class R, class... A>
inline constexpr bool kKeepsTypes<R (*)(A...)> = kKeepsTypes<R(A...)>;
template <class R, class... A>
inline constexpr bool kKeepsTypes<R (*)(A...) noexcept> = kKeepsTypes<R(A...)>;
template <class R, class F, class... A>
inline constexpr bool kKeepsTypes<R (F::*)(A...)> = kKeepsTypes<R(A...)>;
template <class R, class F, class... A>
inline constexpr bool kKeepsTypes<R (F::*)(A...) const> = kKeepsTypes<R(A...)>;
template <class R, class F, class... A>
inline constexpr bool kKeepsTypes<R (F::*)(A...) noexcept> = kKeepsTypes<R(A...)>;
template <class R, class F, class... A>
inline constexpr bool kKeepsTypes<R (F::*)(A...) const noexcept> = kKeepsTypes<R(A...)>;

/// Whether calls with arguments of other C++ types may do something else: of functions with `auto`
/// parameters, several signatures, or parameters that take any number (Arg, Number).
template <class F>
consteval bool takes_any_type() {
  if constexpr (requires { &F::operator(); }) {
    return kKeepsTypes<decltype(&F::operator())>;
  } else {
    return kKeepsTypes<F>;
  }
}

/// Calls a compiled function with `given`. What is done here depends on the types of its arguments
/// and result alone, so that programs hold it once for all functions of these: only `apply`, which
/// calls the one at `function`, is made for each. `by_types`: the function may do something
/// else with other C++ types, which tell its calls apart.
template <class Result, class Given>
Result call_packed(CompiledCore& core, Given& given, bool by_types, void* function,
                   Result (*apply)(void* function, Given& now)) {
  static_assert(!std::is_reference_v<Result>, "a compiled function returns by value");
  pack::Parts parts = pack::take_parts(given);
  if (by_types) parts.numbers.insert(0, pack::bits_of_type<Given>());
  const std::uint64_t free = pack::given_away(parts.tensors);
  const auto names = [&given, by_types] {
    pack::Names all = pack::names_of(given);
    if (by_types) all.numbers.insert(all.numbers.begin(), {{}, pack::NumberKind::types});
    return all;
  };
  if constexpr (std::is_void_v<Result>) {
    const auto body = [&](std::span<const Tensor> arguments) {
      pack::replace_defined(given, arguments);
      apply(function, given);
      return FlatResult{};
    };
    core.call(parts.tensors, parts.numbers, std::ref(body), names, free);
  } else {
    static_assert(!pack::holds_number<Result>(),
                  "a compiled function returns tensors: a number read on the host would not "
                  "change from call to call");
    std::optional<Result> fresh;
    const auto body = [&](std::span<const Tensor> arguments) {
      pack::replace_defined(given, arguments);
      fresh.emplace(apply(function, given));
      Result skeleton = *fresh;
      const Tensor defined = pack::any_tensor();
      pack::for_each_tensor(skeleton, [&](Tensor& tensor) {
        if (tensor.defined()) tensor = defined;
      });
      return FlatResult{pack::defined_tensors(*fresh), std::move(skeleton)};
    };
    const FlatResult flat = core.call(parts.tensors, parts.numbers, std::ref(body), names, free);
    if (fresh) return *std::move(fresh);
    auto result = std::any_cast<Result>(flat.skeleton);
    pack::replace_defined(result, flat.tensors);
    return result;
  }
}

}  // namespace exec

/// A function that is recorded when first called and then runs as a compiled graph; copies share
/// their recordings.
template <class F>
class CompiledFunction {
 public:
  CompiledFunction(F function, CompileOptions options, Loc loc)
      : function_(std::make_shared<F>(std::move(function))),
        core_(std::make_shared<exec::CompiledCore>(std::move(options), loc)) {}

  /// Calls the function with tensors, numbers, sizes, texts, and vectors, tuples, optionals, maps
  /// by name or aggregates of them. A tensor that is moved here (`state = step(std::move(state),
  /// x)`), and whose memory nobody else has, is given away: a result of its type may be computed
  /// where it lies.
  template <class... Args>
    requires std::invocable<F&, std::decay_t<Args>&...>
  auto operator()(Args&&... args) const {
    using Given = std::tuple<std::decay_t<Args>...>;
    using Result = std::invoke_result_t<F&, std::decay_t<Args>&...>;
    Given given(std::forward<Args>(args)...);
    return exec::call_packed<Result, Given>(*core_, given, exec::takes_any_type<F>(),
                                            static_cast<void*>(function_.get()),
                                            [](void* function, Given& now) -> Result {
                                              return std::apply(*static_cast<F*>(function), now);
                                            });
  }

  /// What was recorded, why, and what it was compiled to; with the times of its kernels while
  /// `profile` lived, if there is one (dyad/exec/step_profile.h).
  [[nodiscard]] Explanation explain(const exec::StepProfile* profile = nullptr) const {
    return core_->explain(profile);
  }
  /// The recorded graphs and what became of them, to print or to draw: those of the first recording
  /// first, each from its start to its ends.
  [[nodiscard]] std::vector<CompiledGraph> graphs() const { return core_->graphs(); }
  /// What each pass of the compiler does to each of these graphs: runs the passes once more. Then
  /// the graphs inside of their branches and loops, and the backward parts that have run.
  [[nodiscard]] std::vector<ExplainedPasses> explain_passes() const {
    return core_->explain_passes();
  }
  /// Stops the calls in progress, from any thread: they throw CancelledError between two operators.
  /// Calls that are replayed write nothing then; those that run eagerly, to be recorded or checked
  /// too, leave what they wrote before, as eager code does.
  void cancel() const noexcept { core_->cancel(); }
  /// Forgets all recordings.
  void reset() const { core_->reset(); }
  /// What keeps the recordings.
  [[nodiscard]] const exec::CompiledCore& core() const noexcept { return *core_; }

 private:
  std::shared_ptr<F> function_;
  std::shared_ptr<exec::CompiledCore> core_;
};

/// A function that behaves as `function` does, bit for bit, and is fast once it is compiled, for
/// the second call or the one after it (see CompileOptions::recheck): forward, backward and the
/// update of parameters become one optimised graph. Tensors that it uses from outside are read, and
/// written, where they are. What the host computes besides is part of the recording; see
/// docs/compile.md.
template <class F>
[[nodiscard]] CompiledFunction<std::decay_t<F>> compile(F&& function, CompileOptions options = {},
                                                        Loc loc = std::source_location::current()) {
  return CompiledFunction<std::decay_t<F>>(std::forward<F>(function), std::move(options), loc);
}

}  // namespace dyad
