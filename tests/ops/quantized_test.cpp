#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <string>
#include <vector>

#include "dyad/autograd/gradients.h"
#include "dyad/core/create.h"
#include "dyad/core/generator.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/ir/literal.h"
#include "dyad/ops/ops.h"
#include "dyad/runtime/threads.h"

namespace dyad::testing {
namespace {

/// A tensor of bytes whose elements are mostly at the ends of the range: what overflows sums of 16
/// bits.
Tensor extreme_bytes(const Shape& shape, DType dtype, std::uint64_t seed) {
  const Tensor made = zeros(shape, dtype);
  auto* data = reinterpret_cast<std::uint8_t*>(made.impl()->data);
  for (std::int64_t i = 0; i < made.numel().number(); ++i) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    const auto pick = static_cast<unsigned>(seed >> 60);
    const int high = dtype == u8 ? 255 : 127, low = high - 255;
    data[i] = static_cast<std::uint8_t>(pick < 10   ? high
                                        : pick < 15 ? low
                                                    : static_cast<int>(seed >> 40 & 0xFF));
  }
  return made;
}

std::int64_t byte_at(const Tensor& x, std::int64_t i) {
  const std::byte byte = x.impl()->data[i];
  return x.dtype() == i8 ? std::int64_t{static_cast<std::int8_t>(byte)}
                         : std::int64_t{static_cast<std::uint8_t>(byte)};
}

/// The product by its definition, modulo 2^32.
std::vector<std::int32_t> product(const Tensor& a, const Tensor& b, std::int64_t za,
                                  std::int64_t zb) {
  const std::int64_t m = a.size(0).number(), k = a.size(1).number(), n = b.size(1).number();
  std::vector<std::int32_t> c(static_cast<std::size_t>(m * n));
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      std::int64_t sum = 0;
      for (std::int64_t p = 0; p < k; ++p) {
        sum += (byte_at(a, i * k + p) - za) * (byte_at(b, p * n + j) - zb);
      }
      c[static_cast<std::size_t>(i * n + j)] = static_cast<std::int32_t>(sum);
    }
  }
  return c;
}

std::vector<std::int32_t> numbers(const Tensor& x) {
  const Tensor dense = contiguous(x);
  const auto* data = dense.data<std::int32_t>();
  return {data, data + dense.numel().number()};
}

Tensor scalar_of(std::int64_t value, DType dtype) {
  return full({}, static_cast<double>(value), dtype);
}

/// Whether every product of bytes comes out as defined; says which do not.
bool products_are_exact() {
  bool exact = true;
  const auto check = [&](const Tensor& got, const std::vector<std::int32_t>& want,
                         const std::string& what) {
    if (numbers(got) == want) return;
    std::fprintf(stderr, "%s: wrong\n", what.c_str());
    exact = false;
  };
  for (const DType da : {u8, i8}) {
    for (const DType db : {u8, i8}) {
      for (const auto& [m, k, n] : {std::array<std::int64_t, 3>{1, 1, 1},
                                    {3, 64, 16},
                                    {17, 129, 33},
                                    {2, 2000, 5},
                                    {1, 300, 70},
                                    {40, 300, 1},
                                    {2, 140000, 3}}) {
        const Tensor a = extreme_bytes({m, k}, da, 1), b = extreme_bytes({k, n}, db, 2);
        const std::int64_t za = da == u8 ? 200 : -128, zb = db == u8 ? 1 : 127;
        const std::string what = type_string(a) + " @ " + type_string(b);
        check(matmul_integer(a, b), product(a, b, 0, 0), what);
        check(matmul_integer(a, b, scalar_of(za, da), scalar_of(zb, db)), product(a, b, za, zb),
              what + " with zero points");
        // A transposed right operand is read as it lies.
        const Tensor turned = transpose(contiguous(transpose(b, 0, 1)), 0, 1);
        check(matmul_integer(a, turned), product(a, b, 0, 0), what + ", transposed");
      }
      // Sums beyond 32 bits wrap.
      const Tensor most = full({1, 140000}, da == u8 ? 255 : -128, da),
                   least = full({140000, 2}, db == u8 ? 255 : -128, db);
      check(matmul_integer(most, least), product(most, least, 0, 0), "sums beyond 32 bits");
      const Tensor x = extreme_bytes({1, 70, 5, 5}, da, 3), w = extreme_bytes({3, 70, 5, 5}, db, 4);
      const Tensor flat = reshape(x, {1, -1}), columns = transpose(reshape(w, {3, -1}), 0, 1);
      check(conv_integer(x, w), product(flat, contiguous(columns), 0, 0), "convolution");
    }
  }
  return exact;
}

TEST(Cast, WithoutSaturationInfinityIsKept) {
  const float inf = std::numeric_limits<float>::infinity();
  const Tensor x = tensor({1e6f, -1e6f, inf, -inf, 60000.0f, 0.5f});
  const auto codes = [&](DType dtype, bool saturate) {
    return to(cast(x, dtype, saturate), f32).to_vector<float>();
  };
  EXPECT_EQ(codes(f8e5m2, false), (std::vector<float>{inf, -inf, inf, -inf, 57344, 0.5f}));
  EXPECT_EQ(codes(f8e5m2, true), (std::vector<float>{57344, -57344, 57344, -57344, 57344, 0.5f}));
  EXPECT_TRUE(std::isnan(codes(f8e4m3fn, false)[0]));
  EXPECT_EQ(codes(f4e2m1, false), (std::vector<float>{6, -6, 6, -6, 6, 0.5f}));
  // What is only moved stays, too.
  const Tensor held = cast(x, f8e5m2, false);
  EXPECT_EQ(to(where(tensor({true, true, true, true, true, true}), held, held), f32)
                .to_vector<float>()[0],
            inf);
}

TEST(IntegerProducts, AreExactAtTheEndsOfTheRange) { EXPECT_TRUE(products_are_exact()); }

TEST(IntegerProducts, ConvolutionsAreThoseOfDoubles) {
  struct Windows {
    std::int64_t channels, out, kernel, stride, padding, dilation;
  };
  for (const Windows w :
       {Windows{5, 7, 3, 1, 1, 1}, Windows{16, 16, 3, 2, 1, 1}, Windows{3, 20, 2, 3, 2, 1},
        Windows{32, 8, 3, 1, 3, 2}, Windows{40, 33, 1, 1, 0, 1}, Windows{4, 4, 1, 2, 0, 1}}) {
    for (const DType dtype : {u8, i8}) {
      const Tensor x = extreme_bytes({2, w.channels, 11, 14}, dtype, 5);
      const Tensor weight = extreme_bytes({w.out, w.channels, w.kernel, w.kernel}, i8, 6);
      for (const double zero : {0.0, 3.0}) {
        const Tensor sums =
            conv_integer(x, weight, full({}, zero, dtype), {}, w.stride, w.padding, w.dilation);
        const Tensor wanted =
            conv2d(to(x, f64) - zero, to(weight, f64), {}, w.stride, w.padding, w.dilation);
        EXPECT_EQ(max(abs(to(sums, f64) - wanted)).item<double>(), 0) << w.channels << " " << zero;
      }
    }
  }
}

/// Sizes at the edges of what windows in place are cut into: tiles of 6 positions, panels of 16
/// channels, blocks of 128 positions, 512 words at a time; and what does not go that way.
TEST(IntegerProducts, WindowsOfManyChannelsAreThoseOfDoubles) {
  struct Windows {
    std::int64_t channels, out, height, width, kernel, stride, padding, dilation, groups = 1;
  };
  const int before = get_num_threads();
  for (const Windows& w : {Windows{32, 16, 7, 6, 3, 1, 1, 1},
                           {34, 17, 5, 13, 3, 1, 0, 1},
                           {36, 33, 9, 1, 3, 1, 2, 1},
                           {32, 15, 1, 129, 3, 1, 1, 1},
                           {32, 48, 3, 300, 3, 2, 1, 1},
                           {16, 16, 12, 12, 3, 1, 1, 1},
                           {12, 5, 30, 31, 3, 3, 4, 1},
                           {32, 20, 14, 9, 3, 1, 2, 2},
                           {64, 18, 10, 11, 2, 2, 3, 3},
                           {600, 18, 4, 5, 3, 1, 1, 1},
                           {1400, 7, 7, 8, 5, 1, 2, 1},
                           {0, 16, 6, 7, 3, 1, 1, 1},
                           {33, 16, 6, 7, 3, 1, 1, 1},
                           {64, 32, 6, 7, 3, 1, 1, 1, 2}}) {
    const Tensor x = extreme_bytes({3, w.channels, w.height, w.width}, u8, 7);
    const Tensor turned = permute(contiguous(permute(x, {0, 2, 3, 1})), {0, 3, 1, 2});
    const Tensor weight = extreme_bytes({w.out, w.channels / w.groups, w.kernel, w.kernel}, i8, 8);
    for (const double zero : {0.0, 255.0}) {
      const Tensor wanted =
          conv2d(to(x, f64) - zero, to(weight, f64), {}, w.stride, w.padding, w.dilation, w.groups);
      for (const int threads : {1, 2}) {
        set_num_threads(threads);
        for (const Tensor& images : {x, turned}) {
          const Tensor sums = conv_integer(images, weight, full({}, zero, u8), {}, w.stride,
                                           w.padding, w.dilation, w.groups);
          EXPECT_EQ(max(abs(to(sums, f64) - wanted)).item<double>(), 0)
              << w.channels << " of " << w.width << ", zero " << zero << ", threads " << threads;
        }
      }
    }
  }
  set_num_threads(before);
}

TEST(IntegerProducts, DoNotDependOnThreads) {
  const Tensor a = extreme_bytes({300, 200}, u8, 5), b = extreme_bytes({200, 150}, i8, 6);
  const int before = get_num_threads();
  std::vector<std::vector<std::int32_t>> found;
  for (const int threads : {1, 2}) {
    set_num_threads(threads);
    found.push_back(numbers(matmul_integer(a, b)));
  }
  set_num_threads(before);
  EXPECT_EQ(found[0], found[1]);
}

/// The library's products saturate on CPUs whose instructions add pairs of products in 16 bits: it
/// must not be asked there. A process of its own is told to do without the newer instructions.
TEST(IntegerProductsDeathTest, AreExactOnOlderCpus) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  for (const char* const isa : {"AVX2", "AVX512_CORE", "AVX512_CORE_VNNI"}) {
    EXPECT_EXIT(
        {
          setenv("ONEDNN_MAX_CPU_ISA", isa, 1);
          setenv("DNNL_MAX_CPU_ISA", isa, 1);
          std::exit(products_are_exact() ? 0 : 1);
        },
        ::testing::ExitedWithCode(0), "")
        << isa;
  }
}

TEST(Quantize, FakeQuantisationIsThereAndBack) {
  const Tensor x = normal({7, 33}, 0, 2), scale = full({7}, 0.04) + arange(7, f32) * 0.01;
  const Tensor zero = arange(7, i64) * 5 - 20;
  const Tensor q = quantize_linear(x, scale, zero.to(i8), {.axis = 0});
  const Tensor back = dequantize_linear(q, scale, zero.to(i8), {.axis = 0});
  EXPECT_EQ(packed_elements(fake_quantize(x, scale, zero, -128, 127)), packed_elements(back));
}

TEST(Quantize, TheGradientByScaleIsThatOfTheProduct) {
  const Tensor q = tensor({{0, 10, 255}, {3, 128, 7}}).to(u8), zero = full({}, 128, u8);
  Tensor scale = tensor({0.5f, 2.0f, 1.0f}).requires_grad();
  sum(dequantize_linear(q, scale, broadcast_to(zero, {3}))).backward();
  const Tensor want = sum(q.to(f32) - 128, {0});
  EXPECT_EQ(packed_elements(scale.grad()), packed_elements(want));
}

/// A scale and a zero point for numbers from `low` to `high`.
struct Range {
  double scale;
  std::int64_t zero_point;
};
Range range_of(const Tensor& x) {
  const double low = std::min(0.0, static_cast<double>(min(x).item<float>())),
               high = std::max(0.0, static_cast<double>(max(x).item<float>()));
  const double scale = (high - low) / 255;
  return {scale, static_cast<std::int64_t>(std::lround(-low / scale))};
}
Quantized quantized(const Tensor& x) {
  const Range r = range_of(x);
  const Tensor scale = full({}, r.scale), zero = full({}, static_cast<double>(r.zero_point), u8);
  return {quantize_linear(x, scale, zero), scale, zero};
}
/// A weight as i8 with a scale for each output channel and 0 for 0.
Quantized quantized_weight(const Tensor& w) {
  const Tensor largest = max(abs(reshape(w, {w.size(0), -1})), {1});
  const Tensor scale = largest / 127, zero = zeros({w.size(0)}, i8);
  return {quantize_linear(w, scale, zero, {.axis = 0}), scale, zero};
}

/// A convolutional network in f32 and quantised: the results differ by a few steps of the largest.
TEST(Quantize, ANetworkStaysClose) {
  manual_seed(7);
  const Tensor x = uniform({4, 3, 12, 12}, -1, 1);
  const Tensor w1 = normal({8, 3, 3, 3}, 0, 0.3), b1 = normal({8}, 0, 0.1);
  const Tensor w2 = normal({12, 8, 3, 3}, 0, 0.15), b2 = normal({12}, 0, 0.1);
  const Tensor w3 = normal({12, 5}, 0, 0.3);
  const Tensor y1 = relu(conv2d(x, w1, b1, 1, 1)), y2 = relu(conv2d(y1, w2, b2, 2, 1));
  const Tensor pooled = mean(y2, {2, 3}), want = matmul(pooled, w3);

  const Quantized qx = quantized(x), qw1 = quantized_weight(w1), qw2 = quantized_weight(w2);
  const auto bias = [](const Tensor& b, const Quantized& in, const Quantized& w) {
    return round(b / (in.scale * w.scale)).to(i32);
  };
  // A zero point at the lowest number makes the quantisation of the result relu too.
  const Quantized r1 = quantized(y1), r2 = quantized(y2);
  const Quantized q1{qlinear_conv(qx, qw1, r1.scale, r1.zero_point, bias(b1, qx, qw1), 1, 1),
                     r1.scale, r1.zero_point};
  const Quantized q2{qlinear_conv(q1, qw2, r2.scale, r2.zero_point, bias(b2, q1, qw2), 2, 1),
                     r2.scale, r2.zero_point};
  const Quantized qp =
      quantized(mean(dequantize_linear(q2.values, q2.scale, q2.zero_point), {2, 3}));
  const Quantized qw3 = quantized(w3), r3 = quantized(want);
  const Tensor got =
      dequantize_linear(qlinear_matmul(qp, qw3, r3.scale, r3.zero_point), r3.scale, r3.zero_point);
  const float largest = max(abs(want)).item<float>(), error = max(abs(got - want)).item<float>();
  EXPECT_LT(error, 0.05f * largest);
  EXPECT_GT(error, 0.0f);
}

/// Training through fake quantisation ends near a point of the grid that fits the data.
TEST(Quantize, TrainingGoesThroughTheRounding) {
  manual_seed(3);
  const Tensor x = normal({64, 4}), wanted = tensor({{0.5f}, {-1.0f}, {0.25f}, {0.75f}});
  const Tensor y = matmul(x, wanted);
  Tensor w = zeros({4, 1}).requires_grad();
  for (int step = 0; step < 200; ++step) {
    const Tensor loss = mse_loss(matmul(x, fake_quantize(w, 0.25, 0, -8, 7)), y);
    const Tensor grad = gradients(loss, {w})[0];
    w = (w.detach() - grad * 0.05).requires_grad();
  }
  EXPECT_EQ(packed_elements(fake_quantize(w.detach(), 0.25, 0, -8, 7)), packed_elements(wanted));
}

}  // namespace
}  // namespace dyad::testing
