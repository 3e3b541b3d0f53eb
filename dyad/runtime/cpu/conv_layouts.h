#pragma once

#ifndef DYAD_PLAIN_LOOPS

#include <cstdint>
#include <dnnl.hpp>
#include <optional>

#include "dyad/runtime/cpu/conv.h"
#include "dyad/runtime/cpu/onednn.h"

// How the tensors of a convolution lie, and how the library wants them.
namespace dyad::runtime::cpu {

/// How images lie: [n, ..., c], [n, c, ...] or (with two axes) [n, c / 8, h, w, 8].
enum class Images { channels_last, row_major, blocks };

/// The layouts that a plan is made from. The library has its kernels for one and two axes, and
/// others for three; one axis is rows of height 1.
struct Layouts {
  /// As the tensors have them.
  dnnl::memory::desc x, out, plain_weights, bias;
  /// As the library may choose to have them.
  dnnl::memory::desc any_x, any_out, any_weights;
  dnnl::memory::dims strides, dilations, low, high;

  Layouts(const ConvShape& s, Images images);
  /// For a convolution forwards of images whose channels come last.
  static Layouts forwards(const ConvShape& s);
  /// With the result in blocks. So is the image unless the library can read it as it lies.
  static Layouts into_blocks(const ConvShape& s, Images images);
  Layouts(const ConvShape& s, Images images, dnnl::memory::data_type x_type,
          dnnl::memory::data_type weight_type, dnnl::memory::data_type out_type);

 private:
  /// Lets the library choose how the images on both sides lie.
  void leave_images_open();
};

/// What brings elements from one layout into another.
[[nodiscard]] onednn::Held make_reorder(const dnnl::memory::desc& from,
                                        const dnnl::memory::desc& to);

/// Images that the primitive takes or gives in another layout than their tensor's, by a copy that
/// lives as long as a call.
class Turned {
 public:
  Turned() = default;
  Turned(const dnnl::memory::desc& from, const dnnl::memory::desc& to);

  [[nodiscard]] bool turns() const noexcept { return reorder_.has_value(); }
  /// The images in the primitive's layout; `room` holds a copy.
  [[nodiscard]] const void* taken(const Tensor& images, Tensor& room);
  /// Where the primitive writes images...
  [[nodiscard]] const void* place(const Tensor& images, Tensor& room) const;
  /// ...and what brings them from there into their tensor.
  void give(const Tensor& room, const Tensor& images);

 private:
  std::optional<onednn::Held> reorder_;
  std::int64_t bytes_ = 0;
};

}  // namespace dyad::runtime::cpu

#endif
