#include <algorithm>
#include <numeric>
#include <vector>

#include "dyad/core/tensor_impl.h"
#include "dyad/runtime/cpu/copy.h"
#include "dyad/runtime/cpu/element.h"
#include "dyad/runtime/cpu/kernels.h"
#include "dyad/runtime/layout.h"
#include "dyad/runtime/threads.h"

namespace dyad::runtime::cpu {
namespace {

std::vector<std::int64_t> positions(const Tensor& index) {
  const Tensor dense = contiguous_copy(index);
  std::vector<std::int64_t> values(static_cast<std::size_t>(dense.impl()->numel()));
  with_index(dense.dtype(), [&]<class I>(I) {
    std::copy_n(reinterpret_cast<const I*>(dense.impl()->data), values.size(), values.begin());
  });
  return values;
}

template <class T>
void sum_groups(const T* from, T* to, const std::vector<std::int64_t>& index, std::int64_t width) {
  std::vector<std::size_t> order(index.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return index[i]; });
  std::vector<std::size_t> begins;  // of equal indices
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (i == 0 || index[order[i]] != index[order[i - 1]]) begins.push_back(i);
  }
  begins.push_back(order.size());
  const auto sum_some = [&](std::int64_t lo, std::int64_t hi) {
    std::vector<Accumulator<T>> sums(static_cast<std::size_t>(width));
    for (std::int64_t group = lo; group < hi; ++group) {
      const std::size_t begin = begins[static_cast<std::size_t>(group)];
      const std::size_t end = begins[static_cast<std::size_t>(group) + 1];
      std::ranges::fill(sums, Accumulator<T>(0));
      for (std::size_t i = begin; i < end; ++i) {
        const T* row = from + static_cast<std::int64_t>(order[i]) * width;
        for (std::size_t j = 0; j < sums.size(); ++j) sums[j] += load(row[j]);
      }
      for (std::size_t i = begin; i < end; ++i) {
        T* row = to + static_cast<std::int64_t>(order[i]) * width;
        for (std::size_t j = 0; j < sums.size(); ++j) row[j] = store<T>(sums[j]);
      }
    }
  };
  const std::int64_t grain = std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(width, 1));
  parallel_for(0, static_cast<std::int64_t>(begins.size()) - 1, grain, sum_some);
}

void row_sums(const OpCall& call) {
  const Tensor rows = contiguous_copy(call.inputs[0]);
  const std::vector<std::int64_t> index = positions(call.inputs[1]);
  if (index.empty()) return;
  const std::int64_t width = rows.impl()->numel() / static_cast<std::int64_t>(index.size());
  with_floating(rows.dtype(), [&]<class T>(T) {
    sum_groups(reinterpret_cast<const T*>(rows.impl()->data),
               reinterpret_cast<T*>(call.outputs[0].impl()->data), index, width);
  });
}

void put_rows(const OpCall& call) {
  const TensorImpl &x = *call.inputs[0].impl(), &out = *call.outputs[0].impl();
  Tensor rows = contiguous_copy(call.inputs[2]);
  if (rows.impl()->data == out.data) {  // they are read in another order than written
    rows = make_empty(rows.dtype(), rows.shape());
    copy_tensor(call.inputs[2], rows);
  }
  const std::vector<std::int64_t> index = positions(call.inputs[1]);
  if (x.data != out.data) copy_tensor(call.inputs[0], call.outputs[0]);
  const std::int64_t count = out.shape[0].number();
  const auto sizes = out.shape.numbers();
  const std::span<const std::int64_t> row(sizes.data() + 1, sizes.size() - 1);
  const auto bytes = static_cast<std::int64_t>(size_of(out.dtype));
  const Strides& from = rows.impl()->strides;
  for (std::size_t i = 0; i < index.size(); ++i) {
    if (index[i] < 0 || index[i] >= count) continue;
    copy_elements(out.dtype, row, out.data + index[i] * out.strides[0] * bytes,
                  {out.strides.data() + 1, row.size()},
                  rows.impl()->data + static_cast<std::int64_t>(i) * from[0] * bytes,
                  {from.data() + 1, row.size()});
  }
}

}  // namespace

std::span<const NamedKernel> table_rows_kernels() {
  static constexpr NamedKernel kernels[] = {
      {"row_sums", {row_sums}}, {"put_rows", {put_rows, follow_first, /*in_place=*/true}}};
  return kernels;
}

}  // namespace dyad::runtime::cpu
