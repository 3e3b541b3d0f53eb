#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "dyad/base/inline_vector.h"
#include "dyad/core/shape.h"

namespace dyad::ops {

/// What may follow a convolution or a product in the library's own kernel. alpha and beta are the
/// bounds of clamp, alpha the slope of leaky_relu; the others take no numbers.
inline constexpr std::string_view kEpilogueActivations[] = {"relu",    "leaky_relu", "clamp",
                                                            "sigmoid", "silu",       "hardswish"};

/// Channels of an image that lie side by side in blocks, [n, c / 8, h, w, 8].
inline constexpr std::int64_t kChannelBlock = 8;

/// `conv_epilogue(x[n, c, ...], weight[o, c / groups, ...], bias[o] or absent, residual like the
/// result or absent)` -> activation(conv(x, weight, bias) + residual). `activation` is empty or one
/// of kEpilogueActivations; where it is not, NaN may become a number and -0 may become 0.
/// `conv_blocks` is the same of images whose channels lie in blocks of eight, [n, c / 8, h, w, 8]:
/// result and residual, and x unless it has four axes. Its sums are in the order that is fastest.
/// `exact` adds the residual to the sums, as eager mode does; sums may begin with it otherwise.
struct ConvEpilogueAttrs {
  Ints stride = {1, 1};
  Shape low = {0, 0};
  Shape high = {0, 0};
  Ints dilation = {1, 1};
  std::int64_t groups = 1;
  std::string activation = {};
  double alpha = 0;
  double beta = 0;
  bool exact = true;
};

/// `product_epilogue(x[..., k], weight[k, n] (transposed: [n, k]), bias[n] or absent, residual like
/// the result or absent)` -> activation(x weight + bias + residual), as above. The sums are in the
/// order that is fastest.
struct ProductEpilogueAttrs {
  bool transposed = false;
  std::string activation = {};
  double alpha = 0;
  double beta = 0;
};

[[nodiscard]] constexpr bool is_epilogue_activation(std::string_view name) noexcept {
  return name.empty() ||
         std::ranges::find(kEpilogueActivations, name) != std::ranges::end(kEpilogueActivations);
}

}  // namespace dyad::ops
