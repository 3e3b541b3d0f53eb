#include "dyad/runtime/cpu/fft_plan.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>

#include "dyad/runtime/cpu/fft_lanes.h"
#include "dyad/runtime/cpu/lru.h"

namespace dyad::runtime::cpu {
namespace {

/// The largest prime factor that has a pass of its own.
constexpr std::int64_t kLargestRadix = kFftLargestRadix;
/// Lines longer than this leave the second-level cache when several lie in lanes.
constexpr std::int64_t kLongest = 2048;
/// Lines shorter than this are no matrix worth the name.
constexpr std::int64_t kShortest = 128;

/// Lines from here on may gain by being matrices, however many there are.
constexpr std::int64_t kMatrix = 512;

/// exp(-2 pi i k / n), right to the last bit or two of f64: from an angle of at most an eighth of
/// the circle, as a product of two numbers from tables of the square root's size.
class Roots {
 public:
  explicit Roots(std::int64_t n) : n_(n) {
    while (step_ * step_ < n) step_ *= 2;
    low_.reserve(static_cast<std::size_t>(step_));
    for (std::int64_t i = 0; i < step_; ++i) low_.push_back(at(i));
    for (std::int64_t i = 0; i <= n; i += step_) high_.push_back(at(i));
  }

  [[nodiscard]] std::complex<long double> operator()(std::int64_t k) const {
    // In eighths of a step, so that every eighth of the circle begins at a whole number.
    std::int64_t x = 8 * (k % n_);
    const bool lower = x > 4 * n_;
    if (lower) x = 8 * n_ - x;
    const bool left = x > 2 * n_;
    if (left) x = 4 * n_ - x;
    const bool steep = x > n_;
    if (steep) x = 2 * n_ - x;
    const Number p = low_[static_cast<std::size_t>(x % step_)];
    const Number q = high_[static_cast<std::size_t>(x / step_)];
    long double cosine = p.real() * q.real() - p.imag() * q.imag();
    long double sine = p.real() * q.imag() + p.imag() * q.real();
    if (steep) std::swap(cosine, sine);
    return {left ? -cosine : cosine, lower ? sine : -sine};
  }

 private:
  using Number = std::complex<long double>;
  [[nodiscard]] Number at(std::int64_t x) const {
    const long double angle =
        std::numbers::pi_v<long double> * static_cast<long double>(x) / (4 * n_);
    return {std::cos(angle), std::sin(angle)};
  }

  std::int64_t n_, step_ = 1;
  std::vector<Number> low_, high_;
};

template <class T>
void append(std::vector<T>& table, std::complex<long double> z) {
  table.push_back(static_cast<T>(z.real()));
  table.push_back(static_cast<T>(z.imag()));
}

/// The prime factors, eights and fours first; the last one may be large.
std::vector<std::int64_t> radices_of(std::int64_t n) {
  std::vector<std::int64_t> radices;
  int twos = 0;
  for (; n % 2 == 0; n /= 2) ++twos;
  for (; twos >= 5 || twos == 3; twos -= 3) radices.push_back(8);
  for (; twos >= 2; twos -= 2) radices.push_back(4);
  if (twos == 1) radices.push_back(2);
  for (std::int64_t p = 3; p * p <= n; p += 2) {
    for (; n % p == 0; n /= p) radices.push_back(p);
  }
  if (n > 1) radices.push_back(n);
  return radices;
}

bool is_smooth(std::int64_t n) {
  const std::vector<std::int64_t> radices = radices_of(n);
  return radices.empty() || *std::max_element(radices.begin(), radices.end()) <= kLargestRadix;
}

/// A size for a convolution of at least `n` numbers that transforms well.
std::int64_t good_size(std::int64_t n) {
  std::int64_t best = 0;
  for (const std::int64_t odd : {1, 3, 5, 9, 15}) {
    std::int64_t size = odd;
    while (size < n) size *= 2;
    if (best == 0 || size < best) best = size;
  }
  return best;
}

/// exp(-pi i k^2 / n) for k < n.
std::vector<std::complex<long double>> chirp_of(std::int64_t n) {
  const Roots roots(2 * n);
  std::vector<std::complex<long double>> chirp;
  chirp.reserve(static_cast<std::size_t>(n));
  std::int64_t square = 0;  // k^2 modulo 2 n
  for (std::int64_t k = 0; k < n; ++k) {
    chirp.push_back(roots(square));
    square = (square + 2 * k + 1) % (2 * n);
  }
  return chirp;
}

/// The transform of the chirp's conjugate over m numbers, and 1 / m for the way back.
std::vector<std::complex<double>> filter_of(const std::vector<std::complex<long double>>& chirp,
                                            std::int64_t m) {
  std::vector<std::complex<double>> filter(static_cast<std::size_t>(m));
  const auto n = static_cast<std::int64_t>(chirp.size());
  for (std::int64_t k = 0; k < n; ++k) {
    const std::complex<long double> z =
        std::conj(chirp[static_cast<std::size_t>(k)]) / static_cast<long double>(m);
    filter[static_cast<std::size_t>(k)] = std::complex<double>(z);
    filter[static_cast<std::size_t>((m - k) % m)] = std::complex<double>(z);
  }
  transform_in_place(filter);
  return filter;
}

template <class T>
std::unique_ptr<LanesPlan<T>> plan_lanes(std::int64_t n) {
  auto plan = std::make_unique<LanesPlan<T>>();
  plan->n = n;
  if (!is_smooth(n)) {
    plan->inner_plan = plan_lanes<T>(good_size(2 * n - 1));
    plan->inner = plan->inner_plan.get();
    plan->capacity = plan->inner->capacity;
    const auto chirp = chirp_of(n);
    for (const auto& z : chirp) append(plan->table, z);
    for (const auto& z : filter_of(chirp, plan->inner->n)) append<T>(plan->table, z);
    plan->chirp = plan->table.data();
    plan->filter = plan->chirp + 2 * n;
    return plan;
  }
  plan->capacity = n + 1;
  const Roots roots(n);
  std::vector<std::size_t> twiddles, own_roots;
  std::int64_t stride = 1;
  for (const std::int64_t radix : radices_of(n)) {
    const std::int64_t blocks = n / (stride * radix);
    twiddles.push_back(plan->table.size());
    for (std::int64_t p = 0; blocks > 1 && p < blocks; ++p) {
      for (std::int64_t k = 1; k < radix; ++k) append(plan->table, roots(p * k * stride));
    }
    own_roots.push_back(plan->table.size());
    for (std::int64_t k = 0; radix > 5 && radix != 8 && k < radix; ++k) {
      append(plan->table, roots(n / radix * k));
    }
    plan->pass_list.push_back({radix, blocks, stride, nullptr, nullptr});
    stride *= radix;
  }
  for (std::size_t i = 0; i < plan->pass_list.size(); ++i) {
    plan->pass_list[i].twiddles = plan->table.data() + twiddles[i];
    plan->pass_list[i].roots = plan->table.data() + own_roots[i];
  }
  plan->passes = plan->pass_list.data();
  plan->count = static_cast<int>(plan->pass_list.size());
  return plan;
}

/// The divisor of n nearest to its square root from below.
std::int64_t rows_of(std::int64_t n) {
  auto d = static_cast<std::int64_t>(std::sqrt(static_cast<double>(n)));
  while (n % d != 0) --d;
  return d;
}

template <class T>
std::unique_ptr<LinePlan<T>> plan_line(std::int64_t n, int lanes) {
  auto plan = std::make_unique<LinePlan<T>>();
  plan->n = n;
  if (!is_smooth(n)) {
    plan->inner = plan_line<T>(good_size(2 * n - 1), lanes);
    const auto chirp = chirp_of(n);
    for (const auto& z : chirp) plan->chirp.push_back(std::complex<T>(z));
    for (const auto& z : filter_of(chirp, plan->inner->n)) {
      plan->filter.push_back(std::complex<T>(z));
    }
    return plan;
  }
  plan->n1 = rows_of(n);
  plan->n2 = n / plan->n1;
  plan->columns = plan_lanes<T>(plan->n1);
  plan->rows = plan_lanes<T>(plan->n2);
  const Roots roots(n);
  const std::int64_t blocks = (plan->n2 + lanes - 1) / lanes;
  plan->twiddles.resize(static_cast<std::size_t>(blocks * plan->n1 * 2 * lanes));
  T* to = plan->twiddles.data();
  for (std::int64_t block = 0; block < blocks; ++block) {
    for (std::int64_t k = 0; k < plan->n1; ++k, to += 2 * lanes) {
      for (int lane = 0; lane < lanes; ++lane) {
        const std::complex<long double> z = roots((block * lanes + lane) * k);
        to[lane] = static_cast<T>(z.real());
        to[lanes + lane] = static_cast<T>(z.imag());
      }
    }
  }
  return plan;
}

}  // namespace

bool runs_by_line(std::int64_t n, bool real, std::int64_t lines, int lanes) noexcept {
  if (n > kLongest || (n >= kShortest && 2 * lines <= lanes)) return true;
  // A matrix without lanes to spare stays in the first-level cache, and turns lines into lanes half
  // as often; but the two ends of a real transform run in lanes alone.
  if (real || n < kMatrix) return false;
  const std::int64_t rows = rows_of(n);
  return rows % lanes == 0 && n / rows % lanes == 0;
}

template <class T>
std::shared_ptr<const FftPlan<T>> plan_fft(std::int64_t n, bool real, bool by_line, int lanes) {
  // Of large transforms a few, since their tables are as large as they.
  constexpr std::size_t kHeld = 16;
  thread_local Lru<std::shared_ptr<const FftPlan<T>>> plans(kHeld);
  const PlanKey key{n, std::int64_t{real}, std::int64_t{by_line}};
  return plans.get(key, [&] {
    auto plan = std::make_shared<FftPlan<T>>();
    const std::int64_t size = real && n % 2 == 0 ? n / 2 : n;
    if (by_line) {
      plan->line = plan_line<T>(size, lanes);
    } else {
      plan->lanes = plan_lanes<T>(size);
    }
    if (size != n) {
      const Roots roots(n);
      for (std::int64_t k = 0; k <= n / 4; ++k) append(plan->real_twiddles, roots(k));
    }
    return plan;
  });
}

template std::shared_ptr<const FftPlan<float>> plan_fft(std::int64_t, bool, bool, int);
template std::shared_ptr<const FftPlan<double>> plan_fft(std::int64_t, bool, bool, int);

}  // namespace dyad::runtime::cpu
