#include "dyad/runtime/layout.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "dyad/core/tensor_impl.h"
#include "dyad/runtime/op_kernel.h"

namespace dyad::runtime {
namespace {

/// Negative: axis a is walked in smaller steps than b and stays inside it; positive: the reverse;
/// 0: no input says.
int compare_axes(std::span<const Strides> inputs, std::span<const std::int64_t> shape,
                 std::size_t a, std::size_t b) {
  for (const Strides& strides : inputs) {
    const std::int64_t sa = std::abs(strides[a]), sb = std::abs(strides[b]);
    if (sa == 0 || sb == 0) continue;
    if (sa != sb) return sa < sb ? -1 : 1;
    if (shape[a] > shape[b]) return 1;
  }
  return 0;
}

/// Axes from the innermost out, in the order that the inputs' strides give (row-major where they do
/// not): an insertion sort, because the comparison is no total order.
InlineVector<std::size_t, 8> axes_inside_out(std::span<const Strides> inputs,
                                             std::span<const std::int64_t> shape) {
  InlineVector<std::size_t, 8> order;
  for (std::size_t i = shape.size(); i-- > 0;) order.push_back(i);
  for (std::size_t i = 1; i < order.size(); ++i) {
    std::size_t at = i;
    for (std::size_t before = i; before-- > 0;) {
      const int comparison = compare_axes(inputs, shape, order[before], order[at]);
      if (comparison < 0) break;
      if (comparison == 0) continue;
      std::swap(order[before], order[at]);
      at = before;
    }
  }
  return order;
}

}  // namespace

Strides broadcast_strides(std::span<const std::int64_t> sizes,
                          std::span<const std::int64_t> strides,
                          std::span<const std::int64_t> shape) {
  Strides result(shape.size(), 0);
  const std::size_t missing = shape.size() - sizes.size();
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    result[missing + i] = sizes[i] == 1 ? 0 : strides[i];
  }
  return result;
}

Strides pointwise_layout(std::span<const StridedShape> inputs,
                         std::span<const std::int64_t> shape) {
  std::vector<Strides> strides;
  strides.reserve(inputs.size());
  for (const StridedShape& input : inputs) {
    strides.push_back(broadcast_strides(input.sizes, input.strides, shape));
  }
  Strides result(shape.size(), 0);
  std::int64_t step = 1;
  for (const std::size_t axis : axes_inside_out(strides, shape)) {
    result[axis] = step;
    step *= std::max<std::int64_t>(1, shape[axis]);
  }
  return result;
}

Strides pointwise_layout(std::span<const Tensor> inputs, const Shape& shape) {
  bool row_major = true;
  for (const Tensor& input : inputs) {
    row_major = row_major && (!input.defined() || input.impl()->contiguous);
  }
  if (row_major) return contiguous_strides(shape);
  std::vector<StridedShape> parts;
  parts.reserve(inputs.size());
  for (const Tensor& input : inputs) {
    if (input.defined()) parts.push_back({input.impl()->shape.numbers(), input.impl()->strides});
  }
  return pointwise_layout(parts, shape.numbers());
}

Strides follow_first(const OpInfo&, const void*, std::span<const Tensor> inputs, const Shape& shape,
                     int) {
  return pointwise_layout(inputs.first(1), shape);
}

Strides output_layout(const OpInfo& op, const void* attrs, std::span<const Tensor> inputs,
                      const Shape& shape, int index) {
  if (op.kind == BodyKind::opaque) {
    const OpKernel* kernel = find_kernel(op);
    if (kernel != nullptr && kernel->layout != nullptr) {
      return kernel->layout(op, attrs, inputs, shape, index);
    }
  }
  return op.kind == BodyKind::pointwise && op.name != "clone" ? pointwise_layout(inputs, shape)
                                                              : contiguous_strides(shape);
}

bool lies_with(const Tensor& tensor, std::span<const std::int64_t> strides) {
  const TensorImpl& t = *tensor.impl();
  for (std::size_t i = 0; i < strides.size(); ++i) {
    if (t.shape[i].number() != 1 && t.strides[i] != strides[i]) return false;
  }
  return true;
}

Strides channels_last_strides(std::span<const std::int64_t> sizes) {
  Strides strides(sizes.size(), 1);
  std::int64_t step = std::max<std::int64_t>(1, sizes[1]);
  for (std::size_t i = sizes.size(); i-- > 2; step *= std::max<std::int64_t>(1, sizes[i])) {
    strides[i] = step;
  }
  strides[0] = step;
  return strides;
}

}  // namespace dyad::runtime
