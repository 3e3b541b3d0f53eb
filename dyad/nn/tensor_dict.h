#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "dyad/core/tensor.h"

namespace dyad {

/// Tensors by name, in the order in which they were added: what a model's state is, and what files
/// of weights hold. Copies share the tensors.
class TensorDict {
 public:
  using Entry = std::pair<std::string, Tensor>;

  TensorDict() = default;
  /// ValueError when a name comes twice.
  TensorDict(std::initializer_list<Entry> entries);

  /// ValueError when the name is taken.
  void add(std::string name, Tensor tensor);
  /// The tensor of that name, or null.
  [[nodiscard]] const Tensor* find(std::string_view name) const& noexcept;
  const Tensor* find(std::string_view name) const&& = delete;  // it would point into what is gone
  /// IndexError, naming a similar name when there is one.
  [[nodiscard]] const Tensor& at(std::string_view name,
                                 Loc loc = std::source_location::current()) const&;
  /// Of a temporary, `state_dict(model).at("weight")`: a handle of its own.
  [[nodiscard]] Tensor at(std::string_view name,
                          Loc loc = std::source_location::current()) const&& {
    return at(name, loc);
  }
  [[nodiscard]] bool contains(std::string_view name) const noexcept {
    return find(name) != nullptr;
  }
  [[nodiscard]] std::size_t size() const noexcept { return entries_.size(); }
  [[nodiscard]] bool empty() const noexcept { return entries_.empty(); }
  [[nodiscard]] auto begin() const noexcept { return entries_.begin(); }
  [[nodiscard]] auto end() const noexcept { return entries_.end(); }

  /// The entries whose name begins with `prefix`, without it.
  [[nodiscard]] TensorDict below(std::string_view prefix) const;
  /// Adds all of `other` under `prefix` + name.
  void add_all(std::string_view prefix, const TensorDict& other);

 private:
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  std::vector<Entry> entries_;
  std::unordered_map<std::string, std::size_t, Hash, std::equal_to<>> index_;
};

}  // namespace dyad
