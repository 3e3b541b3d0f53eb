#include "dyad/ops/spectra.h"

#include <cmath>
#include <vector>

#include "dyad/core/create.h"
#include "dyad/ops/arithmetic.h"
#include "dyad/ops/compare.h"
#include "dyad/ops/complex.h"
#include "dyad/ops/creation.h"
#include "dyad/ops/elementary.h"
#include "dyad/ops/fft_support.h"
#include "dyad/ops/im2col.h"
#include "dyad/ops/indexing.h"
#include "dyad/ops/op_support.h"
#include "dyad/ops/rearrange.h"
#include "dyad/ops/views.h"

namespace dyad {
namespace {

/// A call of stft or istft: its checked numbers and how messages name it.
struct Frames {
  std::string call;
  std::int64_t size, hop;
  Tensor window;  ///< [size], undefined for ones
  std::string norm;
};

Frames frames_of(const char* name, const Tensor& x, std::int64_t n_fft, const StftArgs& args,
                 Loc loc) {
  Frames f;
  f.call = std::string(name) + "(" + type_string(x) + ", n_fft = " + std::to_string(n_fft) + ")";
  const auto fail = [&](const std::string& rule) {
    throw ValueError(f.call + ": " + rule, loc.user());
  };
  if (n_fft < 1) fail("n_fft must be at least 1");
  f.size = n_fft;
  f.hop = args.hop_length.value_or(n_fft / 4);
  if (f.hop < 1) fail("hop_length = " + std::to_string(f.hop) + ", but it must be at least 1");
  const std::int64_t length = args.win_length.value_or(n_fft);
  if (length < 1 || length > n_fft) {
    fail("win_length = " + std::to_string(length) + ", but it must be from 1 to n_fft");
  }
  f.norm = args.normalized ? "ortho" : "backward";
  f.window = args.window;
  if (f.window.defined()) {
    const bool fits = f.window.rank() == 1 && f.window.size(0, loc) == length;
    if (!fits) {
      throw ShapeError(f.call + ": window is " + type_string(f.window) + " but must be [" +
                           std::to_string(length) + "], win_length numbers",
                       loc.user());
    }
  } else if (length < n_fft) {
    const bool wide = x.dtype() == f64 || x.dtype() == c128;
    f.window = ones({length}, wide ? f64 : f32, loc);
  }
  if (length < n_fft) {
    const std::int64_t before = (n_fft - length) / 2;
    f.window = pad(f.window, Shape{before}, Shape{n_fft - length - before}, 0.0, loc);
  }
  return f;
}

/// Frames [batch, frames, size] added up where they lie: [batch, size + (frames - 1) * hop].
Tensor added_up(const Tensor& frames, std::int64_t hop, Loc loc) {
  const std::int64_t size = frames.size(2, loc).value();
  const Dim length = (frames.size(1, loc) - 1) * hop + size;
  const Tensor columns = transpose(frames, 1, 2, loc);
  return squeeze(col2im(columns, Shape{length}, size, 1, 0, hop, loc), 1, loc);
}

}  // namespace

Tensor stft(const Tensor& x, std::int64_t n_fft, const StftArgs& args, Loc loc) {
  const LocScope scope(loc);
  const Frames f = frames_of("stft", x, n_fft, args, loc);
  if (x.rank() != 1 && x.rank() != 2) {
    throw ShapeError(f.call + ": x must be [samples] or [batch, samples]", loc.user());
  }
  const bool complex_window = f.window.defined() && ops::is_complex(f.window);
  const bool is_real = !ops::is_complex(x) && !complex_window;
  const bool onesided = args.onesided.value_or(is_real);
  if (onesided && !is_real) {
    throw DTypeError(f.call + ": spectra of complex signals have two sides; onesided = false",
                     loc.user());
  }
  // [batch, samples], and the parts unless all is real.
  Tensor signal = is_real ? ops::real_signal(x, f.call, loc) : ops::pairs_of(x, loc);
  if (x.rank() == 1) signal = unsqueeze(signal, 0, loc);
  const Dim given = signal.size(1, loc);
  if (args.center && args.pad_mode == "reflect" && ops::is_below(given, n_fft / 2 + 1)) {
    throw ShapeError(f.call + ": x has " + to_string(ops::size_now(given)) +
                         " samples; centered frames are reflected at both ends, which takes more "
                         "than n_fft / 2 = " +
                         std::to_string(n_fft / 2),
                     loc.user());
  }
  if (args.center) {
    Shape sides(static_cast<std::size_t>(signal.rank()), 0);
    sides[1] = n_fft / 2;
    signal = pad(signal, sides, sides, args.pad_mode, loc);
  }
  const Dim samples = signal.size(1, loc);
  if (ops::is_below(samples, n_fft)) {
    throw ShapeError(f.call + ": the signal has " + to_string(ops::size_now(samples)) +
                         " samples, less than a frame of n_fft",
                     loc.user());
  }
  // [batch, frames, size], and the parts.
  Tensor frames = unfold(signal, 1, n_fft, f.hop, loc);
  if (!is_real) frames = transpose(frames, 2, 3, loc);
  if (complex_window) {
    frames = view_as_real(mul(view_as_complex(frames, loc), f.window, loc), loc);
  } else if (f.window.defined()) {
    frames = mul(frames, is_real ? f.window : unsqueeze(f.window, -1, loc), loc);
  }
  Tensor spectra;
  if (onesided) {
    spectra = ops::rfft_to_pairs(frames, 2, f.norm, loc);
  } else {
    spectra =
        ops::fft_of_pairs(is_real ? ops::pairs_of(frames, loc) : frames, 2, false, f.norm, loc);
  }
  spectra = transpose(spectra, 1, 2, loc);
  if (x.rank() == 1) spectra = squeeze(spectra, 0, loc);
  return args.return_complex.value_or(true) ? view_as_complex(spectra, loc) : spectra;
}

Tensor istft(const Tensor& x, std::int64_t n_fft, const StftArgs& args, Loc loc) {
  const LocScope scope(loc);
  const Frames f = frames_of("istft", x, n_fft, args, loc);
  const bool is_complex = args.return_complex.value_or(false);
  if (!ops::is_complex(x)) {
    throw DTypeError(f.call + ": spectra are complex; view_as_complex() makes them of parts",
                     loc.user());
  }
  if (x.rank() != 2 && x.rank() != 3) {
    throw ShapeError(f.call + ": x must be [frequencies, frames] or [batch, frequencies, frames]",
                     loc.user());
  }
  if (f.window.defined() && ops::is_complex(f.window)) {
    throw DTypeError(f.call + ": window is " + type_string(f.window) + " but must be real",
                     loc.user());
  }
  const Dim given = x.size(-2, loc);
  const bool onesided = args.onesided.value_or(!is_complex && !given.same_as(n_fft));
  if (onesided && is_complex) {
    throw DTypeError(f.call + ": spectra of complex signals have two sides; onesided = false",
                     loc.user());
  }
  const std::int64_t wanted = onesided ? n_fft / 2 + 1 : n_fft;
  if (!(given == wanted)) {
    throw ShapeError(f.call + ": x has " + size_text(given) + " frequencies, but " +
                         (onesided ? "n_fft / 2 + 1 = " : "n_fft = ") + std::to_string(wanted) +
                         " are needed",
                     loc.user());
  }
  // [batch, frames, frequencies, 2]
  Tensor spectra = view_as_real(x, loc);
  if (x.rank() == 2) spectra = unsqueeze(spectra, 0, loc);
  spectra = transpose(spectra, 1, 2, loc);
  const Dim count = spectra.size(1, loc), total = (count - 1) * f.hop + n_fft;
  const Dim begin = args.center ? n_fft / 2 : 0;
  const Dim end = args.length ? min(begin + *args.length, total) : total - begin;
  const auto joined = [&](const Tensor& frames) {
    return slice(added_up(frames, f.hop, loc), 1, begin, end, 1, loc);
  };
  const Tensor window = f.window.defined() ? f.window : ones({n_fft}, spectra.dtype(), loc);
  const Tensor reached = joined(expand(square(window, loc), {1, count, n_fft}, loc));
  // The parts of a complex signal are two signals.
  const auto signal_of = [&](const Tensor& frames) {
    return div(joined(mul(frames, window, loc)), reached, loc);
  };
  Tensor signal;
  if (is_complex) {
    const Tensor frames = ops::fft_of_pairs(spectra, 2, true, f.norm, loc);
    signal = stack({signal_of(select(frames, -1, 0, loc)), signal_of(select(frames, -1, 1, loc))},
                   -1, loc);
  } else {
    const Tensor half = ops::resized(spectra, 2, n_fft / 2 + 1, loc);
    signal = signal_of(ops::irfft_of_pairs(half, 2, n_fft, f.norm, loc));
  }
  if (args.length) signal = ops::resized(signal, 1, *args.length, loc);
  if (x.rank() == 2) signal = squeeze(signal, 0, loc);
  return is_complex ? view_as_complex(signal, loc) : signal;
}

Tensor mel_weight_matrix(std::int64_t mel_bins, std::int64_t dft_length, std::int64_t sample_rate,
                         double lower_hertz, double upper_hertz, DType dtype, Loc loc) {
  const LocScope scope(loc);
  const std::string call = "mel_weight_matrix(mel_bins = " + std::to_string(mel_bins) +
                           ", dft_length = " + std::to_string(dft_length) +
                           ", sample_rate = " + std::to_string(sample_rate) + ")";
  const auto fail = [&](const std::string& rule) {
    throw ValueError(call + ": " + rule, loc.user());
  };
  if (mel_bins < 0 || dft_length < 1 || sample_rate < 1) {
    fail("mel_bins must be at least 0, dft_length and sample_rate at least 1");
  }
  constexpr std::int64_t kMostBins = std::int64_t{1} << 20;
  if (mel_bins > kMostBins) fail("mel_bins must be at most " + std::to_string(kMostBins));
  const bool ordered = lower_hertz >= 0 && upper_hertz >= lower_hertz;
  if (!ordered) fail("the lower edge must be at least 0, and the upper edge at least that");
  const std::int64_t rows = dft_length / 2 + 1;
  const double low = 2595 * std::log10(1 + lower_hertz / 700);
  const double high = 2595 * std::log10(1 + upper_hertz / 700);
  const double step = (high - low) / static_cast<double>(mel_bins + 2);
  std::vector<std::int64_t> edges;
  for (std::int64_t i = 0; i < mel_bins + 2; ++i) {
    const double hertz = 700 * (std::pow(10, (static_cast<double>(i) * step + low) / 2595) - 1);
    const double bin =
        std::floor(static_cast<double>(dft_length + 1) * hertz / static_cast<double>(sample_rate));
    if (!(bin < static_cast<double>(rows) ||
          (i == mel_bins + 1 && bin <= static_cast<double>(rows)))) {
      fail("the upper edge lies beyond half the sample rate");
    }
    edges.push_back(static_cast<std::int64_t>(bin));
  }
  // Bins as rows, the edges of bands as columns.
  const Tensor at = unsqueeze(arange(rows, i64, loc), 1, loc);
  const auto edge = [&](std::int64_t i) {
    return unsqueeze(tensor(edges.begin() + i, edges.begin() + i + mel_bins, {-1}, loc), 0, loc);
  };
  const Tensor left = edge(0), center = edge(1), right = edge(2);
  const auto share = [&](const Tensor& part, const Tensor& whole) {
    return where(logical_and(gt(part, 0), gt(whole, 0)), div(to(part, f64), to(whole, f64)), 0.0);
  };
  const Tensor sides = where(lt(at, center), share(sub(at, left), sub(center, left)),
                             share(sub(right, at), sub(right, center)));
  return to(where(eq(at, center), 1.0, sides), dtype, loc);
}

}  // namespace dyad
