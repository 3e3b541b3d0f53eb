#include "dyad/passes/lower.h"

#include <algorithm>
#include <string_view>

#include "dyad/passes/dump_passes.h"

namespace dyad::passes {

Ref<GraphImpl> lower(const GraphImpl& graph, const LowerOptions& options) {
  check_passes_off(options.off);
  PassDump asked_for;
  const auto dump = [&](std::string_view pass, const GraphImpl& now) {
    if (options.dump) options.dump(pass, now);
    asked_for(pass, now);
  };
  dump("input", graph);
  Ref<GraphImpl> lowered = clone(graph);
  for (const Pass& pass : pipeline()) {
    if (pass.use == PassUse::on_request && !options.fast_math) continue;
    if (std::ranges::find(options.off, pass.name) != options.off.end()) continue;
    lowered = pass.run(lowered, options);
    dump(pass.name, *lowered);
  }
  return lowered;
}

}  // namespace dyad::passes
