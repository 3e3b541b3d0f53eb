#include <gmock/gmock.h>

#include <set>

#include "cases.h"
#include "dyad/autograd/gradients.h"
#include "dyad/core/create.h"
#include "dyad/exec/compile.h"
#include "dyad/ops/ops.h"

// What operators and functions make for themselves (tables of places, factors, slopes) is a
// constant of the recording: the host's part in it is no reason to run a whole function eagerly.

namespace dyad::testing {
namespace {

using Tensors = std::vector<Tensor>;
using ::testing::HasSubstr;
using ::testing::Not;

class Recordings : public Interpreted {};

TEST_F(Recordings, NoFunctionReadsItsOwnConstantsOnTheHost) {
  std::set<std::string> seen;
  for (const Case& c : reference_cases()) {
    if (!seen.insert(c.name).second) continue;
    const auto fast = compile([&c](const Tensors& inputs) { return run(c, inputs); },
                              {.background = Background::never});
    (void)fast(c.inputs);
    EXPECT_THAT(to_string(fast.explain()), Not(HasSubstr("the host reads the memory"))) << c.text;
  }
}

/// Called four times, `fn` runs compiled and gives what it gives eagerly.
template <class F>
void expect_replays(const F& fn) {
  const auto fast = compile(fn, {.background = Background::never});
  for (int i = 0; i < 4; ++i) {
    const Tensor x = normal({1, 3, 4, 5});
    const Tensor got = fast(x), want = fn(x);
    EXPECT_EQ(got.shape(), want.shape());
    EXPECT_EQ(got.to_vector<float>(), want.to_vector<float>());
  }
  EXPECT_GT(fast.explain().replays, 0) << to_string(fast.explain());
}

TEST_F(Recordings, FunctionsWithTablesOfTheirOwnRunCompiled) {
  const std::vector<float> factors{1, 2, 3, 4, 5};
  expect_replays([&](const Tensor& x) { return x * tensor(factors); });
  expect_replays([](const Tensor& x) { return interpolate(x * 2, {.scale_factor = {2.0}}) + 1; });
  expect_replays([](const Tensor& x) { return resize_by(x, {0.5}, {.axes = {3}}); });
  expect_replays([](const Tensor& x) { return resize_by(x, {1, 1, 2, 0.5}, {.mode = "linear"}); });
  expect_replays([](const Tensor& x) {
    return resize(x, {3}, {.coordinates = "tf_crop_and_resize", .roi = {0.25, 0.75}, .axes = {3}});
  });
  expect_replays([](const Tensor& x) { return x[0][0][0] * tril_indices(3, 3)[0][1].to(f32); });
  expect_replays([](const Tensor& x) { return x[0][0][0] * triu_indices(3, 3)[1][1].to(f32); });
  expect_replays([](const Tensor& x) { return pdist(x[0][1]); });
  expect_replays([](const Tensor& x) { return combinations(x[0][1][2], 3); });
  expect_replays([](const Tensor& x) { return x + alibi_bias(3, 4, 5); });
}

/// Of matrices of any number of rows, `fn` and its gradient are recorded once behind the first
/// call.
template <class F>
void expect_any_rows(const F& fn) {
  const auto step = [&fn](const Tensor& x) {
    Tensors all = fn(x);
    Tensor loss = tensor(0.0f);
    for (std::size_t i = 0; i < all.size(); ++i)
      loss = loss + sum(all[i] * all[i]) * static_cast<double>(i + 1);
    all.push_back(grad(loss, {x})[0]);
    return all;
  };
  const auto fast = compile(step, {.background = Background::never});
  for (const std::int64_t rows : {5, 4, 9, 1, 0, 2, 12, 3, 7}) {
    const Tensor x = normal({rows, 3}).requires_grad();
    const Tensors got = fast(x), want = step(x);
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      EXPECT_EQ(got[i].shape(), want[i].shape()) << rows << " rows, result " << i;
      EXPECT_EQ(got[i].to_vector<float>(), want[i].to_vector<float>())
          << rows << " rows, result " << i;
    }
  }
  EXPECT_LE(fast.explain().recordings.size(), 2) << to_string(fast.explain());
  EXPECT_EQ(fast.explain().eager, 0) << to_string(fast.explain());
}

TEST_F(Recordings, PairsAndPartsOfAnyNumberOfRowsAreOne) {
  expect_any_rows([](const Tensor& x) { return Tensors{pdist(x, 1)}; });
  expect_any_rows([](const Tensor& x) { return Tensors{pdist(x * 2)}; });
  expect_any_rows([](const Tensor& x) { return tensor_split(x, 4); });
  expect_any_rows([](const Tensor& x) { return tensor_split(x, 300); });
  expect_any_rows([](const Tensor& x) { return vsplit(x, 3); });
}

}  // namespace
}  // namespace dyad::testing
