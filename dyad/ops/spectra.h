#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "dyad/core/tensor.h"

namespace dyad {

/// How stft() and istft() cut a signal into frames.
struct StftArgs {
  std::optional<std::int64_t> hop_length = {};  ///< from frame to frame; n_fft / 4 unless said
  std::optional<std::int64_t> win_length = {};  ///< of the window; n_fft unless said
  /// What frames are multiplied by: [win_length], in their middle, zeros around it; ones unless
  /// said.
  Tensor window = {};
  /// Frames lie around their places: the signal is continued by n_fft / 2 on both sides, as pad()
  /// does it by the name `pad_mode`.
  bool center = true;
  std::string pad_mode = "reflect";  ///< stft
  bool normalized = false;           ///< divided by sqrt(n_fft)
  /// Only the first n_fft / 2 + 1 frequencies: unless said, of real signals (stft), or where x has
  /// no more of them (istft).
  std::optional<bool> onesided = {};
  std::optional<Dim> length = {};  ///< istft: of the result, cut off or continued by zeros
  /// False: stft gives the parts along a last axis of size 2, istft a real signal.
  std::optional<bool> return_complex = {};
};

/// The spectra of frames of n_fft elements of x [samples] or [batch, samples], real or complex:
/// [batch, frequencies, frames], complex. PyTorch's stft. ValueError for lengths that are no
/// frames, ShapeError for another rank or window, DTypeError for onesided spectra of complex
/// signals.
[[nodiscard]] Tensor stft(const Tensor& x, std::int64_t n_fft, const StftArgs& args = {},
                          Loc loc = std::source_location::current());

/// The signal that has these spectra [batch, frequencies, frames], by least squares: frames times
/// the window, added up and divided by the sum of the window's squares (not finite where no window
/// reaches). A real signal, of the first n_fft / 2 + 1 frequencies alone, unless
/// args.return_complex says otherwise. PyTorch's istft.
[[nodiscard]] Tensor istft(const Tensor& x, std::int64_t n_fft, const StftArgs& args = {},
                           Loc loc = std::source_location::current());

/// Weights [dft_length / 2 + 1, mel_bins] of triangles that are evenly apart on the mel scale,
/// 2595 log10(1 + hertz / 700): spectra [..., dft_length / 2 + 1] times them are in mel_bins bands
/// between two frequencies (ONNX's MelWeightMatrix, whose edges lie on whole bins). ValueError when
/// there are no such bands.
[[nodiscard]] Tensor mel_weight_matrix(std::int64_t mel_bins, std::int64_t dft_length,
                                       std::int64_t sample_rate, double lower_hertz,
                                       double upper_hertz, DType dtype = f32,
                                       Loc loc = std::source_location::current());

}  // namespace dyad
