#include "dyad/nn/tensor_dict.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "dyad/base/error.h"

namespace dyad {
namespace {

/// Insertions, deletions and exchanges that turn a into b (Levenshtein).
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t exchanged = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({row[j] + 1, row[j + 1] + 1, exchanged});
    }
  }
  return row.back();
}

}  // namespace

TensorDict::TensorDict(std::initializer_list<Entry> entries) {
  for (const auto& [name, tensor] : entries) add(name, tensor);
}

void TensorDict::add(std::string name, Tensor tensor) {
  if (!index_.emplace(name, entries_.size()).second) {
    throw ValueError(fmt::format("there is a tensor named '{}' already", name), Loc().user());
  }
  entries_.emplace_back(std::move(name), std::move(tensor));
}

const Tensor* TensorDict::find(std::string_view name) const& noexcept {
  const auto it = index_.find(name);
  return it == index_.end() ? nullptr : &entries_[it->second].second;
}

const Tensor& TensorDict::at(std::string_view name, Loc loc) const& {
  if (const Tensor* tensor = find(name)) return *tensor;
  std::string text = fmt::format("no tensor is named '{}' among {}", name, size());
  const auto near = std::min_element(begin(), end(), [&](const Entry& a, const Entry& b) {
    return distance(a.first, name) < distance(b.first, name);
  });
  if (near != end() && distance(near->first, name) <= 2 + name.size() / 4) {
    text += fmt::format("; did you mean '{}'?", near->first);
  }
  throw IndexError(text, loc.user());
}

TensorDict TensorDict::below(std::string_view prefix) const {
  TensorDict found;
  for (const auto& [name, tensor] : entries_) {
    if (name.starts_with(prefix)) found.add(name.substr(prefix.size()), tensor);
  }
  return found;
}

void TensorDict::add_all(std::string_view prefix, const TensorDict& other) {
  for (const auto& [name, tensor] : other) add(std::string(prefix) + name, tensor);
}

}  // namespace dyad
