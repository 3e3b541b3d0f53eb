#pragma once

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <utility>
#include <vector>

namespace dyad {

/// A map whose entries lie in one piece of memory, sorted by key: for few of them, or for keys that
/// come about in order. Otherwise adding one moves many. References to entries hold until the next
/// is added.
template <class Key, class T>
class FlatMap {
 public:
  using value_type = std::pair<Key, T>;
  using iterator = typename std::vector<value_type>::iterator;
  using const_iterator = typename std::vector<value_type>::const_iterator;

  [[nodiscard]] iterator begin() noexcept { return entries_.begin(); }
  [[nodiscard]] iterator end() noexcept { return entries_.end(); }
  [[nodiscard]] const_iterator begin() const noexcept { return entries_.begin(); }
  [[nodiscard]] const_iterator end() const noexcept { return entries_.end(); }
  [[nodiscard]] std::size_t size() const noexcept { return entries_.size(); }

  [[nodiscard]] const_iterator find(const Key& key) const {
    const const_iterator at = std::ranges::lower_bound(entries_, key, {}, &value_type::first);
    return at != end() && at->first == key ? at : end();
  }
  [[nodiscard]] bool contains(const Key& key) const { return find(key) != end(); }
  /// Throws std::out_of_range where there is none.
  [[nodiscard]] const T& at(const Key& key) const {
    const const_iterator found = find(key);
    if (found == end()) throw std::out_of_range("FlatMap::at: no such key");
    return found->second;
  }

  /// Adds it, unless there is one: then nothing is done.
  std::pair<iterator, bool> try_emplace(const Key& key, T value) {
    const iterator at = place_of(key);
    if (at != end() && at->first == key) return {at, false};
    return {entries_.emplace(at, key, std::move(value)), true};
  }
  void insert_or_assign(const Key& key, T value) {
    const iterator at = place_of(key);
    if (at != end() && at->first == key) {
      at->second = std::move(value);
    } else {
      entries_.emplace(at, key, std::move(value));
    }
  }

 private:
  [[nodiscard]] iterator place_of(const Key& key) {
    if (entries_.empty() || entries_.back().first < key) return entries_.end();
    return std::ranges::lower_bound(entries_, key, {}, &value_type::first);
  }

  std::vector<value_type> entries_;
};

}  // namespace dyad
