#include <string>

#include "dyad/ir/onnx_node.h"
#include "dyad/ops/arithmetic.h"
#include "dyad/ops/elementary.h"
#include "dyad/ops/fft_support.h"
#include "dyad/ops/op_support.h"
#include "dyad/ops/rearrange.h"
#include "dyad/ops/registry.h"
#include "dyad/ops/spectra.h"
#include "dyad/ops/views.h"

// ONNX's transforms, whose complex numbers are pairs along the last axis, and real ones along one
// of size 1.

namespace dyad::ops {
namespace {

/// Whether the last axis has the imaginary parts, too.
bool has_pairs(OnnxNode& n, const Tensor& x) {
  const Dim last = x.rank() > 0 ? x.size(x.rank() - 1) : Dim(0);
  if (!last.same_as(1) && !last.same_as(2)) {
    n.fail("the last axis of input 0, " + type_string(x) + ", must be known to have size 1 or 2");
  }
  return last.same_as(2);
}

/// A transform of real numbers or pairs along an axis: pairs.
Tensor transformed(const Tensor& x, bool pairs, int axis, bool inverse, bool onesided, Loc loc) {
  const std::string norm = "backward";
  if (onesided && !pairs) return rfft_to_pairs(x, axis, norm, loc);
  const Tensor y = fft_of_pairs(pairs ? x : pairs_of(x, loc), axis, inverse, norm, loc);
  return onesided ? slice(y, axis, 0, y.size(axis, loc) / 2 + 1, 1, loc) : y;
}

void dft_along(OnnxNode& n, std::int64_t given_axis) {
  const Loc loc = n.loc();
  const DType dtype = n.input(0).dtype();
  Tensor x = real_signal(n.input(0), "DFT", loc);
  const int rank = x.rank();
  const std::int64_t axis = given_axis < 0 ? given_axis + rank : given_axis;
  if (axis < 0 || axis > rank - 2) n.fail("axis " + std::to_string(given_axis) + " is none of x");
  const int at = static_cast<int>(axis);
  const bool pairs = has_pairs(n, x), inverse = n.flag("inverse"), onesided = n.flag("onesided");
  const bool to_real = inverse && onesided;
  // Where the terms of both sides of a real signal cancel, ONNX's own tests allow no error of f32.
  if (!pairs && !onesided) x = to(x, f64, loc);
  const Dim size = x.size(at, loc);
  const Dim length = n.has(1) ? n.one_size(1) : to_real ? (size - 1) * 2 : size;
  if (!pairs) x = squeeze(x, rank - 1, loc);
  Tensor y;
  if (to_real) {
    const Tensor half = resized(pairs ? x : pairs_of(x, loc), at, length / 2 + 1, loc);
    y = unsqueeze(irfft_of_pairs(half, at, length, "backward", loc), -1, loc);
  } else {
    y = transformed(resized(x, at, length, loc), pairs, at, inverse, onesided, loc);
  }
  n.output(0, to(y, dtype, loc));
}

void stft_of(OnnxNode& n) {
  const Loc loc = n.loc();
  const DType dtype = n.input(0).dtype();
  Tensor x = real_signal(n.input(0), "STFT", loc);
  // Without its last axis it is real, which is how PyTorch writes it.
  if (x.rank() == 2) x = unsqueeze(x, -1, loc);
  if (x.rank() != 3) {
    n.fail("the signal, " + type_string(x) +
           ", must be [batch, samples] or [batch, samples, parts]");
  }
  const bool pairs = has_pairs(n, x), onesided = n.flag("onesided", true);
  const Tensor window = n.input(2);
  std::int64_t length = 0;
  if (n.has(3)) {
    length = n.constant_integer(3);
  } else {
    const Dim size = window.defined() ? window.size(0, loc) : x.size(1, loc);
    if (!size.is_number()) n.fail("the length of a frame must be known");
    length = size.number();
  }
  // [batch, frames, samples of a frame], and the parts.
  if (!pairs) x = squeeze(x, 2, loc);
  Tensor frames = unfold(x, 1, length, n.constant_integer(1), loc);
  if (pairs) frames = transpose(frames, 2, 3, loc);
  if (window.defined()) {
    const Tensor weights = to(resized(window, 0, length, loc), frames.dtype(), loc);
    frames = mul(frames, pairs ? unsqueeze(weights, -1, loc) : weights, loc);
  }
  n.output(0, to(transformed(frames, pairs, 2, false, onesided, loc), dtype, loc));
}

void mel_weights(OnnxNode& n) {
  n.output(0, mel_weight_matrix(n.constant_integer(0), n.constant_integer(1), n.constant_integer(2),
                                n.constant_number(3, 0), n.constant_number(4, 0),
                                n.dtype("output_datatype", f32), n.loc()));
}

}  // namespace

std::span<const OnnxRule> fft_onnx_rules() {
  static constexpr OnnxRule kRules[] = {
      {"DFT", 17, [](OnnxNode& n) { dft_along(n, n.integer("axis", 1)); }},
      {"DFT", 20, [](OnnxNode& n) { dft_along(n, n.has(2) ? n.constant_integer(2) : -2); }},
      {"STFT", 17, stft_of},
      {"MelWeightMatrix", 17, mel_weights},
  };
  return kRules;
}

}  // namespace dyad::ops
