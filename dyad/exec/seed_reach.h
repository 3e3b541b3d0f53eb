#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "dyad/ir/graph.h"

namespace dyad::exec {

/// Which seeds a value is computed from. That of several is the greatest of theirs.
enum class Reach : std::uint8_t { none, missing, given };

/// Of values; those not in it are computed from no seeds.
class SeedReach {
 public:
  [[nodiscard]] Reach operator[](const Value& value) const {
    const auto at = reached_.find(value);
    return at == reached_.end() ? Reach::none : at->second;
  }
  void set(const Value& value, Reach reach) { reached_.insert_or_assign(value, reach); }
  [[nodiscard]] std::vector<Reach> of(std::span<const Value> values) const {
    std::vector<Reach> all;
    all.reserve(values.size());
    for (const Value& value : values) all.push_back((*this)[value]);
    return all;
  }
  /// What a value is to one that uses it: a gradient that does not come may be zeros there.
  [[nodiscard]] Reach in(const Node& user, const Value& value) const;
  [[nodiscard]] std::vector<Reach> of_inputs(const Node& user) const;
  void set_zeros(const Node& user, const Value& value) { zeros_[&user].insert(value); }
  /// Finds those of a node's outputs by those of its inputs.
  void follow(Node& node);

 private:
  std::unordered_map<Value, Reach, ValueHash> reached_;
  std::unordered_map<const Node*, std::unordered_set<Value, ValueHash>> zeros_;
};

/// Those of a region's values, by those of its first parameters.
[[nodiscard]] SeedReach reached_in(const GraphImpl& region, std::span<const Reach> parameters);
/// How many states a scan has.
[[nodiscard]] std::size_t states_of(const Node& scan);
/// Those of a scan's parameters in any of its steps, by what they are in the first one.
[[nodiscard]] std::vector<Reach> in_any_step(const Node& scan, std::vector<Reach> parameters);

}  // namespace dyad::exec
