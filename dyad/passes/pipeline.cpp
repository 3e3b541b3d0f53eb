#include "dyad/passes/pipeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "dyad/base/error.h"
#include "dyad/passes/block_channels.h"
#include "dyad/passes/canonical.h"
#include "dyad/passes/cse.h"
#include "dyad/passes/dce.h"
#include "dyad/passes/expand_composites.h"
#include "dyad/passes/fast_math.h"
#include "dyad/passes/fold_norms.h"
#include "dyad/passes/fuse_rows.h"
#include "dyad/passes/hoist.h"
#include "dyad/passes/join_attention.h"
#include "dyad/passes/join_epilogues.h"
#include "dyad/passes/join_norms.h"
#include "dyad/passes/join_parts.h"
#include "dyad/passes/simplify_algebra.h"
#include "dyad/passes/simplify_views.h"
#include "dyad/passes/sink_assigns.h"
#include "dyad/passes/split_batch.h"

namespace dyad::passes {
namespace {

using enum PassUse;
using GraphRef = Ref<GraphImpl>;

/// Whether a pass has anything to look at.
bool has(const GraphImpl& graph, const std::function<bool(const Node&)>& of_interest) {
  return std::ranges::any_of(graph.nodes(), [&](const auto& node) { return of_interest(*node); });
}

/// With the sizes that bytes are counted with.
FuseOptions with_sizes(FuseOptions fusion, const LowerOptions& options) {
  fusion.sizes = options.memory.sizes;
  return fusion;
}

/// The compiler, in the order in which it works.
std::vector<Pass> built_in() {
  return {
      // A form that the other passes may rely on.
      {"sink_assigns", "writes of variables come last", required,
       [](const GraphRef& g, const LowerOptions&) { return sink_assigns(*g); }},
      {"fold_norms", "norms and factors behind convolutions and products go into their constants",
       on_request, [](const GraphRef& g, const LowerOptions&) { return fold_norms(*g); }},
      {"expand_composites", "composite operators become the operators that they are made of",
       required,
       [](const GraphRef& g, const LowerOptions&) {
         return has(*g, [](const Node& node) { return node.op().kind == BodyKind::composite; })
                    ? expand_composites(*g)
                    : g;
       }},
      {"canonical", "equal calls are written equally", optional,
       [](const GraphRef& g, const LowerOptions&) { return canonical(*g); }},

      // Less to do, with the same bits.
      {"fold_constants", "what constants alone decide is computed now", optional,
       [](const GraphRef& g, const LowerOptions& options) {
         return options.evaluate ? fold_constants(*g, options.evaluate) : g;
       }},
      {"simplify_views", "views and copies that change nothing go, pairs become one", optional,
       [](const GraphRef& g, const LowerOptions&) { return simplify_views(*g); }},
      {"simplify_algebra", "arithmetic that changes no bit goes", optional,
       [](const GraphRef& g, const LowerOptions&) { return simplify_algebra(*g); }},
      {"hoist", "what is the same in every step of a loop runs before it", optional,
       [](const GraphRef& g, const LowerOptions& options) {
         return has(*g, [](const Node& node) { return node.op().kind == BodyKind::control; })
                    ? hoist(*g, options.cannot_fail)
                    : g;
       }},
      {"join_parts", "gradients of parts that fill a tensor are put side by side, not added",
       optional,
       [](const GraphRef& g, const LowerOptions&) {
         return has(*g, [](const Node& node) { return node.is("pad"); }) ? join_parts(*g) : g;
       }},

      // With other bits, for those who allow it.
      {"fast_math", "x + 0, division by numbers, numbers one after the other", on_request,
       [](const GraphRef& g, const LowerOptions&) { return fast_math(*g); }},
      {"join_norms", "softmaxes and norms that are written out become one call", on_request,
       [](const GraphRef& g, const LowerOptions&) {
         const auto may_be_part = [](const Node& node) {
           return node.is("sum") || node.is("mean") || node.is("softmax");
         };
         if (!has(*g, may_be_part)) return g;
         dce(*g);  // what other passes have left behind would count as readers
         return join_norms(*g);
       }},
      {"join_attention", "attention that is written out becomes one call, by tiles", on_request,
       [](const GraphRef& g, const LowerOptions&) { return join_attention(*g); }},

      // What is left over.
      {"cse", "equal operators on equal inputs become one", optional,
       [](const GraphRef& g, const LowerOptions&) {
         cse(*g);
         return g;
       }},
      {"dce", "what neither a result nor an effect needs goes", optional,
       [](const GraphRef& g, const LowerOptions&) {
         dce(*g);
         return g;
       }},

      // Memory.
      {"split_batch", "a batch too large for caches runs in parts", on_request,
       [](const GraphRef& g, const LowerOptions&) { return split_batch(*g); }},

      // Kernels.
      {"join_epilogues", "what follows a library call element by element is done in it", optional,
       [](const GraphRef& g, const LowerOptions& options) {
         return join_epilogues(*g, options.fast_math);
       }},
      {"block_channels", "images stay in blocks of channels between convolutions", on_request,
       [](const GraphRef& g, const LowerOptions& options) {
         return options.channel_blocks ? block_channels(*g, options.memory.sizes) : g;
       }},
      {"fuse", "pointwise operators and reductions that they feed share a kernel", optional,
       [](const GraphRef& g, const LowerOptions& options) {
         return fuse(*g, with_sizes(options.fusion, options));
       }},
      {"widen_calls", "calls in dtypes that the CPU's library lacks are casts and one in f32",
       optional,
       [](const GraphRef& g, const LowerOptions& options) {
         const auto is_to_widen = [&](const Node& node) {
           return is_call_to_widen(node, options.library);
         };
         return has(*g, is_to_widen) ? widen_calls(*g, options.library) : g;
       }},
      {"recompute", "values kept for long that kept ones give are computed again", optional,
       [](const GraphRef& g, const LowerOptions& options) { return recompute(g, options.memory); }},
      {"fuse_rows", "kernels on the same rows run a few rows at a time", optional,
       [](const GraphRef& g, const LowerOptions& options) {
         return fuse_rows(*g, with_sizes(options.rows, options));
       }},
  };
}

struct Pipeline {
  std::mutex mutex;
  std::vector<Pass> passes = built_in();
};

Pipeline& the_pipeline() {
  static Pipeline pipeline;
  return pipeline;
}

std::string names_of(const std::vector<Pass>& passes, bool may_be_off) {
  std::string names;
  for (const Pass& pass : passes) {
    if (may_be_off && pass.use == required) continue;
    names += (names.empty() ? "" : ", ") + pass.name;
  }
  return names;
}

}  // namespace

std::vector<Pass> pipeline() {
  Pipeline& pipeline = the_pipeline();
  const std::scoped_lock lock(pipeline.mutex);
  return pipeline.passes;
}

Pass find_pass(std::string_view name) {
  std::vector<Pass> passes = pipeline();
  const auto found = std::ranges::find(passes, name, &Pass::name);
  if (found == passes.end()) {
    throw ValueError(
        fmt::format("there is no pass '{}'; there are {}", name, names_of(passes, false)));
  }
  return std::move(*found);
}

void check_passes_off(std::span<const std::string> names, Loc loc) {
  if (names.empty()) return;
  const std::vector<Pass> passes = pipeline();
  for (const std::string& name : names) {
    const auto found = std::ranges::find(passes, name, &Pass::name);
    if (found != passes.end() && found->use != required) continue;
    throw ValueError(fmt::format("passes_off: {} '{}'{}; those that can be switched off are {}",
                                 found == passes.end() ? "there is no pass" : "the pass", name,
                                 found == passes.end() ? "" : " is needed", names_of(passes, true)),
                     loc);
  }
}

RegisteredPass::RegisteredPass(Pass pass, std::string_view before) : name_(pass.name) {
  Pipeline& pipeline = the_pipeline();
  const std::scoped_lock lock(pipeline.mutex);
  std::vector<Pass>& passes = pipeline.passes;
  if (std::ranges::find(passes, name_, &Pass::name) != passes.end()) {
    throw ValueError(fmt::format("there is a pass '{}' already", name_));
  }
  const auto at = before.empty() ? passes.end() : std::ranges::find(passes, before, &Pass::name);
  if (!before.empty() && at == passes.end()) {
    throw ValueError(fmt::format("pass '{}' is to run before '{}', which is none of {}", name_,
                                 before, names_of(passes, false)));
  }
  passes.insert(at, std::move(pass));
}

RegisteredPass::~RegisteredPass() {
  Pipeline& pipeline = the_pipeline();
  const std::scoped_lock lock(pipeline.mutex);
  std::erase_if(pipeline.passes, [&](const Pass& pass) { return pass.name == name_; });
}

}  // namespace dyad::passes
