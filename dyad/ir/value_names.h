#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "dyad/ir/graph.h"

namespace dyad {

/// What the values of one graph are called in its text form, in messages and in pictures:
/// placeholders and variables by their names where these are identifiers, all others by number in
/// program order (`%x`, `%0`, `%1`...).
class ValueNames {
 public:
  explicit ValueNames(const GraphImpl& graph);

  /// `%x`; `%?` for a value that is not of the graph.
  [[nodiscard]] std::string operator()(const Value& value) const;
  /// The names of a node's outputs: `%3, %4`.
  [[nodiscard]] std::string of_outputs(const Node& node) const;
  /// True when the value is called by its node's own name.
  [[nodiscard]] bool by_own_name(const Node& node) const;

 private:
  struct Entry {
    const std::string* name = nullptr;  // of the node's attributes
    int first = 0;                      // number of output 0 of a node without a name
  };
  std::unordered_map<const Node*, Entry> entries_;
};

/// The name of a placeholder or variable, or null.
[[nodiscard]] const std::string* name_of(const Node& node) noexcept;
/// A letter or underscore, then letters, digits, underscores and points.
[[nodiscard]] bool is_identifier(std::string_view text) noexcept;

}  // namespace dyad
