#include "tools/dyad/demo_report.h"

#include <fmt/format.h>

#include "dyad/debug/explanation.h"
#include "dyad/debug/html_report.h"
#include "dyad/ir/dot.h"
#include "tools/dyad/text.h"

namespace dyad::tool {
namespace {

std::vector<std::vector<std::string>> table_rows(const DemoResult& r) {
  const auto row = [](const TrainingRun& run, const std::string& speed) {
    return std::vector<std::string>{
        run.name,
        fmt::format("{:.2f} ms", run.step_ms),
        speed,
        fmt::format("{:.1f} MB", static_cast<double>(run.peak_bytes) / 1e6),
        run.compile_ms > 0 ? fmt::format("{:.0f} ms", run.compile_ms) : "-",
        fmt::format("{:.2f}%", 100 * run.accuracies.back()),
        fmt::format("{:.5f}", run.losses.back())};
  };
  std::vector<std::vector<std::string>> rows{
      row(r.eager, "1.00x"),
      row(r.compiled, fmt::format("{:.2f}x", r.eager.step_ms / r.compiled.step_ms))};
  rows[0].emplace_back("");
  rows[1].push_back(fmt::format("{:g}", r.largest_difference));
  return rows;
}

const std::vector<std::string> kHeader = {"",        "step",     "speed",     "memory",
                                          "compile", "accuracy", "last loss", "largest difference"};

}  // namespace

std::string text_table(const DemoResult& result) {
  std::vector<std::vector<std::string>> rows = table_rows(result);
  rows.insert(rows.begin(), kHeader);
  return columns(rows, "lrrrrrrr", "");
}

void write_report(const DemoResult& result, const Cnn& model, bool pictures,
                  const std::string& path) {
  debug::HtmlReport page("One model, two graphs",
                         "A CNN trained on " + result.digits +
                             ": executed as written, and compiled. Same losses, bit for bit.");
  page.table(kHeader, table_rows(result));
  page.heading("Loss");
  page.chart("The two lines lie on each other: the compiled step computes the same bits.", "step",
             "cross entropy",
             {{"eager", result.eager.losses}, {"compiled", result.compiled.losses}});
  page.heading("Accuracy on held-back digits");
  page.chart("After each epoch.", "epoch", "share",
             {{"eager", result.eager.accuracies}, {"compiled", result.compiled.accuracies}});
  page.heading("Model");
  page.preformatted(nn::summary(model));
  if (result.compiled.explanation) debug::add_explanation(page, *result.compiled.explanation);
  if (pictures && !result.compiled.graphs.empty()) {
    const CompiledGraph& step = result.compiled.graphs.front();
    page.heading("The training step as a graph");
    page.paragraph("Forward, backward and update, with the source line that made each node.");
    page.picture("Before optimisation.", to_svg(*step.recorded, {.id_prefix = "before"}));
    page.picture("After optimisation: chains of pointwise operators are one kernel each.",
                 to_svg(*step.compiled, {.id_prefix = "after"}));
  }
  page.save(path);
}

}  // namespace dyad::tool
