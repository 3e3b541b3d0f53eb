#include "dyad/onnx/numbers.h"

#include "dyad/core/element.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/ir/literal.h"

namespace dyad::onnx {

std::vector<double> numbers(const Tensor& x) {
  std::vector<double> values;
  visit_element(x.dtype(), [&]<class T>(std::type_identity<T>) {
    for_each_offset(x.shape(), x.strides(), [&](std::int64_t offset) {
      const T element = reinterpret_cast<const T*>(x.impl()->data)[offset];
      if constexpr (is_complex_element<T>) {
        values.insert(values.end(), {element.real(), element.imag()});
      } else {
        values.push_back(convert_element<double>(element));
      }
    });
  });
  return values;
}

}  // namespace dyad::onnx
