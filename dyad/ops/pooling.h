#pragma once

#include <array>

#include "dyad/core/tensor.h"
#include "dyad/ops/per_axis.h"

namespace dyad {

// Windows over one, two or three spatial axes of x[n, c, ...]. Stride 0 means the kernel's size.
// Padding is less than the kernel's reach on each side. With ceil_mode the last window may reach
// beyond the padding, as long as it begins before it. max_pool and avg_pool of 1d, 2d and 3d take
// x[c, ...] too, one image. ShapeError, ValueError.

/// The largest of each window; padding counts as -inf, NaN as largest. The gradient goes to the
/// first largest element in row-major order.
[[nodiscard]] Tensor max_pool2d(const Tensor& x, const PerAxis& kernel, const PerAxis& stride = 0,
                                const Padding& padding = 0, const PerAxis& dilation = 1,
                                bool ceil_mode = false, Loc loc = std::source_location::current());
/// max_pool2d() of one spatial axis.
[[nodiscard]] Tensor max_pool1d(const Tensor& x, const PerAxis& kernel, const PerAxis& stride = 0,
                                const Padding& padding = 0, const PerAxis& dilation = 1,
                                bool ceil_mode = false, Loc loc = std::source_location::current());
/// max_pool2d() of three spatial axes.
[[nodiscard]] Tensor max_pool3d(const Tensor& x, const PerAxis& kernel, const PerAxis& stride = 0,
                                const Padding& padding = 0, const PerAxis& dilation = 1,
                                bool ceil_mode = false, Loc loc = std::source_location::current());
/// Max pooling over as many axes as x has after the first two: the values, and their positions
/// (i64), numbered row-major over the spatial axes.
[[nodiscard]] std::array<Tensor, 2> max_pool_with_indices(
    const Tensor& x, const PerAxis& kernel, const PerAxis& stride = 0, const Padding& padding = 0,
    const PerAxis& dilation = 1, bool ceil_mode = false, Loc loc = std::source_location::current());
/// Undoes max pooling: zeros[n, c, size...] with x[n, c, ...] at the indices that
/// max_pool_with_indices gave; `size` are the spatial sizes before it. Where windows share an
/// index, the last one counts. An index out of range is an IndexError.
[[nodiscard]] Tensor max_unpool(const Tensor& x, const Tensor& indices, const Shape& size,
                                Loc loc = std::source_location::current());

/// max_unpool() by the settings of the pooling that is undone: without a size the result has the
/// smallest one that was pooled, (size - 1) * stride - 2 * padding + kernel. x[c, ...] too.
[[nodiscard]] Tensor max_unpool1d(const Tensor& x, const Tensor& indices, const PerAxis& kernel,
                                  const PerAxis& stride = 0, const PerAxis& padding = 0,
                                  const Shape& size = {},
                                  Loc loc = std::source_location::current());
/// max_unpool1d() of two spatial axes.
[[nodiscard]] Tensor max_unpool2d(const Tensor& x, const Tensor& indices, const PerAxis& kernel,
                                  const PerAxis& stride = 0, const PerAxis& padding = 0,
                                  const Shape& size = {},
                                  Loc loc = std::source_location::current());
/// max_unpool1d() of three spatial axes.
[[nodiscard]] Tensor max_unpool3d(const Tensor& x, const Tensor& indices, const PerAxis& kernel,
                                  const PerAxis& stride = 0, const PerAxis& padding = 0,
                                  const Shape& size = {},
                                  Loc loc = std::source_location::current());

/// The mean of each window: its sum over `divisor`, or, when that is 0, over the number of its
/// elements, zeros of the padding included unless count_include_pad is false. A dilation, which
/// PyTorch's pools of means do not have, comes last.
[[nodiscard]] Tensor avg_pool2d(const Tensor& x, const PerAxis& kernel, const PerAxis& stride = 0,
                                const Padding& padding = 0, bool ceil_mode = false,
                                bool count_include_pad = true, std::int64_t divisor = 0,
                                const PerAxis& dilation = 1,
                                Loc loc = std::source_location::current());
/// avg_pool2d() of one spatial axis.
[[nodiscard]] Tensor avg_pool1d(const Tensor& x, const PerAxis& kernel, const PerAxis& stride = 0,
                                const Padding& padding = 0, bool ceil_mode = false,
                                bool count_include_pad = true, std::int64_t divisor = 0,
                                const PerAxis& dilation = 1,
                                Loc loc = std::source_location::current());
/// avg_pool2d() of three spatial axes.
[[nodiscard]] Tensor avg_pool3d(const Tensor& x, const PerAxis& kernel, const PerAxis& stride = 0,
                                const Padding& padding = 0, bool ceil_mode = false,
                                bool count_include_pad = true, std::int64_t divisor = 0,
                                const PerAxis& dilation = 1,
                                Loc loc = std::source_location::current());

/// (sum of |x|^p over what each window has of x)^(1/p), over as many axes as x has after the first
/// two; p is above 0 (ValueError), infinity gives the largest |x|. The gradient is 0 where the
/// result is; of the largest it goes to the first one, as in max_pool2d().
[[nodiscard]] Tensor lp_pool(const Tensor& x, double p, const PerAxis& kernel,
                             const PerAxis& stride = 0, const Padding& padding = 0,
                             bool ceil_mode = false, const PerAxis& dilation = 1,
                             Loc loc = std::source_location::current());

/// lp_pool() of one spatial axis, with the arguments of PyTorch's function; x[c, ...] too.
[[nodiscard]] Tensor lp_pool1d(const Tensor& x, double p, const PerAxis& kernel,
                               const PerAxis& stride = 0, bool ceil_mode = false,
                               Loc loc = std::source_location::current());
/// lp_pool1d() of two spatial axes.
[[nodiscard]] Tensor lp_pool2d(const Tensor& x, double p, const PerAxis& kernel,
                               const PerAxis& stride = 0, bool ceil_mode = false,
                               Loc loc = std::source_location::current());
/// lp_pool1d() of three spatial axes.
[[nodiscard]] Tensor lp_pool3d(const Tensor& x, double p, const PerAxis& kernel,
                               const PerAxis& stride = 0, bool ceil_mode = false,
                               Loc loc = std::source_location::current());

/// The mean of windows that divide each spatial axis into so many parts: part i of m over n
/// elements has those from floor(i*n/m) to before ceil((i + 1)*n/m). One size for each spatial
/// axis.
[[nodiscard]] Tensor adaptive_avg_pool(const Tensor& x, const Shape& size,
                                       Loc loc = std::source_location::current());
/// The largest of such windows as adaptive_avg_pool() has.
[[nodiscard]] Tensor adaptive_max_pool(const Tensor& x, const Shape& size,
                                       Loc loc = std::source_location::current());
/// adaptive_avg_pool() over the last axis: one size for all of them, or one for each; x[c, ...]
/// too.
[[nodiscard]] Tensor adaptive_avg_pool1d(const Tensor& x, const PerAxis& size,
                                         Loc loc = std::source_location::current());
/// adaptive_avg_pool1d() of two spatial axes.
[[nodiscard]] Tensor adaptive_avg_pool2d(const Tensor& x, const PerAxis& size,
                                         Loc loc = std::source_location::current());
/// adaptive_avg_pool1d() of three spatial axes.
[[nodiscard]] Tensor adaptive_avg_pool3d(const Tensor& x, const PerAxis& size,
                                         Loc loc = std::source_location::current());
/// adaptive_max_pool() over the last axis: one size for all of them, or one for each; x[c, ...]
/// too.
[[nodiscard]] Tensor adaptive_max_pool1d(const Tensor& x, const PerAxis& size,
                                         Loc loc = std::source_location::current());
/// adaptive_max_pool1d() of two spatial axes.
[[nodiscard]] Tensor adaptive_max_pool2d(const Tensor& x, const PerAxis& size,
                                         Loc loc = std::source_location::current());
/// adaptive_max_pool1d() of three spatial axes.
[[nodiscard]] Tensor adaptive_max_pool3d(const Tensor& x, const PerAxis& size,
                                         Loc loc = std::source_location::current());
/// adaptive_max_pool and the positions, as max_pool_with_indices has them.
[[nodiscard]] std::array<Tensor, 2> adaptive_max_pool_with_indices(
    const Tensor& x, const Shape& size, Loc loc = std::source_location::current());

/// The mean over all spatial axes, which stay with size 1.
[[nodiscard]] Tensor global_avg_pool(const Tensor& x, Loc loc = std::source_location::current());
/// The largest over all spatial axes, which stay with size 1.
[[nodiscard]] Tensor global_max_pool(const Tensor& x, Loc loc = std::source_location::current());
/// (sum of |x|^p)^(1/p) over all spatial axes, which stay with size 1; p as in lp_pool(). Equal
/// largest elements share the gradient, as in norm().
[[nodiscard]] Tensor global_lp_pool(const Tensor& x, double p = 2,
                                    Loc loc = std::source_location::current());

}  // namespace dyad
