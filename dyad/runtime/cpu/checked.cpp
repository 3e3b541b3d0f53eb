#include "dyad/ops/attrs/checked.h"

#include <cmath>
#include <string>
#include <type_traits>

#include "dyad/base/error.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/ir/literal.h"
#include "dyad/runtime/cpu/copy.h"
#include "dyad/runtime/cpu/element.h"
#include "dyad/runtime/cpu/kernels.h"
#include "dyad/runtime/cpu/rows.h"
#include "dyad/runtime/cpu/tensor_data.h"
#include "dyad/runtime/threads.h"

namespace dyad::runtime::cpu {
namespace {

using ops::CheckedAttrs;

std::string checked_call(const OpCall& call) {
  const auto& rule = call.attrs_as<CheckedAttrs>();
  return rule.of + "(" + rule.argument + ": " + type_string(call.inputs[0]) + "): ";
}

template <class T>
[[noreturn]] void fail_checked(const OpCall& call, std::int64_t at, T value) {
  const auto& rule = call.attrs_as<CheckedAttrs>();
  const auto sizes = call.inputs[0].impl()->shape.numbers();
  const std::string element =
      sizes.empty() ? rule.argument : "element " + place_in(sizes, at) + " of " + rule.argument;
  const std::string bound = rule.most.number() == CheckedAttrs::kAny
                                ? "finite and at least 0"
                                : "from 0 to " + to_string(rule.most);
  std::string number;
  if constexpr (std::is_integral_v<T>) {
    number = std::to_string(value);
  } else {
    number = number_text(static_cast<double>(load(value)));
  }
  throw ValueError(checked_call(call) + element + " is " + number + ", but must be " + bound,
                   call.loc);
}

[[noreturn]] void fail_zeros(const OpCall& call, std::int64_t line) {
  const auto& rule = call.attrs_as<CheckedAttrs>();
  const auto sizes = call.inputs[0].impl()->shape.numbers();
  const auto outer = sizes.first(sizes.size() - 1);
  throw ValueError(checked_call(call) + rule.argument +
                       (outer.empty() ? "" : " at " + place_in(outer, line)) +
                       " are all 0, but one of them at least must be above 0",
                   call.loc);
}

template <class T>
void check_each_line(const OpCall& call, const T* from, T* to, std::int64_t line, std::int64_t lo,
                     std::int64_t hi) {
  const auto& rule = call.attrs_as<CheckedAttrs>();
  const std::int64_t most = rule.most.number();
  const auto allowed = [&](T x) {
    if constexpr (std::is_integral_v<T>) {
      return x >= 0 && x <= most;
    } else {
      const auto value = static_cast<double>(load(x));
      return value >= 0 && (most == CheckedAttrs::kAny ? std::isfinite(value)
                                                       : value <= static_cast<double>(most));
    }
  };
  for (std::int64_t i = lo; i < hi; ++i) {
    bool some = false;
    for (std::int64_t j = i * line; j < (i + 1) * line; ++j) {
      if (!allowed(from[j])) fail_checked(call, j, from[j]);
      some |= load(from[j]) > 0;
      to[j] = from[j];
    }
    if (rule.sum && !some) fail_zeros(call, i);
  }
}

void checked(const OpCall& call) {
  const Tensor x = contiguous_copy(call.inputs[0]);
  TensorImpl& out = *call.outputs[0].impl();
  const auto sizes = out.shape.numbers();
  const std::int64_t line = sizes.empty() ? 1 : sizes.back();
  const std::int64_t lines = product(sizes.first(sizes.empty() ? 0 : sizes.size() - 1));
  const auto run = [&]<class T>(T) {
    const T* const from = reinterpret_cast<const T*>(x.impl()->data);
    T* const to = reinterpret_cast<T*>(out.data);
    const double bytes = static_cast<double>(line) * 2 * sizeof(T);
    parallel_for(
        0, lines, grain_for({.bytes = bytes}, lines),
        [&](std::int64_t lo, std::int64_t hi) { check_each_line(call, from, to, line, lo, hi); });
  };
  if (is_floating(x.dtype())) {
    with_floating(x.dtype(), run);
  } else {
    with_index(x.dtype(), run);
  }
}

}  // namespace

std::span<const NamedKernel> checked_kernels() {
  static constexpr NamedKernel kernels[] = {{"checked", {checked}}};
  return kernels;
}

}  // namespace dyad::runtime::cpu
