#pragma once

#include <cstdint>
#include <initializer_list>

#include "dyad/nn/visitor.h"
#include "dyad/ops/pooling.h"

namespace dyad::nn {
namespace detail {

template <auto Pool>
class MaxPoolLayer {
 public:
  explicit MaxPoolLayer(PerAxis kernel, PerAxis stride = 0, Padding padding = 0,
                        PerAxis dilation = 1, bool ceil_mode = false)
      : kernel(std::move(kernel)),
        stride(std::move(stride)),
        padding(std::move(padding)),
        dilation(std::move(dilation)),
        ceil_mode(ceil_mode) {}
  Tensor operator()(const Tensor& x, Loc loc = std::source_location::current()) const {
    return Pool(x, kernel, stride, padding, dilation, ceil_mode, loc);
  }
  void visit(Visitor&) {}

  PerAxis kernel, stride;
  Padding padding;
  PerAxis dilation;
  bool ceil_mode;
};

template <auto Pool>
class AvgPoolLayer {
 public:
  explicit AvgPoolLayer(PerAxis kernel, PerAxis stride = 0, Padding padding = 0,
                        bool ceil_mode = false, bool count_include_pad = true,
                        std::int64_t divisor = 0)
      : kernel(std::move(kernel)),
        stride(std::move(stride)),
        padding(std::move(padding)),
        ceil_mode(ceil_mode),
        count_include_pad(count_include_pad),
        divisor(divisor) {}
  Tensor operator()(const Tensor& x, Loc loc = std::source_location::current()) const {
    return Pool(x, kernel, stride, padding, ceil_mode, count_include_pad, divisor, 1, loc);
  }
  void visit(Visitor&) {}

  PerAxis kernel, stride;
  Padding padding;
  bool ceil_mode, count_include_pad;
  std::int64_t divisor;
};

template <auto Pool>
class AdaptivePoolLayer {
 public:
  /// The sizes of the results' last axes.
  explicit AdaptivePoolLayer(Shape size) : size(std::move(size)) {}
  Tensor operator()(const Tensor& x, Loc loc = std::source_location::current()) const {
    return Pool(x, size, loc);
  }
  void visit(Visitor&) {}

  Shape size;
};

/// `size` for so many axes; ShapeError for a list of another length.
[[nodiscard]] Shape sizes_over(std::size_t axes, const PerAxis& size, Loc loc);

template <auto Pool, std::size_t Axes>
class AdaptivePoolOver : public AdaptivePoolLayer<Pool> {
 public:
  /// One size for all of the results' last axes, or one for each: `AdaptiveAvgPool2d(1)`.
  explicit AdaptivePoolOver(const PerAxis& size, Loc loc = std::source_location::current())
      : AdaptivePoolLayer<Pool>(sizes_over(Axes, size, loc)) {}
  explicit AdaptivePoolOver(std::initializer_list<std::int64_t> sizes,
                            Loc loc = std::source_location::current())
      : AdaptivePoolOver(PerAxis(sizes), loc) {}
};

}  // namespace detail

// Windows over the last one to three axes; formulas and arguments are those of the functions of
// ops/pooling.h.

class MaxPool1d : public detail::MaxPoolLayer<&max_pool1d> {
 public:
  using MaxPoolLayer::MaxPoolLayer;
};
class MaxPool2d : public detail::MaxPoolLayer<&max_pool2d> {
 public:
  using MaxPoolLayer::MaxPoolLayer;
};
class MaxPool3d : public detail::MaxPoolLayer<&max_pool3d> {
 public:
  using MaxPoolLayer::MaxPoolLayer;
};
class AvgPool1d : public detail::AvgPoolLayer<&avg_pool1d> {
 public:
  using AvgPoolLayer::AvgPoolLayer;
};
class AvgPool2d : public detail::AvgPoolLayer<&avg_pool2d> {
 public:
  using AvgPoolLayer::AvgPoolLayer;
};
class AvgPool3d : public detail::AvgPoolLayer<&avg_pool3d> {
 public:
  using AvgPoolLayer::AvgPoolLayer;
};
/// Over as many axes as `size` has: AdaptiveAvgPool({7, 7}). Those named after the number of axes
/// take one size for all of them too: AdaptiveAvgPool2d(1).
class AdaptiveAvgPool : public detail::AdaptivePoolLayer<&adaptive_avg_pool> {
 public:
  using AdaptivePoolLayer::AdaptivePoolLayer;
};
class AdaptiveMaxPool : public detail::AdaptivePoolLayer<&adaptive_max_pool> {
 public:
  using AdaptivePoolLayer::AdaptivePoolLayer;
};
/// lp_pool(x, p, ...) over as many axes as x has after the first two.
class LPPool {
 public:
  explicit LPPool(double p, PerAxis kernel, PerAxis stride = 0, bool ceil_mode = false)
      : p(p), kernel(std::move(kernel)), stride(std::move(stride)), ceil_mode(ceil_mode) {}
  Tensor operator()(const Tensor& x, Loc loc = std::source_location::current()) const {
    return lp_pool(x, p, kernel, stride, 0, ceil_mode, 1, loc);
  }
  void visit(Visitor&) {}

  double p;
  PerAxis kernel, stride;
  bool ceil_mode;
};
using LPPool1d = LPPool;
using LPPool2d = LPPool;
using LPPool3d = LPPool;
/// Undoes a max pooling with these settings, over as many axes as x has after the first two: see
/// max_unpool(). Without a size the result has the smallest one that the pooling may have had:
/// (size - 1) * stride - 2 * padding + kernel.
class MaxUnpool {
 public:
  explicit MaxUnpool(PerAxis kernel, PerAxis stride = 0, PerAxis padding = 0)
      : kernel(std::move(kernel)), stride(std::move(stride)), padding(std::move(padding)) {}
  /// `size`: the spatial sizes before pooling.
  Tensor operator()(const Tensor& x, const Tensor& indices, const Shape& size = {},
                    Loc loc = std::source_location::current()) const;
  void visit(Visitor&) {}

  PerAxis kernel, stride, padding;
};
using MaxUnpool1d = MaxUnpool;
using MaxUnpool2d = MaxUnpool;
using MaxUnpool3d = MaxUnpool;
class AdaptiveAvgPool1d : public detail::AdaptivePoolOver<&adaptive_avg_pool, 1> {
 public:
  using AdaptivePoolOver::AdaptivePoolOver;
};
class AdaptiveAvgPool2d : public detail::AdaptivePoolOver<&adaptive_avg_pool, 2> {
 public:
  using AdaptivePoolOver::AdaptivePoolOver;
};
class AdaptiveAvgPool3d : public detail::AdaptivePoolOver<&adaptive_avg_pool, 3> {
 public:
  using AdaptivePoolOver::AdaptivePoolOver;
};
class AdaptiveMaxPool1d : public detail::AdaptivePoolOver<&adaptive_max_pool, 1> {
 public:
  using AdaptivePoolOver::AdaptivePoolOver;
};
class AdaptiveMaxPool2d : public detail::AdaptivePoolOver<&adaptive_max_pool, 2> {
 public:
  using AdaptivePoolOver::AdaptivePoolOver;
};
class AdaptiveMaxPool3d : public detail::AdaptivePoolOver<&adaptive_max_pool, 3> {
 public:
  using AdaptivePoolOver::AdaptivePoolOver;
};

}  // namespace dyad::nn
