#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <numbers>
#include <vector>

#include "bad_calls.h"
#include "cases.h"
#include "dyad/core/complex.h"
#include "dyad/core/create.h"
#include "dyad/runtime/threads.h"

namespace dyad::testing {
namespace {

#define Z(...) make(c64, Shape{__VA_ARGS__})

const std::vector<BadCall> kFftCalls = {
    {Kind::value, "fft(c64[3, 4]): n = 0, but it must be at least 1", CALL(fft(Z(3, 4), Dim(0)))},
    {Kind::value, "rfft(f32[3]): n = -2, but it must be at least 1", CALL(rfft(F(3), Dim(-2)))},
    {Kind::value, "irfft(c64[1]): n = 0, but it must be at least 1", CALL(irfft(Z(1)))},
    {Kind::value,
     "fft(x: f32[3, 0, 2], axis = 1): there is nothing to transform along axis 1, whose size is 0",
     CALL(fft(Z(3, 0)))},
    {Kind::index, "ifft: axis 2 is out of range for a tensor of rank 2: it must be from -2 to 1",
     CALL(ifft(Z(3, 4), {}, 2))},
    {Kind::dtype, "rfft(c64[3]): a real tensor is needed; fft() takes complex ones",
     CALL(rfft(Z(3)))},
    {Kind::value,
     "rfft(x: f32[3], norm = \"half\"): norm must be \"backward\", \"ortho\" or \"forward\"",
     CALL(rfft(F(3), {}, -1, "half"))},
    {Kind::value,
     "irfft(x: f32[3, 2], n = 4, norm = \"\"): norm must be \"backward\", \"ortho\" or \"forward\"",
     CALL(irfft(Z(3), {}, -1, ""))},
    {Kind::value, "fftn(c64[3, 4]): axis 1 is named twice", CALL(fftn(Z(3, 4), {}, {1, -1}))},
    {Kind::value, "ifftn(c64[3, 4]): 1 sizes for 2 axes", CALL(ifftn(Z(3, 4), {2}, {0, 1}))},
    {Kind::value, "rfftn(f32[3]): 2 sizes for 1 axes", CALL(rfftn(F(3), {2, 2}))},
    {Kind::value, "fftn(c64[]): a number has no axis to transform", CALL(fftn(make(c64, {})))},
    {Kind::index,
     "fftshift: axis 1 is out of range for a tensor of rank 1: it must be from -1 to 0",
     CALL(fftshift(F(3), {1}))},
    {Kind::value, "stft(f32[9], n_fft = 0): n_fft must be at least 1", CALL(stft(F(9), 0))},
    {Kind::value, "stft(f32[9], n_fft = 3): hop_length = 0, but it must be at least 1",
     CALL(stft(F(9), 3))},
    {Kind::value, "stft(f32[9], n_fft = 4): win_length = 5, but it must be from 1 to n_fft",
     CALL(stft(F(9), 4, {.win_length = 5}))},
    {Kind::shape, "stft(f32[9], n_fft = 4): window is f32[3] but must be [4], win_length numbers",
     CALL(stft(F(9), 4, {.window = F(3)}))},
    {Kind::shape, "stft(f32[1, 2, 9], n_fft = 4): x must be [samples] or [batch, samples]",
     CALL(stft(F(1, 2, 9), 4))},
    {Kind::shape, "stft(f32[3], n_fft = 4): the signal has 3 samples, less than a frame of n_fft",
     CALL(stft(F(3), 4, {.center = false}))},
    {Kind::dtype,
     "stft(c64[9], n_fft = 4): spectra of complex signals have two sides; onesided = false",
     CALL(stft(Z(9), 4, {.onesided = true}))},
    {Kind::shape,
     "istft(c64[4, 5], n_fft = 8): x has 4 frequencies, but n_fft / 2 + 1 = 5 are needed",
     CALL(istft(Z(4, 5), 8))},
    {Kind::dtype,
     "istft(f32[4, 5, 2], n_fft = 8): spectra are complex; view_as_complex() makes "
     "them of parts",
     CALL(istft(F(4, 5, 2), 8))},
    {Kind::dtype, "istft(c64[5, 5], n_fft = 8): window is c64[8] but must be real",
     CALL(istft(Z(5, 5), 8, {.window = Z(8)}))},
    {Kind::value,
     "mel_weight_matrix(mel_bins = 2, dft_length = 16, sample_rate = 8000): the upper edge lies "
     "beyond half the sample rate",
     CALL(mel_weight_matrix(2, 16, 8000, 0, 30000))},
    {Kind::value,
     "mel_weight_matrix(mel_bins = 2, dft_length = 0, sample_rate = 8000): mel_bins must be at "
     "least 0, dft_length and sample_rate at least 1",
     CALL(mel_weight_matrix(2, 0, 8000, 0, 4000))},
};

TEST(Errors, OfFourierTransforms) { expect_errors(kFftCalls, "fft_errors_test.cpp"); }

class FourierTransforms : public Interpreted {};

/// The largest difference between two tensors.
double apart(const Tensor& a, const Tensor& b) {
  const auto x = elements(a), y = elements(b);
  EXPECT_EQ(x.size(), y.size());
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) worst = std::max(worst, std::abs(x[i] - y[i]));
  return worst;
}

Tensor random_complex(const Shape& shape, DType dtype = f64) {
  return complex(uniform(shape, -1, 1, dtype), uniform(shape, -1, 1, dtype));
}

// A wave of frequency k has one number in its spectrum, n: an exact answer for any size.
TEST_F(FourierTransforms, OfOneWaveForAnySize) {
  for (const std::int64_t n :
       {61, 67, 128, 251, 1000, 1009, 2048, 4096, 4099, 10007, 12289, 20014, 65536, 100000}) {
    for (const std::int64_t lines : {1, 3, 17}) {
      if (lines * n > 300000) continue;
      const std::int64_t k = n / 3;
      const Tensor at = remainder(arange(n) * k, n);
      const Tensor angle = to(at, f64) * (2 * std::numbers::pi / static_cast<double>(n));
      const Tensor wave = expand(unsqueeze(polar(ones({n}, f64), angle), 0), {lines, n});
      const Tensor there = unsqueeze(to(arange(n) == k, f64), 0) * static_cast<double>(n);
      const double bound = 1e-16 * 30 * static_cast<double>(n);
      EXPECT_LT(apart(fft(wave), complex(expand(there, {lines, n}), zeros({lines, n}, f64))), bound)
          << n;
      const Tensor half = rfft(real(wave));
      const Tensor expected = slice(there, 1, 0, n / 2 + 1) * 0.5;
      EXPECT_LT(apart(real(half), expand(expected, {lines, n / 2 + 1})), bound) << n;
    }
  }
}

TEST_F(FourierTransforms, ComeBack) {
  for (const std::int64_t n : {1, 2, 3, 15, 64, 105, 130, 257, 1000, 4099, 6000, 10007}) {
    for (const std::int64_t lines : {1, 5, 20}) {
      const Tensor x = random_complex({lines, n});
      EXPECT_LT(apart(ifft(fft(x)), x), 1e-14) << n;
      EXPECT_LT(apart(irfft(rfft(real(x)), Dim(n)), real(x)), 1e-14) << n;
      const Tensor narrow = to(x, c64);
      EXPECT_LT(apart(ifft(fft(narrow)), narrow), 5e-6) << n;
      EXPECT_LT(apart(irfft(rfft(real(narrow)), Dim(n)), real(narrow)), 5e-6) << n;
      // Along the first axis, where lines lie side by side.
      const Tensor turned = clone(transpose(x, 0, 1));
      EXPECT_LT(apart(transpose(fft(turned, {}, 0), 0, 1), fft(x)), 1e-11) << n;
      EXPECT_LT(apart(transpose(rfft(real(turned), {}, 0), 0, 1), rfft(real(x))), 1e-11) << n;
    }
  }
}

TEST_F(FourierTransforms, DoNotDependOnThreads) {
  const int before = get_num_threads();
  for (const Shape& shape : {Shape{100, 360}, Shape{1, 65536}, Shape{3, 10007}}) {
    const Tensor x = random_complex(shape, f32);
    set_num_threads(1);
    const Tensor one = fft(x), half = rfft(real(x)), back = irfft(half);
    set_num_threads(2);
    EXPECT_EQ(elements(fft(x)), elements(one));
    EXPECT_EQ(elements(rfft(real(x))), elements(half));
    EXPECT_EQ(elements(irfft(half)), elements(back));
    set_num_threads(before);
  }
}

TEST_F(FourierTransforms, KeepLinesApart) {
  // What is not finite, or very large, in one line changes no other one.
  Tensor x = random_complex({20, 12});
  const Tensor before = fft(x), half = rfft(real(x));
  Tensor y = clone(view_as_real(x));
  slice(y, 0, 3, 4).fill_(std::numeric_limits<double>::infinity());
  const Tensor after = fft(view_as_complex(y)), after_half = rfft(select(y, -1, 0));
  for (const auto& [a, b] : {std::pair(before, after), std::pair(half, after_half)}) {
    EXPECT_EQ(elements(slice(a, 0, 0, 3)), elements(slice(b, 0, 0, 3)));
    EXPECT_EQ(elements(slice(a, 0, 4)), elements(slice(b, 0, 4)));
    EXPECT_FALSE(std::isfinite(elements(slice(b, 0, 3, 4))[0]));
  }
}

TEST_F(FourierTransforms, OfFramesComeBack) {
  const Tensor x = uniform({2, 1000}, -1, 1, f64);
  const StftArgs args{.hop_length = 16, .window = hann_window(64, true, f64), .length = Dim(1000)};
  const Tensor spectra = stft(x, 64, args);
  EXPECT_EQ(type_string(spectra), "c128[2, 33, 63]");
  EXPECT_LT(apart(istft(spectra, 64, args), x), 1e-14);
}

}  // namespace
}  // namespace dyad::testing
