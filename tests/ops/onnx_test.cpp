#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "cases.h"
#include "dyad/base/error.h"
#include "dyad/exec/graph.h"
#include "dyad/onnx/export.h"

// The reference cases as ONNX models of one operator: the onnx package finds each of them valid,
// and ONNX Runtime computes the same from what the rows write. What has no ONNX form says so.

namespace dyad::testing {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int kPackageMissing = 77;

/// Whether the row says itself how it is written.
bool writes_itself(const Case& c) {
  return c.op != nullptr && (!c.op->onnx.op.empty() || c.op->to_onnx);
}

/// Composites and functions are written by their parts, pointwise operators by what they compute.
bool has_form(const Case& c) {
  return c.op == nullptr || writes_itself(c) || c.op->expand || c.op->kind == BodyKind::pointwise;
}

/// Rows whose form is a reason why there is none.
bool always_refuses(std::string_view name) {
  return name == "random_key" || name == "seed_generator" || name == "uniform" ||
         name == "normal" || name == "dropout" || name == "batch_norm_train" || name == "poisson" ||
         name == "standard_gamma" || name == "binomial";
}

/// Rows between numbers and complex ones. A complex value can be neither an input nor an output of
/// a model, so they are checked inside the functions of complex numbers. And where checkpoints
/// start.
bool only_within(std::string_view name) {
  return name == "view_as_real" || name == "view_as_complex" || name == "recompute";
}

/// Models of the cases, one after the other in a file (thousands of files would take their time),
/// with a list that tells where each one is.
class Models {
 public:
  explicit Models(const fs::path& folder)
      : bytes_(folder / "models", std::ios::binary), list_(folder / "models.json") {}

  void write(const Case& c, const Graph& graph, const std::string& shows, int opset) {
    onnx::SaveOptions options;
    options.opset = opset;
    for (std::size_t i = 0; i < c.outputs.size(); ++i) {
      options.outputs.push_back("y" + std::to_string(i));
    }
    const std::string bytes = onnx::to_bytes(graph, options);
    bytes_ << bytes;
    entries_.push_back({{"case", c.number}, {"shows", shows}, {"size", bytes.size()}});
    ++count_[shows];
  }
  [[nodiscard]] int count(const std::string& shows) const { return count_.at(shows); }
  void finish() {
    bytes_.close();
    list_ << entries_;
    list_.close();
  }

 private:
  std::ofstream bytes_, list_;
  json entries_ = json::array();
  std::map<std::string, int> count_;
};

/// Dtypes that ONNX got over the years, or has next to no operators for.
bool has_late_dtypes(const Case& c) {
  const auto is_late = [](const Tensor& x) {
    return x.defined() && contains(kSmall | kComplex, x.dtype());
  };
  return std::ranges::any_of(c.inputs, is_late) || std::ranges::any_of(c.outputs, is_late);
}

class Onnx : public Interpreted {};

TEST_F(Onnx, AnotherRuntimeAgrees) {
  const fs::path folder = fs::path(::testing::TempDir()) / "dyad_operators";
  fs::remove_all(folder);
  fs::create_directories(folder);
  Models models(folder);
  std::set<std::string> expected;
  for (const Case& c : reference_cases()) {
    if (!has_form(c) || always_refuses(c.name)) continue;
    try {
      const Graph graph = graph_of(c, false);
      for (int opset = 17; opset <= 23; ++opset) {
        const bool always = opset == 17 || opset == 21 || opset == 23;
        if (!always && (static_cast<int>(c.number) + opset) % 8 != 0) continue;  // a sample
        if (opset < 23 && has_late_dtypes(c)) continue;
        if (c.op != nullptr && opset < c.op->onnx.since) continue;
        if (opset < c.onnx_since) {
          EXPECT_THROW((void)onnx::to_bytes(graph, {.opset = opset}), OnnxError) << c.text;
          continue;
        }
        models.write(c, graph, "opset " + std::to_string(opset), opset);
      }
    } catch (const OnnxError& error) {
      if (!writes_itself(c) || has_late_dtypes(c)) continue;  // the parts may have no form
      ADD_FAILURE() << c.text << ": " << error.what();
      continue;
    }
    if (c.onnx_since > 23) continue;
    expected.insert(c.name);
    if (c.onnx_since > 21) continue;
    if (const auto negative = with_negative_axes(c)) {
      models.write(*negative, graph_of(*negative, false), "negative axes",
                   has_late_dtypes(c) ? 23 : 21);
    }
    try {
      models.write(c, graph_of(c, true), "open sizes", has_late_dtypes(c) ? 23 : 21);
    } catch (const OnnxError& error) {
      ADD_FAILURE() << c.text << " with open sizes: " << error.what();
    } catch (const Error&) {
      // The attributes hold only for some sizes.
    }
  }
  models.finish();
  if (!only_some_cases()) {
    EXPECT_GT(models.count("opset 21"), 1000);
    EXPECT_GT(models.count("open sizes"), 700);
    EXPECT_GT(models.count("negative axes"), 200);
  }

  const char* const chosen = std::getenv("DYAD_PYTHON");
  const std::string result = folder / "report.json";
  const int status =
      std::system((std::string(chosen ? chosen : "python3") + " tests/ops/check_operators.py '" +
                   folder.string() + "' > '" + result + "'")
                      .c_str());
  if (WIFEXITED(status) && WEXITSTATUS(status) == kPackageMissing) {
    GTEST_SKIP() << "needs the Python packages of tests/python/requirements.txt (./dev setup "
                    "installs them; DYAD_PYTHON names the Python that has them)";
  }
  ASSERT_EQ(status, 0);
  const json report = json::parse(std::ifstream(result));
  for (const std::string failure : report["failures"]) ADD_FAILURE() << failure;
  std::set<std::string> ran;
  for (const auto& [name, times] : report["ran"].items()) ran.insert(name);
  for (const std::string& name : expected)
    EXPECT_TRUE(ran.contains(name)) << name << " did not run";
  EXPECT_EQ(ran.size(), expected.size());
  if (only_some_cases()) return;
  for (const OpInfo* op : all_ops()) {
    const bool structural = op->kind == BodyKind::structural || op->kind == BodyKind::control;
    const bool written = !op->onnx.op.empty() || op->to_onnx;
    if (!written || structural || always_refuses(op->name) || only_within(op->name)) continue;
    EXPECT_TRUE(ran.contains(std::string(op->name))) << op->name;
  }
  EXPECT_TRUE(ran.contains("complex mul"));
  if (!HasFailure()) fs::remove_all(folder);
}

TEST_F(Onnx, RowsWithoutAFormSaySo) {
  std::map<std::string, std::string> texts;
  for (const Case& c : reference_cases()) {
    if (has_form(c) && !always_refuses(c.name)) continue;
    const Graph graph = graph_of(c, false);
    try {
      (void)onnx::to_bytes(graph);
      ADD_FAILURE() << c.text << " was written";
    } catch (const OnnxError& error) {
      texts[c.name] = error.what();
    }
  }
  EXPECT_TRUE(only_some_cases() || texts.size() > 10);
  for (const auto& [name, text] : texts) {
    EXPECT_THAT(text, ::testing::HasSubstr("1 operator cannot be written as ONNX:\n  " +
                                           std::string(name) + " (cases.cpp:"));
  }
}

}  // namespace
}  // namespace dyad::testing
