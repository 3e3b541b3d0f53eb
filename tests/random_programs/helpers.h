#pragma once

// What expressions of random programs say by one call; printed programs include it.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "dyad/base/error.h"
#include "dyad/ops/ops.h"

namespace dyad::testing {

/// Whole numbers of any size as places along an axis of x.
inline Tensor places_along(const Tensor& x, const Tensor& numbers, std::int64_t axis) {
  return remainder(to(numbers, i64), size_tensor(x.size(axis)));
}

/// Places along the first axis of x, one for each, every `step`-th.
inline Tensor some_rows(const Tensor& x, std::int64_t step) {
  return places_along(x, arange(x.size(0)) * step + 1, 0);
}

/// x @ x^T + 1 on the diagonal of an x that is not large, which has all decompositions.
inline Tensor positive(const Tensor& x) {
  const Tensor small = tanh(x);
  const Dim rows = x.size(-2);
  return matmul(small, transpose(small, -1, -2)) + eye(rows, rows, 0, x.dtype());
}

/// One of a list, the last one beyond its end: how many there are may vary with sizes.
inline Tensor part(const std::vector<Tensor>& list, std::int64_t i) {
  if (list.empty()) throw ValueError("there are no parts");
  return list[std::min(static_cast<std::size_t>(i), list.size() - 1)];
}

/// From 0.1 on, without a kink.
inline Tensor above_zero(const Tensor& x) { return square(tanh(x)) * 3 + 0.1; }

/// Angles for rotary_embedding(x[b, h, l, d]): [l, d / 2].
inline Tensor angles(const Tensor& x) {
  return slice(select(select(x, 0, 0), 0, 0), -1, 0, kEnd, 2);
}

/// x in steps of an eighth around 128.
inline Quantized quantised(const Tensor& x) {
  const Tensor middle = full({}, 128, u8);
  return {quantize_linear(x, 0.125, middle), full({}, 0.125), middle};
}

/// A complex number of any tensor's real ones.
inline Tensor turned(const Tensor& x) { return complex(x, tanh(x) * 0.5 - 0.25); }

}  // namespace dyad::testing
