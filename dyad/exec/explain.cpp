#include "dyad/exec/explain.h"

#include <fmt/format.h>

namespace dyad {

std::string to_string(const Explanation& e) {
  std::string text = fmt::format(
      "compiled function '{}' ({}): {} calls, {} compiled, {} recorded ({} to check), {} eager\n",
      e.name, to_string(e.loc), e.calls, e.replays, e.recorded, e.rechecks, e.eager);
  for (std::size_t i = 0; i < e.recordings.size(); ++i) {
    const ExplainedRecording& r = e.recordings[i];
    text += fmt::format("  recording {}: {}{}\n", i + 1, r.reason,
                        r.loc ? " at " + to_string(r.loc) : "");
    text += fmt::format("    arguments: {}\n", fmt::join(r.arguments, ", "));
    for (const std::string& guard : r.guards) text += fmt::format("    holds while {}\n", guard);
    for (const ExplainedDecision& d : r.decisions) {
      text += fmt::format("    the host reads a number at {}: so far {}\n", to_string(d.loc),
                          fmt::join(d.outcomes, ", "));
    }
    if (!r.refusal.empty()) {
      text += fmt::format("    runs eagerly: {}\n", r.refusal);
    } else {
      text += fmt::format("    {} {} -> {} kernels in {} way{}, compiled in {:.1f} ms\n", r.nodes,
                          r.nodes == 1 ? "operator" : "operators", r.kernels, r.ways,
                          r.ways == 1 ? "" : "s", r.compile_ms);
    }
  }
  return text;
}

}  // namespace dyad
