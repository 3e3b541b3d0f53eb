#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace dyad::runtime::cpu {

// Stores past the caches, for results that leave them before anything reads these again: a line
// that is written as a whole is not read first, and what the caches hold stays there.

/// to[i] = from[i]. fence_streams() puts it before what follows.
template <class T>
void stream(const T* from, T* to, std::int64_t n) noexcept {
#ifdef __SSE2__
  constexpr std::uintptr_t kBytes = sizeof(__m128i);
  constexpr std::int64_t kStep = kBytes / sizeof(T);
  std::int64_t i = 0;
  for (; i < n && reinterpret_cast<std::uintptr_t>(to + i) % kBytes != 0; ++i) to[i] = from[i];
  for (; i + kStep <= n; i += kStep) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + i),
                     _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i)));
  }
  for (; i < n; ++i) to[i] = from[i];
#else
  std::copy_n(from, n, to);
#endif
}

/// By the thread that wrote, when it is done: it waits until memory has everything.
inline void fence_streams() noexcept {
#ifdef __SSE2__
  _mm_sfence();
#else
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

}  // namespace dyad::runtime::cpu
