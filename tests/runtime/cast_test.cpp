#include "dyad/runtime/cpu/cast.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <vector>

#include "dyad/core/dtype.h"
#include "dyad/core/tensor_impl.h"

namespace dyad::testing {
namespace {

Tensor all_bits(DType dtype) {
  const Tensor t = make_empty(dtype, {65536});
  auto* bits = reinterpret_cast<std::uint16_t*>(t.impl()->data);
  for (std::uint32_t i = 0; i < 65536; ++i) bits[i] = static_cast<std::uint16_t>(i);
  return t;
}

template <class T>
void widens_as_single_elements(DType dtype) {
  const Tensor half = all_bits(dtype), wide = runtime::cpu::widened(half);
  const auto* from = reinterpret_cast<const T*>(half.impl()->data);
  const auto* to = reinterpret_cast<const float*>(wide.impl()->data);
  for (std::uint32_t i = 0; i < 65536; ++i) {
    ASSERT_EQ(std::bit_cast<std::uint32_t>(to[i]), std::bit_cast<std::uint32_t>(to_float(from[i])))
        << i;
  }
}

TEST(Cast, WidensAllHalves) {
  widens_as_single_elements<Half>(DType::f16);
  widens_as_single_elements<BFloat16>(DType::bf16);
}

TEST(Cast, NarrowsAsSingleElements) {
  // All exponents and signs with mantissas at and around the middle between two halves.
  std::vector<std::uint32_t> patterns;
  for (std::uint32_t top = 0; top < 65536; ++top) {
    for (const std::uint32_t low :
         {0x0000u, 0x0001u, 0x0FFFu, 0x1000u, 0x1001u, 0x7FFFu, 0x8000u, 0x8001u, 0xFFFFu}) {
      patterns.push_back(top << 16 | low);
    }
  }
  const auto n = static_cast<std::int64_t>(patterns.size());
  const Tensor wide = make_empty(DType::f32, {n});
  auto* from = reinterpret_cast<float*>(wide.impl()->data);
  for (std::size_t i = 0; i < patterns.size(); ++i) from[i] = std::bit_cast<float>(patterns[i]);
  const Tensor half = make_empty(DType::f16, {n}), brain = make_empty(DType::bf16, {n});
  runtime::cpu::narrow(wide, half);
  runtime::cpu::narrow(wide, brain);
  for (std::size_t i = 0; i < patterns.size(); ++i) {
    ASSERT_EQ(reinterpret_cast<const Half*>(half.impl()->data)[i].bits, to_half(from[i]).bits)
        << std::hex << patterns[i];
    ASSERT_EQ(reinterpret_cast<const BFloat16*>(brain.impl()->data)[i].bits,
              to_bfloat16(from[i]).bits)
        << std::hex << patterns[i];
  }
}

}  // namespace
}  // namespace dyad::testing
