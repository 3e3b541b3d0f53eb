#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dyad/core/element.h"
#include "dyad/dyad.h"
#include "dyad/ops/custom.h"
#include "dyad/runtime/op_kernel.h"

// An operator that is no scalar expression: its struct, and a kernel.

namespace dyad {
namespace {

/// Tells a series from its differences: out[i] = x[0] + ... + x[i], or from the end.
struct Running {
  struct Attrs {
    bool from_end = false;
  };
  static constexpr ArgInfo inputs[] = {{"x", kFloat}};
  static constexpr ArgInfo outputs[] = {{"out"}};
  static constexpr Schema schema{.name = "test_running",
                                 .inputs = inputs,
                                 .outputs = outputs,
                                 .doc = "Sums of the first elements of a vector."};
  static Types infer(const InferIn& in, const Attrs&) {
    if (in[0].rank() != 1) fail_shape(in, "x must have one axis");
    return {in[0]};
  }
  static void grad(Gradient& g, const Attrs& attrs) {
    g.set(0, apply<Running>({.from_end = !attrs.from_end}, {}, g.grad()));
  }
};

void run_running(const runtime::OpCall& call) {
  const bool from_end = call.attrs_as<Running::Attrs>().from_end;
  const Tensor &x = call.inputs[0], &out = call.outputs[0];
  const std::int64_t n = x.size(0).number(), stride = x.strides()[0];
  visit_dtype(x.dtype(), [&]<class T>(std::type_identity<T>) {
    if constexpr (std::is_floating_point_v<T>) {
      T total = 0;
      for (std::int64_t i = 0; i < n; ++i) {
        const std::int64_t at = from_end ? n - 1 - i : i;
        total += x.data<T>()[at * stride];
        out.data<T>()[at] = total;
      }
    } else {
      throw DTypeError("test_running is for f32 and f64", call.loc);
    }
  });
}

const bool kRegistered = [] {
  register_op<Running>();
  runtime::register_kernel("test_running", {.run = run_running});
  return true;
}();

Tensor running(const Tensor& x, Loc loc = std::source_location::current()) {
  return apply<Running>({}, loc, x);
}

TEST(OpaqueOperator, RunsAndIsDifferentiatedTwice) {
  ASSERT_TRUE(kRegistered);
  Tensor x = tensor({1., 2., 3.}).requires_grad();
  const Tensor y = running(x * x);
  EXPECT_EQ(y.to_vector<double>(), (std::vector<double>{1, 5, 14}));
  const Tensor by = grad(sum(y * tensor({1., 10., 100.})), {x}, {.create_graph = true})[0];
  EXPECT_EQ(by.to_vector<double>(), (std::vector<double>{222, 440, 600}));
  EXPECT_EQ(grad(sum(by), {x})[0].to_vector<double>(), (std::vector<double>{222, 220, 200}));
}

TEST(OpaqueOperator, RunsInGraphsTextAndCompiledFunctions) {
  Graph graph;
  graph.define([] {
    Tensor x = placeholder("x", f64, {Dim::symbol("n")});
    Tensor y = running(x * 2);
    return std::pair{y, gradients(sum(y), {x})[0]};
  });
  const Graph read = Graph::parse(graph.to_string());
  Session session(read);
  const auto out = session.run(read.outputs(), {{"x", tensor({1., 2., 3.})}});
  EXPECT_EQ(out[0].to_vector<double>(), (std::vector<double>{2, 6, 12}));
  EXPECT_EQ(out[1].to_vector<double>(), (std::vector<double>{6, 4, 2}));

  auto compiled = compile([](const Tensor& x) { return running(x + 1) * 2; });
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(compiled(slice(arange(0, 8, 1, f64), 0, 0, kEnd, 2)).to_vector<double>(),
              (std::vector<double>{2, 8, 18, 32}));
  }
}

TEST(OpaqueOperator, ToldAsOthersAreWhenItIsMisused) {
  try {
    (void)running(tensor({{1., 2.}}));
    FAIL();
  } catch (const ShapeError& error) {
    EXPECT_THAT(error.what(),
                ::testing::HasSubstr("test_running(x: f64[1, 2]): x must have one axis"));
  }
}

}  // namespace
}  // namespace dyad
