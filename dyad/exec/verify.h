#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "dyad/core/tensor.h"
#include "dyad/exec/compile.h"
#include "dyad/exec/pack.h"

namespace dyad {

/// The first operator of a function whose compiled result has other bits than the eager one.
struct VerifyDifference {
  std::string op;               ///< `exp`
  std::string type;             ///< of its result: `f32[32, 10]`
  Loc loc;                      ///< the line that called it
  std::int64_t element = 0;     ///< the first that differs, row-major
  std::string eager, compiled;  ///< that element
  /// The loops and branches that it is in, the outermost first: `step 2 of the scan at rnn.cpp:12`,
  /// counted from 0 in the order in which they run.
  std::vector<std::string> inside = {};
  std::optional<std::string> pass;  ///< which made it differ; none where the kernels do
};

/// What verify() found.
struct VerifyReport {
  int operators = 0;    ///< of the recorded call
  int values = 0;       ///< compared: results, writes, gradients
  std::string refusal;  ///< why the function cannot be compiled; then nothing was compared
  std::optional<VerifyDifference> difference = {};

  [[nodiscard]] bool same() const noexcept { return refusal.empty() && !difference; }
};

/// A sentence to read.
[[nodiscard]] std::string to_string(const VerifyReport& report);

namespace exec {
using VerifyBody = std::function<std::vector<Tensor>(std::span<const Tensor> arguments)>;
[[nodiscard]] VerifyReport verify_call(std::span<const Tensor> arguments, const VerifyBody& body,
                                       const CompileOptions& options, Loc loc);
}  // namespace exec

/// Calls `function` once, eagerly, on `inputs` (its only argument, or a tuple of arguments: what a
/// compiled function takes), then computes what it did again, operator by operator and compiled,
/// and compares all that the call leaves: results, writes, gradients, and those that its results
/// would give. Both begin with the numbers that the call found in what it wrote. Two NaN are equal.
/// InternalError where what the call itself left differs from what its operators give again. Of a
/// compiled function it is compiled as that is: with its `passes_off`, `fast_math`, `memory_limit`
/// and `threads`. At the sizes of the inputs, without `buckets`. (Under `fast_math` bits may
/// differ, and the report tells by which pass.)
///
/// Of a difference it names the first operator, inside of loops and branches too, and the pass that
/// makes it, by bisecting: the passes that may be off are on up to one of them, in their order.
/// Where it differs with all of these off, the graphs after each of the others are computed
/// operator by operator; if they all give what they should, it is the kernels that run.
template <class F, class Inputs>
[[nodiscard]] VerifyReport verify(F&& function, const Inputs& inputs,
                                  Loc loc = std::source_location::current()) {
  Inputs given = inputs;
  CompileOptions options;
  if constexpr (requires { function.core().options(); }) options = function.core().options();
  return exec::verify_call(
      exec::pack::defined_tensors(given),
      [&](std::span<const Tensor> arguments) {
        exec::pack::replace_defined(given, arguments);
        const auto call = [&] {
          if constexpr (exec::pack::TupleLike<Inputs>) {
            return std::apply(function, given);
          } else {
            return function(given);
          }
        };
        if constexpr (std::is_void_v<decltype(call())>) {
          call();
          return std::vector<Tensor>();
        } else {
          auto result = call();
          return exec::pack::defined_tensors(result);
        }
      },
      options, loc);
}

}  // namespace dyad
