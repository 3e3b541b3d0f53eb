#include "dyad/debug/tensor_summary.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "dyad/core/element.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/core/text.h"
#include "dyad/ir/literal.h"

namespace dyad::debug {
namespace {

void add_numbers(const Tensor& tensor, TensorSummary& summary) {
  double sum = 0, min = std::numeric_limits<double>::infinity(), max = -min;
  std::int64_t finite = 0;
  visit_element(tensor.dtype(), [&]<class T>(std::type_identity<T>) {
    if constexpr (!is_complex_element<T>) {
      for_each_offset(tensor.impl()->shape, tensor.strides(), [&](std::int64_t offset) {
        const auto value =
            convert_element<double>(reinterpret_cast<const T*>(tensor.impl()->data)[offset]);
        if (std::isnan(value)) {
          ++summary.nans;
        } else if (std::isinf(value)) {
          ++summary.infinities;
        } else {
          ++finite;
          sum += value;
          min = std::min(min, value);
          max = std::max(max, value);
        }
      });
    }
  });
  summary.has_numbers = finite > 0;
  if (finite == 0) return;
  summary.min = min;
  summary.max = max;
  summary.mean = sum / static_cast<double>(finite);
}

}  // namespace

TensorSummary summarize(const Tensor& tensor, std::size_t first) {
  TensorSummary summary{.type = type_string(tensor), .first = {}};
  if (tensor.dtype() == DType::string) {
    for (const std::string& text : to_strings(tensor)) {
      if (summary.first.size() < first) summary.first.push_back(quote(text));
    }
    return summary;
  }
  add_numbers(tensor, summary);
  if (tensor.impl()->numel() == 0) return summary;
  for_each_offset(tensor.impl()->shape, tensor.strides(), [&](std::int64_t offset) {
    if (summary.first.size() >= first) return;
    const auto bytes = offset * static_cast<std::int64_t>(size_of(tensor.dtype()));
    summary.first.push_back(element_text(tensor.dtype(), tensor.impl()->data + bytes));
  });
  return summary;
}

}  // namespace dyad::debug
