#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "dyad/base/error.h"
#include "dyad/core/create.h"
#include "dyad/core/generator.h"
#include "dyad/ops/ops.h"
#include "tests/shared/message_of.h"

// Operators as methods do what the functions of the same names do.

namespace dyad {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using Tensors = std::vector<Tensor>;

struct Method {
  std::string name;
  std::function<Tensors(const Tensor&)> method, function;
};

Tensors of(const ValuesAndIndices& both) { return {both.values, both.indices}; }

/// Positions 0 or 1, of the shape of a row of two.
Tensor positions() { return tensor({std::int64_t{1}, std::int64_t{0}}); }
Tensor places() { return zeros({2, 3}, i64); }

#define DYAD_PLAIN(name)                                       \
  Method {                                                     \
    #name, [](const Tensor& x) { return Tensors{x.name()}; },  \
        [](const Tensor& x) { return Tensors{dyad::name(x)}; } \
  }

std::vector<Method> methods() {
  return {
      DYAD_PLAIN(abs),
      DYAD_PLAIN(square),
      DYAD_PLAIN(sqrt),
      DYAD_PLAIN(rsqrt),
      DYAD_PLAIN(reciprocal),
      DYAD_PLAIN(exp),
      DYAD_PLAIN(expm1),
      DYAD_PLAIN(log),
      DYAD_PLAIN(log1p),
      DYAD_PLAIN(sin),
      DYAD_PLAIN(cos),
      DYAD_PLAIN(tanh),
      DYAD_PLAIN(sigmoid),
      DYAD_PLAIN(relu),
      DYAD_PLAIN(erf),
      DYAD_PLAIN(floor),
      DYAD_PLAIN(ceil),
      DYAD_PLAIN(round),
      DYAD_PLAIN(sign),
      DYAD_PLAIN(isnan),
      DYAD_PLAIN(isfinite),
      DYAD_PLAIN(nonzero),
      DYAD_PLAIN(prod),
      DYAD_PLAIN(any),
      DYAD_PLAIN(all),
      DYAD_PLAIN(logsumexp),
      DYAD_PLAIN(var),
      DYAD_PLAIN(std),
      DYAD_PLAIN(norm),
      DYAD_PLAIN(softmax),
      DYAD_PLAIN(log_softmax),
      DYAD_PLAIN(argsort),
      DYAD_PLAIN(flip),
      DYAD_PLAIN(tril),
      DYAD_PLAIN(triu),
      DYAD_PLAIN(diagonal),
      {"pow", [](const Tensor& x) { return Tensors{x.pow(3), x.pow(x)}; },
       [](const Tensor& x) { return Tensors{pow(x, 3), pow(x, x)}; }},
      {"clamp", [](const Tensor& x) { return Tensors{x.clamp(0.5), x.clamp(-1, 1)}; },
       [](const Tensor& x) { return Tensors{clamp(x, 0.5), clamp(x, -1, 1)}; }},
      {"masked",
       [](const Tensor& x) { return Tensors{x.masked_fill(x > 0, 7), x.masked_select(x > 0)}; },
       [](const Tensor& x) { return Tensors{masked_fill(x, x > 0, 7), masked_select(x, x > 0)}; }},
      {"matmul", [](const Tensor& x) { return Tensors{x.matmul(x.t())}; },
       [](const Tensor& x) { return Tensors{matmul(x, x.t())}; }},
      {"along an axis",
       [](const Tensor& x) {
         return Tensors{x.prod({0}, true),  x.var({1}, 0), x.std({1}, 0, true),
                        x.norm(1, {0}),     x.argmin(1),   x.softmax(0),
                        x.log_softmax(0),   x.cumsum(1),   x.cumprod(0),
                        x.argsort(0, true), x.any({0}),    x.all({1}, true)};
       },
       [](const Tensor& x) {
         return Tensors{prod(x, {0}, true),  var(x, {1}, 0), std(x, {1}, 0, true),
                        norm(x, 1, {0}),     argmin(x, 1),   softmax(x, 0),
                        log_softmax(x, 0),   cumsum(x, 1),   cumprod(x, 0),
                        argsort(x, 0, true), any(x, {0}),    all(x, {1}, true)};
       }},
      {"sort", [](const Tensor& x) { return of(x.sort(0, true)); },
       [](const Tensor& x) { return of(sort(x, 0, true)); }},
      {"topk", [](const Tensor& x) { return of(x.topk(2, 1, false)); },
       [](const Tensor& x) { return of(topk(x, 2, 1, false)); }},
      {"index",
       [](const Tensor& x) {
         return Tensors{x.gather(1, places()), x.index_select(0, positions()),
                        x.scatter(1, places(), 5), x.scatter_add(1, places(), x),
                        x.index_add(0, positions(), x)};
       },
       [](const Tensor& x) {
         return Tensors{gather(x, 1, places()), index_select(x, 0, positions()),
                        scatter(x, 1, places(), 5), scatter_add(x, 1, places(), x),
                        index_add(x, 0, positions(), x)};
       }},
      {"chunk", [](const Tensor& x) { return x.chunk(2, 1); },
       [](const Tensor& x) { return chunk(x, 2, 1); }},
      {"split", [](const Tensor& x) { return x.split(2, 1); },
       [](const Tensor& x) { return split(x, 2, 1); }},
      {"unbind", [](const Tensor& x) { return x.unbind(1); },
       [](const Tensor& x) { return unbind(x, 1); }},
      {"shapes",
       [](const Tensor& x) {
         return Tensors{x.roll({1}, {1}), x.tile({2}),     x.repeat({2, 1}),
                        x.swapaxes(0, 1), x.movedim(0, 1), x.broadcast_to({2, 2, 3}),
                        x.flip({1}),      x.triu(1),       x.diagonal(1)};
       },
       [](const Tensor& x) {
         return Tensors{roll(x, {1}, {1}), tile(x, {2}),     repeat(x, {2, 1}),
                        swapaxes(x, 0, 1), movedim(x, 0, 1), broadcast_to(x, {2, 2, 3}),
                        flip(x, {1}),      triu(x, 1),       diagonal(x, 1)};
       }},
  };
}

#undef DYAD_PLAIN

bool same(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         (all((a == b) | (isnan(a) & isnan(b)))).item<bool>();
}

TEST(Methods, DoWhatTheFunctionsDo) {
  const Tensor x = tensor({0.5f, -1.5f, 2.0f, 0.0f, 3.25f, -0.25f}).reshape({2, 3});
  for (const Method& method : methods()) {
    const Tensors got = method.method(x), expected = method.function(x);
    ASSERT_EQ(got.size(), expected.size()) << method.name;
    for (std::size_t i = 0; i < got.size(); ++i)
      EXPECT_TRUE(same(got[i], expected[i])) << method.name << ", result " << i;
  }
}

TEST(Methods, ChainAndHaveGradients) {
  const Tensor x = tensor({0.5f, 1.5f, 2.0f}).requires_grad();
  x.square().exp().log().sum().backward();
  EXPECT_TRUE(allclose(x.grad(), x.detach() * 2, 1e-6));
}

TEST(Methods, ZeroInPlace) {
  Tensor x = ones({3});
  const Tensor view = x.slice(0, 0, 2);
  x.zero_();
  EXPECT_EQ(view.sum().item(), 0);
}

TEST(Methods, NameTheirCallersLineInErrors) {
  const Tensor x = ones({2, 3});
  const int line = __LINE__ + 1;
  const auto fails = [&] { static_cast<void>(x.matmul(x)); };
  EXPECT_THAT(
      testing::message_of<ShapeError>(fails),
      ::testing::AllOf(HasSubstr("methods_test.cpp:" + std::to_string(line)), HasSubstr("matmul")));
}

}  // namespace
}  // namespace dyad
