#include "dyad/runtime/cpu/matrices.h"

#include "dyad/base/error.h"
#include "dyad/runtime/cpu/tensor_data.h"

namespace dyad::runtime::cpu {

MatrixAt matrix_of(const TensorImpl& t) {
  const std::size_t rank = t.shape.size();
  return {t.shape[rank - 2].number(), t.shape[rank - 1].number(), t.strides[rank - 2],
          t.strides[rank - 1]};
}

std::span<const std::int64_t> batch_of(const TensorImpl& t, std::size_t inner) {
  return t.shape.numbers().first(t.shape.size() - inner);
}

Ints batch_strides(const TensorImpl& t, std::span<const std::int64_t> batch, std::size_t inner) {
  const auto own = batch_of(t, inner);
  return Ints(std::span<const std::int64_t>(
      broadcast_strides(own, std::span(t.strides.data(), own.size()), batch)));
}

void MatrixBatch::fail() const {
  Types types;
  for (const Tensor& input : call_.inputs) types.push_back(type_of(input));
  const std::string name =
      batch_.empty() ? "the matrix " : "matrix " + place_in(batch_, worst_) + " of the batch ";
  throw ValueError(call_string(call_.op, types, call_.attrs) + ": " + name + problem_, call_.loc);
}

}  // namespace dyad::runtime::cpu
