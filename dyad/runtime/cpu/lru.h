#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <unordered_map>
#include <utility>

#include "dyad/base/inline_vector.h"
#include "dyad/runtime/library_time.h"

namespace dyad::runtime::cpu {

/// What identifies a planned problem: its numbers in order.
using PlanKey = InlineVector<std::int64_t, 40>;

struct PlanKeyHash {
  std::size_t operator()(const PlanKey& key) const noexcept {
    std::uint64_t h = key.size();
    for (const std::int64_t v : key) {
      h = (h ^ static_cast<std::uint64_t>(v)) * 0x9E3779B97F4A7C15u;
      h ^= h >> 29;
    }
    return h;
  }
};

/// The values used last, at most `capacity` of them.
template <class Value>
class Lru {
 public:
  explicit Lru(std::size_t capacity) : capacity_(capacity) {}

  /// The value of the key, if it is held.
  Value* find(const PlanKey& key) {
    if (!order_.empty() && order_.front().first == key) return &order_.front().second;
    const auto found = index_.find(key);
    if (found == index_.end()) return nullptr;
    order_.splice(order_.begin(), order_, found->second);
    return &found->second->second;
  }

  /// The value of the key, made by `make()` if it is not held.
  template <class Make>
  Value& get(const PlanKey& key, Make&& make) {
    if (Value* const held = find(key)) return *held;
    {
      const LibraryTime timed;
      order_.emplace_front(key, make());
    }
    index_[key] = order_.begin();
    if (order_.size() > capacity_) {
      index_.erase(order_.back().first);
      order_.pop_back();
    }
    return order_.front().second;
  }
  void clear() noexcept {
    index_.clear();
    order_.clear();
  }

 private:
  std::size_t capacity_;
  std::list<std::pair<PlanKey, Value>> order_;
  std::unordered_map<PlanKey, typename std::list<std::pair<PlanKey, Value>>::iterator, PlanKeyHash>
      index_;
};

}  // namespace dyad::runtime::cpu
