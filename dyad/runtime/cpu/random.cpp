#include "dyad/ops/attrs/random.h"

#include <algorithm>

#include "dyad/core/generator.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/runtime/cpu/element.h"
#include "dyad/runtime/cpu/kernels.h"
#include "dyad/runtime/cpu/vector_clones.h"
#include "dyad/runtime/threads.h"

namespace dyad::runtime::cpu {
namespace {

constexpr int kPhiloxLanes = 16;

/// The first two words of Philox 4x32-10 for kPhiloxLanes counters in a row: `random_words`, many
/// at once.
DYAD_VECTOR_CLONES void words_of_lanes(std::uint64_t seed, std::uint64_t counter,
                                       std::uint32_t (&first)[kPhiloxLanes],
                                       std::uint32_t (&second)[kPhiloxLanes]) {
  std::uint32_t c0[kPhiloxLanes], c1[kPhiloxLanes], c2[kPhiloxLanes] = {}, c3[kPhiloxLanes] = {};
  for (int i = 0; i < kPhiloxLanes; ++i) {
    const std::uint64_t at = counter + static_cast<std::uint64_t>(i);
    c0[i] = static_cast<std::uint32_t>(at);
    c1[i] = static_cast<std::uint32_t>(at >> 32);
  }
  auto k0 = static_cast<std::uint32_t>(seed), k1 = static_cast<std::uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < kPhiloxLanes; ++i) {
      const std::uint64_t p0 = std::uint64_t{0xD2511F53u} * c0[i];
      const std::uint64_t p1 = std::uint64_t{0xCD9E8D57u} * c2[i];
      c0[i] = static_cast<std::uint32_t>(p1 >> 32) ^ c1[i] ^ k0;
      c1[i] = static_cast<std::uint32_t>(p1);
      c2[i] = static_cast<std::uint32_t>(p0 >> 32) ^ c3[i] ^ k1;
      c3[i] = static_cast<std::uint32_t>(p0);
    }
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  std::copy_n(c0, kPhiloxLanes, first);
  std::copy_n(c1, kPhiloxLanes, second);
}

template <class T>
T uniform_element(std::uint32_t first, std::uint32_t second) noexcept {
  if constexpr (std::is_same_v<T, double>) {
    const std::uint64_t bits = (static_cast<std::uint64_t>(first) << 21) | (second >> 11);
    return static_cast<double>(bits) * 0x1p-53;
  } else {
    // Half precision drops the bits that do not fit, so that 1 is never reached.
    constexpr int kDropped = std::is_same_v<T, Half> ? 13 : std::is_same_v<T, BFloat16> ? 16 : 0;
    const std::uint32_t bits = (first >> 8) >> kDropped << kDropped;
    return store<T>(static_cast<float>(bits) * 0x1p-24f);
  }
}

std::int64_t scalar_of(const Tensor& t) {
  return *reinterpret_cast<const std::int64_t*>(t.impl()->data);
}

void uniform(const OpCall& call) {
  const auto seed = static_cast<std::uint64_t>(scalar_of(call.inputs[0]));
  const auto offset = static_cast<std::uint64_t>(scalar_of(call.inputs[1]));
  const TensorImpl& out = *call.outputs[0].impl();
  const std::int64_t count = out.numel(), blocks = (count + kPhiloxLanes - 1) / kPhiloxLanes;
  with_floating(out.dtype, [&]<class T>(T) {
    T* to = reinterpret_cast<T*>(out.data);
    parallel_for(0, blocks, grain_for({.flops = 2000}, blocks),
                 [&](std::int64_t lo, std::int64_t hi) {
                   std::uint32_t first[kPhiloxLanes], second[kPhiloxLanes];
                   for (std::int64_t block = lo; block < hi; ++block) {
                     const std::int64_t at = block * kPhiloxLanes;
                     words_of_lanes(seed, offset + static_cast<std::uint64_t>(at), first, second);
                     const std::int64_t n = std::min<std::int64_t>(kPhiloxLanes, count - at);
                     for (std::int64_t i = 0; i < n; ++i) {
                       to[at + i] = uniform_element<T>(first[i], second[i]);
                     }
                   }
                 });
  });
}

void random_key(const OpCall& call) {
  const RandomKey key =
      default_generator().next_key(call.attrs_as<ops::RandomKeyAttrs>().count.number());
  *reinterpret_cast<std::int64_t*>(call.outputs[0].impl()->data) = key.seed;
  *reinterpret_cast<std::int64_t*>(call.outputs[1].impl()->data) = key.offset;
}

void seed_generator(const OpCall& call) {
  const auto& attrs = call.attrs_as<ops::SeedGeneratorAttrs>();
  default_generator().set_state({attrs.seed, attrs.offset});
}

}  // namespace

std::span<const NamedKernel> random_kernels() {
  static constexpr NamedKernel kernels[] = {
      {"random_key", {random_key}}, {"seed_generator", {seed_generator}}, {"uniform", {uniform}}};
  return kernels;
}

}  // namespace dyad::runtime::cpu
