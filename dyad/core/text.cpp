#include "dyad/core/text.h"

#include <mutex>
#include <unordered_set>

#include "dyad/base/error.h"
#include "dyad/core/allocation_limit.h"
#include "dyad/core/create.h"
#include "dyad/core/element.h"
#include "dyad/core/tensor_impl.h"

namespace dyad {
namespace {

/// The texts of all string tensors of the process, each once.
class TextTable {
 public:
  static TextTable& instance() {
    static auto& table =
        *new TextTable;  // tensors of other static objects may outlive it otherwise
    return table;
  }
  const std::string* add(std::string_view text) {
    const std::scoped_lock lock(mutex_);
    if (const auto known = texts_.find(text); known != texts_.end()) return &*known;
    constexpr std::size_t kBeside = 64;  // what a text takes beside its characters
    detail::count_text(text.size() + kBeside);
    return &*texts_.emplace(text).first;
  }

 private:
  std::mutex mutex_;
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  std::unordered_set<std::string, Hash, std::equal_to<>> texts_;
};

}  // namespace

Text text_element(std::string_view text) {
  return {text.empty() ? nullptr : TextTable::instance().add(text)};
}

Tensor strings(std::span<const std::string> values, const Shape& shape, Loc loc) {
  Tensor made = detail::tensor_to_fill(DType::string, shape, values.size(), loc);
  Text* to = reinterpret_cast<Text*>(made.impl()->data);
  for (const std::string& value : values) *to++ = text_element(value);
  return made;
}

std::vector<std::string> to_strings(const Tensor& x, Loc loc) {
  if (x.dtype() != DType::string) {
    throw DTypeError("to_strings(" + type_string(x) + "): the elements are no strings", loc.user());
  }
  const auto* data = static_cast<const Text*>(x.raw_data(loc));
  std::vector<std::string> values;
  for_each_offset(x.impl()->shape, x.strides(),
                  [&](std::int64_t offset) { values.emplace_back(data[offset].view()); });
  return values;
}

}  // namespace dyad
