#include "dyad/runtime/cpu/tensor_data.h"

#include <algorithm>

#include "dyad/runtime/cpu/copy.h"
#include "dyad/runtime/cpu/element.h"

namespace dyad::runtime::cpu {

std::vector<std::int64_t> index_values(const Tensor& index) {
  const Tensor dense = contiguous_copy(index);
  std::vector<std::int64_t> values(static_cast<std::size_t>(dense.impl()->numel()));
  with_index(dense.dtype(), [&]<class I>(I) {
    std::copy_n(elements_of<const I>(dense), values.size(), values.begin());
  });
  return values;
}

std::string place_in(std::span<const std::int64_t> sizes, std::int64_t at) {
  std::string text;
  for (std::size_t i = sizes.size(); i-- > 0; at /= sizes[i])
    text.insert(0, std::to_string(at % sizes[i]) + (text.empty() ? "" : ", "));
  return "[" + text + "]";
}

}  // namespace dyad::runtime::cpu
