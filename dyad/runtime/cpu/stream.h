#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>

namespace dyad::runtime::cpu {

// Stores past the caches, for results that leave them before anything reads these again: a line
// that is written as a whole is not read first, and what the caches hold stays there.

/// to[i] = from[i]. fence_streams() puts it before what follows.
template <class T>
void stream(const T* from, T* to, std::int64_t n) noexcept {
#if defined(__SSE2__) && !defined(__clang__)
  using Floats [[gnu::vector_size(16)]] = float;
  constexpr std::int64_t kStep = sizeof(Floats) / sizeof(T);
  std::int64_t i = 0;
  for (; i < n && reinterpret_cast<std::uintptr_t>(to + i) % sizeof(Floats) != 0; ++i)
    to[i] = from[i];
  for (; i + kStep <= n; i += kStep) {
    Floats some;
    std::memcpy(&some, from + i, sizeof(some));
    __builtin_ia32_movntps(reinterpret_cast<float*>(to + i), some);
  }
  for (; i < n; ++i) to[i] = from[i];
#else
  std::copy_n(from, n, to);
#endif
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
