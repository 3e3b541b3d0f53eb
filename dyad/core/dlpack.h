#pragma once

#include <cstdint>

#include "dyad/core/tensor.h"

namespace dyad {

/// The C structs of DLPack (https://dmlc.github.io/dlpack, ABI version 0.8), through which
/// libraries and Python frameworks pass arrays without copying. They have the layout of those in
/// dlpack.h, to and from which a pointer may be cast.
namespace dlpack {

enum class DLDeviceType : std::int32_t { cpu = 1, cuda = 2, cuda_host = 3, cuda_managed = 13 };
struct DLDevice {
  DLDeviceType device_type;
  std::int32_t device_id;
};

enum class DLDataTypeCode : std::uint8_t {
  integer,
  unsigned_integer,
  floating,
  opaque,
  bfloat,
  complex,
  boolean,
  float8_e4m3fn = 10,
  float8_e4m3fnuz,
  float8_e5m2,
  float8_e5m2fnuz,
  float8_e8m0fnu
};
struct DLDataType {
  DLDataTypeCode code;
  std::uint8_t bits;
  std::uint16_t lanes;
};

struct DLTensor {
  void* data;
  DLDevice device;
  std::int32_t ndim;
  DLDataType dtype;
  std::int64_t* shape;
  std::int64_t* strides;  ///< in elements; null for a row-major array
  std::uint64_t byte_offset;
};

struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensor* self);
};

}  // namespace dlpack

/// The tensor for another library, without a copy: the memory lives until the receiver calls
/// `deleter` (from any thread). A deferred tensor is computed, a symbolic one is a GraphError.
/// Writes of the receiver are seen by this tensor but not by gradients.
[[nodiscard]] dlpack::DLManagedTensor* to_dlpack(const Tensor& tensor,
                                                 Loc loc = std::source_location::current());

/// A tensor over another library's memory, without a copy. The tensor owns `managed` from then on
/// and calls its deleter when the last tensor over the memory is gone; if this throws, the caller
/// still owns it. DeviceError unless the memory is the CPU's, DTypeError for element types that
/// Dyad does not have, ValueError for misaligned data.
[[nodiscard]] Tensor from_dlpack(dlpack::DLManagedTensor* managed,
                                 Loc loc = std::source_location::current());

}  // namespace dyad
