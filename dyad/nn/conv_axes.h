#pragma once

#include "dyad/nn/visitor.h"
#include "dyad/ops/per_axis.h"

namespace dyad::nn {

struct ConvOptions {
  PerAxis stride = 1;
  Padding padding = 0;
  PerAxis dilation = 1;
  std::int64_t groups = 1;
  bool bias = true;
  DType dtype = f32;
};

struct ConvTransposeOptions {
  PerAxis stride = 1;
  Padding padding = 0;
  PerAxis output_padding = 0;
  std::int64_t groups = 1;
  bool bias = true;
  PerAxis dilation = 1;
  DType dtype = f32;
};

namespace detail {

/// What convolutions over any number of axes learn; starts evenly in +-1/sqrt(fan in), as in
/// PyTorch.
struct ConvParameters {
  /// ValueError for sizes below 1, channels that groups do not divide, and a kernel with another
  /// number of axes.
  ConvParameters(std::string_view layer, std::size_t axes, bool transposed, std::int64_t in,
                 std::int64_t out, const PerAxis& kernel, std::int64_t groups, bool with_bias,
                 DType dtype, Loc loc);
  void visit(Visitor& v) {
    v("weight", weight);
    v("bias", bias);
  }

  Parameter weight;  ///< [out, in / groups, kernel...]; transposed: [in, out / groups, kernel...]
  Parameter bias;    ///< [out], or undefined
};

}  // namespace detail

/// Convolution of x[n, in, w] -> [n, out, ow], see conv1d.
class Conv1d : public detail::ConvParameters {
 public:
  Conv1d(std::int64_t in, std::int64_t out, const PerAxis& kernel, const ConvOptions& options = {},
         Loc loc = std::source_location::current());
  Tensor operator()(const Tensor& x, Loc loc = std::source_location::current()) const;
  ConvOptions options;
};

/// Convolution of x[n, in, d, h, w] -> [n, out, od, oh, ow], see conv3d.
class Conv3d : public detail::ConvParameters {
 public:
  Conv3d(std::int64_t in, std::int64_t out, const PerAxis& kernel, const ConvOptions& options = {},
         Loc loc = std::source_location::current());
  Tensor operator()(const Tensor& x, Loc loc = std::source_location::current()) const;
  ConvOptions options;
};

/// Transposed convolution of x[n, in, w], see conv_transpose1d.
class ConvTranspose1d : public detail::ConvParameters {
 public:
  ConvTranspose1d(std::int64_t in, std::int64_t out, const PerAxis& kernel,
                  const ConvTransposeOptions& options = {},
                  Loc loc = std::source_location::current());
  Tensor operator()(const Tensor& x, Loc loc = std::source_location::current()) const;
  ConvTransposeOptions options;
};

/// Transposed convolution of x[n, in, h, w], see conv_transpose2d.
class ConvTranspose2d : public detail::ConvParameters {
 public:
  ConvTranspose2d(std::int64_t in, std::int64_t out, const PerAxis& kernel,
                  const ConvTransposeOptions& options = {},
                  Loc loc = std::source_location::current());
  Tensor operator()(const Tensor& x, Loc loc = std::source_location::current()) const;
  ConvTransposeOptions options;
};

/// Transposed convolution of x[n, in, d, h, w], see conv_transpose3d.
class ConvTranspose3d : public detail::ConvParameters {
 public:
  ConvTranspose3d(std::int64_t in, std::int64_t out, const PerAxis& kernel,
                  const ConvTransposeOptions& options = {},
                  Loc loc = std::source_location::current());
  Tensor operator()(const Tensor& x, Loc loc = std::source_location::current()) const;
  ConvTransposeOptions options;
};

}  // namespace dyad::nn
