#include "tests/bad_input/allocations.h"

#include <algorithm>
#include <cstdlib>
#include <new>

#include "dyad/core/storage.h"

namespace {

thread_local std::size_t largest = 0;

void* allocate(std::size_t bytes) noexcept {
  largest = std::max(largest, bytes);
  return std::malloc(std::max<std::size_t>(bytes, 1));
}

void* allocate_or_throw(std::size_t bytes) {
  void* block = allocate(bytes);
  if (!block) throw std::bad_alloc();
  return block;
}

}  // namespace

// The program's own operator new: the standard lets a program replace it.
void* operator new(std::size_t bytes) { return allocate_or_throw(bytes); }
void* operator new[](std::size_t bytes) { return allocate_or_throw(bytes); }
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return allocate(bytes); }
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept { return allocate(bytes); }
void operator delete(void* block) noexcept { std::free(block); }
void operator delete[](void* block) noexcept { std::free(block); }
void operator delete(void* block, std::size_t) noexcept { std::free(block); }
void operator delete[](void* block, std::size_t) noexcept { std::free(block); }
void operator delete(void* block, const std::nothrow_t&) noexcept { std::free(block); }
void operator delete[](void* block, const std::nothrow_t&) noexcept { std::free(block); }

namespace dyad::testing {

LargestAllocation::LargestAllocation() : tensors_before_(memory_stats().in_use) {
  reset_peak_memory();
  largest = 0;
}

std::size_t LargestAllocation::bytes() const noexcept {
  const std::size_t peak = memory_stats().peak;
  return std::max(largest, peak > tensors_before_ ? peak - tensors_before_ : 0);
}

}  // namespace dyad::testing
