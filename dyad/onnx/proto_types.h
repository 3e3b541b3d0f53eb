#pragma once

#include <string>
#include <string_view>

#include "dyad/ir/onnx_emitter.h"
#include "dyad/ir/type.h"
#include "dyad/onnx/onnx.pb.h"

namespace dyad::onnx {

namespace pb = ::dyad::onnx_schema;

/// ONNX's number for a dtype.
[[nodiscard]] pb::TensorProto::DataType to_onnx(DType dtype) noexcept;

/// Fills a type: symbolic sizes become named dimensions.
void fill_type(pb::TypeProto& proto, const Type& type);

void fill_attribute(pb::AttributeProto& proto, const std::string& name, const OnnxAttr& value);

/// Fills a tensor's name, dtype and sizes.
void fill_tensor_type(pb::TensorProto& proto, std::string_view name, const Tensor& tensor);
/// The elements of a tensor as ONNX stores them: row-major, little-endian.
[[nodiscard]] Tensor raw_elements(const Tensor& tensor);
[[nodiscard]] std::string_view bytes_of(const Tensor& raw);

}  // namespace dyad::onnx
