#include "dyad/core/tensor_impl.h"
#include "dyad/ops/attrs/indexing.h"
#include "dyad/runtime/cpu/copy.h"
#include "dyad/runtime/cpu/element.h"
#include "dyad/runtime/cpu/kernels.h"
#include "dyad/runtime/threads.h"

namespace dyad::runtime::cpu {
namespace {

void full(const OpCall& call) {
  const TensorImpl& out = *call.outputs[0].impl();
  const Word16 value = element_bits(out.dtype, call.attrs_as<ops::FullAttrs>().value);
  copy_elements(out.dtype, out.shape.numbers(), out.data, out.strides, &value,
                Strides(out.shape.size(), 0));
}

void arange(const OpCall& call) {
  const auto& attrs = call.attrs_as<ops::ArangeAttrs>();
  const TensorImpl& out = *call.outputs[0].impl();
  const std::int64_t count = out.numel(), step = out.shape.empty() ? 0 : out.strides[0];
  with_element(out.dtype, [&]<class T>(T) {
    T* to = reinterpret_cast<T*>(out.data);
    parallel_for(
        0, count, grain_for({.bytes = sizeof(T)}, count), [&](std::int64_t lo, std::int64_t hi) {
          for (std::int64_t i = lo; i < hi; ++i) {
            // Unsigned, so that numbers beyond i64 wrap as those of narrower dtypes do.
            const auto value =
                static_cast<std::uint64_t>(attrs.begin) +
                static_cast<std::uint64_t>(i) * static_cast<std::uint64_t>(attrs.step);
            to[i * step] = store<T>(static_cast<Accumulator<T>>(static_cast<std::int64_t>(value)));
          }
        });
  });
}

void size_tensor(const OpCall& call) {
  *reinterpret_cast<std::int64_t*>(call.outputs[0].impl()->data) =
      call.attrs_as<ops::SizeAttrs>().size.number();
}

}  // namespace

std::span<const NamedKernel> creation_kernels() {
  static constexpr NamedKernel kernels[] = {
      {"full", {full}},
      {"arange", {arange}},
      {"size_tensor", {size_tensor}},
  };
  return kernels;
}

}  // namespace dyad::runtime::cpu
