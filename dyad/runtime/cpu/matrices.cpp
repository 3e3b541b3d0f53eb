#include "dyad/runtime/cpu/matrices.h"

#include "dyad/base/error.h"

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
  std::string name = "the matrix ";
  if (!batch_.empty()) {
    std::int64_t left = worst_;
    std::string place;
    for (std::size_t axis = batch_.size(); axis-- > 0; left /= batch_[axis]) {
      place.insert(0, std::to_string(left % batch_[axis]) + (place.empty() ? "" : ", "));
    }
    name = "matrix [" + place + "] of the batch ";
  }
  throw ValueError(call_string(call_.op, types, call_.attrs) + ": " + name + problem_, call_.loc);
}

}  // namespace dyad::runtime::cpu
