#include <array>
#include <numeric>
#include <type_traits>

#include "dyad/core/tensor_impl.h"
#include "dyad/runtime/cpu/element.h"
#include "dyad/runtime/cpu/kernels.h"
#include "dyad/runtime/cpu/rows.h"
#include "dyad/runtime/threads.h"

namespace dyad::runtime::cpu {
namespace {

template <class T>
std::uint64_t size_of_number(T x) noexcept {
  // As unsigned, where the opposite of the least number exists.
  const auto bits = static_cast<std::uint64_t>(x);
  return std::is_signed_v<T> && x < T{} ? 0 - bits : bits;
}

void gcd(const OpCall& call) {
  const TensorImpl &a = *call.inputs[0].impl(), &b = *call.inputs[1].impl();
  const TensorImpl& out = *call.outputs[0].impl();
  const Ints sizes = out.shape.numbers();
  const std::int64_t count = out.numel();
  const std::array<Ints, 2> strides{Ints(a.strides.begin(), a.strides.end()),
                                    Ints(b.strides.begin(), b.strides.end())};
  with_element(out.dtype, [&]<class T>(T) {
    if constexpr (std::is_integral_v<T>) {
      const T *x = reinterpret_cast<const T*>(a.data), *y = reinterpret_cast<const T*>(b.data);
      T* to = reinterpret_cast<T*>(out.data);
      parallel_for(
          0, count, grain_for({.flops = 200}, count), [&](std::int64_t lo, std::int64_t hi) {
            RowWalk<2> walk(sizes, strides, lo);
            for (std::int64_t i = lo; i < hi; ++i, walk.next()) {
              to[i] =
                  static_cast<T>(std::gcd(size_of_number(x[walk[0]]), size_of_number(y[walk[1]])));
            }
          });
    }
  });
}

}  // namespace

std::span<const NamedKernel> whole_numbers_kernels() {
  static constexpr NamedKernel kernels[] = {{"gcd", {gcd}}};
  return kernels;
}

}  // namespace dyad::runtime::cpu
