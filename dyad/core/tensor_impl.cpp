#include "dyad/core/tensor_impl.h"

#include <algorithm>
#include <string>

#include "dyad/base/error.h"

namespace dyad {
namespace {

/// Bytes of a concrete array, after checking that there can be one.
std::size_t bytes_of(DType dtype, const Shape& shape) {
  const std::string type = type_string(dtype, shape);
  for (const Dim size : shape) {
    if (size.is_symbolic()) {
      throw GraphError("use of a symbolic value where data is needed: " + type +
                           " cannot be allocated because " + to_string(size) +
                           " has no value; make it inside the graph with an operator",
                       Loc().user());
    }
    if (size.number() < 0) {
      throw ShapeError("there is no " + type + ": a size is at least 0", Loc().user());
    }
  }
  std::size_t bytes = 0;
  const auto count = static_cast<std::size_t>(shape.numel().number());
  return __builtin_mul_overflow(count, size_of(dtype), &bytes) ? SIZE_MAX : bytes;
}

}  // namespace

void RefCounting<TensorImpl>::retain(const TensorImpl* impl) noexcept { impl->retain(); }
void RefCounting<TensorImpl>::release(const TensorImpl* impl) noexcept { impl->release(); }

void TensorImpl::destroy(TensorImpl* impl) noexcept { delete impl; }

Tensor make_empty(DType dtype, const Shape& shape, Device device) {
  std::int64_t count = 1;
  bool plain = true;
  for (const Dim size : shape) {
    // Sizes below 2^20 whose product stays below 2^40 need no further check.
    plain = plain && static_cast<std::uint64_t>(size.word()) < (1u << 20) && count < (1 << 20);
    if (!plain) break;
    count *= size.word();
  }
  const std::size_t bytes =
      plain ? static_cast<std::size_t>(count) * size_of(dtype) : bytes_of(dtype, shape);
  auto impl = make_ref<TensorImpl>(dtype, shape);
  impl->storage = Storage::allocate(bytes, device);
  impl->data = impl->storage->data();
  if (dtype == DType::string) std::fill_n(impl->data, bytes, std::byte{0});  // no address, no text
  return Tensor(std::move(impl));
}

Tensor make_empty_strided(DType dtype, const Shape& shape, const Strides& strides) {
  Tensor tensor = make_empty(dtype, shape);
  tensor.impl()->strides = strides;
  tensor.impl()->contiguous = is_contiguous(shape, strides);
  return tensor;
}

Tensor make_view(const Tensor& base, const Shape& shape, const Strides& strides,
                 std::int64_t offset) {
  return make_view_as(base.impl()->dtype, base, shape, strides, offset);
}

Tensor make_view_as(DType dtype, const Tensor& base, const Shape& shape, const Strides& strides,
                    std::int64_t offset) {
  const TensorImpl& from = *base.impl();
  auto impl = make_ref<TensorImpl>();
  impl->dtype = dtype;
  impl->contiguous = is_contiguous(shape, strides);
  impl->data = from.data + offset * static_cast<std::int64_t>(size_of(dtype));
  impl->storage = from.storage;
  impl->shape = shape;
  impl->strides = strides;
  return Tensor(std::move(impl));
}

bool is_contiguous(const Shape& shape, const Strides& strides) noexcept {
  std::int64_t step = 1;
  bool dense = true;
  for (std::size_t i = shape.size(); i-- > 0;) {
    const std::int64_t size = shape[i].number();
    if (size == 0) return true;
    if (size == 1) continue;
    dense = dense && strides[i] == step;
    if (dense) step *= size;
  }
  return dense;
}

}  // namespace dyad
