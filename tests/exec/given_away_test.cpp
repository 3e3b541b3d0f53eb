// Arguments that the caller moves to a compiled function: results are computed where they lie.
#include "exec_for_tests.h"

namespace dyad::exec {
namespace {

constexpr std::int64_t kSize = 5000;

Tensor numbers(float first) { return arange(kSize).to(f32) * 0.001f + full({}, first); }

/// A compiled function whose next calls are replays.
template <class F, class... Args>
auto replaying(F function, const Args&... args) {
  auto fast = compile(std::move(function),
                      CompileOptions{.recheck = false, .background = Background::never});
  for (int i = 0; i < 3; ++i) static_cast<void>(fast(args...));
  return fast;
}

Tensor decay(const Tensor& state, const Tensor& x) { return state * 0.5f + sin(x); }

TEST(GivenAway, TheNextStateLiesWhereTheLastOneLay) {
  const Tensor x = numbers(1);
  const auto step = replaying(decay, numbers(0), x);
  Tensor state = numbers(2), expected = numbers(2);
  const void* const place = state.raw_data();
  for (int i = 0; i < 6; ++i) {
    state = step(std::move(state), x);
    expected = decay(expected, x);
    EXPECT_TRUE(same_bits(state, expected));
  }
  EXPECT_EQ(state.raw_data(), place);
  EXPECT_THAT(
      to_string(step.explain()),
      ::testing::HasSubstr("output 0 is computed in the memory of arg0, which is given away"));
}

TEST(GivenAway, WhatOthersHaveStaysAsItIs) {
  const Tensor x = numbers(1);
  const auto step = replaying(decay, numbers(0), x);
  const Tensor before = numbers(2);
  const auto stays = [&](Tensor& state, Tensor&& moved) {
    static_cast<void>(step(std::move(moved), x));
    EXPECT_TRUE(same_bits(state, before));
  };
  Tensor kept = numbers(2);
  static_cast<void>(step(kept, x));
  EXPECT_TRUE(same_bits(kept, before));
  Tensor copy = kept;
  stays(kept, std::move(copy));
  Tensor view = kept.view({kSize});
  stays(kept, std::move(view));
  Tensor detached = kept.detach();
  stays(kept, std::move(detached));
  std::vector<float> own(static_cast<std::size_t>(kSize), 3.0F);
  Tensor borrowed = from_blob(own.data(), {kSize});
  static_cast<void>(step(std::move(borrowed), x));
  EXPECT_EQ(own, std::vector<float>(static_cast<std::size_t>(kSize), 3.0F));
}

TEST(GivenAway, StatesInVectorsAndAggregates) {
  struct State {
    Tensor mean;
    std::vector<Tensor> parts;
  };
  const auto next = [](const State& s, const Tensor& x) {
    return State{s.mean * 0.9f + x, {s.parts[0] + s.mean, s.parts[1] * x}};
  };
  const auto fresh = [] { return State{numbers(1), {numbers(2), numbers(3)}}; };
  const Tensor x = numbers(1);
  const auto step = replaying(next, fresh(), x);
  State state = fresh(), expected = fresh();
  const std::vector<const void*> places{state.mean.raw_data(), state.parts[0].raw_data(),
                                        state.parts[1].raw_data()};
  for (int i = 0; i < 4; ++i) {
    state = step(std::move(state), x);
    expected = next(expected, x);
    EXPECT_TRUE(same_bits(state.mean, expected.mean));
    EXPECT_TRUE(same_bits(state.parts[0], expected.parts[0]));
    EXPECT_TRUE(same_bits(state.parts[1], expected.parts[1]));
  }
  const auto lies_in_one = [&](const Tensor& t) {
    return std::ranges::find(places, t.raw_data()) != places.end();
  };
  EXPECT_TRUE(lies_in_one(state.parts[1]));
}

TEST(GivenAway, ResultsThatChangePlacesAreRight) {
  const auto swap = [](const Tensor& a, const Tensor& b) {
    return std::tuple(b * 2.0f, a + 1.0f, a);
  };
  const auto step = replaying(swap, numbers(0), numbers(1));
  for (int i = 0; i < 3; ++i) {
    const auto [x, y, z] = step(numbers(4), numbers(5));
    EXPECT_TRUE(same_bits(x, numbers(5) * 2.0f));
    EXPECT_TRUE(same_bits(y, numbers(4) + 1.0f));
    EXPECT_TRUE(same_bits(z, numbers(4)));
  }
}

TEST(GivenAway, WhatALibraryKeepsOfAWeightIsForgotten) {
  const auto next = [](const Tensor& w, const Tensor& x) {
    const Tensor y = matmul(x, w);
    return std::tuple(w - 0.1f * y, y);
  };
  manual_seed(2);
  const Tensor x = normal({64, 64}) * 0.1f;
  const auto step = replaying(next, normal({64, 64}), x);
  Tensor w = normal({64, 64});
  Tensor expected = w.clone();
  const void* const place = w.raw_data();
  for (int i = 0; i < 4; ++i) {
    Tensor y, wanted;
    std::tie(w, y) = step(std::move(w), x);
    std::tie(expected, wanted) = next(expected, x);
    EXPECT_TRUE(same_bits(y, wanted)) << i;
    EXPECT_TRUE(same_bits(w, expected)) << i;
  }
  EXPECT_EQ(w.raw_data(), place);
}

TEST(GivenAway, NothingIsOverwrittenBeforeWhatMayFail) {
  const auto next = [](const Tensor& state, const Tensor& index) {
    const Tensor moved = state * 2.0f;
    return std::tuple(moved, index_select(moved, 0, index));
  };
  const auto step = replaying(next, numbers(0), tensor(std::vector<std::int64_t>{1, 2}));
  const Tensor wrong = tensor(std::vector<std::int64_t>{kSize});
  EXPECT_THROW(static_cast<void>(step(numbers(1), wrong)), IndexError);
  const auto [moved, picked] = step(numbers(1), tensor(std::vector<std::int64_t>{3}));
  EXPECT_TRUE(same_bits(moved, numbers(1) * 2.0f));
  EXPECT_TRUE(same_bits(picked, (numbers(1) * 2.0f).slice(0, 3, 4)));
}

TEST(GivenAway, SizesMayVary) {
  const auto step = replaying(decay, numbers(0), numbers(1));
  for (const std::int64_t size : {7, 1, 300, 7, 0, 300}) {
    Tensor state = ones({size});
    state = step(std::move(state), zeros({size}));
    EXPECT_TRUE(same_bits(state, full({size}, 0.5f)));
    state = step(std::move(state), zeros({size}));
    EXPECT_TRUE(same_bits(state, full({size}, 0.25f)));
  }
}

TEST(GivenAway, GradientsFromOutsideKeepTheirInputs) {
  const auto squares = [](const Tensor& a, const Tensor& w) { return a * a * w; };
  Tensor w = ones({kSize}).requires_grad();
  const auto step = replaying(squares, numbers(0), w);
  for (int i = 0; i < 3; ++i) {
    w.zero_grad();
    sum(step(numbers(2), w)).backward();
    EXPECT_TRUE(same_bits(w.grad(), numbers(2) * numbers(2)));
  }
}

TEST(GivenAway, ResultsMayBeGivenAwayToAnotherFunction) {
  const auto twice = replaying([](const Tensor& a) { return a * 2.0f; }, numbers(0));
  const auto more = replaying([](const Tensor& a) { return a + 1.0f; }, numbers(0));
  Tensor x = numbers(1);
  const void* const place = x.raw_data();
  x = more(twice(more(twice(std::move(x)))));
  EXPECT_EQ(x.raw_data(), place);
  EXPECT_TRUE(same_bits(x, (numbers(1) * 2.0f + 1.0f) * 2.0f + 1.0f));
}

}  // namespace
}  // namespace dyad::exec
