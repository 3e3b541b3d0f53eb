#include "dyad/passes/lower.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "dyad/passes/dump_passes.h"

namespace dyad::passes {

std::vector<Pass> passes_for(const LowerOptions& options) {
  check_passes_off(options.off);
  std::vector<Pass> passes = pipeline();
  std::erase_if(passes, [&](const Pass& pass) {
    return (pass.use == PassUse::on_request && !options.fast_math) ||
           std::ranges::find(options.off, pass.name) != options.off.end();
  });
  return passes;
}

Ref<GraphImpl> run_passes(Ref<GraphImpl> graph, std::span<const Pass> passes,
                          const LowerOptions& options) {
  if (options.dump) options.dump("input", *graph);
  for (const Pass& pass : passes) {
    graph = pass.run(graph, options);
    if (options.dump) options.dump(pass.name, *graph);
  }
  return graph;
}

Ref<GraphImpl> lower(const GraphImpl& graph, const LowerOptions& options) {
  const std::vector<Pass> passes = passes_for(options);
  PassDump asked_for;
  LowerOptions watched = options;
  watched.dump = [&](std::string_view pass, const GraphImpl& now) {
    if (options.dump) options.dump(pass, now);
    asked_for(pass, now);
  };
  return run_passes(clone(graph), passes, watched);
}

}  // namespace dyad::passes
