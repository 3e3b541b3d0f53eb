#include "dyad/core/shape.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "dyad/base/error.h"
#include "dyad/core/evaluator.h"

namespace dyad {

Dim Shape::numel() const {
  Dim product = 1;
  for (const Dim size : *this) {
    // An empty array of absurd sizes is still empty.
    if (size.same_as(0)) return 0;
  }
  for (const Dim size : *this) product *= size;
  return product;
}

std::span<const std::int64_t> Shape::values() const { return Evaluator::current().values(*this); }

namespace {

std::string listed(const Shape& shape, std::string (*text_of)(Dim)) {
  std::string text = "[";
  for (const Dim size : shape) {
    if (text.size() > 1) text += ", ";
    text += text_of(size);
  }
  return text + "]";
}

}  // namespace

std::string to_string(const Shape& shape) { return listed(shape, to_string); }
std::string size_text(const Shape& shape) { return listed(shape, size_text); }

bool broadcast(const Shape& a, const Shape& b, Shape& result) {
  const Shape& longer = a.size() >= b.size() ? a : b;
  const Shape& shorter = a.size() >= b.size() ? b : a;
  Shape sizes = longer;
  const std::size_t shift = longer.size() - shorter.size();
  for (std::size_t i = 0; i < shorter.size(); ++i) {
    Dim& x = sizes[shift + i];
    const Dim y = shorter[i];
    if (x.same_as(y) || y.same_as(1)) continue;
    if (x.same_as(1)) {
      x = y;
    } else if (!(x == y)) {
      // An expression of symbols may have the value 1, such as min(s, 1).
      if (y == 1) continue;
      if (!(x == 1)) return false;
      x = y;
    } else if (y.is_number()) {
      x = y;  // found equal: the number says more
    }
  }
  result = std::move(sizes);
  return true;
}

Strides contiguous_strides(const Shape& shape) {
  Strides strides(shape.size(), 0);
  std::uint64_t step = 1;  // wraps only for an empty array, whose strides are not used
  const auto sizes = shape.numbers();
  for (std::size_t i = sizes.size(); i-- > 0;) {
    strides[i] = static_cast<std::int64_t>(step);
    step *= static_cast<std::uint64_t>(std::max<std::int64_t>(sizes[i], 1));
  }
  return strides;
}

int normalize_axis(std::int64_t axis, int rank, std::string_view op, Loc loc) {
  if (axis >= -rank && axis < rank) return static_cast<int>(axis < 0 ? axis + rank : axis);
  const std::string range =
      rank == 0 ? "a scalar has no axes"
                : "it must be from " + std::to_string(-rank) + " to " + std::to_string(rank - 1);
  throw IndexError(std::string(op) + ": axis " + std::to_string(axis) +
                       " is out of range for a tensor of rank " + std::to_string(rank) + ": " +
                       range,
                   loc.user());
}

}  // namespace dyad
