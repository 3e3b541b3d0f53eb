#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <string>

#include "dyad/base/error.h"
#include "dyad/core/generator.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/ops/attrs/random.h"
#include "dyad/runtime/cpu/element.h"
#include "dyad/runtime/cpu/kernels.h"
#include "dyad/runtime/cpu/rows.h"
#include "dyad/runtime/threads.h"

namespace dyad::runtime::cpu {
namespace {

/// Above it numbers are normal ones, moved and rounded.
constexpr double kLargeVariance = 0x1p20;

/// In (0, 1), and in [0, 1).
double inner(std::uint32_t word) { return (word + 0.5) * 0x1p-32; }
double standard_normal(std::uint32_t first, std::uint32_t second) {
  return std::sqrt(-2 * std::log(inner(first))) * std::cos(2 * std::numbers::pi * second * 0x1p-32);
}

/// A gamma distributed number, or its logarithm: G. Marsaglia, W. Tsang, "A simple method for
/// generating gamma variables", 2000. The place is that of the first of its tries.
double gamma_number(double alpha, bool logarithm, const RandomKey& key, std::int64_t place) {
  // Below 1: that of alpha + 1, times u^(1 / alpha).
  const double shape = alpha < 1 ? alpha + 1 : alpha, d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  for (std::int64_t i = 0;; ++i) {
    const std::array<std::uint32_t, 4> words = random_words(key, place + i);
    const double z = standard_normal(words[0], words[1]), root = 1 + c * z;
    const double v = root * root * root;
    // One try in twenty fails: the last one is not needed in a lifetime.
    const bool last = i + 1 == ops::kGammaTries;
    if (!last && !(v > 0 && std::log(inner(words[2])) < z * z / 2 + d - d * v + d * std::log(v))) {
      continue;
    }
    const double drawn = d * std::max(v, 0x1p-1000);
    if (alpha >= 1) return logarithm ? std::log(drawn) : drawn;
    const double both = std::log(drawn) + std::log(inner(words[3])) / alpha;
    return logarithm ? both : std::exp(both);
  }
}

/// log(n!) less its first terms by Stirling's formula.
double stirling_rest(double n) {
  if (n >= 16) {
    const double r = 1 / (n * n);
    return (1.0 / 12 - (1.0 / 360 - (1.0 / 1260 - r / 1680) * r) * r) / n;
  }
  double factorial = 1;
  for (double k = 2; k <= n; ++k) factorial *= k;
  if (n == 0) return 0;
  return std::log(factorial) - (n + 0.5) * std::log(n) + n - 0.5 * std::log(2 * std::numbers::pi);
}

/// The probability of m out of n, 0 <= m <= n: C. Loader, "Fast and accurate computation of
/// binomial probabilities", 2000.
double binomial_probability(double m, double n, double p) {
  if (m == 0) return std::exp(n * std::log1p(-p));
  if (m == n) return std::exp(n * std::log(p));
  const double expected = n * p, difference = expected - m;
  const double deviance =
      m * std::log1p(difference / m) + (n - m) * std::log1p(-difference / (n - m));
  const double rest = stirling_rest(n) - stirling_rest(m) - stirling_rest(n - m);
  return std::exp(rest + deviance) * std::sqrt(n / (2 * std::numbers::pi * m * (n - m)));
}

/// The number at u in [0, 1) when the numbers are ranged from the most probable one outwards, the
/// larger one first; p is at most 1/2.
double binomial_number(double n, double p, double u) {
  const double odds = p / (1 - p), middle = std::floor((n + 1) * p);
  double above = middle, below = middle, p_above = binomial_probability(middle, n, p);
  double p_below = p_above;
  u -= p_above;
  while (u >= 0 && (p_above > 0x1p-70 || p_below > 0x1p-70)) {
    p_above *= (n - above) / (above + 1) * odds;
    ++above;
    u -= p_above;
    if (u < 0) return above;
    p_below *= below / ((n - below + 1) * odds);
    --below;
    u -= p_below;
    if (u < 0) return below;
  }
  return middle;
}

/// By the expansion of Cornish and Fisher to the second order.
double binomial_by_normal(double n, double p, double z) {
  const double moved = n * p + std::sqrt(n * p * (1 - p)) * z + (z * z - 1) * (1 - 2 * p) / 6;
  return std::clamp(std::floor(moved + 0.5), 0.0, n);
}

[[noreturn]] void fail_element(const OpCall& call, std::size_t input, std::int64_t i, double value,
                               std::string_view rule) {
  throw ValueError(std::string(call.op.name) + "(" + type_string(call.inputs[input]) +
                       "): " + std::string(call.op.inputs[input].name) + " of element " +
                       std::to_string(i) + ", " + std::to_string(value) + ", must be " +
                       std::string(rule),
                   call.loc.user());
}

RandomKey key_of(const OpCall& call, std::size_t first) {
  const auto number = [&](std::size_t i) {
    return *reinterpret_cast<const std::int64_t*>(call.inputs[i].impl()->data);
  };
  return {number(first), number(first + 1)};
}

/// Runs `check(i, x...)` and then `draw(i, x...)` for the elements x of the first N inputs, of one
/// dtype, and stores what is drawn.
template <std::size_t N, class Check, class Draw>
void draw_each(const OpCall& call, Check&& check, Draw&& draw) {
  const TensorImpl& out = *call.outputs[0].impl();
  const Ints sizes(out.shape.numbers().begin(), out.shape.numbers().end());
  std::array<Ints, N> strides;
  for (std::size_t k = 0; k < N; ++k) {
    const TensorImpl& x = *call.inputs[k].impl();
    strides[k] = Ints(x.strides.begin(), x.strides.end());
  }
  const std::int64_t count = out.numel();
  with_floating(out.dtype, [&]<class T>(T) {
    const auto elements = [&](const RowWalk<N>& at) {
      std::array<double, N> x;
      for (std::size_t k = 0; k < N; ++k) {
        x[k] = static_cast<double>(
            load(reinterpret_cast<const T*>(call.inputs[k].impl()->data)[at[k]]));
      }
      return x;
    };
    RowWalk<N> first(sizes, strides, 0);
    for (std::int64_t i = 0; i < count; ++i, first.next()) check(i, elements(first));
    T* const to = reinterpret_cast<T*>(out.data);
    parallel_for(0, count, grain_for({.flops = 500}, count), [&](std::int64_t lo, std::int64_t hi) {
      RowWalk<N> at(sizes, strides, lo);
      for (std::int64_t i = lo; i < hi; ++i, at.next()) {
        to[i] = store<T>(static_cast<Accumulator<T>>(draw(i, elements(at))));
      }
    });
  });
}

void standard_gamma(const OpCall& call) {
  const bool logarithm = call.attrs_as<ops::StandardGammaAttrs>().logarithm;
  const RandomKey key = key_of(call, 1);
  draw_each<1>(
      call,
      [&](std::int64_t i, const std::array<double, 1>& x) {
        if (!(x[0] > 0 && std::isfinite(x[0]))) {
          fail_element(call, 0, i, x[0], "finite and above 0");
        }
      },
      [&](std::int64_t i, const std::array<double, 1>& x) {
        return gamma_number(x[0], logarithm, key, i * ops::kGammaTries);
      });
}

void binomial(const OpCall& call) {
  const RandomKey key = key_of(call, 2);
  draw_each<2>(
      call,
      [&](std::int64_t i, const std::array<double, 2>& x) {
        if (!(x[0] >= 0 && x[0] <= 0x1p53 && std::floor(x[0]) == x[0])) {
          fail_element(call, 0, i, x[0], "a whole number from 0 to 2^53");
        }
        if (!(x[1] >= 0 && x[1] <= 1)) fail_element(call, 1, i, x[1], "from 0 to 1");
      },
      [&](std::int64_t i, const std::array<double, 2>& x) {
        const double n = x[0], p = std::min(x[1], 1 - x[1]);
        const std::array<std::uint32_t, 4> words = random_words(key, i);
        const std::uint64_t bits = (static_cast<std::uint64_t>(words[0]) << 21) | (words[1] >> 11);
        const double drawn = n * p * (1 - p) < kLargeVariance
                                 ? binomial_number(n, p, static_cast<double>(bits) * 0x1p-53)
                                 : binomial_by_normal(n, p, standard_normal(words[0], words[1]));
        return x[1] > 0.5 ? n - drawn : drawn;
      });
}

}  // namespace

std::span<const NamedKernel> variates_kernels() {
  static constexpr NamedKernel kernels[] = {{"standard_gamma", {standard_gamma}},
                                            {"binomial", {binomial}}};
  return kernels;
}

}  // namespace dyad::runtime::cpu
