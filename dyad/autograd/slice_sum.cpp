#include "dyad/autograd/slice_sum.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>

#include "dyad/ops/arithmetic.h"
#include "dyad/ops/creation.h"
#include "dyad/ops/indexing.h"

namespace dyad::autograd {

bool SliceSum::add(const GradientSlice& slice, const Shape& whole) {
  const auto next = std::ranges::lower_bound(parts_, slice.begin, {}, &GradientSlice::begin);
  if (!parts_.empty()) {
    const bool meets = (next != parts_.end() && next->begin < slice.end) ||
                       (next != parts_.begin() && std::prev(next)->end > slice.begin);
    if (meets || parts_[0].axis != slice.axis) return false;
  }
  parts_.insert(next, slice);
  whole_ = whole;
  loc_ = Loc().user();
  return true;
}

Tensor SliceSum::take() {
  const std::vector<GradientSlice> parts = std::exchange(parts_, {});
  const LocScope place(loc_);
  const auto axis = static_cast<std::size_t>(parts[0].axis);
  const std::int64_t size = whole_[axis].number();
  if (parts.size() == 1) {
    Shape low(whole_.size(), 0), high(whole_.size(), 0);
    low[axis] = parts[0].begin;
    high[axis] = size - parts[0].end;
    return pad(parts[0].part, low, high);
  }
  std::vector<Tensor> filled;
  std::int64_t at = 0;
  const auto fill_up_to = [&](std::int64_t end) {
    if (at == end) return;
    Shape gap = whole_;
    gap[axis] = end - at;
    filled.push_back(zeros(gap, parts[0].part.dtype()));
  };
  for (const GradientSlice& slice : parts) {
    fill_up_to(slice.begin);
    filled.push_back(slice.part);
    at = slice.end;
  }
  fill_up_to(size);
  // Beside the zeros around other parts no 0 stays negative.
  return dyad::add(concat(filled, parts[0].axis), 0);
}

}  // namespace dyad::autograd
