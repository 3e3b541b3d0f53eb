#pragma once

#include <cstdint>
#include <vector>

#include "dyad/runtime/cpu/sort_keys.h"

namespace dyad::runtime::cpu {

/// A key and the place of its element, ordered by both: records are all different, so that every
/// way to sort them is stable.
struct WideRecord {
  std::uint64_t key;
  std::int64_t place;
  [[nodiscard]] bool operator<(const WideRecord& other) const noexcept {
    return key != other.key ? key < other.key : place < other.place;
  }
};
[[nodiscard]] inline std::int64_t place_of(const WideRecord& record) noexcept {
  return record.place;
}
[[nodiscard]] inline std::uint64_t key_of(const WideRecord& record) noexcept { return record.key; }
/// Of keys of up to 32 bits both fit into one number.
using NarrowRecord = std::uint64_t;
[[nodiscard]] inline std::int64_t place_of(NarrowRecord record) noexcept {
  return static_cast<std::int64_t>(record & 0xFFFFFFFFu);
}
[[nodiscard]] inline std::uint64_t key_of(NarrowRecord record) noexcept { return record >> 32; }

/// Sorts records that are in the order of their places by their keys, which keeps that order among
/// equal ones. `spare` is memory to work in. `key_bits`: of the keys, 8 to 64.
void sort_records(std::vector<NarrowRecord>& records, std::vector<NarrowRecord>& spare,
                  int key_bits);
void sort_records(std::vector<WideRecord>& records, std::vector<WideRecord>& spare, int key_bits);

/// The record type for elements T and lines of that length.
template <class T, class F>
void with_record(std::int64_t length, F&& f) {
  if constexpr (sizeof(T) <= 4) {
    if (length <= 0xFFFFFFFF) return f(NarrowRecord{});
  }
  return f(WideRecord{});
}

template <class Record, class T>
[[nodiscard]] inline Record record_of(T value, std::int64_t place, bool descending) noexcept {
  auto key = sort_key(value);
  if (descending) key = static_cast<decltype(key)>(~key);
  if constexpr (std::is_same_v<Record, NarrowRecord>) {
    return static_cast<std::uint64_t>(key) << 32 | static_cast<std::uint64_t>(place);
  } else {
    return {static_cast<std::uint64_t>(key), place};
  }
}

}  // namespace dyad::runtime::cpu
