#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "dyad/codegen/kernel.h"
#include "dyad/ir/op_info.h"

namespace dyad::runtime {

/// What decides which kernel an operator's call runs, but for the values of its attributes.
struct CallKey {
  const OpInfo* op = nullptr;
  std::uint64_t dtypes = 0;  ///< of the inputs, 5 bits each
  std::uint64_t access = 0;  ///< Iteration::access_key
  std::uint64_t attrs = 0;   ///< their hash

  bool operator==(const CallKey&) const = default;
  /// Which set of the cache it belongs to.
  [[nodiscard]] std::size_t set() const noexcept {
    constexpr std::uint64_t kOdd = 0x9E3779B97F4A7C15u;
    std::uint64_t h = reinterpret_cast<std::uintptr_t>(op) >> 4;
    h = (h ^ dtypes) * kOdd;
    h = (h ^ (h >> 32) ^ access ^ attrs) * kOdd;
    return static_cast<std::size_t>(h >> (64 - kBits));
  }
  static constexpr int kBits = 8;
};

/// The kernels that a thread's operators ran last. Several share a set: where operators lie differs
/// from one start of a program to the next, and two that a loop calls in turn must not drive each
/// other out.
struct CallCache {
  struct Entry {
    CallKey key;
    Ref<Attrs> attrs = {};
    std::shared_ptr<const codegen::CompiledKernel> kernel = {};
    DType result = DType::f32;
    int index_input = -1;    ///< reductions
    std::int64_t alone = 0;  ///< up to so many elements one thread is quicker
  };
  static constexpr std::size_t kWays = 4;
  struct Set {
    std::array<Entry, kWays> entries;
    std::size_t oldest = 0;
  };
  std::array<Set, std::size_t{1} << CallKey::kBits> sets;

  [[nodiscard]] Entry* find(const CallKey& key, const void* attrs) noexcept {
    for (Entry& entry : sets[key.set()].entries) {
      if (entry.key != key) continue;
      if (!entry.attrs || attrs_equal(entry.attrs->info(), attrs, entry.attrs->data()))
        return &entry;
    }
    return nullptr;
  }
  /// The call's entry, or the oldest of its set, for what is known of the call now.
  [[nodiscard]] Entry& place_for(const CallKey& key, const void* attrs) noexcept {
    if (Entry* known = find(key, attrs)) return *known;
    Set& set = sets[key.set()];
    return set.entries[set.oldest++ % kWays];
  }
  [[nodiscard]] static CallCache& of_thread() {
    thread_local const std::unique_ptr<CallCache> cache = std::make_unique<CallCache>();
    return *cache;
  }
};

}  // namespace dyad::runtime
