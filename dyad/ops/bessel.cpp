#include <span>

#include "dyad/ops/arithmetic.h"
#include "dyad/ops/elementary.h"
#include "dyad/ops/numeric.h"
#include "dyad/ops/op_support.h"
#include "dyad/ops/registry.h"

// Modified Bessel functions by Chebyshev series: of exp(-x) i0(x) on [0, 8], and of i0 and i1 times
// exp(-x) sqrt(x) beyond, with coefficients computed in 50 digits. A series of i1 on [0, 8] would
// cancel: there it is its power series.
namespace dyad {
namespace ops {
namespace {

using scalar::ScalarType;

constexpr double kI0Near[] = {
    0x1.5a84e9035a22ap-2,  -0x1.37febc057cd8dp-2,  0x1.5f7ac77ac88c0p-3,  -0x1.84b70342d06eap-4,
    0x1.93e8acea8a32dp-5,  -0x1.84e9ef121b6f0p-6,  0x1.59961f3dde3ddp-7,  -0x1.1b65e201aa849p-8,
    0x1.adc758a12100ep-10, -0x1.2e2fd1f15eb52p-11, 0x1.8b51b74107cabp-13, -0x1.e2b2659c41d5ap-15,
    0x1.13f58be9a2859p-16, -0x1.2866fcba56427p-18, 0x1.2bf24978cf4acp-20, -0x1.1ec638f227f8dp-22,
    0x1.03b769d4d6435p-24, -0x1.beaf68c0b30abp-27, 0x1.6d903a454cb34p-29, -0x1.1d4fe13ae9556p-31,
    0x1.a98becc743c10p-34, -0x1.2fc957a946abcp-36, 0x1.9fe2fe19bd324p-39, -0x1.1164c62ee1af0p-41,
    0x1.59b464b262627p-44, -0x1.a5022c297fbebp-47, 0x1.ee6d893f65ebap-50, -0x1.184eb721ebbb4p-52,
    0x1.33362977da589p-55, -0x1.45cb72134d0efp-58};
constexpr double kI0Far[] = {
    0x1.9be62aca809cbp-2,   0x1.b998ca2e59049p-9,   0x1.20fa378999e52p-14,  0x1.8412bc101c586p-19,
    0x1.b8007d9cd616ep-23,  0x1.8569280d6d56dp-26,  0x1.d2c64a9225b87p-29,  0x1.0f9ccc0f46f75p-31,
    0x1.a24feabe8004fp-37,  -0x1.1511d08397425p-35, -0x1.d0fd7357e7bf2p-37, -0x1.f904303178d66p-40,
    0x1.94347fa268cecp-41,  0x1.b1c8c6b83c073p-42,  0x1.156ff0d5fc545p-46,  -0x1.75d99cf68bb32p-45,
    -0x1.583fe7e65629ap-47, 0x1.12a919094e6d7p-48,  0x1.fee7da3eafb1fp-50,  -0x1.8aee7d908de38p-52,
    -0x1.4600babd21fe4p-52, 0x1.3f3dd076041cdp-55,  0x1.9be1812d98421p-55,  -0x1.646da66119130p-58,
    -0x1.0adb754ca8b19p-57};
constexpr double kI1Far[] = {
    0x1.8ea18b55b1514p-2,   -0x1.3fda053fcdb4cp-7,  -0x1.cfd7f804aa9a6p-14, -0x1.048df49ca0373p-18,
    -0x1.0dbfd2e9e5443p-22, -0x1.c415394bb46c1p-26, -0x1.0790b9ad53528p-28, -0x1.334ca5423dd80p-31,
    -0x1.4dcf9d4504c0cp-36, 0x1.1e1a1f1587865p-35,  0x1.f101f653c457bp-37,  0x1.1e7d3f6439fa3p-39,
    -0x1.953e1076ab493p-41, -0x1.cbc458e73e255p-42, -0x1.7a9482e6d22a0p-46, 0x1.80d3c26b3281ep-45,
    0x1.776e1762d31e8p-47,  -0x1.12db5138afbc7p-48, -0x1.0efcd8bc4d22ap-49, 0x1.7d68e5f04a2d1p-52,
    0x1.55915fceb588ap-52,  -0x1.2806c9c773320p-55, -0x1.acea3b2532277p-55, 0x1.45b8aea87b950p-58,
    0x1.1556db352e8e6p-57};

/// The series by Clenshaw's rule; f32 needs the first terms only.
Scalar chebyshev(Scalar t, std::span<const double> coefficients, std::size_t terms_in_f32) {
  const bool wide = t.type() == ScalarType::f64;
  const std::size_t terms = wide ? coefficients.size() : terms_in_f32;
  Scalar next = t.like(0.0), after = t.like(0.0);
  const Scalar twice = t * 2.0;
  for (std::size_t k = terms - 1; k > 0; --k) {
    const Scalar here = scalar::fma(twice, next, t.like(coefficients[k]) - after);
    after = next;
    next = here;
  }
  return scalar::fma(t, next, t.like(coefficients[0]) - after);
}

/// The function times exp(-large), for numbers from 8 on.
Scalar far_from_zero(Scalar large, int order) {
  const std::span<const double> series = order == 0 ? std::span<const double>(kI0Far) : kI1Far;
  return chebyshev(16.0 / large - 1.0, series, 8) / scalar::sqrt(large);
}

/// The function of order n divided by x^n, up to 8: the power series, whose terms are all positive,
/// the sum of (x^2 / 4)^k / (k! (n + k)!) / 2^n.
Scalar near_zero(std::int64_t n, Scalar x) {
  const Scalar t = x * x * 0.25;
  Scalar sum = x.like(1.0);
  for (int k = x.type() == ScalarType::f64 ? 25 : 15; k > 0; --k) {
    sum = scalar::fma(sum, t * (1.0 / (static_cast<double>(k) * static_cast<double>(n + k))),
                      x.like(1.0));
  }
  double divisor = 1;
  for (std::int64_t k = 1; k <= n; ++k) divisor *= 2 * static_cast<double>(k);
  return sum * (1 / divisor);
}

/// The function of |x| times exp(-|x|).
Scalar scaled(Scalar x, int order) {
  const Scalar size = scalar::abs(x), close = scalar::min(size, x.like(8.0));
  const Scalar near = order == 0 ? chebyshev(close * 0.25 - 1.0, kI0Near, 20)
                                 : close * near_zero(1, close) * scalar::exp(-close);
  const Scalar far = far_from_zero(scalar::max(size, x.like(8.0)), order);
  return scalar::select(x != x, x, scalar::select(size <= 8.0, near, far));
}

/// Times exp(|x|), in two steps that overflow no earlier than the product.
Scalar unscaled(Scalar x, Scalar value) {
  const Scalar half = scalar::exp(scalar::abs(x) * 0.5);
  return scalar::select(scalar::isinf(x), scalar::abs(x), value * half * half);
}

constexpr Samples kSamples{.edges = "0 -0 1e-8 0.5 -0.5 3 -7.9 8 8.1 20 -60 85 inf -inf nan"};

struct BesselRatioAttrs {
  std::int64_t n = 1;
  bool scaled = false;
};

/// What the derivatives of the functions below are made of: a division of one of them by x would
/// leave no digits near 0. J_n(x) = I_n(x) / x^n is even, and its derivative is x J_(n + 1)(x).
struct BesselRatio {
  using Attrs = BesselRatioAttrs;
  static constexpr Schema schema = unary_function(
      "bessel_ratio",
      "The modified Bessel function of the first kind of order n divided by x^n; scaled: times "
      "exp(-|x|).",
      {}, kSamples, kFirst);
  static Types infer(const InferIn& in, const Attrs& attrs) {
    if (attrs.n < 1 || attrs.n > 20) fail_value(in, "the order n must be from 1 to 20");
    return infer_pointwise(in);
  }
  static Scalar eval(const Attrs& attrs, Scalar x) {
    const Scalar size = scalar::abs(x), limit = x.like(8.0);
    const Scalar close = near_zero(attrs.n, scalar::min(size, limit));
    const Scalar large = scalar::max(size, limit);
    const Scalar wide = by_recurrence(attrs.n, large);
    const Scalar value = attrs.scaled
                             ? scalar::select(size <= 8.0, close * scalar::exp(-size), wide)
                             : scalar::select(size <= 8.0, close, unscaled(large, wide));
    return scalar::select(x != x, x, value);
  }
  static void grad(Gradient& g, const Attrs& attrs) {
    const Tensor grad = widened(g.grad()), x = to(g.input(0), grad.dtype());
    Tensor slope = x * ratio(x, attrs.n + 1, attrs.scaled);
    if (attrs.scaled) slope = slope - sign(x) * ratio(x, attrs.n, true);
    g.set(0, grad * slope);
  }
  static Tensor ratio(const Tensor& x, std::int64_t n, bool scaled) {
    return apply<BesselRatio>({.n = n, .scaled = scaled}, {}, x);
  }

 private:
  /// Times exp(-x), from orders 0 and 1: J_(m + 1) = (J_(m - 1) - 2 m J_m) / x^2.
  static Scalar by_recurrence(std::int64_t n, Scalar x) {
    Scalar before = far_from_zero(x, 0), here = far_from_zero(x, 1) / x;
    for (std::int64_t m = 1; m < n; ++m) {
      const Scalar next = (before - here * (2 * static_cast<double>(m))) / x / x;
      before = here;
      here = next;
    }
    return here;
  }
};

struct I0 {
  using Attrs = NoAttrs;
  static constexpr Schema schema = unary_function(
      "i0", "The modified Bessel function of the first kind of order 0.", {}, kSamples, kFirst);
  static Scalar eval(Scalar x) { return unscaled(x, scaled(x, 0)); }
  static void grad(Gradient& g, const Attrs&) { g.set(0, g.grad() * i1(g.input(0))); }
};

struct I1 {
  using Attrs = NoAttrs;
  static constexpr Schema schema = unary_function(
      "i1", "The modified Bessel function of the first kind of order 1.", {}, kSamples, kFirst);
  static Scalar eval(Scalar x) {
    const Scalar size = scalar::abs(x), close = scalar::min(size, x.like(8.0));
    const Scalar large = unscaled(x, far_from_zero(scalar::max(size, x.like(8.0)), 1));
    const Scalar value = scalar::select(size <= 8.0, close * near_zero(1, close), large);
    return scalar::copysign(scalar::select(x != x, x, value), x);
  }
  static void grad(Gradient& g, const Attrs&) {
    const Tensor grad = widened(g.grad()), x = to(g.input(0), grad.dtype());
    g.set(0, grad * (i0(x) - BesselRatio::ratio(x, 1, false)));
  }
};

struct I0e {
  using Attrs = NoAttrs;
  static constexpr Schema schema = unary_function("i0e", "exp(-|x|) i0(x).", {}, kSamples, kFirst);
  static Scalar eval(Scalar x) { return scaled(x, 0); }
  static void grad(Gradient& g, const Attrs&) {
    const Tensor grad = widened(g.grad()), x = to(g.input(0), grad.dtype());
    g.set(0, grad * (i1e(x) - sign(x) * i0e(x)));
  }
};

struct I1e {
  using Attrs = NoAttrs;
  static constexpr Schema schema = unary_function("i1e", "exp(-|x|) i1(x).", {}, kSamples, kFirst);
  static Scalar eval(Scalar x) { return scalar::copysign(scaled(x, 1), x); }
  static void grad(Gradient& g, const Attrs&) {
    const Tensor grad = widened(g.grad()), x = to(g.input(0), grad.dtype());
    g.set(0, grad * (i0e(x) - sign(x) * i1e(x) - BesselRatio::ratio(x, 1, true)));
  }
};

}  // namespace

std::span<const OpInfo* const> bessel_rows() {
  static constexpr const OpInfo* kRows[] = {&op_info<BesselRatio>, &op_info<I0>, &op_info<I1>,
                                            &op_info<I0e>, &op_info<I1e>};
  return kRows;
}

}  // namespace ops

Tensor i0(const Tensor& x, Loc loc) { return apply<ops::I0>({}, loc, x); }
Tensor i1(const Tensor& x, Loc loc) { return apply<ops::I1>({}, loc, x); }
Tensor i0e(const Tensor& x, Loc loc) { return apply<ops::I0e>({}, loc, x); }
Tensor i1e(const Tensor& x, Loc loc) { return apply<ops::I1e>({}, loc, x); }

}  // namespace dyad
