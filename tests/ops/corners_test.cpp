#include <gmock/gmock.h>

#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "bad_calls.h"
#include "cases.h"
#include "dyad/core/create.h"
#include "dyad/exec/compile.h"
#include "dyad/exec/graph.h"
#include "dyad/exec/session.h"
#include "dyad/ops/ops.h"
#include "tests/shared/message_of.h"

// What random comparisons with PyTorch and NumPy found: operands of two dtypes, integers where
// floating numbers are usual, numbers beyond a dtype, windows beyond an image, and no elements.

namespace dyad::testing {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNaN = std::nan("");

/// The results in eager mode and those of a compiled function, which must be the same.
template <class T, class F>
std::vector<T> in_both_modes(const F& f, const Tensor& x) {
  const auto eager = f(x).template to_vector<T>();
  const auto compiled = compile(f);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(compiled(x).template to_vector<T>(), eager);
  return eager;
}

template <class T>
void expect_saturates(DType dtype, const std::vector<double>& numbers, const std::vector<T>& want) {
  for (const DType from : {f64, f32}) {
    SCOPED_TRACE(std::string(name_of(from)) + " to " + std::string(name_of(dtype)));
    const Tensor x = tensor(numbers).to(from);
    EXPECT_EQ(in_both_modes<T>([&](Tensor v) { return to(v, dtype); }, x), want);
    // The host converts as kernels do.
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      EXPECT_EQ(full({}, numbers[i], dtype).template item<std::int64_t>(),
                static_cast<std::int64_t>(want[i]));
    }
  }
}

void expect_narrow_integers() {
  expect_saturates<std::uint8_t>(u8, {-1.9, -1e10, -kInf, kNaN, 255.9, 256, 300, 1e10, kInf},
                                 {0, 0, 0, 0, 255, 255, 255, 255, 255});
  expect_saturates<std::int8_t>(i8, {-128.9, -129, -1e10, -kInf, kNaN, 127.5, 128, 1e10, kInf},
                                {-128, -128, -128, -128, 0, 127, 127, 127, 127});
  expect_saturates<std::uint16_t>(u16, {-1, -1e5, kNaN, 65535.5, 65536, 1e20},
                                  {0, 0, 0, 65535, 65535, 65535});
  expect_saturates<std::int16_t>(i16, {-32769, -1e20, 32768, kInf}, {-32768, -32768, 32767, 32767});
  expect_saturates<std::uint32_t>(u32, {-1, -1e20, 4294967296, 1e10, kInf, 3e9},
                                  {0, 0, 4294967295u, 4294967295u, 4294967295u, 3000000000u});
}

TEST(Corners, FloatsBeyondANarrowIntegerSaturate) { expect_narrow_integers(); }

class InterpretedCorners : public Interpreted {};
TEST_F(InterpretedCorners, FloatsBeyondANarrowIntegerSaturate) { expect_narrow_integers(); }

TEST(Corners, IntegersStillWrap) {
  EXPECT_EQ(to(tensor({300, -1, 128}), u8).to_vector<std::uint8_t>(),
            (std::vector<std::uint8_t>{44, 255, 128}));
  EXPECT_EQ(to(tensor({300, -1, 128}), i8).to_vector<std::int8_t>(),
            (std::vector<std::int8_t>{44, -1, -128}));
}

TEST(Corners, LogNdtrWhereHalfOfTheSquareIsFinite) {
  EXPECT_EQ(log_ndtr(full({}, -0x1p64, f32)).item<double>(), -0x1p127);
  EXPECT_EQ(log_ndtr(full({}, -0x1p512, f64)).item<double>(), -0x1p1023);
}

TEST(Corners, FunctionsOfNarrowIntegersDoNotWrap) {
  // scipy.special
  const auto far = log_ndtr(tensor({-127, 1}, i8)).to_vector<float>();
  EXPECT_NEAR(far[0], -8070.2632, 1e-3);
  EXPECT_NEAR(far[1], -0.1727538, 1e-6);
  EXPECT_NEAR(log_ndtr(tensor({true, false})).to_vector<float>()[1], -0.6931472, 1e-6);
  for (const DType dtype : {i8, i32, i64}) {
    const auto odds = logit(tensor({5, -127, 0, 1}, dtype)).to_vector<float>();
    EXPECT_TRUE(std::isnan(odds[0]));
    EXPECT_TRUE(std::isnan(odds[1]));
    EXPECT_EQ(odds[2], -kInf);
    EXPECT_EQ(odds[3], kInf);
  }
  EXPECT_TRUE(std::isnan(logit(tensor({7}, u8)).item<float>()));
}

TEST(Corners, OperandsOfTwoDtypesAreComputedInTheWiderOne) {
  const Tensor x = tensor({-5.780316867193178});
  const double want = -5.780316867193178 * std::log1p(2.0);
  for (const Tensor& y : {xlog1py(x, 2), xlog1py(x, tensor({2}, u8)), xlog1py(x, 2.0)}) {
    EXPECT_EQ(y.dtype(), f64);
    EXPECT_NEAR(y.item(), want, 1e-14);
  }
  const Tensor half = tensor({-0.5});
  const double sum = std::log2(std::exp2(-0.5) + 4);
  EXPECT_NEAR(logaddexp2(half, tensor(2, u8)).item(), sum, 1e-14);
  EXPECT_NEAR(logaddexp2(2, half).item(), sum, 1e-14);
  EXPECT_EQ(logaddexp2(tensor({1.5f}).to(f16), tensor({2}, i8)).dtype(), f16);
  EXPECT_EQ(xlog1py(tensor({1.5f}).to(bf16), 1).dtype(), bf16);
  EXPECT_EQ(xlog1py(tensor({2}), tensor({3})).dtype(), f32);

  EXPECT_EQ(ldexp(tensor({3}, i8), tensor({0.5})).dtype(), f64);
  EXPECT_NEAR(ldexp(tensor({3}, i8), tensor({0.5})).item(), 3 * std::sqrt(2.0), 1e-14);
  EXPECT_EQ(ldexp(tensor({3.0f}), tensor({2})).dtype(), f32);
  EXPECT_EQ(ldexp(tensor({3.0f}), 2.0).dtype(), f32);
}

TEST(Corners, StepsBetweenPointsHaveTheDtypeOfTheValues) {
  const Tensor y = tensor({1.0, 2.0, 4.0});
  EXPECT_NEAR(trapezoid(y, 0.1).item(), 0.45, 1e-15);
  EXPECT_NEAR(cumulative_trapezoid(y, 0.1).to_vector<double>()[1], 0.45, 1e-15);
  EXPECT_NEAR(gradient(y, 0.1).to_vector<double>()[1], 15.0, 1e-13);
  for (const DType dtype : {f16, bf16, f32, f64}) {
    const Tensor z = y.to(dtype);
    EXPECT_EQ(trapezoid(z, 0.5).dtype(), dtype);
    EXPECT_EQ(cumulative_trapezoid(z, 0.5).dtype(), dtype);
    EXPECT_EQ(gradient(z, 0.5).dtype(), dtype);
  }
  EXPECT_EQ(trapezoid(tensor({1, 2, 4}), 0.5).dtype(), f32);
}

TEST(Corners, ScaledProductsOfIntegersAreIntegers) {
  const Tensor a = tensor({{1, 2}, {3, 4}}, i64);
  const Tensor made = addmm(a, a, a, 2, -1);
  EXPECT_EQ(made.dtype(), i64);
  EXPECT_EQ(made.to_vector<std::int64_t>(), (std::vector<std::int64_t>{-5, -6, -9, -14}));
  EXPECT_EQ(addmm(a, a, a, 0.5).dtype(), f32);
  EXPECT_EQ(baddbmm(a, stack({a, a}), stack({a, a}), 3).dtype(), i64);
}

TEST(Corners, ComplexVecdotConjugatesItsFirstOperand) {
  const Tensor a = complex(tensor({1.0, 2.0}), tensor({1.0, -1.0}));
  const Tensor b = complex(tensor({3.0, 0.5}), tensor({-1.0, 2.0}));
  const Tensor made = vecdot(a, b);
  EXPECT_EQ(real(made).item(), 1 * 3.0 + 1 * -1.0 + 2 * 0.5 - 1 * 2.0);
  EXPECT_EQ(imag(made).item(), 1 * -1.0 - 1 * 3.0 + 2 * 2.0 + 1 * 0.5);
}

TEST(Corners, NaNIsNotBelowAThreshold) {
  const auto kept = threshold(tensor({kNaN, 1.0, 0.0}), 0.5, -7).to_vector<double>();
  EXPECT_TRUE(std::isnan(kept[0]));
  EXPECT_EQ(kept[1], 1);
  EXPECT_EQ(kept[2], -7);
}

TEST(Corners, IntegersAreFinite) {
  for (const Tensor& x : {tensor({1, 0, -3}), tensor({true, false, true})}) {
    for (const Tensor& none : {isnan(x), isinf(x), isposinf(x), isneginf(x)}) {
      EXPECT_EQ(none.to_vector<bool>(), std::vector<bool>(3, false));
    }
    EXPECT_EQ(isfinite(x).to_vector<bool>(), std::vector<bool>(3, true));
  }
}

TEST(Corners, LogsumexpOfNothingIsMinusInfinity) {
  EXPECT_EQ(logsumexp(zeros({0})).item(), -kInf);
  const Tensor rows = logsumexp(zeros({2, 0}), {1}, true);
  EXPECT_EQ(rows.shape().numbers()[1], 1);
  EXPECT_EQ(rows.to_vector<float>(), std::vector<float>(2, static_cast<float>(-kInf)));
  EXPECT_EQ(logsumexp(zeros({0, 3}), {1}).numel(), Dim(0));
}

TEST(Corners, UniqueSaysWhereEachElementWent) {
  const Unique found = unique(tensor({{3, 1}, {1, 2}}));
  EXPECT_EQ(found.inverse.rank(), 2);
  EXPECT_EQ(index_select(found.values, 0, found.inverse).to_vector<int>(),
            (std::vector<int>{3, 1, 1, 2}));
  EXPECT_EQ(unique(tensor({{3, 1}, {1, 2}}), true, 0).inverse.rank(), 1);
}

TEST(Corners, AnEllipsisOfNoAxesKeepsTensorsApart) {
  const Tensor x = reshape(arange(6), {2, 1, 3}), rows = tensor({1, 0}, i64);
  // NumPy: np.arange(6).reshape(2, 1, 3)[None, [1, 0], 0, ..., [2, 1]] is [[5], [1]].
  const Tensor made = index(x, {newaxis, rows, 0, ellipsis, tensor({2, 1}, i64)});
  EXPECT_EQ(to_string(made.shape()), "[2, 1]");
  EXPECT_EQ(made.to_vector<std::int64_t>(), (std::vector<std::int64_t>{5, 1}));
  const Tensor near = index(x, {newaxis, rows, 0, tensor({2, 1}, i64)});
  EXPECT_EQ(to_string(near.shape()), "[1, 2]");
}

TEST(Corners, CeilModeTakesWindowsLargerThanTheImage) {
  const Tensor x = tensor({1.0, 2.0, 6.0}, {1, 1, 3});
  EXPECT_EQ(max_pool1d(x, 4, 4, 0, 1, true).to_vector<double>(), (std::vector<double>{6}));
  EXPECT_EQ(avg_pool1d(x, 4, 4, 0, true, true).to_vector<double>(), (std::vector<double>{3}));
  EXPECT_EQ(lp_pool(x, 1, 4, 4, 0, true).to_vector<double>(), (std::vector<double>{9}));
  const Tensor image = tensor({1.0f, -2.0f, 3.0f, 4.0f}, {1, 1, 2, 2});
  EXPECT_EQ(max_pool2d(image, 3, 2, 0, 1, true).to_vector<float>(), (std::vector<float>{4}));
  EXPECT_EQ(avg_pool2d(image, 3, 2, 0, true, true).to_vector<float>(), (std::vector<float>{1.5}));
  EXPECT_EQ(max_pool_with_indices(image, 3, 2, 0, 1, true)[1].item<std::int64_t>(), 3);
}

/// As in PyTorch: along axis 0 or -1 a scalar is one element, and results are scalars.
TEST(Corners, ScalarsAreOneElementAlongTheirAxis) {
  using Call = std::function<Tensor(const Tensor&, std::int64_t)>;
  struct Function {
    const char* name;
    double value, slope;
    Call call;
  };
  const Tensor first = full({}, 0, i64), one = full({}, 1, f64);
  const auto of = [](auto f) {
    return [f](const Tensor& x, std::int64_t a) { return f(x, a, false).values; };
  };
  const std::vector<Function> functions = {
      {"sum", 2.5, 1, [](const Tensor& x, std::int64_t a) { return sum(x, {a}); }},
      {"sum, kept", 2.5, 1, [](const Tensor& x, std::int64_t a) { return sum(x, {a}, true); }},
      {"mean", 2.5, 1, [](const Tensor& x, std::int64_t a) { return mean(x, {a}); }},
      {"prod", 2.5, 1, [](const Tensor& x, std::int64_t a) { return prod(x, {a}); }},
      {"max", 2.5, 1, [](const Tensor& x, std::int64_t a) { return max(x, {a}); }},
      {"min", 2.5, 1, [](const Tensor& x, std::int64_t a) { return min(x, {a}, true); }},
      {"var", 0, 0, [](const Tensor& x, std::int64_t a) { return var(x, {a}, 0); }},
      {"std", 0, 0, [](const Tensor& x, std::int64_t a) { return dyad::std(x, {a}, 0); }},
      {"norm", 2.5, 1, [](const Tensor& x, std::int64_t a) { return norm(x, 2, {a}); }},
      {"logsumexp", 2.5, 1, [](const Tensor& x, std::int64_t a) { return logsumexp(x, {a}); }},
      {"nansum", 2.5, 1, [](const Tensor& x, std::int64_t a) { return nansum(x, {a}); }},
      {"nanmean", 2.5, 1, [](const Tensor& x, std::int64_t a) { return nanmean(x, {a}); }},
      {"vecdot", 6.25, 5, [](const Tensor& x, std::int64_t a) { return vecdot(x, x, a); }},
      {"softmax", 1, 0, [](const Tensor& x, std::int64_t a) { return softmax(x, a); }},
      {"softmin", 1, 0, [](const Tensor& x, std::int64_t a) { return softmin(x, a); }},
      {"log_softmax", 0, 0, [](const Tensor& x, std::int64_t a) { return log_softmax(x, a); }},
      {"normalize", 1, 0, [](const Tensor& x, std::int64_t a) { return normalize(x, 2, a); }},
      {"cosine_similarity", 1, 0,
       [](const Tensor& x, std::int64_t a) { return cosine_similarity(x, x, a); }},
      {"sort", 2.5, 1, of([](auto& x, auto a, bool k) { return sort(x, a, k); })},
      {"topk", 2.5, 1, of([](auto& x, auto a, bool) { return topk(x, 1, a); })},
      {"kthvalue", 2.5, 1, of([](auto& x, auto a, bool) { return kthvalue(x, 1, a, true); })},
      {"median", 2.5, 1, of([](auto& x, auto a, bool k) { return median(x, a, k); })},
      {"nanmedian", 2.5, 1, of([](auto& x, auto a, bool) { return nanmedian(x, a, true); })},
      {"mode", 2.5, 1, of([](auto& x, auto a, bool k) { return mode(x, a, k); })},
      {"max_with_indices", 2.5, 1,
       of([](auto& x, auto a, bool k) { return max_with_indices(x, a, k); })},
      {"min_with_indices", 2.5, 1,
       of([](auto& x, auto a, bool) { return min_with_indices(x, a, true); })},
      {"cummax", 2.5, 1, of([](auto& x, auto a, bool) { return cummax(x, a); })},
      {"cummin", 2.5, 1, of([](auto& x, auto a, bool) { return cummin(x, a); })},
      {"quantile", 2.5, 1, [](const Tensor& x, std::int64_t a) { return quantile(x, 0.3, a); }},
      {"cumsum", 2.5, 1, [](const Tensor& x, std::int64_t a) { return cumsum(x, a); }},
      {"cumprod", 2.5, 1, [](const Tensor& x, std::int64_t a) { return cumprod(x, a); }},
      {"logcumsumexp", 2.5, 1, [](const Tensor& x, std::int64_t a) { return logcumsumexp(x, a); }},
      {"flip", 2.5, 1, [](const Tensor& x, std::int64_t a) { return flip(x, {a}); }},
      {"transpose", 2.5, 1, [](const Tensor& x, std::int64_t a) { return transpose(x, a, 0); }},
      {"movedim", 2.5, 1, [](const Tensor& x, std::int64_t a) { return movedim(x, a, -1); }},
      {"gather", 2.5, 1, [=](const Tensor& x, std::int64_t a) { return gather(x, a, first); }},
      {"index_select", 2.5, 1,
       [=](const Tensor& x, std::int64_t a) { return index_select(x, a, first); }},
      {"scatter", 1, 0, [=](const Tensor& x, std::int64_t a) { return scatter(x, a, first, one); }},
      {"scatter, number", 7, 0,
       [=](const Tensor& x, std::int64_t a) { return scatter(x, a, first, 7); }},
      {"scatter_add", 3.5, 1,
       [=](const Tensor& x, std::int64_t a) { return scatter_add(x, a, first, one); }},
      {"scatter_reduce", 2.5, 1,
       [=](const Tensor& x, std::int64_t a) { return scatter_reduce(x, a, first, one, "prod"); }},
      {"index_add", 3.5, 1,
       [=](const Tensor& x, std::int64_t a) { return index_add(x, a, first, one); }},
      {"index_copy", 1, 0,
       [=](const Tensor& x, std::int64_t a) { return index_copy(x, a, first, one); }},
      {"index_fill", 4, 0,
       [=](const Tensor& x, std::int64_t a) { return index_fill(x, a, first, 4); }},
  };
  for (const auto& [name, value, slope, call] : functions) {
    for (const std::int64_t axis : {0, -1}) {
      Tensor x = full({}, 2.5, f64).requires_grad();
      const auto f = [&](const Tensor& given) {
        Tensor made = call(given, axis);
        (made * 1.0).backward();
        return made;
      };
      const Tensor made = f(x);
      EXPECT_EQ(type_string(made), "f64[]") << name;
      EXPECT_DOUBLE_EQ(made.item<double>(), value) << name;
      ASSERT_TRUE(x.grad().defined()) << name;
      EXPECT_NEAR(x.grad().item<double>(), slope, 1e-14) << name;
      const auto compiled = compile([&](const Tensor& given) { return call(given, axis); });
      EXPECT_EQ(compiled(x.detach()).item<double>(), made.item<double>()) << name;
    }
  }
}

TEST(Corners, PlacesInAScalarAreZero) {
  const Tensor x = full({}, 2.5), yes = full({}, 1, boolean);
  for (const std::int64_t axis : {0, -1}) {
    for (const Tensor& place :
         {argmax(x, axis), argmin(x, axis, true), argsort(x, axis), sort(x, axis).indices,
          cummax(x, axis).indices, median(x, axis).indices, mode(x, axis).indices}) {
      EXPECT_EQ(type_string(place), "i64[]");
      EXPECT_EQ(place.item<std::int64_t>(), 0);
    }
    EXPECT_EQ(type_string(any(yes, {axis})), "bool[]");
    EXPECT_TRUE(all(yes, {axis}, true).item<bool>());
    EXPECT_EQ(count_nonzero(x, {axis}).item<std::int64_t>(), 1);
    const Tensor z = complex(x, x);
    EXPECT_EQ(imag(sum(z, {axis})).item<double>(), 2.5);
  }
}

const std::vector<BadCall> kCornerCalls = {
    {Kind::shape,
     "max_pool(x: f32[1, 1, 1], kernel = [4], stride = [2], low = [0], high = [0], dilation = "
     "[1], ceil_mode = true): the length with padding is 1, less than the kernel's 4",
     CALL(max_pool1d(F(1, 1, 1), 4, 2, 0, 1, true))},
    {Kind::shape, "median(f32[3, 0]): axis 1 has size 0, and no elements have no middle one",
     CALL(median(F(3, 0), 1))},
    {Kind::shape, "nanmedian(f32[0]): axis 0 has size 0, and no elements have no middle one",
     CALL(nanmedian(F(0)))},
    {Kind::index, "median: axis 1 is out of range for a tensor of rank 0: a scalar has no axes",
     CALL(median(F(), 1))},
    {Kind::index,
     "sum(x: f32[], axes = [1]): axis 1 is out of range for a scalar, which has no axes",
     CALL(sum(F(), {1}))},
    {Kind::index,
     "softmax(x: f32[], axis = -2): axis -2 is out of range for a scalar, which has no axes",
     CALL(softmax(F(), -2))},
    {Kind::index, "select(x: f32[]): axis 0 is out of range for a scalar, which has no axes",
     CALL(select(F(), 0, 0))},
};
TEST(Errors, OfCorners) { expect_errors(kCornerCalls, "corners_test.cpp"); }

// numpy.pad() of the same.
TEST(Corners, PadsByMoreThanThereIs) {
  const auto padded = [](const char* mode, std::int64_t low, std::int64_t high) {
    return [=](const Tensor& x) { return pad(x, {low}, {high}, mode); };
  };
  using Numbers = std::vector<std::int64_t>;
  const Tensor x = arange(1, 4);
  EXPECT_EQ(in_both_modes<std::int64_t>(padded("reflect", 5, 3), x),
            (Numbers{2, 1, 2, 3, 2, 1, 2, 3, 2, 1, 2}));
  EXPECT_EQ(in_both_modes<std::int64_t>(padded("reflect", 3, 0), x), (Numbers{2, 3, 2, 1, 2, 3}));
  EXPECT_EQ(in_both_modes<std::int64_t>(padded("wrap", 4, 7), x),
            (Numbers{3, 1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3, 1}));
  EXPECT_EQ(in_both_modes<std::int64_t>(padded("reflect", 2, 1), arange(7, 8)),
            (Numbers{7, 7, 7, 7}));
}

TEST(Corners, PadsOfSizesThatShrinkBelowTheCounts) {
  for (const char* mode : {"reflect", "wrap"}) {
    const auto padded = [=](const Tensor& x) { return pad(x, {3}, {2}, mode) * 2; };
    const auto compiled = compile(padded);
    for (const std::int64_t size : {7, 9, 12, 5, 4, 3, 2, 1, 6, 2, 8}) {
      const Tensor x = arange(0, size);
      EXPECT_EQ(compiled(x).to_vector<std::int64_t>(), padded(x).to_vector<std::int64_t>())
          << mode << " " << size;
    }
    Graph graph;
    const Tensor x = graph.placeholder("x", f32, {"n"});
    const Tensor y = graph.define([&] { return padded(x); });
    Session session(graph);
    EXPECT_EQ(session.run({y}, {{"x", arange(0.0, 6.0).to(f32)}})[0].to_vector<float>(),
              padded(arange(0.0, 6.0).to(f32)).to_vector<float>());
    EXPECT_THAT(message_of<ShapeError>([&] { session.run({y}, {{"x", ones({2})}}); }),
                ::testing::HasSubstr("but must have 3"));
  }
}

}  // namespace
}  // namespace dyad::testing
