#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "dyad/autograd/grad_mode.h"
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

Tensors joined(const std::vector<Tensors>& lists) {
  Tensors all;
  for (const Tensors& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

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
      DYAD_PLAIN(neg),
      DYAD_PLAIN(exp2),
      DYAD_PLAIN(log2),
      DYAD_PLAIN(log10),
      DYAD_PLAIN(tan),
      DYAD_PLAIN(asin),
      DYAD_PLAIN(acos),
      DYAD_PLAIN(atan),
      DYAD_PLAIN(sinh),
      DYAD_PLAIN(cosh),
      DYAD_PLAIN(erfinv),
      DYAD_PLAIN(lgamma),
      DYAD_PLAIN(trunc),
      DYAD_PLAIN(frac),
      DYAD_PLAIN(isinf),
      DYAD_PLAIN(logical_not),
      DYAD_PLAIN(real),
      DYAD_PLAIN(conj),
      DYAD_PLAIN(angle),
      DYAD_PLAIN(argmax),
      DYAD_PLAIN(argmin),
      DYAD_PLAIN(amax),
      DYAD_PLAIN(amin),
      DYAD_PLAIN(count_nonzero),
      DYAD_PLAIN(median),
      DYAD_PLAIN(ravel),
      DYAD_PLAIN(squeeze),
      DYAD_PLAIN(trace),
      DYAD_PLAIN(diag),
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
      {"of two operands",
       [](const Tensor& x) {
         return Tensors{x.add(2),     x.sub(x),  x.mul(0.5),     x.div(3),       x.maximum(0),
                        x.minimum(1), x.fmod(2), x.remainder(2), x.atan2(x + 1), x.lerp(2, 0.25)};
       },
       [](const Tensor& x) {
         return Tensors{add(x, 2),       sub(x, x),       mul(x, 0.5), div(x, 3),
                        maximum(x, 0),   minimum(x, 1),   fmod(x, 2),  remainder(x, 2),
                        atan2(x, x + 1), lerp(x, 2, 0.25)};
       }},
      {"products",
       [](const Tensor& x) {
         const Tensor square = x.mm(x.t());
         return Tensors{square,         square.det(),     square.inverse(),
                        x[0].dot(x[1]), x[0].outer(x[1]), x.unsqueeze(0).bmm(x.t().unsqueeze(0))};
       },
       [](const Tensor& x) {
         const Tensor square = mm(x, x.t());
         return Tensors{
             square,          det(square),       inverse(square),
             dot(x[0], x[1]), outer(x[0], x[1]), bmm(x.unsqueeze(0), x.t().unsqueeze(0))};
       }},
      {"complex",
       [](const Tensor& x) {
         const Tensor z = complex(x, x * 2);
         return Tensors{z.real(), z.imag(), z.angle(), z.conj().imag()};
       },
       [](const Tensor& x) {
         const Tensor z = complex(x, x * 2);
         return Tensors{real(z), imag(z), angle(z), imag(conj(z))};
       }},
      {"order",
       [](const Tensor& x) {
         return joined({of(x.median(1)),
                        of(x.kthvalue(2)),
                        of(x.cummax(1)),
                        of(x.cummin(0)),
                        {x.quantile(0.3), x.quantile(0.5, 1, true, "lower"), x.logcumsumexp(1),
                         x.unique().values, x.unique(false, 1).inverse}});
       },
       [](const Tensor& x) {
         return joined({of(median(x, 1)),
                        of(kthvalue(x, 2)),
                        of(cummax(x, 1)),
                        of(cummin(x, 0)),
                        {quantile(x, 0.3), quantile(x, 0.5, 1, true, "lower"), logcumsumexp(x, 1),
                         unique(x).values, unique(x, false, 1).inverse}});
       }},
      {"more shapes",
       [](const Tensor& x) {
         return Tensors{x.view(-1),
                        x.view({3, 2}),
                        x.unflatten(1, {3, 1}),
                        x.narrow(1, 1, 2),
                        x.unfold(1, 2, 1),
                        x.unsqueeze(0).squeeze(),
                        x[0].expand_as(x),
                        x.repeat_interleave(2, 1),
                        x.repeat_interleave(tensor({1, 2}, i64), 0),
                        x.diag(1),
                        x.trace(1),
                        x.tile(2),
                        x.repeat(3)};
       },
       [](const Tensor& x) {
         return Tensors{reshape(x, {-1}),
                        reshape(x, {3, 2}),
                        unflatten(x, 1, {3, 1}),
                        narrow(x, 1, 1, 2),
                        unfold(x, 1, 2, 1),
                        squeeze(unsqueeze(x, 0)),
                        expand_as(x[0], x),
                        repeat_interleave(x, 2, 1),
                        repeat_interleave(x, tensor({1, 2}, i64), 0),
                        diag(x, 1),
                        trace(x, 1),
                        tile(x, {2}),
                        repeat(x, {3})};
       }},
      {"places",
       [](const Tensor& x) {
         return Tensors{x[positions()],
                        x[x > 0],
                        x[{1, 2}],
                        x.index({ellipsis, Slice{1}}),
                        x.index_put({x > 0}, 3),
                        x.index_copy(0, positions(), x),
                        x.index_fill(1, positions(), 4),
                        x.take(positions()),
                        x.masked_scatter(x > 0, x * 2),
                        x.scatter_reduce(1, places(), x, "amax", false)};
       },
       [](const Tensor& x) {
         return Tensors{
             index(x, {positions()}),          index(x, {x > 0}),
             index(x, {Slice{1, 2}}),          index(x, {ellipsis, Slice{1}}),
             index_put(x, {x > 0}, 3),         index_copy(x, 0, positions(), x),
             index_fill(x, 1, positions(), 4), take(x, positions()),
             masked_scatter(x, x > 0, x * 2),  scatter_reduce(x, 1, places(), x, "amax", false)};
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

struct InPlace {
  std::string name;
  std::function<Tensor&(Tensor&)> method;
  std::function<Tensor(const Tensor&)> function;
};

#define DYAD_IN_PLACE(name)                                  \
  InPlace {                                                  \
    #name, [](Tensor& x) -> Tensor& { return x.name##_(); }, \
        [](const Tensor& x) { return dyad::name(x); }        \
  }

std::vector<InPlace> in_place_methods() {
  return {
      DYAD_IN_PLACE(abs),
      DYAD_IN_PLACE(neg),
      DYAD_IN_PLACE(square),
      DYAD_IN_PLACE(sqrt),
      DYAD_IN_PLACE(rsqrt),
      DYAD_IN_PLACE(reciprocal),
      DYAD_IN_PLACE(exp),
      DYAD_IN_PLACE(log),
      DYAD_IN_PLACE(sin),
      DYAD_IN_PLACE(cos),
      DYAD_IN_PLACE(tanh),
      DYAD_IN_PLACE(sigmoid),
      DYAD_IN_PLACE(relu),
      DYAD_IN_PLACE(floor),
      DYAD_IN_PLACE(ceil),
      DYAD_IN_PLACE(round),
      DYAD_IN_PLACE(trunc),
      DYAD_IN_PLACE(tril),
      DYAD_IN_PLACE(triu),
      {"pow", [](Tensor& x) -> Tensor& { return x.pow_(3); },
       [](const Tensor& x) { return pow(x, 3); }},
      {"remainder", [](Tensor& x) -> Tensor& { return x.remainder_(2); },
       [](const Tensor& x) { return remainder(x, 2); }},
      {"lerp", [](Tensor& x) -> Tensor& { return x.lerp_(2, 0.25); },
       [](const Tensor& x) { return lerp(x, 2, 0.25); }},
      {"clamp", [](Tensor& x) -> Tensor& { return x.clamp_(-1, 1.5); },
       [](const Tensor& x) { return clamp(x, -1, 1.5); }},
      {"clamp by tensors",
       [](Tensor& x) -> Tensor& { return x.clamp_(tensor({-1.0f, 0.0f, 1.0f}), Tensor()); },
       [](const Tensor& x) { return maximum(x, tensor({-1.0f, 0.0f, 1.0f})); }},
      {"addcmul", [](Tensor& x) -> Tensor& { return x.addcmul_(x, x + 1, 3); },
       [](const Tensor& x) { return addcmul(x, x, x + 1, 3); }},
      {"addcdiv", [](Tensor& x) -> Tensor& { return x.addcdiv_(x, exp(x), 3); },
       [](const Tensor& x) { return addcdiv(x, x, exp(x), 3); }},
      {"masked_fill", [](Tensor& x) -> Tensor& { return x.masked_fill_(x > 0, 7); },
       [](const Tensor& x) { return masked_fill(x, x > 0, 7); }},
      {"masked_scatter", [](Tensor& x) -> Tensor& { return x.masked_scatter_(x > 0, x * 2); },
       [](const Tensor& x) { return masked_scatter(x, x > 0, x * 2); }},
      {"scatter", [](Tensor& x) -> Tensor& { return x.scatter_(1, places(), 5); },
       [](const Tensor& x) { return scatter(x, 1, places(), 5); }},
      {"scatter_add", [](Tensor& x) -> Tensor& { return x.scatter_add_(1, places(), x); },
       [](const Tensor& x) { return scatter_add(x, 1, places(), x); }},
      {"index_add", [](Tensor& x) -> Tensor& { return x.index_add_(0, positions(), x); },
       [](const Tensor& x) { return index_add(x, 0, positions(), x); }},
      {"index_copy", [](Tensor& x) -> Tensor& { return x.index_copy_(0, positions(), x); },
       [](const Tensor& x) { return index_copy(x, 0, positions(), x); }},
      {"index_fill", [](Tensor& x) -> Tensor& { return x.index_fill_(1, positions(), 4); },
       [](const Tensor& x) { return index_fill(x, 1, positions(), 4); }},
      {"index_put", [](Tensor& x) -> Tensor& { return x.index_put_({1, Slice{1}}, 4, true); },
       [](const Tensor& x) { return index_put(x, {1, Slice{1}}, 4, true); }},
  };
}

#undef DYAD_IN_PLACE

TEST(Methods, InPlaceWriteWhatTheFunctionsGive) {
  for (const InPlace& method : in_place_methods()) {
    Tensor x = tensor({0.5f, -1.5f, 2.0f, 0.0f, 3.25f, -0.25f}).reshape({2, 3});
    const Tensor view = x[0], expected = method.function(x);
    EXPECT_TRUE(method.method(x).is_same(x)) << method.name;
    EXPECT_TRUE(same(x, expected)) << method.name;
    EXPECT_TRUE(same(view, expected[0])) << method.name;
  }
}

/// However they lie, along each axis, with places that meet.
TEST(Methods, InPlaceAtPlaces) {
  manual_seed(8);
  for (const DType dtype : {f32, f64, f16, i32}) {
    const Tensor start = (normal({5, 4, 6}) * 9).to(dtype);
    const Tensor places = tensor({1, -1, 1, 0, 2}, i64);
    for (const bool turned : {false, true}) {
      for (int axis = 0; axis < 3; ++axis) {
        const auto begin = [&] {
          return turned ? start.clone().permute({2, 0, 1}) : start.clone();
        };
        Shape part = begin().shape(), some = part;
        part[static_cast<std::size_t>(axis)] = 5;
        const Tensor from = (normal(part) * 9).to(dtype);
        for (const Dim size : {Dim(1), Dim(3)}) some[static_cast<std::size_t>(axis == 0)] = size;
        const Tensor index = (normal(some) * 100).to(i64) % 4, elements = normal(some).to(dtype);
        Tensor a = begin(), b = begin(), c = begin(), d = begin(), e = begin();
        EXPECT_TRUE(
            same(a.index_copy_(axis, places, from), index_copy(begin(), axis, places, from)));
        EXPECT_TRUE(same(b.index_add_(axis, places, from), index_add(begin(), axis, places, from)));
        EXPECT_TRUE(same(c.index_fill_(axis, places, 3), index_fill(begin(), axis, places, 3)));
        EXPECT_TRUE(
            same(d.scatter_(axis, index, elements), scatter(begin(), axis, index, elements)));
        EXPECT_TRUE(same(e.scatter_add_(axis, index, elements),
                         scatter_add(begin(), axis, index, elements)));
      }
    }
  }
  // From its own memory.
  const Tensor x = arange(12).to(f32).reshape({4, 3});
  Tensor y = x.clone();
  y.index_copy_(0, tensor({1, 2}, i64), slice(y, 0, 0, 2));
  EXPECT_TRUE(same(y, index_copy(x, 0, tensor({1, 2}, i64), slice(x, 0, 0, 2))));
}

TEST(Methods, InPlaceAtPlacesRefusesAsTheFunctionAndWritesNothing) {
  const Tensor x = arange(12).to(f32).reshape({4, 3}), bad = tensor({0, 7}, i64);
  const auto check = [&](auto&& method, auto&& function) {
    Tensor y = x.clone();
    const std::string text = testing::message_of<IndexError>([&] { method(y); }),
                      expected =
                          testing::message_of<IndexError>([&] { static_cast<void>(function(x)); });
    EXPECT_EQ(text.substr(0, text.find('\n')), expected.substr(0, expected.find('\n')));
    EXPECT_NE(text.find("at methods_test.cpp"), std::string::npos) << text;
    EXPECT_TRUE(same(y, x));
  };
  for (int axis = 0; axis < 2; ++axis) {
    const Tensor from = axis == 0 ? ones({2, 3}) : ones({4, 2});
    const Tensor index = expand(axis == 0 ? reshape(bad, {2, 1}) : bad, from.shape());
    check([&](Tensor& y) { y.index_copy_(axis, bad, from); },
          [&](const Tensor& y) { return index_copy(y, axis, bad, from); });
    check([&](Tensor& y) { y.index_add_(axis, bad, from); },
          [&](const Tensor& y) { return index_add(y, axis, bad, from); });
    check([&](Tensor& y) { y.index_fill_(axis, bad, 2); },
          [&](const Tensor& y) { return index_fill(y, axis, bad, 2); });
    check([&](Tensor& y) { y.scatter_(axis, index, from); },
          [&](const Tensor& y) { return scatter(y, axis, index, from); });
    check([&](Tensor& y) { y.scatter_add_(axis, index, from); },
          [&](const Tensor& y) { return scatter_add(y, axis, index, from); });
  }
  Tensor kept = ones({3}).requires_grad();
  Tensor z = kept * 2;
  const Tensor loss = sum(z * z);
  {
    const NoGrad off;
    z.index_fill_(0, tensor({1}, i64), 5);
  }
  EXPECT_THROW(loss.backward(), GradError);
}

TEST(Methods, InPlaceRandomNumbersAreThoseOfTheFunctions) {
  Tensor x = zeros({2, 3}, f64);
  const Tensor view = x[1];
  manual_seed(3);
  const Tensor expected = uniform({2, 3}, -1, 2, f64), normals = normal({2, 3}, 5, 0.5, f64);
  manual_seed(3);
  EXPECT_TRUE(same(x.uniform_(-1, 2), expected));
  EXPECT_TRUE(same(view, expected[1]));
  EXPECT_TRUE(same(x.normal_(5, 0.5), normals));
}

TEST(Methods, InPlaceKeepShapeAndDType) {
  Tensor counts = tensor({1, 2, 3}, i64);
  EXPECT_THROW(counts.uniform_(), DTypeError);
  EXPECT_EQ(testing::message_of<DTypeError>([&] { counts.exp_(); }).substr(0, 60),
            "exp_ on i64[3]: the result would be f32, but in place the dt");
  EXPECT_EQ(testing::message_of<ShapeError>([&] { counts.lerp_(zeros({2, 3}), 0); }).substr(0, 60),
            "lerp_ on i64[3]: the result would be [2, 3], but in place th");
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
