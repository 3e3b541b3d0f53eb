#include "dyad/ops/products.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "dyad/core/promotion.h"
#include "dyad/ops/arithmetic.h"
#include "dyad/ops/compare.h"
#include "dyad/ops/complex.h"
#include "dyad/ops/creation.h"
#include "dyad/ops/einsum.h"
#include "dyad/ops/elementary.h"
#include "dyad/ops/indexing.h"
#include "dyad/ops/linalg.h"
#include "dyad/ops/op_support.h"
#include "dyad/ops/reduce.h"
#include "dyad/ops/solve.h"
#include "dyad/ops/views.h"

namespace dyad {
namespace {

/// `bmm(a: f32[2, 3], b: f32[3]): rule`, as operators' own messages read.
std::string call_text(std::string_view function, const Tensor& a, const Tensor& b) {
  const auto type = [](const Tensor& x) {
    return x.defined() ? type_string(x) : std::string("none");
  };
  return std::string(function) + "(a: " + type(a) + ", b: " + type(b) + "): ";
}

void require_rank(std::string_view function, const Tensor& a, const Tensor& b, int rank_a,
                  int rank_b, std::string_view wanted, Loc loc) {
  if (a.defined() && b.defined() && a.rank() == rank_a && b.rank() == rank_b) return;
  throw ShapeError(
      call_text(function, a, b) + std::string(wanted) + "; matmul() takes any number of axes",
      loc.user());
}

/// In the dtype of x where that holds the factor.
Tensor scaled(const Tensor& x, double factor, Loc loc) {
  if (factor == 1) return x;
  const bool whole = std::trunc(factor) == factor && std::abs(factor) < 0x1p62;
  if (is_floating(x.dtype()) || !whole) return mul(x, factor, loc);
  return mul(x, static_cast<std::int64_t>(factor), loc);
}

Tensor add_product(const Tensor& input, const Tensor& product, double beta, double alpha,
                   std::string_view function, Loc loc) {
  const Tensor term = scaled(product, alpha, loc);
  const Shape& wanted = product.shape();
  Shape shape;
  bool fits = broadcast(input.shape(), wanted, shape) && shape.rank() == wanted.rank();
  for (std::size_t i = 0; fits && i < shape.size(); ++i) fits = shape[i] == wanted[i];
  if (!fits) {
    throw ShapeError(std::string(function) + ": input is " + type_string(input) +
                         ", which does not broadcast to the product, " + type_string(product),
                     loc.user());
  }
  return beta == 0 ? term : add(scaled(input, beta, loc), term, loc);
}

/// The letters `first`, `first` + 1, ... of an equation.
std::string letters(char first, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += static_cast<char>(first + i);
  return text;
}

}  // namespace

Tensor bmm(const Tensor& a, const Tensor& b, Loc loc) {
  require_rank("bmm", a, b, 3, 3, "both operands must be batches of matrices, of 3 axes", loc);
  if (!(a.size(0, loc) == b.size(0, loc))) {
    throw ShapeError(call_text("bmm", a, b) + "a has " + size_text(a.size(0)) +
                         " matrices but b has " + size_text(b.size(0)) +
                         "; matmul() broadcasts a batch of one",
                     loc.user());
  }
  return matmul(a, b, loc);
}
Tensor mm(const Tensor& a, const Tensor& b, Loc loc) {
  require_rank("mm", a, b, 2, 2, "both operands must be matrices, of 2 axes", loc);
  return matmul(a, b, loc);
}
Tensor mv(const Tensor& a, const Tensor& x, Loc loc) {
  require_rank("mv", a, x, 2, 1, "a matrix (2 axes) and a vector (1 axis) are needed", loc);
  return matmul(a, x, loc);
}
Tensor dot(const Tensor& a, const Tensor& b, Loc loc) {
  const LocScope called(loc, "dot");
  require_rank("dot", a, b, 1, 1, "both operands must be vectors, of 1 axis", loc);
  return matmul(a, b, loc);
}
Tensor vecdot(const Tensor& a, const Tensor& b, std::int64_t axis, Loc loc) {
  const LocScope scope(loc);
  return ops::in_f32(
      [&](const Tensor& a, const Tensor& b) {
        return to(sum(conj(a) * b, {axis}), result_type({a, b}));
      },
      a, b);
}
Tensor inner(const Tensor& a, const Tensor& b, Loc loc) {
  const LocScope called(loc, "inner");
  if (a.rank() == 0 || b.rank() == 0) return mul(a, b, loc);
  const std::string left = letters('a', a.rank() - 1), right = letters('A', b.rank() - 1);
  return einsum(left + "z," + right + "z->" + left + right, {a, b}, loc);
}
Tensor outer(const Tensor& a, const Tensor& b, Loc loc) {
  const LocScope called(loc, "outer");
  require_rank("outer", a, b, 1, 1, "both operands must be vectors, of 1 axis", loc);
  return mul(unsqueeze(a, 1, loc), b, loc);
}
Tensor addmm(const Tensor& input, const Tensor& a, const Tensor& b, double beta, double alpha,
             Loc loc) {
  const LocScope scope(loc);
  return ops::in_f32(
      [&](const Tensor& input, const Tensor& a, const Tensor& b) {
        return add_product(input, mm(a, b, loc), beta, alpha, "addmm", loc);
      },
      input, a, b);
}
Tensor baddbmm(const Tensor& input, const Tensor& a, const Tensor& b, double beta, double alpha,
               Loc loc) {
  const LocScope scope(loc);
  return ops::in_f32(
      [&](const Tensor& input, const Tensor& a, const Tensor& b) {
        return add_product(input, bmm(a, b, loc), beta, alpha, "baddbmm", loc);
      },
      input, a, b);
}

Tensor tensordot(const Tensor& a, const Tensor& b, const Ints& axes_a, const Ints& axes_b,
                 Loc loc) {
  const LocScope called(loc, "tensordot");
  if (axes_a.size() != axes_b.size()) {
    throw ValueError(call_text("tensordot", a, b) + "axes_a has " + std::to_string(axes_a.size()) +
                         " axes and axes_b has " + std::to_string(axes_b.size()) +
                         "; they go in pairs",
                     loc.user());
  }
  std::string left = letters('a', a.rank()), right = letters('A', b.rank());
  std::string result_left = left, result_right = right;
  for (std::size_t i = 0; i < axes_a.size(); ++i) {
    const auto at = static_cast<std::size_t>(normalize_axis(axes_a[i], a.rank(), "tensordot", loc));
    const auto bt = static_cast<std::size_t>(normalize_axis(axes_b[i], b.rank(), "tensordot", loc));
    if (result_left.find(left[at]) == std::string::npos ||
        right[bt] != static_cast<char>('A' + static_cast<int>(bt))) {
      throw ValueError(call_text("tensordot", a, b) + "an axis is named twice", loc.user());
    }
    std::erase(result_left, left[at]);
    std::erase(result_right, right[bt]);
    right[bt] = left[at];
  }
  return einsum(left + "," + right + "->" + result_left + result_right, {a, b}, loc);
}
Tensor tensordot(const Tensor& a, const Tensor& b, std::int64_t axes, Loc loc) {
  const LocScope called(loc, "tensordot");
  if (axes < 0 || axes > std::min(a.rank(), b.rank())) {
    throw ValueError(call_text("tensordot", a, b) + "axes = " + std::to_string(axes) +
                         " must be from 0 to the smaller number of axes, " +
                         std::to_string(std::min(a.rank(), b.rank())),
                     loc.user());
  }
  Ints axes_a, axes_b;
  for (std::int64_t i = 0; i < axes; ++i) {
    axes_a.push_back(a.rank() - axes + i);
    axes_b.push_back(i);
  }
  return tensordot(a, b, axes_a, axes_b, loc);
}

Tensor kron(const Tensor& a, const Tensor& b, Loc loc) {
  const LocScope called(loc, "kron");
  // Axes of a and b take turns: [a0, 1, a1, 1] * [1, b0, 1, b1], then pairs become one.
  const int rank = std::max(a.rank(), b.rank());
  Shape of_a, of_b, joined;
  for (int i = 0; i < rank; ++i) {
    const int ia = i - (rank - a.rank()), ib = i - (rank - b.rank());
    const Dim da = ia < 0 ? Dim(1) : a.size(ia, loc), db = ib < 0 ? Dim(1) : b.size(ib, loc);
    of_a.push_back(da);
    of_a.push_back(1);
    of_b.push_back(1);
    of_b.push_back(db);
    joined.push_back(da * db);
  }
  return reshape(mul(reshape(a, of_a, loc), reshape(b, of_b, loc), loc), joined, loc);
}

Tensor multi_dot(std::span<const Tensor> chain, Loc loc) {
  const LocScope called(loc, "multi_dot");
  if (chain.size() < 2) {
    throw ValueError("multi_dot: a chain of two or more matrices is needed, this one has " +
                         std::to_string(chain.size()),
                     loc.user());
  }
  if (chain.size() > 50) {
    throw ValueError("multi_dot: a chain of " + std::to_string(chain.size()) +
                         " matrices is too long; at most 50 are taken at once",
                     loc.user());
  }
  std::string equation, result;
  for (std::size_t i = 0; i < chain.size(); ++i) {
    const bool end = i == 0 || i + 1 == chain.size();
    const int rank = chain[i].rank();
    if (rank != 2 && !(end && rank == 1)) {
      throw ShapeError("multi_dot: operand " + std::to_string(i) + " is " + type_string(chain[i]) +
                           ", but a matrix is needed" + (end ? " or a vector" : ""),
                       loc.user());
    }
    const auto letter = [](std::size_t at) {
      return std::string(1, static_cast<char>(at < 26 ? 'a' + at : 'A' + (at - 26)));
    };
    if (i > 0) equation += ",";
    if (rank == 2 || i > 0) equation += letter(i);
    if (rank == 2 || i == 0) equation += letter(i + 1);
    if (i == 0 && rank == 2) result += letter(0);
    if (i + 1 == chain.size() && rank == 2) result += letter(i + 1);
  }
  return einsum(equation + "->" + result, chain, loc);
}
Tensor multi_dot(std::initializer_list<Tensor> chain, Loc loc) {
  return multi_dot(std::span(chain.begin(), chain.size()), loc);
}

Tensor matrix_power(const Tensor& x, std::int64_t n, Loc loc) {
  if (x.rank() < 2 || !(x.size(-1, loc) == x.size(-2, loc))) {
    throw ShapeError("matrix_power(x: " + type_string(x) + ", n = " + std::to_string(n) +
                         "): square matrices are needed, [..., n, n]",
                     loc.user());
  }
  const LocScope scope(loc);
  return ops::in_f32(
      [&](const Tensor& x) -> Tensor {
        Tensor square = n < 0 ? inverse(x, loc) : x, power;
        // The largest int64 has an absolute value; the smallest has one as an unsigned number.
        for (auto left = n < 0 ? -static_cast<std::uint64_t>(n) : static_cast<std::uint64_t>(n);
             left > 0; left >>= 1) {
          if (left & 1) power = power.defined() ? matmul(power, square, loc) : square;
          if (left > 1) square = matmul(square, square, loc);
        }
        if (power.defined()) return power;
        const Tensor row = arange(x.size(-1, loc), i64, loc);
        const Tensor one = to(eq(unsqueeze(row, 1, loc), row, loc), x.dtype(), loc);
        return expand(one, ops::sizes_of(x, loc), loc);
      },
      x);
}

Tensor cross(const Tensor& a, const Tensor& b, std::int64_t axis, Loc loc) {
  const LocScope called(loc, "cross");
  const auto at = [&](const Tensor& x, std::string_view name) {
    const int found = normalize_axis(axis, x.rank(), "cross", loc);
    if (!(x.size(found, loc) == Dim(3))) {
      throw ShapeError(call_text("cross", a, b) + "axis " + std::to_string(axis) + " of " +
                           std::string(name) + " has size " + size_text(x.size(found)) +
                           ", a vector product needs 3",
                       loc.user());
    }
    return found;
  };
  const int axis_a = at(a, "a"), axis_b = at(b, "b");
  const LocScope scope(loc);
  return ops::in_f32(
      [&](const Tensor& a, const Tensor& b) {
        // Element i of the product is a[i+1] b[i+2] - a[i+2] b[i+1].
        const auto turned = [&](const Tensor& x, int along, std::int64_t by) {
          return concat({slice(x, along, by, 3, 1, loc), slice(x, along, 0, by, 1, loc)}, along,
                        loc);
        };
        return sub(mul(turned(a, axis_a, 1), turned(b, axis_b, 2), loc),
                   mul(turned(a, axis_a, 2), turned(b, axis_b, 1), loc), loc);
      },
      a, b);
}

Tensor cdist(const Tensor& a, const Tensor& b, double p, Loc loc) {
  if (a.rank() < 2 || b.rank() < 2 || !(a.size(-1, loc) == b.size(-1, loc))) {
    throw ShapeError(
        call_text("cdist", a, b) + "rows of one length are needed, [..., m, k] and [..., n, k]",
        loc.user());
  }
  if (!(p >= 0)) {
    throw ValueError(
        call_text("cdist", a, b) + "p = " + std::to_string(p) + " must not be negative",
        loc.user());
  }
  const LocScope scope(loc);
  return ops::in_f32(
      [&](const Tensor& a, const Tensor& b) {
        const Tensor difference = unsqueeze(a, -2) - unsqueeze(b, -3);
        const DType dtype = difference.dtype();
        if (p == 0) return to(sum(to(difference != 0, dtype), {-1}), dtype);
        if (p == 1) return sum(abs(difference), {-1});
        // Infinitely steep powers are kept from 0, where the derivative is said to be 0.
        const auto root = [](const Tensor& total, auto&& f) {
          const Tensor zero = total == 0;
          return where(zero, 0, f(where(zero, 1, total)));
        };
        if (p == 2)
          return root(sum(square(difference), {-1}), [](const Tensor& x) { return sqrt(x); });
        if (std::isinf(p)) return max(abs(difference), {-1});
        const Tensor size = abs(difference);
        const Tensor powers = root(size, [&](const Tensor& x) { return pow(x, p); });
        return root(sum(powers, {-1}), [&](const Tensor& x) { return pow(x, 1 / p); });
      },
      a, b);
}

}  // namespace dyad
