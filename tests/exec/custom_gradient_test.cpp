#include "dyad/exec/custom_gradient.h"

#include "dyad/autograd/grad_mode.h"
#include "dyad/autograd/gradients.h"
#include "dyad/exec/compile.h"
#include "dyad/exec/session.h"
#include "exec_for_tests.h"
#include "tests/shared/message_of.h"

namespace dyad {
namespace {

using dyad::testing::message_of;
using ::testing::HasSubstr;

std::vector<double> values(const Tensor& t) { return t.to_vector<double>(); }

/// x^3 whose gradient is said to be 10 x^2, so that it shows which rule ran.
const auto cube = custom_gradient(
    [](const Tensor& x) { return x * x * x; },
    [](const CustomGradient& g) { return g.grad() * g.saved(0) * g.saved(0) * 10; }, "cube");

/// exp(x), which saves its result.
const auto exponential = custom_gradient(
    [](Saver& saver, const Tensor& x) {
      Tensor y = exp(x);
      saver.save(y);
      return y;
    },
    [](const CustomGradient& g) { return g.grad() * g.saved(0); });

/// (a * b, a + b), with a gradient for a alone.
const auto pair = custom_gradient(
    [](Saver& saver, const Tensor& a, const Tensor& b) {
      saver.save(b);
      return std::pair{a * b, a + b};
    },
    [](const CustomGradient& g) {
      return std::vector<Tensor>{g.grad(0) * g.saved(0) + g.grad(1) * 100, Tensor()};
    });

TEST(CustomGradient, ReplacesTheGradientOfWhatForwardDoes) {
  Tensor x = tensor({1., 2., 3.}).requires_grad();
  const Tensor y = cube(x);
  EXPECT_EQ(values(y), (std::vector<double>{1, 8, 27}));
  EXPECT_EQ(values(grad(sum(y), {x})[0]), (std::vector<double>{10, 40, 90}));
  EXPECT_FALSE(cube(tensor({1.})).tracks_grad());
  EXPECT_FALSE(no_grad([&] { return cube(x); }).tracks_grad());
}

TEST(CustomGradient, BackwardIsDifferentiatedToo) {
  Tensor x = tensor({1., 2., 3.}).requires_grad();
  const Tensor first = grad(sum(cube(x)), {x}, {.create_graph = true})[0];
  EXPECT_EQ(values(grad(sum(first), {x})[0]), (std::vector<double>{20, 40, 60}));
  // Through a saved result, whose own rule runs again.
  Tensor z = tensor({0.5, -1.});
  z.requires_grad();
  Tensor y = exponential(z);
  const std::vector<double> expected = values(y);
  for (int order = 0; order < 4; ++order) {
    y = grad(sum(y), {z}, {.create_graph = true})[0];
    EXPECT_EQ(values(y), expected) << order;
  }
}

TEST(CustomGradient, TakesAndGivesSeveralTensors) {
  Tensor a = tensor({2., 3.}).requires_grad(), b = tensor({5., 7.}).requires_grad();
  const auto [product, total] = pair(a, b);
  EXPECT_EQ(values(product), (std::vector<double>{10, 21}));
  const std::vector<Tensor> loss{sum(product * 2) + sum(total)}, by{a, b};
  const auto found = grad(loss, by, {.allow_unused = true});
  EXPECT_EQ(values(found[0]), (std::vector<double>{110, 114}));
  EXPECT_FALSE(found[1].defined());
  // One result alone: nothing came back into the other.
  EXPECT_EQ(values(grad(sum(pair(a, b).first), {a})[0]), (std::vector<double>{5, 7}));
}

TEST(CustomGradient, AResultMayBeTheArgument) {
  const auto reversed = custom_gradient([](const Tensor& x) { return x; },
                                        [](const CustomGradient& g) { return -g.grad(); });
  Tensor x = tensor({1., 2.}).requires_grad();
  const Tensor y = reversed(x);
  EXPECT_TRUE(x.is_leaf());
  EXPECT_EQ(values(grad(sum(y * y), {x})[0]), (std::vector<double>{-2, -4}));
}

TEST(CustomGradient, WorksTheSameInStaticGraphs) {
  Graph graph;
  auto fetches = graph.define([] {
    Tensor x = placeholder("x", f64, {Dim::symbol("n")});
    const Tensor y = sum(exponential(cube(x)) * 0.5);
    const Tensor first = gradients(y, {x})[0];
    const auto [product, total] = pair(x, x * 2);
    return std::vector<Tensor>{y, first, gradients(sum(first), {x})[0],
                               gradients(sum(product + total), {x})[0]};
  });
  EXPECT_THAT(graph.to_string(), HasSubstr("custom_gradient("));
  EXPECT_THAT(graph.to_string(), HasSubstr("name = \"cube\""));
  graph.verify();
  Tensor x = tensor({0.5, -0.25, 1.});
  Session session(graph);
  const auto found = session.run(fetches, {{"x", x}});
  x.requires_grad();
  const Tensor y = sum(exponential(cube(x)) * 0.5);
  const Tensor first = grad(y, {x}, {.create_graph = true})[0];
  const auto [product, total] = pair(x, x * 2);
  const std::vector<Tensor> eager{y, first, grad(sum(first), {x})[0],
                                  grad(sum(product + total), {x})[0]};
  for (std::size_t i = 0; i < eager.size(); ++i) EXPECT_EQ(values(found[i]), values(eager[i])) << i;
}

TEST(CustomGradient, WorksTheSameCompiled) {
  const auto inside = [](const Tensor& x) {
    Tensor leaf = x.detach().requires_grad();
    return grad(sum(exponential(cube(leaf))), {leaf})[0];
  };
  const auto outside = [](const Tensor& x) { return exponential(cube(x)) * 2; };
  auto compiled_inside = compile(inside);
  auto compiled_outside = compile(outside);
  for (int call = 0; call < 4; ++call) {
    Tensor x = tensor({0.5, -0.25, 0.125 * call}).requires_grad();
    EXPECT_EQ(values(compiled_inside(x)), values(inside(x)));
    const Tensor y = compiled_outside(x);
    EXPECT_EQ(values(y), values(outside(x)));
    EXPECT_EQ(values(grad(sum(y), {x})[0]), values(grad(sum(outside(x)), {x})[0]));
  }
  EXPECT_GE(compiled_inside.explain().replays, 1);
  EXPECT_GE(compiled_outside.explain().replays, 1);
}

TEST(CustomGradient, KeepsOnlyWhatIsSaved) {
  const auto plain = custom_gradient([](Saver&, const Tensor& x) { return x * 2; },
                                     [](const CustomGradient& g) { return g.grad() * 2; });
  Tensor x = tensor({1., 2.}).requires_grad();
  Tensor h = x * 1;
  const Tensor y = plain(h);
  no_grad([&] { h.add_(1); });  // nobody needs it
  EXPECT_EQ(values(grad(sum(y), {x})[0]), (std::vector<double>{2, 2}));
  h = x * 1;
  const Tensor z = cube(h);
  no_grad([&] { h.add_(1); });
  EXPECT_THAT(message_of<GradError>([&] { (void)grad(sum(z), {x}); }),
              HasSubstr("was overwritten in place after it was saved"));
}

TEST(CustomGradient, TellsWhatIsWrong) {
  Tensor x = tensor({1., 2.}).requires_grad();
  const auto with = [&](auto backward) {
    const auto f = custom_gradient([](const Tensor& t) { return t * 2; }, backward, "twice");
    return [=] { (void)grad(sum(f(x)), {x}); };
  };
  EXPECT_THAT(message_of<ValueError>(with(
                  [](const CustomGradient& g) { return std::vector<Tensor>{g.grad(), g.grad()}; })),
              HasSubstr("twice: backward gave 2 gradients for 1 arguments"));
  EXPECT_THAT(message_of<ShapeError>(with([](const CustomGradient& g) { return sum(g.grad()); })),
              HasSubstr("twice: backward gave f64[] for argument 0, whose shape is [2]"));
  EXPECT_THAT(message_of<ValueError>(with([](const CustomGradient& g) { return g.saved(1); })),
              HasSubstr("saved(1): the forward part saved 1 tensors"));
  // A tensor computed on the way is a constant on the tape: its second derivative is refused.
  const auto between = custom_gradient(
      [](Saver& saver, const Tensor& t) {
        saver.save(t * 3);
        return t * t;
      },
      [](const CustomGradient& g) { return g.grad() * g.saved(0); });
  EXPECT_EQ(values(grad(sum(between(x)), {x})[0]), (std::vector<double>{3, 6}));
  EXPECT_THAT(
      message_of<GradError>([&] { (void)grad(sum(between(x)), {x}, {.create_graph = true}); }),
      HasSubstr("a second derivative through saved tensor 0 of a custom function"));
}

}  // namespace
}  // namespace dyad
