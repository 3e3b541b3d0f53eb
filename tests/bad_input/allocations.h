#pragma once

#include <cstddef>

namespace dyad::testing {

/// The most memory that was asked for at once, in bytes, by operator new on this thread and for
/// tensors, since the object was made. One at a time.
class LargestAllocation {
 public:
  LargestAllocation();
  [[nodiscard]] std::size_t bytes() const noexcept;

 private:
  std::size_t tensors_before_;
};

}  // namespace dyad::testing
