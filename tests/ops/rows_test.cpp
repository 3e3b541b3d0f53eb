#include <gtest/gtest.h>

#include <cctype>
#include <set>
#include <string>

#include "dyad/ir/op_info.h"
#include "dyad/ops/registry.h"

namespace dyad {
namespace {

std::vector<const OpInfo*> builtin_rows() {
  ops::register_builtin_ops();
  return all_ops();
}

TEST(Rows, EveryRowIsComplete) {
  const auto rows = builtin_rows();
  EXPECT_GE(rows.size(), 70u);
  for (const OpInfo* row : rows) {
    SCOPED_TRACE(row->name);
    EXPECT_FALSE(row->doc.empty());
    EXPECT_TRUE(row->doc.ends_with('.')) << row->doc;
    EXPECT_NE(row->infer, nullptr);
    EXPECT_NE(row->attrs, nullptr);
    EXPECT_GE(row->version, 1);
    EXPECT_EQ(find_op(row->name), row);
    for (const char c : row->name) EXPECT_TRUE(std::islower(c) || std::isdigit(c) || c == '_');
    EXPECT_EQ(row->eval != nullptr, row->kind == BodyKind::pointwise || row->counted);
    EXPECT_EQ(row->reduce != nullptr, row->kind == BodyKind::reduction);
    EXPECT_EQ(row->reduced_axes != nullptr, row->kind == BodyKind::reduction);
    EXPECT_EQ(row->view != nullptr, row->kind == BodyKind::view);
    // A kernel may have an expansion too, through which it is differentiated and written as ONNX.
    EXPECT_TRUE(row->expand != nullptr || row->kind != BodyKind::composite);
    EXPECT_TRUE(row->expand == nullptr || row->kind == BodyKind::composite ||
                row->kind == BodyKind::opaque);
  }
}

TEST(Rows, ArgumentsAreNamedAndNotRepeated) {
  for (const OpInfo* row : builtin_rows()) {
    SCOPED_TRACE(row->name);
    std::set<std::string_view> names;
    for (std::size_t i = 0; i < row->inputs.size(); ++i) {
      EXPECT_TRUE(names.insert(row->inputs[i].name).second) << row->inputs[i].name;
      EXPECT_TRUE(!row->inputs[i].variadic || i + 1 == row->inputs.size());
    }
    // What a gradient rule reads must exist.
    EXPECT_EQ(row->saved_inputs >> row->inputs.size(), 0u);
    EXPECT_EQ(row->saved_outputs >> row->outputs.size(), 0u);
    if (row->grad == nullptr && !(row->kind == BodyKind::opaque && row->expand)) {
      EXPECT_EQ(row->saved_inputs | row->saved_outputs, 0u);
    }
  }
}

TEST(Rows, RegisteringTwiceChangesNothing) {
  const std::size_t before = builtin_rows().size();
  ops::register_builtin_ops();
  EXPECT_EQ(all_ops().size(), before);
}

}  // namespace
}  // namespace dyad
