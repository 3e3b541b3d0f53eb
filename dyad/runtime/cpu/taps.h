#pragma once

#include <cstdint>
#include <vector>

#include "dyad/ops/attrs/resample.h"

namespace dyad::runtime::cpu {

/// What each of some results is a weighted sum of: of result i the elements index[k] with weight
/// [k] for k from begin[i] to before begin[i + 1].
struct Taps {
  std::vector<std::int64_t> begin{0};
  std::vector<std::int64_t> index;
  std::vector<double> weight;

  [[nodiscard]] std::int64_t size() const noexcept {
    return static_cast<std::int64_t>(begin.size()) - 1;
  }
  /// The same sums the other way round: what each of `in` elements gives to.
  [[nodiscard]] Taps transposed(std::int64_t in) const;
};

/// The taps of `resample` along an axis from `in` to `out` elements. Nearest has at most one each.
[[nodiscard]] Taps resample_taps(const ops::ResampleAttrs& attrs, std::int64_t in,
                                 std::int64_t out);

}  // namespace dyad::runtime::cpu
