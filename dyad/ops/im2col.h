#pragma once

#include "dyad/core/tensor.h"
#include "dyad/ops/per_axis.h"

namespace dyad {

/// The windows of x[n, c, ...] (one to three spatial axes) as columns: [n, c * kernel elements,
/// windows], channel by channel, then row-major over the kernel; windows row-major. What a
/// convolution multiplies with (PyTorch's functional unfold). Padding is zeros.
[[nodiscard]] Tensor im2col(const Tensor& x, const PerAxis& kernel, const PerAxis& dilation = 1,
                            const PerAxis& padding = 0, const PerAxis& stride = 1,
                            Loc loc = std::source_location::current());

/// The gradient of im2col: columns[n, c * kernel elements, windows] added up in their places of an
/// image [n, c, size...] (PyTorch's functional fold).
[[nodiscard]] Tensor col2im(const Tensor& columns, const Shape& size, const PerAxis& kernel,
                            const PerAxis& dilation = 1, const PerAxis& padding = 0,
                            const PerAxis& stride = 1, Loc loc = std::source_location::current());

}  // namespace dyad
