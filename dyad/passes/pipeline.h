#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dyad/base/loc.h"
#include "dyad/ir/graph.h"
#include "dyad/passes/fold_constants.h"
#include "dyad/passes/fuse.h"
#include "dyad/passes/recompute.h"
#include "dyad/passes/widen_calls.h"

namespace dyad::passes {

/// What passes are told beside the graph.
struct LowerOptions {
  /// Computes constant nodes; without it nothing is folded.
  ConstantEvaluator evaluate = {};
  /// Whether a library operator succeeds whatever its values; without it none does for sure.
  std::function<bool(const Node&)> cannot_fail = {};
  FuseOptions fusion = {};
  FuseOptions rows = {.max_operands = 48, .max_nodes = 64};  ///< of kernels on the same rows
  RecomputeOptions memory = {};
  /// Passes left out, by name; see check_passes_off().
  std::vector<std::string> off = {};
  /// Allows the rewrites that fast_math.h lists, which change bits.
  bool fast_math = false;
  /// Convolutions are faster with channels in blocks of eight: see block_channels.h. With fast_math
  /// alone.
  bool channel_blocks = false;
  LibraryDTypes library = {};  ///< of this CPU
  /// Called with the graph as given (pass "input") and after each pass.
  std::function<void(std::string_view pass, const GraphImpl& graph)> dump = {};
};

/// When lower() runs a pass.
enum class PassUse : std::uint8_t {
  required,    ///< always: what comes after relies on the form that it makes
  optional,    ///< unless it is switched off
  on_request,  ///< with LowerOptions::fast_math, unless it is switched off: it changes bits
};

/// One step on the way from a graph as recorded to a graph that runs.
struct Pass {
  std::string name;
  std::string summary;  ///< one line for `dyad passes`
  PassUse use = PassUse::optional;
  /// The graph after it: the given one changed in place, or another.
  std::function<Ref<GraphImpl>(const Ref<GraphImpl>& graph, const LowerOptions& options)> run;
};

/// Every pass in the order in which lower() runs them, registered ones in their places.
[[nodiscard]] std::vector<Pass> pipeline();

/// The pass of that name. ValueError, with the names that there are, when there is none.
[[nodiscard]] Pass find_pass(std::string_view name);

/// ValueError with the names that may be switched off, unless each of `names` is one.
void check_passes_off(std::span<const std::string> names, Loc loc = {});

/// A pass of the program's own: part of pipeline() while this object lives.
class RegisteredPass {
 public:
  /// Puts the pass before the one called `before`, or last. ValueError when the name is taken or
  /// nothing is called `before`.
  explicit RegisteredPass(Pass pass, std::string_view before = {});
  ~RegisteredPass();
  RegisteredPass(const RegisteredPass&) = delete;
  RegisteredPass& operator=(const RegisteredPass&) = delete;

 private:
  std::string name_;
};

}  // namespace dyad::passes
