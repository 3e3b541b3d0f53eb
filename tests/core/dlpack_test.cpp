#include "dyad/core/dlpack.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

#include "dyad/base/error.h"
#include "dyad/core/create.h"
#include "dyad/core/tensor_impl.h"
#include "tests/shared/message_of.h"

namespace dyad {
namespace {

using dyad::testing::bare_message_of;
using namespace dlpack;

// Offsets and codes of dlpack.h.
static_assert(sizeof(DLTensor) == 48 && offsetof(DLTensor, device) == 8 &&
              offsetof(DLTensor, ndim) == 16 && offsetof(DLTensor, dtype) == 20 &&
              offsetof(DLTensor, shape) == 24 && offsetof(DLTensor, strides) == 32 &&
              offsetof(DLTensor, byte_offset) == 40);
static_assert(sizeof(DLManagedTensor) == 64 && offsetof(DLManagedTensor, manager_ctx) == 48 &&
              offsetof(DLManagedTensor, deleter) == 56);
static_assert(sizeof(DLDataType) == 4 && static_cast<int>(DLDataTypeCode::floating) == 2 &&
              static_cast<int>(DLDataTypeCode::bfloat) == 4 &&
              static_cast<int>(DLDataTypeCode::boolean) == 6);

TEST(DLPack, ExportSharesMemoryAndKeepsItAlive) {
  DLManagedTensor* managed = nullptr;
  const std::size_t before = memory_stats().in_use;
  {
    const Tensor x = tensor({{1.f, 2.f, 3.f}, {4.f, 5.f, 6.f}});
    managed = to_dlpack(make_view(x, {3, 2}, {1, 3}, 0));
    EXPECT_EQ(managed->dl_tensor.data, x.raw_data());
  }
  EXPECT_GT(memory_stats().in_use, before);
  const DLTensor& t = managed->dl_tensor;
  EXPECT_EQ(t.device.device_type, DLDeviceType::cpu);
  EXPECT_EQ(t.device.device_id, 0);
  ASSERT_EQ(t.ndim, 2);
  EXPECT_EQ(t.shape[0], 3);
  EXPECT_EQ(t.shape[1], 2);
  EXPECT_EQ(t.strides[0], 1);
  EXPECT_EQ(t.strides[1], 3);
  EXPECT_EQ(t.byte_offset, 0u);
  EXPECT_EQ(static_cast<float*>(t.data)[4], 5);
  managed->deleter(managed);
  EXPECT_EQ(memory_stats().in_use, before);
}

TEST(DLPack, EveryDtypeThereAndBack) {
  for (int i = 0; i < kDTypeCount - 1; ++i) {
    const auto dtype = static_cast<DType>(i);
    const Tensor x = tensor({{0, 1}, {1, 0}}, dtype);
    if (size_of(dtype) == 1 && contains(kSmall & ~kFloat8, dtype)) {
      EXPECT_EQ(bare_message_of<DTypeError>([&] { (void)to_dlpack(x); }),
                "to_dlpack(" + type_string(x) +
                    "): DLPack has no such elements of one byte each; convert them to i8, u8 or "
                    "f32 first");
      continue;
    }
    const Tensor y = from_dlpack(to_dlpack(x));
    EXPECT_EQ(type_string(y), type_string(x));
    EXPECT_EQ(y.raw_data(), x.raw_data());
    EXPECT_EQ(to_string(y), to_string(x));
  }
}

struct Foreign {
  std::vector<float> values = {1, 2, 3, 4, 5, 6};
  std::vector<std::int64_t> shape = {2, 2}, strides = {3, 1};
  int deleted = 0;
  DLManagedTensor managed{
      {values.data(),
       {DLDeviceType::cpu, 0},
       2,
       {DLDataTypeCode::floating, 32, 1},
       shape.data(),
       strides.data(),
       4},
      this,
      [](DLManagedTensor* self) { ++static_cast<Foreign*>(self->manager_ctx)->deleted; }};
};

TEST(DLPack, ImportSharesMemoryUntilTheLastTensor) {
  Foreign foreign;
  {
    Tensor view;
    {
      const Tensor x = from_dlpack(&foreign.managed);
      EXPECT_EQ(x.to_vector<int>(), (std::vector<int>{2, 3, 5, 6}));
      EXPECT_FALSE(x.is_contiguous());
      view = make_view(x, {2}, {3}, 0);
    }
    EXPECT_EQ(foreign.deleted, 0);
    view.data<float>()[0] = 20;
    EXPECT_EQ(foreign.values[1], 20);
  }
  EXPECT_EQ(foreign.deleted, 1);
}

TEST(DLPack, WithoutStridesOrDeleter) {
  Foreign foreign;
  foreign.managed.deleter = nullptr;
  foreign.managed.dl_tensor.strides = nullptr;
  EXPECT_EQ(from_dlpack(&foreign.managed).to_vector<int>(), (std::vector<int>{2, 3, 4, 5}));
  foreign.managed.dl_tensor.ndim = 0;
  EXPECT_EQ(from_dlpack(&foreign.managed).to_vector<int>(), std::vector<int>{2});
}

TEST(DLPack, ErrorsLeaveOwnershipWithTheCaller) {
  Foreign foreign;
  const auto import = [&] { (void)from_dlpack(&foreign.managed); };
  DLTensor& t = foreign.managed.dl_tensor;
  t.device.device_type = DLDeviceType::cuda;
  EXPECT_EQ(
      bare_message_of<DeviceError>(import),
      "from_dlpack: the memory is that of DLPack device type 2, not the CPU's (1); copy it to "
      "the CPU first");
  t.device.device_type = DLDeviceType::cpu;
  t.dtype = {DLDataTypeCode::complex, 32, 1};
  EXPECT_EQ(
      bare_message_of<DTypeError>(import),
      "from_dlpack: elements of type complex32 have no dtype here; convert them to one of f64 "
      "f32 f16 bf16 i64 i32 i16 i8 u64 u32 u16 u8 bool c128 c64 or an 8-bit float first");
  t.dtype = {DLDataTypeCode::floating, 32, 4};
  EXPECT_NE(bare_message_of<DTypeError>(import).find("type float32x4"), std::string::npos);
  t.dtype = {static_cast<DLDataTypeCode>(7), 8, 1};
  EXPECT_NE(bare_message_of<DTypeError>(import).find("type code 7, bits 8 have"),
            std::string::npos);
  t.dtype = {DLDataTypeCode::unsigned_integer, 4, 1};
  EXPECT_THROW(import(), DTypeError);
  t.dtype = {DLDataTypeCode::floating, 32, 1};
  t.byte_offset = 3;
  EXPECT_THROW(import(), ValueError);
  t.byte_offset = 0;
  t.ndim = -1;
  EXPECT_THROW(import(), ShapeError);
  EXPECT_EQ(foreign.deleted, 0);
  EXPECT_THROW((void)from_dlpack(nullptr), ValueError);
  EXPECT_THROW((void)to_dlpack(Tensor()), ValueError);
}

}  // namespace
}  // namespace dyad
