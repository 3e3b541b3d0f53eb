#pragma once

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
    return Pool(x, kernel, stride, padding, count_include_pad, ceil_mode, divisor, loc);
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

}  // namespace detail

// Windows over the last one to three axes; formulas and arguments are those of the functions of
// ops/pooling.h.

class MaxPool1d : public detail::MaxPoolLayer<&max_pool1d> {
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
class AvgPool3d : public detail::AvgPoolLayer<&avg_pool3d> {
 public:
  using AvgPoolLayer::AvgPoolLayer;
};
/// Of as many axes as `size` has: AdaptiveAvgPool({7, 7}).
class AdaptiveAvgPool : public detail::AdaptivePoolLayer<&adaptive_avg_pool> {
 public:
  using AdaptivePoolLayer::AdaptivePoolLayer;
};
class AdaptiveMaxPool : public detail::AdaptivePoolLayer<&adaptive_max_pool> {
 public:
  using AdaptivePoolLayer::AdaptivePoolLayer;
};
using AdaptiveAvgPool1d = AdaptiveAvgPool;
using AdaptiveAvgPool2d = AdaptiveAvgPool;
using AdaptiveAvgPool3d = AdaptiveAvgPool;
using AdaptiveMaxPool1d = AdaptiveMaxPool;
using AdaptiveMaxPool2d = AdaptiveMaxPool;
using AdaptiveMaxPool3d = AdaptiveMaxPool;

}  // namespace dyad::nn
