#include "dyad/debug/explanation.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <nlohmann/json.hpp>
#include <vector>

#include "dyad/autograd/grad_mode.h"
#include "dyad/debug/columns.h"
#include "dyad/ops/ops.h"

namespace dyad::debug {
namespace {

using Rows = std::vector<std::vector<std::string>>;

template <class F>
double fastest_seconds(F&& run) {
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 5; ++i) {
    const auto start = std::chrono::steady_clock::now();
    run();
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    best = std::min(best, taken.count());
  }
  return best;
}

/// Of the speed of moving or computing that a kernel reached, the larger share; 0 when not known.
double share_of(const ExplainedKernel& kernel, const MachineSpeed& machine) {
  if (kernel.seconds <= 0 || kernel.calls == 0) return 0;
  const double each = kernel.seconds / static_cast<double>(kernel.calls);
  const auto share = [&](std::int64_t work, double speed) {
    return speed > 0 ? static_cast<double>(work) / each / speed : 0;
  };
  return std::max(share(kernel.bytes, machine.bytes), share(kernel.operations, machine.operations));
}

std::string operators_text(const ExplainedKernel& kernel) {
  std::string text;
  for (const ExplainedKernel::Part& part : kernel.parts)
    text += (text.empty() ? "" : " ") + part.op;
  return text;
}

/// Each line once, in the order of the operators.
std::string lines_text(const ExplainedKernel& kernel) {
  std::vector<std::string> lines;
  for (const ExplainedKernel::Part& part : kernel.parts) {
    std::string line = part.loc ? to_string(part.loc) : "?";
    if (std::ranges::find(lines, line) == lines.end()) lines.push_back(std::move(line));
  }
  return fmt::format("{}", fmt::join(lines, " "));
}

std::vector<ExplainedKernel> kernels_of(const Explanation& explanation) {
  std::vector<ExplainedKernel> all;
  for (const ExplainedRecording& recording : explanation.recordings) {
    all.insert(all.end(), recording.table.begin(), recording.table.end());
  }
  std::ranges::stable_sort(all, std::greater<>(), &ExplainedKernel::seconds);
  return all;
}

const std::vector<std::string> kHeader = {"operators", "lines", "kB",   "kflop",
                                          "calls",     "us",    "share"};

Rows kernel_rows(const Explanation& explanation, const MachineSpeed& machine) {
  Rows rows;
  for (const ExplainedKernel& kernel : kernels_of(explanation)) {
    const auto thousands = [](std::int64_t n) {
      return fmt::format("{:.1f}", static_cast<double>(n) / 1e3);
    };
    const double share = share_of(kernel, machine);
    const double each = kernel.calls == 0 ? 0 : kernel.seconds / static_cast<double>(kernel.calls);
    rows.push_back({operators_text(kernel), lines_text(kernel), thousands(kernel.bytes),
                    kernel.operations > 0 ? thousands(kernel.operations) : "",
                    kernel.calls > 0 ? fmt::format("{}", kernel.calls) : "",
                    kernel.calls > 0 ? fmt::format("{:.1f}", 1e6 * each) : "",
                    share > 0 ? fmt::format("{:.0f}%", 100 * share) : ""});
  }
  return rows;
}

std::string place(Loc loc) { return loc ? to_string(loc) : ""; }

nlohmann::json json_of(const ExplainedRecording& recording, const MachineSpeed& machine) {
  using nlohmann::json;
  json decisions = json::array(), kernels = json::array(), small_sizes = json::array();
  for (const ExplainedDecision& decision : recording.decisions) {
    decisions.push_back({{"line", place(decision.loc)},
                         {"reads", decision.is_bool ? "bool" : "number"},
                         {"outcomes", decision.outcomes}});
  }
  for (const ExplainedSmallSizes& small : recording.small_sizes)
    small_sizes.push_back({{"sizes", small.sizes}, {"differs", small.differs}});
  for (const ExplainedKernel& kernel : recording.table) {
    json parts = json::array();
    for (const ExplainedKernel::Part& part : kernel.parts) {
      parts.push_back({{"operator", part.op}, {"line", place(part.loc)}});
    }
    kernels.push_back({{"operators", std::move(parts)},
                       {"bytes", kernel.bytes},
                       {"operations", kernel.operations},
                       {"calls", kernel.calls},
                       {"ms", 1e3 * kernel.seconds},
                       {"share", share_of(kernel, machine)}});
  }
  return {{"reason", recording.reason},
          {"line", place(recording.loc)},
          {"arguments", recording.arguments},
          {"guards", recording.guards},
          {"small_sizes", std::move(small_sizes)},
          {"buckets", recording.buckets},
          {"unpadded", recording.unpadded},
          {"no_buckets", recording.no_buckets},
          {"hot_sizes", recording.hot_sizes},
          {"decisions", std::move(decisions)},
          {"ways", recording.ways},
          {"compiled", recording.compiled},
          {"operators", recording.nodes},
          {"kernels", recording.kernels},
          {"plans", recording.plans},
          {"compile_ms", recording.compile_ms},
          {"memory", recording.memory},
          {"fusion", recording.fusion},
          {"runs_eagerly_because", recording.refusal},
          {"table", std::move(kernels)}};
}

}  // namespace

MachineSpeed measure_machine() {
  const NoGrad no_tape;
  constexpr std::int64_t kElements = std::int64_t{1} << 23, kSide = 768;
  const Tensor from = ones({kElements}), side = ones({kSide, kSide});
  Tensor to = zeros({kElements});
  MachineSpeed machine;
  machine.bytes = 2.0 * kElements * sizeof(float) / fastest_seconds([&] { to.copy_(from); });
  machine.operations =
      2.0 * kSide * kSide * kSide / fastest_seconds([&] { static_cast<void>(matmul(side, side)); });
  return machine;
}

std::string kernel_table(const Explanation& explanation, const MachineSpeed& machine) {
  Rows rows = kernel_rows(explanation, machine);
  if (rows.empty())
    return "no kernels yet: no call has run compiled; of a function the third one is the first, or "
           "with recheck = false the second\n";
  rows.insert(rows.begin(), kHeader);
  return columns(rows, "llrrrrr", "");
}

std::string to_json(const Explanation& explanation, const MachineSpeed& machine) {
  using nlohmann::json;
  json recordings = json::array(), misses = json::array();
  for (const ExplainedRecording& recording : explanation.recordings) {
    recordings.push_back(json_of(recording, machine));
  }
  for (const ExplainedMiss& miss : explanation.misses) {
    misses.push_back({{"call", miss.call}, {"reason", miss.reason}, {"line", place(miss.loc)}});
  }
  const json all = {{"kind", explanation.kind},         {"name", explanation.name},
                    {"line", place(explanation.loc)},   {"calls", explanation.calls},
                    {"replays", explanation.replays},   {"recorded", explanation.recorded},
                    {"rechecks", explanation.rechecks}, {"eager", explanation.eager},
                    {"early", explanation.early},       {"recordings", std::move(recordings)},
                    {"misses", std::move(misses)}};
  return all.dump(1, ' ', false, json::error_handler_t::replace);
}

void add_explanation(HtmlReport& page, const Explanation& explanation,
                     const MachineSpeed& machine) {
  page.heading("What was recorded and compiled");
  page.preformatted(to_string(explanation));
  page.heading("Kernels");
  page.paragraph(
      "Each line is one step of the compiled function: the operators that it computes, the source "
      "lines that called them, what it reads and writes, and what it computes.");
  Rows rows = kernel_rows(explanation, machine);
  if (!rows.empty()) page.table(kHeader, rows);
}

}  // namespace dyad::debug
