#include "bad_calls.h"

#include <gtest/gtest.h>

#include "dyad/base/error.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/ir/graph_evaluator.h"

namespace dyad::testing {
namespace {

Kind kind_of(const Error& e) {
  if (dynamic_cast<const ShapeError*>(&e)) return Kind::shape;
  if (dynamic_cast<const DTypeError*>(&e)) return Kind::dtype;
  if (dynamic_cast<const IndexError*>(&e)) return Kind::index;
  EXPECT_NE(dynamic_cast<const ValueError*>(&e), nullptr) << e.what();
  return Kind::value;
}

void expect_in_mode(const std::vector<BadCall>& calls, const std::string& file, const Make& make) {
  for (const BadCall& bad : calls) {
    try {
      bad.call(make);
      ADD_FAILURE() << "no error: " << bad.message;
    } catch (const Error& e) {
      EXPECT_EQ(e.message(), bad.message);
      EXPECT_EQ(kind_of(e), bad.kind) << e.what();
      EXPECT_TRUE(to_string(e.where()).starts_with(file + ":")) << e.what();
    }
  }
}

}  // namespace

void expect_errors(const std::vector<BadCall>& calls, const std::string& file) {
  {
    SCOPED_TRACE("when an operator is called");
    expect_in_mode(calls, file,
                   [](DType dtype, Shape shape) { return zeros(std::move(shape), dtype); });
  }
  SCOPED_TRACE("while a graph is made");
  const Ref<GraphImpl> graph = make_ref<GraphImpl>();
  GraphEvaluator evaluator(graph);
  const Evaluator::Scope scope(evaluator);
  int count = 0;
  expect_in_mode(calls, file, [&](DType dtype, Shape shape) {
    return symbolic_tensor(graph, graph->add_placeholder("x" + std::to_string(count++),
                                                         Type(dtype, std::move(shape)), Loc()));
  });
}

}  // namespace dyad::testing
