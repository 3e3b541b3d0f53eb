#include "scoreboard.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <sstream>
#include <stdexcept>

namespace dyad::testing {
namespace {

using Outcome = onnx::CaseResult::Outcome;
using Results = std::map<std::string, onnx::CaseResult>;

constexpr const char* kIntroduction = R"(# ONNX scoreboard

What Dyad makes of ONNX's own backend tests: the cases that the Python package `onnx` 1.22.0 carries as files (a model, its inputs,
the results that are wanted). Dtypes and shapes must be equal, values within rtol 1e-3 and atol 1e-7, NaN equal to NaN. Beside it what
ONNX Runtime 1.30 passes on the CPU in the same comparison.

`./dev onnx-scoreboard` writes this page; the tests fail when it is not current, and when a case fails that passed before
(`tests/onnx/data/backend_passing.txt`).

Tier A: operators of ordinary exported models in their ordinary dtypes. B: rarer operators, losses, signal processing. C: strings,
sequences, optionals, dtypes of 4 and 8 bits, learned models other than networks, training, images as files.

Not counted here: the nine networks of `light/` (AlexNet, DenseNet-121, Inception v1 and v2, ResNet-50, ShuffleNet, SqueezeNet, VGG-19,
ZFNet-512, with weights that the files fill in), which pass too; `real/` holds nothing but their names.
)";

/// Why a case is left: by operator, or by case.
const std::map<std::string, std::string>& remarks() {
  static const std::map<std::string, std::string> all = {
      {"ImageDecoder",
       "not there: JPEG, JPEG 2000, WebP, TIFF and PNG would take five libraries more for every "
       "user of Dyad, and pictures are decoded before the model everywhere (ONNX Runtime has no "
       "such operator either)"},
      {"node/test_basic_deform_conv_with_padding",
       "positions go through coordinates from -1 to 1, as grid_sample takes them, and come back "
       "rounded"},
      {"node/test_maxunpool_export_with_output_shape",
       "its indices count in the 4 x 4 elements that there would be without output_shape; Dyad "
       "takes them as MaxPool gives them and PyTorch reads them, in the output that is asked for"},
  };
  return all;
}

struct Count {
  std::size_t cases = 0, passed = 0, runtime = 0;
};

void print_counts(std::ostream& page, const std::vector<BackendCase>& cases, const Results& results,
                  const std::string& title,
                  const std::function<std::string(const BackendCase&)>& by) {
  std::map<std::string, Count> counts;
  Count all;
  for (const BackendCase& each : cases) {
    const bool passed = results.at(each.path()).outcome == Outcome::passed;
    for (Count* count : {&counts[by(each)], &all}) {
      ++count->cases;
      count->passed += passed ? 1 : 0;
      count->runtime += each.runtimes == "pass" ? 1 : 0;
    }
  }
  counts["all"] = all;
  page << fmt::format("\n| {} | cases | Dyad passes | ONNX Runtime passes |\n|---|---|---|---|\n",
                      title);
  for (const auto& [name, count] : counts) {
    page << fmt::format("| {} | {} | {} | {} |\n", name, count.cases, count.passed, count.runtime);
  }
}

/// A reason on one line of a table.
std::string on_one_line(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  for (std::size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) {
    text.insert(at, 1, '\\');
  }
  return text;
}

}  // namespace

std::vector<BackendCase> backend_cases() {
  std::ifstream table("tests/onnx/data/backend_cases.tsv");
  std::vector<BackendCase> cases;
  std::string line;
  std::getline(table, line);  // names of columns
  while (std::getline(table, line)) {
    std::istringstream fields(line);
    BackendCase made;
    for (std::string* field : {&made.name, &made.kind, &made.op, &made.tier, &made.runtimes}) {
      if (!std::getline(fields, *field, '\t')) throw std::runtime_error("cannot read: " + line);
    }
    cases.push_back(std::move(made));
  }
  return cases;
}

std::string scoreboard_page(const std::vector<BackendCase>& cases, const Results& results) {
  std::ostringstream page;
  page << kIntroduction << "\n## In all\n";
  print_counts(page, cases, results, "tier", [](const BackendCase& each) { return each.tier; });
  print_counts(page, cases, results, "kind", [](const BackendCase& each) { return each.kind; });
  print_counts(page, cases, results, "tier and kind",
               [](const BackendCase& each) { return each.tier + ", " + each.kind; });

  page << "\n## What does not pass\n\n| case | tier | result | reason | ONNX Runtime |\n"
          "|---|---|---|---|---|\n";
  std::vector<std::string> drawn;
  for (const BackendCase& each : cases) {
    const onnx::CaseResult& result = results.at(each.path());
    if (result.by_statistics) drawn.push_back("`" + each.path() + "`");
    if (result.outcome == Outcome::passed) continue;
    std::string reason = on_one_line(result.reason);
    if (const auto remark = remarks().find(each.path()); remark != remarks().end()) {
      reason += ": " + remark->second;
    } else if (const auto of_all = remarks().find(each.op); of_all != remarks().end()) {
      reason = of_all->second;
    }
    page << fmt::format("| `{}` | {} | {} | {} | {} |\n", each.path(), each.tier,
                        result.outcome == Outcome::failed ? "failed" : "skipped", reason,
                        each.runtimes);
  }
  page << fmt::format(
      "\n## Random numbers\n\n{} cases draw numbers that no two runtimes share. They pass when "
      "dtypes and shapes are\nequal, and mean and variance within five standard deviations of "
      "what samples of that size have:\n{}.\n",
      drawn.size(), fmt::join(drawn, ", "));

  page << "\n## By operator\n\nFunctions count for the operator that they define (`_expanded`).\n";
  print_counts(page, cases, results, "operator",
               [](const BackendCase& each) { return "`" + each.op + "`"; });
  return page.str();
}

}  // namespace dyad::testing
