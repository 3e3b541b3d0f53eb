#pragma once

#include <string>
#include <string_view>

#include "dyad/nn/visitor.h"
#include "dyad/ops/conv.h"

namespace dyad::nn {

struct ConvOptions {
  PerAxis stride = 1;
  Padding padding = 0;
  PerAxis dilation = 1;
  std::int64_t groups = 1;
  bool bias = true;
  DType dtype = f32;
  /// What is added around an image: "zeros", or one of pad()'s modes ("reflect", "replicate",
  /// "circular").
  std::string padding_mode = "zeros";
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

/// x with the padding of `options` around its last axes, by its mode; ValueError for a padding by
/// name, which is for zeros alone.
Tensor padded(std::string_view layer, const Tensor& x, std::size_t axes, const ConvOptions& options,
              Loc loc);

/// The layer of a convolution, `Self`, over so many axes.
template <class Self, auto Convolve, std::size_t axes>
class ConvLayer : public ConvParameters {
 public:
  ConvLayer(std::int64_t in, std::int64_t out, const PerAxis& kernel,
            const ConvOptions& options = {}, Loc loc = std::source_location::current())
      : ConvParameters(class_name<Self>(), axes, false, in, out, kernel, options.groups,
                       options.bias, options.dtype, loc),
        options(options) {}
  Tensor operator()(const Tensor& x, Loc loc = std::source_location::current()) const {
    const ConvOptions& o = options;
    if (o.padding_mode == "zeros") {
      return Convolve(x, weight, bias, o.stride, o.padding, o.dilation, o.groups, loc);
    }
    return Convolve(padded(class_name<Self>(), x, axes, o, loc), weight, bias, o.stride, 0,
                    o.dilation, o.groups, loc);
  }

  ConvOptions options;
};

/// The same of a transposed one.
template <class Self, auto Convolve, std::size_t axes>
class ConvTransposeLayer : public ConvParameters {
 public:
  ConvTransposeLayer(std::int64_t in, std::int64_t out, const PerAxis& kernel,
                     const ConvTransposeOptions& options = {},
                     Loc loc = std::source_location::current())
      : ConvParameters(class_name<Self>(), axes, true, in, out, kernel, options.groups,
                       options.bias, options.dtype, loc),
        options(options) {}
  Tensor operator()(const Tensor& x, Loc loc = std::source_location::current()) const {
    const ConvTransposeOptions& o = options;
    return Convolve(x, weight, bias, o.stride, o.padding, o.output_padding, o.groups, o.dilation,
                    loc);
  }

  ConvTransposeOptions options;
};

}  // namespace detail

// Convolutions of x[n, in, ...] -> [n, out, ...] over the last one to three axes; formulas and
// arguments are those of the functions of ops/conv.h.

class Conv1d : public detail::ConvLayer<Conv1d, &conv1d, 1> {
 public:
  using ConvLayer::ConvLayer;
};
class Conv2d : public detail::ConvLayer<Conv2d, &conv2d, 2> {
 public:
  using ConvLayer::ConvLayer;
};
class Conv3d : public detail::ConvLayer<Conv3d, &conv3d, 3> {
 public:
  using ConvLayer::ConvLayer;
};
class ConvTranspose1d : public detail::ConvTransposeLayer<ConvTranspose1d, &conv_transpose1d, 1> {
 public:
  using ConvTransposeLayer::ConvTransposeLayer;
};
class ConvTranspose2d : public detail::ConvTransposeLayer<ConvTranspose2d, &conv_transpose2d, 2> {
 public:
  using ConvTransposeLayer::ConvTransposeLayer;
};
class ConvTranspose3d : public detail::ConvTransposeLayer<ConvTranspose3d, &conv_transpose3d, 3> {
 public:
  using ConvTransposeLayer::ConvTransposeLayer;
};

}  // namespace dyad::nn
