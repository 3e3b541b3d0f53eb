#include <string>

#include "dyad/base/error.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/ops/attrs/positional.h"
#include "dyad/runtime/cpu/copy.h"
#include "dyad/runtime/cpu/element.h"
#include "dyad/runtime/cpu/kernels.h"

namespace dyad::runtime::cpu {
namespace {

void cache_update(const OpCall& call) {
  const TensorImpl &value = *call.inputs[1].impl(), &out = *call.outputs[0].impl();
  const TensorImpl& position = *call.inputs[2].impl();
  const std::int64_t given = call.attrs_as<ops::CacheUpdateAttrs>().axis;
  const auto axis = static_cast<std::size_t>(given < 0 ? given + out.shape.rank() : given);
  const std::int64_t room = out.shape[axis].number() - value.shape[axis].number();
  const bool each = position.shape.rank() == 1;
  const std::int64_t count = each ? position.numel() : 1;
  const auto begin_of = [&](std::int64_t i) {
    const std::int64_t step = each ? position.strides[0] : 0;
    return with_index(position.dtype, [&]<class I>(I) -> std::int64_t {
      return reinterpret_cast<const I*>(position.data)[i * step];
    });
  };
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t begin = begin_of(i);
    if (begin >= 0 && begin <= room) continue;
    throw IndexError("cache_update: position " + std::to_string(begin) + " is out of range: " +
                         std::to_string(value.shape[axis].number()) + " elements begin from 0 to " +
                         std::to_string(room) + " of axis " + std::to_string(axis) + " of size " +
                         std::to_string(out.shape[axis].number()),
                     call.loc);
  }
  copy_tensor(call.inputs[0], call.outputs[0]);
  Ints sizes;
  for (const std::int64_t size : value.shape.numbers()) sizes.push_back(size);
  if (each) sizes[0] = 1;
  const auto bytes = static_cast<std::int64_t>(size_of(out.dtype));
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t to = begin_of(i) * out.strides[axis] + (each ? i * out.strides[0] : 0);
    const std::int64_t from = each ? i * value.strides[0] : 0;
    copy_elements(out.dtype, sizes, out.data + to * bytes, out.strides, value.data + from * bytes,
                  value.strides);
  }
}

}  // namespace

std::span<const NamedKernel> cache_kernels() {
  static constexpr NamedKernel kernels[] = {{"cache_update", {cache_update}}};
  return kernels;
}

}  // namespace dyad::runtime::cpu
