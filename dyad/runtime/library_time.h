#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace dyad::runtime {

namespace detail {
inline std::atomic<std::int64_t> library_nanoseconds = 0;
}  // namespace detail

/// Seconds that the process has spent so far on what library calls are prepared with, once for each
/// problem: mostly the making of oneDNN's primitives, which generates their code.
[[nodiscard]] inline double library_seconds() noexcept {
  return static_cast<double>(detail::library_nanoseconds) / 1e9;
}

/// Adds the time that it lives.
class LibraryTime {
 public:
  LibraryTime() noexcept = default;
  ~LibraryTime() {
    detail::library_nanoseconds += std::chrono::duration_cast<std::chrono::nanoseconds>(
                                       std::chrono::steady_clock::now() - start_)
                                       .count();
  }
  LibraryTime(const LibraryTime&) = delete;
  LibraryTime& operator=(const LibraryTime&) = delete;

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace dyad::runtime
