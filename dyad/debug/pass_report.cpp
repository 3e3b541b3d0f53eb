#include "dyad/debug/pass_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "dyad/debug/graph_diff.h"

namespace dyad::debug {
namespace {

nlohmann::json json_of(const ExplainedPass& pass) {
  nlohmann::json all = {{"name", pass.name}, {"changed", pass.changed()}, {"ms", pass.ms}};
  if (pass.changed()) {
    all["summary"] = pass.summary;
    all["operators_before"] = pass.operators_before;
    all["operators_after"] = pass.operators_after;
    all["text"] = pass.text;
  }
  return all;
}

std::string plural(std::ptrdiff_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

std::string ms_text(double ms) { return fmt::format("{:.2f}", ms); }

void add_table(HtmlReport& page, const ExplainedPasses& graph) {
  std::vector<std::vector<std::string>> rows;
  std::string others;
  double ms_of_others = 0;
  for (const ExplainedPass& pass : graph.passes) {
    if (pass.changed()) {
      rows.push_back({pass.name, pass.summary,
                      fmt::format("{} -> {}", pass.operators_before, pass.operators_after),
                      ms_text(pass.ms)});
    } else {
      others += (others.empty() ? "" : ", ") + pass.name;
      ms_of_others += pass.ms;
    }
  }
  if (rows.empty()) {
    page.paragraph("No pass changes this graph.");
  } else {
    page.table({"pass", "what it does", "operators", "ms"}, rows, 2);
  }
  if (!others.empty()) {
    page.paragraph(
        fmt::format("Changed nothing: {} ({} ms in all).", others, ms_text(ms_of_others)));
  }
  if (!graph.undecided.empty()) {
    page.paragraph(
        "The next pass asks about sizes that vary, so this graph goes through the passes "
        "at each combination of sizes: " +
        graph.undecided);
  }
}

void add_differences(HtmlReport& page, const ExplainedPasses& graph) {
  page.folded("The graph as given", graph.text);
  const std::string* latest = &graph.text;
  for (const ExplainedPass& pass : graph.passes) {
    if (!pass.changed()) continue;
    const std::vector<DiffLine> lines = graph_difference(*latest, pass.text);
    const auto count = [&](DiffLine::Kind kind) {
      return std::ranges::count(lines, kind, &DiffLine::kind);
    };
    page.difference(
        fmt::format("{}: {} removed, {} added", pass.name,
                    plural(count(DiffLine::Kind::removed), "line"), count(DiffLine::Kind::added)),
        lines);
    latest = &pass.text;
  }
  if (latest != &graph.text) page.folded("The graph after the passes", *latest);
}

}  // namespace

std::string to_json(std::span<const ExplainedPasses> graphs) {
  using nlohmann::json;
  json all = json::array();
  for (const ExplainedPasses& graph : graphs) {
    json passes = json::array();
    for (const ExplainedPass& pass : graph.passes) passes.push_back(json_of(pass));
    all.push_back({{"graph", graph.graph},
                   {"text", graph.text},
                   {"passes", std::move(passes)},
                   {"undecided", graph.undecided}});
  }
  return all.dump(1, ' ', false, json::error_handler_t::replace);
}

void add_passes(HtmlReport& page, std::span<const ExplainedPasses> graphs) {
  page.heading("What the passes do");
  page.paragraph(
      "Operators are counted without those inside of branches, loops and kernels. Below each table "
      "is what a pass changes in the graph's text. Values are called as after the pass; %was7 is "
      "what was called %7 before it and is gone.");
  for (const ExplainedPasses& graph : graphs) {
    page.heading("Passes: " + graph.graph);
    add_table(page, graph);
    add_differences(page, graph);
  }
}

}  // namespace dyad::debug
