#pragma once

#include <cstdint>

#include "dyad/core/dim.h"

namespace dyad::ops {

/// Of operators that walk along an axis (which may count from the end), carrying something from
/// element to element:
/// - `cumsum(x)`, `cumprod(x)`: sums and products of the elements so far; exclusive: of those
///   before; reverse: from the last one on.
/// - `logcumsumexp(x)`: log(cumsum(exp(x))). `cummax(x)`, `cummin(x)`: the largest so far, and
///   where it is.
/// - `linear_scan(a, b)`: y[i] = a[i] * y[i - 1] + b[i], y[-1] = 0.
struct ScanAttrs {
  std::int64_t axis = 0;
  bool exclusive = false;
  bool reverse = false;
};

/// `sort(x)`: elements along the axis in order, and where they were. NaN counts as the greatest,
/// equal elements stay in their order.
struct SortAttrs {
  std::int64_t axis = -1;
  bool descending = false;
};

/// `topk(x)`: the first k of sort(x), the largest or the smallest; unsorted: in the order of x.
struct TopKAttrs {
  Dim k = 1;
  std::int64_t axis = -1;
  bool largest = true;
  bool sorted = true;
};

/// `kthvalue(x)`: element k - 1 of sort(x) along the axis.
struct KthAttrs {
  Dim k = 1;
  std::int64_t axis = -1;
  bool keepdim = false;
};

/// `unique(x)`: each different element (or slice, along the axis of a rank: `flat` false) once,
/// ascending or in the order of their first appearance.
struct UniqueAttrs {
  bool sorted = true;
  bool flat = true;
  std::int64_t axis = 0;
};

/// `searchsorted(sorted, values)`: how many elements of sorted lie before each value; right: equal
/// ones too.
struct SearchAttrs {
  bool right = false;
};

/// `bincount(x)`: how often each number from 0 on occurs; at least `least` counts.
struct BincountAttrs {
  Dim least = 0;
};

}  // namespace dyad::ops
