#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dyad/autograd/gradients.h"
#include "dyad/base/error.h"
#include "dyad/core/create.h"
#include "dyad/core/generator.h"
#include "dyad/exec/checkpoint.h"
#include "dyad/exec/compile.h"
#include "dyad/exec/control_flow.h"
#include "dyad/exec/executable.h"
#include "dyad/exec/read_graph.h"
#include "dyad/exec/session.h"
#include "dyad/ops/ops.h"
#include "tests/shared/message_of.h"

// Graphs in which some sizes are known only once an operator has run.

namespace dyad {
namespace {

using testing::bare_message_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<float> list(const Tensor& x) { return x.to_vector<float>(); }

TEST(OpenSizes, ATableIsAsLongAsItsDataSay) {
  Graph graph;
  const Tensor x = graph.placeholder("x", f32, {"n"});
  const auto [kept, total] = graph.define([&] {
    const Tensor positive = index(x, {x > 0});
    return std::tuple{sort(positive * 2).values, sum(positive)};
  });
  Session session(graph);
  auto out = session.run({kept, total}, {{"x", tensor({3.0f, -1.0f, 2.0f, 0.0f, 1.0f})}});
  EXPECT_THAT(list(out[0]), ElementsAre(2, 4, 6));
  EXPECT_EQ(out[1].item(), 6);
  out = session.run({kept, total}, {{"x", tensor({-3.0f, -1.0f})}});
  EXPECT_EQ(out[0].numel().value(), 0);
  EXPECT_EQ(out[1].item(), 0);
}

TEST(OpenSizes, OneMayFollowFromAnother) {
  Graph graph;
  const Tensor x = graph.placeholder("x", f32, {6});
  const Tensor y = graph.define([&] {
    const Tensor once = unique(index(x, {x != 0})).values;
    return repeat_interleave(once, to(once, i64), 0);
  });
  Session session(graph);
  const auto out = session.run({y}, {{"x", tensor({2.0f, 0.0f, 1.0f, 2.0f, 3.0f, 0.0f})}});
  EXPECT_THAT(list(out[0]), ElementsAre(1, 2, 2, 3, 3, 3));
}

TEST(OpenSizes, HaveGradients) {
  Graph graph;
  const Tensor x = graph.placeholder("x", f32, {"n"});
  const Tensor slope = graph.define([&] {
    const Tensor loss = sum(square(masked_select(x, x > 0)));
    return gradients(loss, {x})[0];
  });
  Session session(graph);
  const auto out = session.run({slope}, {{"x", tensor({3.0f, -1.0f, 2.0f})}});
  EXPECT_THAT(list(out[0]), ElementsAre(6, 0, 4));
}

TEST(OpenSizes, VariablesAreWrittenOnceAllIsKnown) {
  Graph graph;
  Tensor count = tensor(10.0f);
  const Tensor x = graph.placeholder("x", f32, {3});
  const Tensor y = graph.define([&] {
    count.add_(1);
    const Tensor places = nonzero(x);
    const Tensor chosen = index_select(tensor({5.0f, 6.0f}), 0, select(places, 1, 0));
    count.add_(sum(chosen));
    return chosen * count;
  });
  Session session(graph);
  EXPECT_THROW((void)session.run({y}, {{"x", tensor({0.0f, 0.0f, 1.0f})}}), IndexError);
  EXPECT_EQ(count.item(), 10);
}

TEST(OpenSizes, SizesThatMustBeEqualMayBeSaidToBe) {
  Graph graph;
  const Tensor x = graph.placeholder("x", f32, {"n"}), y = graph.placeholder("y", f32, {"n"});
  const auto [total, slope] = graph.define([&] {
    const Tensor a = masked_select(x, x > 0), b = masked_select(y, y > 0);
    const Tensor both = a * assume_shape(b, a.shape());
    return std::tuple{both, gradients(sum(both), {y})[0]};
  });
  Session session(graph);
  const auto out = session.run(
      {total, slope}, {{"x", tensor({3.0f, -1.0f, 2.0f})}, {"y", tensor({5.0f, 6.0f, -7.0f})}});
  EXPECT_THAT(list(out[0]), ElementsAre(15, 12));
  EXPECT_THAT(list(out[1]), ElementsAre(3, 2, 0));
  EXPECT_THAT(bare_message_of<ShapeError>([&] {
                (void)session.run({total},
                                  {{"x", tensor({3.0f, -1.0f})}, {"y", tensor({5.0f, 6.0f})}});
              }),
              HasSubstr("axis 0 of x has size 2, but must have 1"));
}

TEST(OpenSizes, BranchesGiveTheirOwn) {
  Graph graph;
  const Tensor x = graph.placeholder("x", f32, {"n"}), all = graph.placeholder("all", boolean, {});
  const auto [kept, total] = graph.define([&] {
    const Tensor first = masked_select(x, x != 0);
    const auto branches = cond(
        all, [&] { return std::tuple{sort(first).values, nonzero(x)}; },
        [&] { return std::tuple{masked_select(first, first > 0) * 2, nonzero(x > 5)}; });
    return std::tuple{std::get<0>(branches) + 1, sum(std::get<1>(branches)) + sum(first)};
  });
  Session session(graph);
  const Tensor given = tensor({3.0f, 0.0f, -2.0f, 6.0f});
  auto out = session.run({kept, total}, {{"x", given}, {"all", tensor(true)}});
  EXPECT_THAT(list(out[0]), ElementsAre(-1, 4, 7));
  EXPECT_EQ(out[1].item(), 0 + 2 + 3 + 7);
  out = session.run({kept, total}, {{"x", given}, {"all", tensor(false)}});
  EXPECT_THAT(list(out[0]), ElementsAre(7, 13));
  EXPECT_EQ(out[1].item(), 3 + 7);
  out = session.run({kept, total}, {{"x", zeros({2})}, {"all", tensor(false)}});
  EXPECT_EQ(out[0].numel().value(), 0);
}

TEST(OpenSizes, OfBranchesAreNoneOfWhatIsNotWanted) {
  Graph graph;
  const Tensor x = graph.placeholder("x", f32, {"n"}), y = graph.placeholder("y", f32, {"m"}),
               all = graph.placeholder("all", boolean, {});
  const Tensor total = graph.define([&] {
    const Tensor either = cond(
        all, [&] { return sum(masked_select(x, x > 0)); },
        [&] { return sum(masked_select(x, x < 0)); });
    for (int i = 0; i < 4; ++i) (void)nonzero(y > i);
    return either;
  });
  Session session(graph);
  for (const bool first : {true, false}) {
    const auto out = session.run(
        {total}, {{"x", tensor({3.0f, -1.0f, 2.0f})}, {"y", zeros({2})}, {"all", tensor(first)}});
    EXPECT_EQ(out[0].item(), first ? 5 : -1);
  }
}

TEST(OpenSizes, OfBranchesAreNoneOfWhatComesLater) {
  Graph graph;
  const Tensor x = graph.placeholder("x", f32, {"n"}), all = graph.placeholder("all", boolean, {});
  const auto [total, later, last] = graph.define([&] {
    const Tensor either = cond(
        all, [&] { return sum(masked_select(x, x > 0)); },
        [&] {
          const Tensor chosen = masked_select(x, x < 0);
          return cond(
              sum(x) > 0, [&] { return sum(masked_select(chosen, chosen < -1)); },
              [&] { return sum(chosen); });
        });
    const Tensor places = nonzero(x > 1);
    const Tensor once_more =
        cond(all, [&] { return sum(nonzero(x)); }, [&] { return sum(places); });
    return std::tuple{either, places, once_more};
  });
  const Tensor given = tensor({3.0f, 0.0f, -2.0f, 6.0f, -1.0f});
  const Ref<GraphImpl> read = exec::read_graph(to_string(*graph.impl()));
  EXPECT_TRUE(same_graph(*read, *graph.impl()));
  Session alone(graph), both(graph);
  for (const bool first : {true, false}) {
    const std::initializer_list<Feed> feeds{{"x", given}, {"all", tensor(first)}};
    EXPECT_EQ(alone.run({total}, feeds)[0].item(), first ? 9 : -2);
    EXPECT_EQ(alone.run({last}, feeds)[0].item(), first ? 9 : 3);
    const auto out = both.run({total, later, last}, feeds);
    EXPECT_EQ(out[0].item(), first ? 9 : -2);
    EXPECT_THAT(out[1].to_vector<std::int64_t>(), ElementsAre(0, 3));
    EXPECT_EQ(out[2].item(), first ? 9 : 3);
  }
}

TEST(OpenSizes, OfAFunctionThatBranchesAreNoneOfWhatWasThereBefore) {
  Graph graph;
  const Tensor x = graph.placeholder("x", f32, {"n"});
  const Tensor before = graph.define([&] { return nonzero(x); });
  const Tensor chosen = graph.define([&] {
    const Tensor positive = masked_select(x, x > 0);
    if (sum(positive) > 5) return sum(masked_select(positive, positive > 2) * 2);
    return sum(positive * 2) + sum(before);
  });
  Session session(graph);
  const auto out = session.run({before, chosen}, {{"x", tensor({3.0f, 0.0f, -2.0f, 6.0f, 1.0f})}});
  EXPECT_EQ(out[0].numel().value(), 4);
  EXPECT_EQ(out[1].item(), 18);
  EXPECT_EQ(session.run({chosen}, {{"x", tensor({3.0f, 0.0f, -2.0f})}})[0].item(), 6 + 2);
}

TEST(OpenSizes, OfWhatIsComputedAgain) {
  Graph graph;
  const Tensor x = graph.placeholder("x", f32, {"n"}), all = graph.placeholder("all", boolean, {});
  const Tensor slope = graph.define([&] {
    const auto kept = [&](const Tensor& t) {
      const Tensor chosen = cond(
          all, [&] { return masked_select(t, t > 0); }, [&] { return masked_select(t, t < 0); });
      return sum(square(chosen)) * sum(masked_select(t, t > 1));
    };
    return gradients(checkpoint(kept, x), {x})[0];
  });
  Session session(graph);
  const Tensor given = tensor({3.0f, 1.0f, -2.0f});
  EXPECT_THAT(list(session.run({slope}, {{"x", given}, {"all", tensor(true)}})[0]),
              ElementsAre(6 * 3 + 10, 2 * 3, 0));
  EXPECT_THAT(list(session.run({slope}, {{"x", given}, {"all", tensor(false)}})[0]),
              ElementsAre(4, 0, -4 * 3));
}

TEST(OpenSizes, OfWhatIsComputedAgainInBranches) {
  Graph graph;
  const Tensor x = graph.placeholder("x", f32, {"n"}), all = graph.placeholder("all", boolean, {});
  const auto [places, slope] = graph.define([&] {
    const auto squares = [&](const Tensor& t) {
      return checkpoint([](const Tensor& y) { return sum(square(masked_select(y, y > 0))); }, t);
    };
    const Tensor total = cond(all, [&] { return squares(x); }, [&] { return squares(x * 2); });
    const Tensor nonzeros = nonzero(x);
    return std::tuple{nonzeros, gradients(total + sum(nonzeros), {x})[0]};
  });
  Session session(graph);
  const Tensor given = tensor({3.0f, 0.0f, -2.0f, 6.0f});
  for (const bool first : {true, false}) {
    const auto out = session.run({places, slope}, {{"x", given}, {"all", tensor(first)}});
    EXPECT_EQ(out[0].numel().value(), 3);
    const float by = first ? 2 : 8;
    EXPECT_THAT(list(out[1]), ElementsAre(3 * by, 0, 0, 6 * by));
  }
}

/// Sizes of each branch's own, in its gradient and in that of the gradient.
TEST(OpenSizes, GradientsOfBranchesThatGiveTheirOwn) {
  const auto chosen = [](const Tensor& x, const Tensor& all) {
    const Tensor first = masked_select(x, x != 0);
    const Tensor kept = cond(
        all, [&] { return sort(first * first * first).values; },
        [&] {
          const Tensor positive = masked_select(first, first > 0);
          return concat({positive * positive, positive * 4}, 0);
        });
    return sum(kept * kept);
  };
  Graph graph;
  const Tensor x = graph.placeholder("x", f32, {"n"}), all = graph.placeholder("all", boolean, {});
  const auto [slope, bend] = graph.define([&] {
    const Tensor once = gradients(chosen(x, all), {x})[0];
    return std::tuple{once, gradients(sum(once * once), {x})[0]};
  });
  Session session(graph);
  for (const auto& given : {tensor({3.0f, 0.0f, -2.0f, 0.5f}), tensor({-1.0f, 2.0f}),
                            tensor({0.0f, -1.0f}), tensor({0.0f})}) {
    for (const bool first : {true, false}) {
      Tensor leaf = clone(given).requires_grad();
      const Tensor once = grad(chosen(leaf, tensor(first)), {leaf}, {.create_graph = true})[0];
      const Tensor twice = grad(sum(once * once), {leaf})[0];
      const auto out = session.run({slope, bend}, {{"x", given}, {"all", tensor(first)}});
      EXPECT_EQ(list(out[0]), list(once));
      EXPECT_EQ(list(out[1]), list(twice));
    }
  }
}

TEST(OpenSizes, OneMayBeAllThatIsWantedOfATensor) {
  Graph graph;
  const Tensor x = graph.placeholder("x", f32, {"n"}), unused = graph.placeholder("y", f32, {"m"});
  const auto [ones_of, in_branch, as_long] = graph.define([&] {
    const Dim count = nonzero(x).size(0);
    const Tensor inside =
        cond(sum(x) > 0, [&] { return full({count}, 2.0f); }, [&] { return full({count}, 3.0f); });
    return std::tuple{ones({count}), inside, zeros({unused.size(0)})};
  });
  Session session(graph);
  for (const int nonzeros : {3, 0}) {
    Tensor values = zeros({5});
    slice(values, 0, 0, nonzeros).fill_(1.0f);
    const auto out = session.run({ones_of, in_branch, as_long}, {{"x", values}, {"y", zeros({4})}});
    EXPECT_EQ(out[0].numel().value(), nonzeros);
    EXPECT_EQ(list(out[1]), std::vector<float>(nonzeros, nonzeros > 0 ? 2.0f : 3.0f));
    EXPECT_EQ(out[2].numel().value(), 4);
  }
}

TEST(OpenSizes, AreCompiled) {
  const auto step = compile([](const Tensor& x) { return sum(masked_select(x, x > 1)) + sum(x); });
  for (const float first : {5.0f, 0.0f, 7.0f}) {
    const Tensor x = tensor({first, 1.0f, 3.0f});
    EXPECT_EQ(step(x).item(), (first > 1 ? first : 0) + 3 + first + 4);
  }
}

TEST(OpenSizes, ViewsAreReadAsTheyLieAfterThem) {
  // How an operand lies decides how a library multiplies.
  const auto gram = [](const Tensor& x) {
    const Tensor turned = transpose(x, -1, -2), product = matmul(x, turned);
    const Tensor places = nonzero(product);
    return std::vector{matmul(product + 1, transpose(turned, -1, -2)), matmul(turned, product),
                       places};
  };
  const auto compiled = compile(gram, {.background = Background::never});
  manual_seed(7304);
  for (const std::int64_t size : {2, 3, 5, 17, 40}) {
    for (int call = 0; call < 4; ++call) {
      const Tensor x = normal({size, size});
      const std::vector<Tensor> expected = gram(x), given = compiled(x);
      EXPECT_EQ(list(given[0]), list(expected[0])) << size;
      EXPECT_EQ(list(given[1]), list(expected[1])) << size;
    }
  }
}

TEST(OpenSizes, AFunctionThatDependsOnOneRunsEagerly) {
  const auto step = compile([](const Tensor& x) {
    const Tensor kept = masked_select(x, x > 1);
    return kept.size(0) == Dim(2) ? sum(kept) : sum(x);
  });
  for (const float first : {5.0f, 0.0f, 7.0f}) {
    EXPECT_EQ(step(tensor({first, 1.0f, 3.0f})).item(), first > 1 ? first + 3 : first + 4);
  }
}

}  // namespace
}  // namespace dyad
