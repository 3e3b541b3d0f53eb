#include <gtest/gtest.h>

#include <map>
#include <set>
#include <sstream>
#include <string>

#include "cases.h"
#include "dyad/ops/registry.h"
#include "exemptions.h"
#include "function_cases.h"

namespace dyad::testing {
namespace {

class Values : public ::testing::TestWithParam<Layout> {};

TEST_P(Values, AgreeWithTheReference) {
  if (GetParam() != Layout::row_major) interpret_kernels();
  std::map<std::string, int> failures;
  for (const Case& c : reference_cases()) {
    std::vector<Tensor> inputs;
    for (const Tensor& input : c.inputs) inputs.push_back(laid_out(input, GetParam()));
    std::vector<Tensor> outputs;
    try {
      outputs = run(c, inputs);
    } catch (const std::exception& e) {
      ADD_FAILURE() << c.text << ": " << e.what();
      continue;
    }
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const std::string error = difference(c, outputs[i], c.outputs[i]);
      // Three of an operator are enough to find the fault.
      if (!error.empty() && ++failures[c.name] <= 3) ADD_FAILURE() << c.text << ": " << error;
    }
  }
}

TEST(Axes, MayCountFromTheEnd) {
  interpret_kernels();
  std::set<std::string> covered;
  for (const Case& c : reference_cases()) {
    const auto negative = with_negative_axes(c);
    if (!negative) continue;
    covered.insert(c.name);
    const std::vector<Tensor> outputs = run(*negative, c.inputs);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      EXPECT_EQ(difference(c, outputs[i], c.outputs[i]), "") << negative->text;
    }
  }
  EXPECT_TRUE(only_some_cases() || covered.size() > 18);
}

INSTANTIATE_TEST_SUITE_P(Layouts, Values,
                         ::testing::Values(Layout::row_major, Layout::column_major,
                                           Layout::stepped),
                         [](const auto& info) {
                           return std::string(info.param == Layout::row_major      ? "RowMajor"
                                              : info.param == Layout::column_major ? "ColumnMajor"
                                                                                   : "Stepped");
                         });

TEST(ReferenceCases, CoverEveryOperator) {
  if (only_some_cases()) GTEST_SKIP() << "DYAD_OPS is set";
  std::set<std::string> covered, differentiated;
  for (const Case& c : reference_cases()) {
    covered.insert(c.name);
    if (c.grad) differentiated.insert(c.name);
  }
  for (const std::string& name : function_case_names()) {
    EXPECT_TRUE(covered.contains(name)) << name;
  }
  const Exemptions exemptions;
  for (const OpInfo* row : all_ops()) {
    if (row->kind == BodyKind::structural || row->kind == BodyKind::control) continue;
    if (row->effect != Effect::pure || exemptions.holds("values", row->name)) continue;
    const bool by_another = exemptions.holds("gradient_cases", row->name);
    EXPECT_TRUE(covered.contains(std::string(row->name))) << row->name;
    const bool differentiable =
        row->grad || (row->kind == BodyKind::composite && row->samples.differentiable);
    EXPECT_TRUE(by_another || !differentiable || differentiated.contains(std::string(row->name)))
        << row->name;
  }
}

/// The numbers at which a row wants its values checked are inputs of some case.
TEST(ReferenceCases, CoverTheEdgesOfEveryRow) {
  if (only_some_cases()) GTEST_SKIP() << "DYAD_OPS is set";
  std::map<std::string, std::set<std::string>> seen;
  for (const Case& c : reference_cases()) {
    for (const Tensor& input : c.inputs) {
      if (!input.defined() || input.dtype() != f64) continue;
      for (const double x : elements(input)) seen[c.name].insert(std::to_string(x));
    }
  }
  for (const OpInfo* row : all_ops()) {
    std::istringstream edges{std::string(row->samples.edges)};
    for (std::string edge; edges >> edge;) {
      EXPECT_TRUE(seen[std::string(row->name)].contains(std::to_string(std::stod(edge))))
          << row->name << " at " << edge;
    }
  }
}

}  // namespace
}  // namespace dyad::testing
