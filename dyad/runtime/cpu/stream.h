#pragma once

#include <atomic>
#include <cstdint>

#include "dyad/runtime/cpu/vector_math.h"

namespace dyad::runtime::cpu {

// Stores past the caches, for results that leave them before anything reads these again: a line
// that is written as a whole is not read first, and what the caches hold stays there.

/// A vector of kBytes to where these are aligned.
template <int kBytes, class T>
[[gnu::always_inline]] inline void stream_vector(const vector_math::Vector<T, kBytes>& from,
                                                 T* to) noexcept {
  auto& there = *reinterpret_cast<vector_math::Unaligned<T, kBytes>*>(to);
#if defined(__x86_64__) && !defined(__clang__) && !defined(DYAD_PLAIN_LOOPS) && \
    defined(__OPTIMIZE__)
  if constexpr (kBytes == 16) {
    asm("movntps %1, %0" : "=m"(there) : "x"(from));
  } else {
    asm("vmovntps %1, %0" : "=m"(there) : "v"(from));
  }
#else
  there = from;
#endif
}

/// out[i] for i in [0, n): `value(at, put)` is to call `put` with what belongs there, where `at(x)`
/// stands for x[i], or for as many of them as are computed with at once. For loops that
/// DYAD_VECTOR_VERSIONS compiles; fence_streams() puts those past the caches before what follows.
template <int kBytes, class T, class Value>
[[gnu::always_inline]] inline void store_each(T* out, std::int64_t n, bool past_caches,
                                              Value value) {
  using namespace vector_math;
  constexpr std::int64_t kWidth = kVectorLanes<T, kBytes>;
  std::int64_t i = 0;
  const auto one = [&] {
    value([i](const T* x) -> const T& { return x[i]; }, [&](const T& v) { out[i] = v; });
  };
  if (past_caches) {
    for (; i < n && reinterpret_cast<std::uintptr_t>(out + i) % kBytes != 0; ++i) one();
    for (; i + kWidth <= n; i += kWidth) {
      value(VectorAt<T, kBytes>{i}, [&](const auto& v) { stream_vector<kBytes>(v, out + i); });
    }
  }
  for (; i + kWidth <= n; i += kWidth) {
    const VectorAt<T, kBytes> at{i};
    value(at, [&](const auto& v) { at(out) = v; });
  }
  for (; i < n; ++i) one();
}

/// to[i] = from[i]. fence_streams() puts it before what follows.
template <class T>
void stream(const T* from, T* to, std::int64_t n) noexcept {
  store_each<16>(to, n, true, [=](const auto& at, const auto& put) { put(at(from)); });
}

/// By the thread that wrote, when it is done: it waits until memory has everything.
inline void fence_streams() noexcept {
#ifdef __SSE2__
  __builtin_ia32_sfence();
#else
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

}  // namespace dyad::runtime::cpu
