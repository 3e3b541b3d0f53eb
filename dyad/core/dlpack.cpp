#include "dyad/core/dlpack.h"

#include <memory>
#include <string>
#include <vector>

#include "dyad/base/error.h"
#include "dyad/core/create.h"
#include "dyad/core/tensor_impl.h"

namespace dyad {
namespace {

using dlpack::DLDataType;
using dlpack::DLDataTypeCode;
using dlpack::DLDeviceType;
using dlpack::DLManagedTensor;

/// What an exported tensor needs until the receiver lets go.
struct Exported {
  Tensor tensor;
  std::vector<std::int64_t> shape, strides;
  DLManagedTensor managed{};
};

/// The dtypes whose elements DLPack lays out as Dyad does: it packs those of less than a byte.
constexpr DTypeSet kExchanged = kAny | kComplex | kFloat8;

DLDataTypeCode code_of(DType dtype) {
  switch (dtype) {
    case DType::bf16:
      return DLDataTypeCode::bfloat;
    case DType::boolean:
      return DLDataTypeCode::boolean;
    case DType::f8e4m3fn:
      return DLDataTypeCode::float8_e4m3fn;
    case DType::f8e4m3fnuz:
      return DLDataTypeCode::float8_e4m3fnuz;
    case DType::f8e5m2:
      return DLDataTypeCode::float8_e5m2;
    case DType::f8e5m2fnuz:
      return DLDataTypeCode::float8_e5m2fnuz;
    case DType::f8e8m0:
      return DLDataTypeCode::float8_e8m0fnu;
    default:
      break;
  }
  if (is_complex(dtype)) return DLDataTypeCode::complex;
  if (contains(kUnsigned, dtype)) return DLDataTypeCode::unsigned_integer;
  return is_floating(dtype) ? DLDataTypeCode::floating : DLDataTypeCode::integer;
}

DType dtype_of_dlpack(DLDataType type, Loc loc) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    if (contains(kExchanged, dtype) && code_of(dtype) == type.code &&
        size_of(dtype) * 8 == type.bits && type.lanes == 1) {
      return dtype;
    }
  }
  static constexpr const char* names[] = {"int",    "uint",    "float", "handle",
                                          "bfloat", "complex", "bool"};
  const auto code = static_cast<std::size_t>(type.code);
  const std::string name =
      (code < std::size(names) ? names[code] : "code " + std::to_string(code) + ", bits ") +
      std::to_string(type.bits) + (type.lanes == 1 ? "" : "x" + std::to_string(type.lanes));
  throw DTypeError("from_dlpack: elements of type " + name +
                       " have no dtype here; convert them to one of f64 f32 f16 bf16 i64 i32 i16 "
                       "i8 u64 u32 u16 u8 bool c128 c64 or an 8-bit float first",
                   loc.user());
}

}  // namespace

DLManagedTensor* to_dlpack(const Tensor& tensor, Loc loc) {
  void* data = tensor.raw_data(loc);
  if (!contains(kExchanged, tensor.dtype())) {
    throw DTypeError(
        "to_dlpack(" + type_string(tensor) +
            "): DLPack has no such elements of one byte each; convert them to i8, u8 or "
            "f32 first",
        loc.user());
  }
  const TensorImpl& impl = *tensor.impl();
  auto exported = std::make_unique<Exported>();
  exported->tensor = tensor;
  const auto sizes = impl.shape.numbers();
  exported->shape.assign(sizes.begin(), sizes.end());
  exported->strides.assign(impl.strides.begin(), impl.strides.end());
  DLManagedTensor& managed = exported->managed;
  managed.dl_tensor = {
      .data = data,
      .device = {DLDeviceType::cpu, 0},
      .ndim = impl.shape.rank(),
      .dtype = {code_of(impl.dtype), static_cast<std::uint8_t>(size_of(impl.dtype) * 8), 1},
      .shape = exported->shape.data(),
      .strides = exported->strides.data(),
      .byte_offset = 0};
  managed.deleter = [](DLManagedTensor* self) {
    const std::unique_ptr<Exported> owner(static_cast<Exported*>(self->manager_ctx));
  };
  managed.manager_ctx = exported.get();
  return &exported.release()->managed;
}

Tensor from_dlpack(DLManagedTensor* managed, Loc loc) {
  if (!managed) throw ValueError("from_dlpack: the pointer is null", loc.user());
  const dlpack::DLTensor& from = managed->dl_tensor;
  if (from.device.device_type != DLDeviceType::cpu &&
      from.device.device_type != DLDeviceType::cuda_host) {
    throw DeviceError("from_dlpack: the memory is that of DLPack device type " +
                          std::to_string(static_cast<int>(from.device.device_type)) +
                          ", not the CPU's (1); copy it to the CPU first",
                      loc.user());
  }
  const DType dtype = dtype_of_dlpack(from.dtype, loc);
  if (from.ndim < 0 || (from.ndim > 0 && !from.shape)) {
    throw ShapeError(
        "from_dlpack: an array of " + std::to_string(from.ndim) + " axes without sizes",
        loc.user());
  }
  const auto rank = static_cast<std::size_t>(from.ndim);
  const Shape shape(std::span<const std::int64_t>(from.shape, rank));
  std::optional<Strides> strides;
  if (from.strides) strides = Strides(std::span<const std::int64_t>(from.strides, rank));
  auto* data = static_cast<std::byte*>(from.data);
  if (data) data += from.byte_offset;
  return from_blob(
      data, shape, dtype,
      [managed] {
        if (managed->deleter) managed->deleter(managed);
      },
      strides, loc);
}

}  // namespace dyad
