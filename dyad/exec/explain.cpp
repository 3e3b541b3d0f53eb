#include "dyad/exec/explain.h"

#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace dyad {
namespace {

/// Each note once, where it is first, and how often there is one: a loop of the host has the same
/// notes for each of its steps.
std::vector<std::pair<std::string_view, int>> counted(const std::vector<std::string>& notes) {
  std::vector<std::pair<std::string_view, int>> found;
  std::unordered_map<std::string_view, std::size_t> places;
  for (const std::string& note : notes) {
    const auto [place, is_new] = places.try_emplace(note, found.size());
    if (is_new) found.emplace_back(note, 0);
    ++found[place->second].second;
  }
  return found;
}

}  // namespace

std::string to_string(const Explanation& e) {
  std::string text = fmt::format(
      "{}{}{}: {} calls, {} compiled, {} recorded ({} to check), {} eager{}\n", e.kind,
      e.name.empty() ? "" : " '" + e.name + "'", e.loc ? " (" + to_string(e.loc) + ")" : "",
      e.calls, e.replays, e.recorded, e.rechecks, e.eager + e.early,
      e.early > 0 ? fmt::format(" ({} while it was being compiled)", e.early) : "");
  for (std::size_t i = 0; i < e.recordings.size(); ++i) {
    const ExplainedRecording& r = e.recordings[i];
    text += fmt::format("  recording {}: {}{}\n", i + 1, r.reason,
                        r.loc ? " at " + to_string(r.loc) : "");
    text += fmt::format("    arguments: {}\n", fmt::join(r.arguments, ", "));
    for (const std::string& guard : r.guards) text += fmt::format("    holds while {}\n", guard);
    for (const ExplainedSmallSizes& s : r.small_sizes) {
      text += s.differs.empty() ? fmt::format("    serves {}, too\n", s.sizes)
                                : fmt::format("    does not serve {}: {}\n", s.sizes, s.differs);
    }
    for (const std::string& sizes : r.buckets) text += fmt::format("    pads {}\n", sizes);
    for (const std::string& at : r.unpadded) text += fmt::format("    does not pad {}\n", at);
    if (!r.no_buckets.empty()) text += fmt::format("    pads nothing: {}\n", r.no_buckets);
    for (const std::string& sizes : r.hot_sizes)
      text += fmt::format("    has a version of its own for {}\n", sizes);
    for (const ExplainedDecision& d : r.decisions) {
      text +=
          fmt::format("    the host reads a {} at {}: so far {}\n", d.is_bool ? "bool" : "number",
                      to_string(d.loc), fmt::join(d.outcomes, ", "));
    }
    if (!r.refusal.empty()) {
      text += fmt::format("    runs eagerly: {}\n", r.refusal);
    } else {
      const auto count = [](int n, std::string_view what) {
        return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s");
      };
      text += fmt::format("    {} in {}", count(r.nodes, "operator"), count(r.ways, "way"));
      text += r.compiled ? fmt::format(
                               " -> {}, compiled in {:.1f} ms; {:.1f} MB for intermediate values\n",
                               count(r.kernels, "kernel"), r.compile_ms,
                               static_cast<double>(r.memory) / 1e6)
                         : ", to be compiled by the next such call\n";
      for (const auto& [note, times] : counted(r.fusion)) {
        text += fmt::format("    fusion: {}{}\n", note,
                            times > 1 ? fmt::format(" ({} times)", times) : "");
      }
    }
  }
  for (const ExplainedMiss& miss : e.misses) {
    text += fmt::format("  call {} ran eagerly: {}{}\n", miss.call, miss.reason,
                        miss.loc ? " at " + to_string(miss.loc) : "");
  }
  return text;
}

}  // namespace dyad
