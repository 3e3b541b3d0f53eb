#include "dyad/onnx/proto_types.h"

#include <algorithm>
#include <bit>
#include <type_traits>
#include <variant>

#include "dyad/core/tensor_impl.h"
#include "dyad/ops/views.h"

namespace dyad::onnx {

pb::TensorProto::DataType to_onnx(DType dtype) noexcept {
  using T = pb::TensorProto;
  switch (dtype) {
    case DType::f64:
      return T::DOUBLE;
    case DType::f32:
      return T::FLOAT;
    case DType::f16:
      return T::FLOAT16;
    case DType::bf16:
      return T::BFLOAT16;
    case DType::i64:
      return T::INT64;
    case DType::i32:
      return T::INT32;
    case DType::i16:
      return T::INT16;
    case DType::i8:
      return T::INT8;
    case DType::u64:
      return T::UINT64;
    case DType::u32:
      return T::UINT32;
    case DType::u16:
      return T::UINT16;
    case DType::u8:
      return T::UINT8;
    case DType::c128:
      return T::COMPLEX128;
    case DType::c64:
      return T::COMPLEX64;
    case DType::f8e4m3fn:
      return T::FLOAT8E4M3FN;
    case DType::f8e4m3fnuz:
      return T::FLOAT8E4M3FNUZ;
    case DType::f8e5m2:
      return T::FLOAT8E5M2;
    case DType::f8e5m2fnuz:
      return T::FLOAT8E5M2FNUZ;
    case DType::f8e8m0:
      return T::FLOAT8E8M0;
    case DType::f4e2m1:
      return T::FLOAT4E2M1;
    case DType::i4:
      return T::INT4;
    case DType::i2:
      return T::INT2;
    case DType::u4:
      return T::UINT4;
    case DType::u2:
      return T::UINT2;
    case DType::boolean:
      return T::BOOL;
    case DType::string:
      return T::STRING;
  }
  return T::UNDEFINED;
}

void fill_type(pb::TypeProto& proto, const Type& type) {
  switch (type.kind()) {
    case Type::Kind::sequence:
      fill_type(*proto.mutable_sequence_type()->mutable_elem_type(), type.element());
      return;
    case Type::Kind::optional:
      fill_type(*proto.mutable_optional_type()->mutable_elem_type(), type.element());
      return;
    case Type::Kind::none:
      return;
    case Type::Kind::tensor:
      break;
  }
  pb::TypeProto::Tensor& tensor = *proto.mutable_tensor_type();
  tensor.set_elem_type(to_onnx(type.dtype()));
  pb::TensorShapeProto& shape = *tensor.mutable_shape();
  for (const Dim dim : type.shape()) {
    if (dim.is_number()) {
      shape.add_dim()->set_dim_value(dim.number());
    } else {
      shape.add_dim()->set_dim_param(to_string(dim));
    }
  }
}

void fill_attribute(pb::AttributeProto& proto, const std::string& name, const OnnxAttr& value) {
  proto.set_name(name);
  std::visit(
      [&](const auto& v) {
        using T = std::remove_cvref_t<decltype(v)>;
        using P = pb::AttributeProto;
        if constexpr (std::is_same_v<T, std::int64_t>) {
          proto.set_type(P::INT);
          proto.set_i(v);
        } else if constexpr (std::is_same_v<T, float>) {
          proto.set_type(P::FLOAT);
          proto.set_f(v);
        } else if constexpr (std::is_same_v<T, std::string>) {
          proto.set_type(P::STRING);
          proto.set_s(v);
        } else if constexpr (std::is_same_v<T, std::vector<std::int64_t>>) {
          proto.set_type(P::INTS);
          for (const std::int64_t i : v) proto.add_ints(i);
        } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
          proto.set_type(pb::AttributeProto::STRINGS);
          proto.mutable_strings()->Add(v.begin(), v.end());
        } else if constexpr (std::is_same_v<T, std::vector<float>>) {
          proto.set_type(P::FLOATS);
          for (const float f : v) proto.add_floats(f);
        } else {
          proto.set_type(P::TENSOR);
          fill_tensor_type(*proto.mutable_t(), "", v);
          const Tensor raw = raw_elements(v);
          proto.mutable_t()->set_raw_data(std::string(bytes_of(raw)));
        }
      },
      value);
}

void fill_tensor_type(pb::TensorProto& proto, std::string_view name, const Tensor& tensor) {
  if (!name.empty()) proto.set_name(std::string(name));
  proto.set_data_type(to_onnx(tensor.dtype()));
  for (const Dim dim : tensor.shape()) proto.add_dims(dim.number());
}

Tensor raw_elements(const Tensor& tensor) {
  static_assert(std::endian::native == std::endian::little);
  Tensor dense = contiguous(detach(tensor));
  if (!contains(kSmall & ~kFloat8, dense.dtype())) return dense;
  // ONNX packs elements of 4 and 2 bits, the first in the lowest ones.
  const int bits = dense.dtype() == DType::f4e2m1 ? 4 : small_int_width(dense.dtype());
  const int count = 8 / bits;
  const std::int64_t elements = dense.numel().number();
  const Tensor packed = make_empty(DType::u8, {(elements + count - 1) / count});
  const auto* from = static_cast<const std::uint8_t*>(dense.raw_data());
  auto* to = packed.data<std::uint8_t>();
  std::fill_n(to, packed.numel().number(), std::uint8_t{0});
  for (std::int64_t i = 0; i < elements; ++i) {
    const int code = from[i] & ((1 << bits) - 1);
    to[i / count] = static_cast<std::uint8_t>(to[i / count] | code << (i % count * bits));
  }
  return packed;
}

std::string_view bytes_of(const Tensor& raw) {
  const auto count = static_cast<std::size_t>(raw.numel().number());
  return {static_cast<const char*>(raw.raw_data()), count * size_of(raw.dtype())};
}

}  // namespace dyad::onnx
