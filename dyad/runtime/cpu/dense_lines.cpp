#include "dyad/runtime/cpu/dense_lines.h"

#include <algorithm>
#include <vector>

#include "dyad/core/tensor_impl.h"
#include "dyad/runtime/cpu/copy.h"
#include "dyad/runtime/layout.h"

namespace dyad::runtime::cpu {
namespace {

/// The axes of a dense tensor, outermost in memory first.
std::vector<std::size_t> order_of(const TensorImpl& t) {
  std::vector<std::size_t> order(t.shape.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return t.strides[a] > t.strides[b]; });
  return order;
}

}  // namespace

DenseLines dense_lines(const Tensor& x, const Tensor& out, std::size_t axis) {
  const TensorImpl &from = *x.impl(), &to = *out.impl();
  const std::vector<std::size_t> order = order_of(to);
  Strides wanted(from.shape.size(), 1);
  DenseLines lines;
  std::int64_t step = 1;
  bool before = false;
  for (std::size_t i = order.size(); i-- > 0;) {
    const std::int64_t size = from.shape[order[i]].number();
    wanted[order[i]] = step;
    step *= size;
    if (order[i] == axis) {
      before = true;
    } else {
      (before ? lines.outer : lines.inner) *= size;
    }
  }
  lines.x = x;
  if (!lies_with(x, wanted)) {
    lines.x = make_empty_strided(from.dtype, from.shape, wanted);
    copy_tensor(x, lines.x);
  }
  return lines;
}

}  // namespace dyad::runtime::cpu
