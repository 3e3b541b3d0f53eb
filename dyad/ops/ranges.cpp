#include "dyad/ops/ranges.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "dyad/ops/arithmetic.h"
#include "dyad/ops/compare.h"
#include "dyad/ops/creation.h"
#include "dyad/ops/division.h"
#include "dyad/ops/elementary.h"
#include "dyad/ops/op_support.h"
#include "dyad/ops/views.h"

namespace dyad {
namespace {

/// The numbers 0, 1, ... count - 1 over `whole`, f64.
Tensor fractions(Dim count, Dim whole, Loc loc) {
  const Dim divisor = whole.is_number() && whole.number() > 0 ? whole : max(whole, 1);
  return div(arange(count, f64, loc), ops::size_arg(divisor, loc), loc);
}

/// A window whose size may turn out to be 1: its one element is 1, whatever the formula gives.
Tensor one_alone(const Tensor& window, Dim size, Loc loc) {
  return size.is_number() ? window : where(ops::size_arg(size, loc).tensor() == 1, 1, window, loc);
}

/// c0 - c1 * cos(2 pi t) + c2 * cos(4 pi t)
Tensor cosine_window(Dim size, bool periodic, DType dtype, double c0, double c1, double c2,
                     Loc loc) {
  const LocScope scope(loc);
  if (size.same_as(1)) return ones({1}, dtype, loc);
  const Tensor angle = fractions(size, periodic ? size : size - 1, loc) * (2 * std::numbers::pi);
  Tensor window = c0 - cos(angle) * c1;
  if (c2 != 0) window = window + cos(angle * 2) * c2;
  return to(one_alone(window, size, loc), dtype, loc);
}

/// The modified Bessel function of the first kind and order 0 by its series, for |x| <= largest.
Tensor bessel_i0(const Tensor& x, double largest) {
  // Terms (x / 2)^2k / k!^2 shrink from k = x / 2 on; Horner's rule from one that no longer counts.
  const Tensor quarter = square(x) * 0.25;
  Tensor sum = ones_like(x);
  for (int k = static_cast<int>(largest * 1.5) + 25; k > 0; --k) {
    sum = 1 + quarter * sum / (static_cast<double>(k) * k);
  }
  return sum;
}

void require_count(std::string_view function, Dim count, Loc loc) {
  if (!ops::is_below(count, 0)) return;
  throw ValueError(std::string(function) + "(count = " + to_string(ops::size_now(count)) +
                       "): the count must be at least 0",
                   loc.user());
}

}  // namespace

Tensor linspace(double first, double last, Dim count, DType dtype, Loc loc) {
  require_count("linspace", count, loc);
  const LocScope scope(loc);
  // lerp is exact at both ends.
  return to(lerp(first, last, fractions(count, count - 1, loc), loc), dtype, loc);
}
Tensor logspace(double first, double last, Dim count, double base, DType dtype, Loc loc) {
  require_count("logspace", count, loc);
  const LocScope scope(loc);
  return to(pow(base, linspace(first, last, count, f64, loc), loc), dtype, loc);
}

std::vector<Tensor> meshgrid(std::span<const Tensor> vectors, const std::string& indexing,
                             Loc loc) {
  if (indexing != "ij" && indexing != "xy") {
    throw ValueError("meshgrid(indexing = " + indexing + "): indexing must be ij or xy",
                     loc.user());
  }
  const LocScope scope(loc);
  std::vector<std::size_t> places(vectors.size());
  for (std::size_t i = 0; i < places.size(); ++i) places[i] = i;
  if (indexing == "xy" && places.size() > 1) std::swap(places[0], places[1]);
  Shape grid(Ints(vectors.size(), 1));
  for (std::size_t i = 0; i < vectors.size(); ++i) {
    if (vectors[i].rank() > 1) {
      throw ShapeError("meshgrid: vector " + std::to_string(i) + " is " + type_string(vectors[i]) +
                           ", but vectors or scalars are needed",
                       loc.user());
    }
    if (vectors[i].rank() == 1) grid[places[i]] = vectors[i].size(0, loc);
  }
  std::vector<Tensor> coordinates;
  for (std::size_t i = 0; i < vectors.size(); ++i) {
    Shape along(Ints(vectors.size(), 1));
    along[places[i]] = grid[places[i]];
    coordinates.push_back(expand(reshape(vectors[i], along, loc), grid, loc));
  }
  return coordinates;
}
std::vector<Tensor> meshgrid(std::initializer_list<Tensor> vectors, const std::string& indexing,
                             Loc loc) {
  return meshgrid(std::span<const Tensor>(vectors.begin(), vectors.size()), indexing, loc);
}

Tensor hann_window(Dim size, bool periodic, DType dtype, Loc loc) {
  return cosine_window(size, periodic, dtype, 0.5, 0.5, 0, loc);
}
Tensor hamming_window(Dim size, bool periodic, double alpha, DType dtype, Loc loc) {
  return cosine_window(size, periodic, dtype, alpha, 1 - alpha, 0, loc);
}
Tensor blackman_window(Dim size, bool periodic, DType dtype, Loc loc) {
  return cosine_window(size, periodic, dtype, 0.42, 0.5, 0.08, loc);
}
Tensor bartlett_window(Dim size, bool periodic, DType dtype, Loc loc) {
  const LocScope scope(loc);
  if (size.same_as(1)) return ones({1}, dtype, loc);
  const Tensor t = fractions(size, periodic ? size : size - 1, loc);
  return to(one_alone(1 - abs(t * 2 - 1), size, loc), dtype, loc);
}
Tensor kaiser_window(Dim size, bool periodic, double beta, DType dtype, Loc loc) {
  const LocScope scope(loc);
  if (size.same_as(1)) return ones({1}, dtype, loc);
  const Tensor t = fractions(size, periodic ? size : size - 1, loc);
  const Tensor inside = maximum(1 - square(t * 2 - 1), 0);
  const double largest = std::abs(beta);
  const Tensor whole = bessel_i0(full({}, beta, f64, loc), largest);
  const Tensor window = bessel_i0(sqrt(inside) * beta, largest) / whole;
  return to(one_alone(window, size, loc), dtype, loc);
}

}  // namespace dyad
