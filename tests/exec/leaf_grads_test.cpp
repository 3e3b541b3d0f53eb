#include "dyad/autograd/gradients.h"
#include "dyad/exec/compile.h"
#include "exec_for_tests.h"

// Leaves that keep gradients, in compiled functions that call backward(): arguments, and leaves
// made inside.

namespace dyad {
namespace {

using exec::same_bits;
using ::testing::HasSubstr;

Tensor leaf(float value) { return full({2}, value).requires_grad(); }

/// Calls `fn` and its compiled form on leaves of their own in the same order; `use(leaf, call)`
/// prepares one. All gradients must stay the same.
void expect_same_grads(const std::function<Tensor(Tensor)>& fn, const CompileOptions& options,
                       const std::function<void(Tensor&, int)>& use) {
  const auto fast = compile(fn, options);
  std::vector<Tensor> eager, compiled;
  for (int i = 0; i < 3; ++i) {
    eager.push_back(leaf(static_cast<float>(i + 2)));
    compiled.push_back(leaf(static_cast<float>(i + 2)));
  }
  constexpr std::array kOrder{0, 0, 0, 1, 0, 1, 1, 2, 2, 0, 2, 1, 1, 0, 2};
  for (std::size_t call = 0; call < kOrder.size(); ++call) {
    const auto i = static_cast<std::size_t>(kOrder[call]);
    use(eager[i], static_cast<int>(call));
    use(compiled[i], static_cast<int>(call));
    EXPECT_TRUE(same_bits(fn(eager[i]), fast(compiled[i]))) << "call " << call;
    for (std::size_t j = 0; j < eager.size(); ++j) {
      ASSERT_EQ(eager[j].grad().defined(), compiled[j].grad().defined()) << call << " of " << j;
      if (!eager[j].grad().defined()) continue;
      EXPECT_TRUE(same_bits(eager[j].grad(), compiled[j].grad())) << call << " of " << j;
    }
  }
}

TEST(LeafGrads, OfAnArgumentAreThoseOfTheCallsOwn) {
  const auto fn = [](Tensor x) {
    sum(x * x).backward();
    return x * 2;
  };
  for (const bool recheck : {false, true}) {
    expect_same_grads(fn, {.recheck = recheck}, [](Tensor&, int) {});
    expect_same_grads(fn, {.recheck = recheck}, [](Tensor& x, int call) {
      if (call % 3 != 0) x.zero_grad();
    });
    expect_same_grads(fn, {.recheck = recheck}, [](Tensor& x, int call) {
      if (call % 4 == 1) x.set_grad(full({2}, 7));
    });
  }
}

TEST(LeafGrads, OfAnArgumentMayBeReadAndCleared) {
  const auto fn = [](Tensor x) {
    const Tensor before = x.grad();
    x.zero_grad();
    sum(x * x * x).backward();
    return before.defined() ? before + x.grad() : x.grad() * 2;
  };
  expect_same_grads(fn, {}, [](Tensor&, int) {});
}

TEST(LeafGrads, OfAFreshArgumentNeedOneRecording) {
  const auto fast = compile(
      [](Tensor x) {
        sum(x * x).backward();
        return x * 2;
      },
      {.recheck = false});
  for (int i = 0; i < 9; ++i) {
    const Tensor x = leaf(static_cast<float>(i));
    (void)fast(x);
    EXPECT_EQ(x.grad()[0].item<float>(), static_cast<float>(2 * i));
  }
  EXPECT_EQ(fast.explain().recorded, 1);
  EXPECT_EQ(fast.explain().replays, 8);
}

TEST(LeafGrads, EachWayAddsToThoseOfItsOwnLeaves) {
  const Tensor a = leaf(2), b = leaf(3), same_a = leaf(2), same_b = leaf(3);
  const auto by_sign = [](const Tensor& first, const Tensor& second, const Tensor& x) {
    const bool positive = (mean(x) > 0).item<bool>();
    const Tensor result = sum((positive ? first : second) * x);
    result.backward();
    return result.detach();
  };
  const auto fast = compile([&](const Tensor& x) { return by_sign(same_a, same_b, x); },
                            {.recheck = false, .background = Background::never});
  for (const float value : {1.F, 2.F, -1.F, -2.F, 3.F, -3.F, 4.F, -4.F}) {
    const Tensor x = full({2}, value);
    EXPECT_TRUE(same_bits(by_sign(a, b, x), fast(x))) << value;
    for (const auto& [eager, compiled] : {std::pair(a, same_a), std::pair(b, same_b)}) {
      ASSERT_EQ(eager.grad().defined(), compiled.grad().defined()) << value;
      if (!eager.grad().defined()) continue;
      EXPECT_TRUE(same_bits(eager.grad(), compiled.grad())) << value;
    }
  }
}

TEST(LeafGrads, OfALeafMadeInsideNeedOneRecording) {
  const Tensor w = full({3}, 0.5f).requires_grad();
  // The penalty of a critic: the gradient's distance from 1, at points between real and made ones.
  const auto penalty = [&](const Tensor& real, const Tensor& made) {
    const Tensor between = ((real + made) / 2).detach().requires_grad();
    const Tensor value = sum(tanh(between * w));
    const Tensor slope = grad(value, {between}, {.create_graph = true})[0];
    const Tensor loss = mean(square(sqrt(sum(square(slope), {1})) - 1));
    w.zero_grad();
    loss.backward();
    return std::pair{between.grad(), loss.detach()};
  };
  const auto fast = compile(penalty, {.recheck = false});
  for (int i = 0; i < 6; ++i) {
    manual_seed(static_cast<std::uint64_t>(i));
    const Tensor real = randn({4, 3}), made = randn({4, 3});
    const auto [points, loss] = penalty(real, made);
    const Tensor of_w = w.grad();
    const auto [fast_points, fast_loss] = fast(real, made);
    EXPECT_TRUE(same_bits(points, fast_points));
    EXPECT_TRUE(same_bits(loss, fast_loss));
    EXPECT_TRUE(same_bits(of_w, w.grad()));
  }
  EXPECT_EQ(fast.explain().replays, 5);
}

TEST(LeafGrads, OfALeafMadeInsideAddUp) {
  const auto fn = [](const Tensor& x) {
    Tensor point = x.detach().requires_grad();
    sum(point * point).backward();
    sum(point * 3).backward();
    return point.grad();
  };
  const auto fast = compile(fn);
  for (int i = 0; i < 6; ++i) {
    const Tensor x = full({2}, static_cast<float>(i));
    EXPECT_TRUE(same_bits(fn(x), fast(x)));
  }
  EXPECT_GT(fast.explain().replays, 0);
}

TEST(LeafGrads, AReturnedLeafKeepsItsGradient) {
  const auto fast = compile([](const Tensor& x) {
    Tensor point = x.detach().requires_grad();
    sum(point * point).backward();
    return point;
  });
  for (int i = 0; i < 4; ++i) {
    const Tensor point = fast(full({2}, static_cast<float>(i)));
    ASSERT_TRUE(point.grad().defined()) << i;
    EXPECT_EQ(point.grad()[0].item<float>(), static_cast<float>(2 * i));
  }
  EXPECT_THAT(fast.explain().recordings[0].refusal,
              HasSubstr("is a leaf that the function made and gave a gradient"));
}

TEST(LeafGrads, AReturnedLeafIsALeafInEveryCall) {
  const auto fast = compile([](const Tensor& x) { return x.detach().clone().requires_grad(); });
  for (int i = 0; i < 4; ++i) {
    const Tensor point = fast(full({2}, static_cast<float>(i)));
    sum(point * point).backward();
    EXPECT_EQ(point.grad()[0].item<float>(), static_cast<float>(2 * i));
  }
  EXPECT_THAT(fast.explain().recordings[0].refusal,
              HasSubstr("is a leaf that the function made; call requires_grad()"));
}

TEST(LeafGrads, AnArgumentThatTheFunctionMakesALeaf) {
  const auto f = [](Tensor x) -> std::vector<Tensor> {
    x.requires_grad();
    const Tensor y = x * x * x;
    sum(y * y).backward({}, true);
    return {y, x.grad().clone()};
  };
  const auto c = exec::compile_now(f);
  for (int i = 0; i < 6; ++i) {
    const Tensor x = full({2 + i % 3}, 1.5f + static_cast<float>(i)), same = x.clone();
    const std::vector<Tensor> expected = f(x), given = c(same);
    for (std::size_t k = 0; k < 2; ++k)
      EXPECT_TRUE(same_bits(given[k].detach(), expected[k].detach())) << i;
    EXPECT_TRUE(same.tracks_grad() && same.is_leaf()) << i;
    EXPECT_TRUE(same_bits(same.grad(), x.grad())) << i;
    sum(expected[0]).backward();
    sum(given[0]).backward();
    EXPECT_TRUE(same_bits(same.grad(), x.grad())) << i;
  }
  EXPECT_GT(c.explain().replays, 0);
}

TEST(LeafGrads, AnArgumentThatIsNoLeafAfterTheCall) {
  const auto c = exec::compile_now([](Tensor x) {
    x.requires_grad(false);
    return x * 2;
  });
  for (int i = 0; i < 4; ++i) {
    const Tensor x = full({3}, static_cast<float>(i)).requires_grad();
    EXPECT_FALSE(c(x).tracks_grad()) << i;
    EXPECT_FALSE(x.tracks_grad()) << i;
  }
}

}  // namespace
}  // namespace dyad
