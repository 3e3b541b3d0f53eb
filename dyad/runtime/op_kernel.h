#pragma once

#include <span>
#include <string_view>

#include "dyad/core/tensor.h"
#include "dyad/ir/op_info.h"

namespace dyad::runtime {

/// One execution of an opaque operator: concrete inputs (undefined where optional and absent) and
/// outputs, which the caller has allocated in the layout that the kernel asked for (or left
/// undefined when their sizes depend on data: then the kernel allocates).
struct OpCall {
  const OpInfo& op;
  const void* attrs;
  std::span<const Tensor> inputs;
  std::span<Tensor> outputs;
  Loc loc;

  template <class A>
  [[nodiscard]] const A& attrs_as() const noexcept {
    return attrs_at<A>(attrs);
  }
};

/// How an opaque operator runs on the CPU. Eager execution and compiled graphs call the same kernel
/// with the same strides, so they agree bit for bit.
struct OpKernel {
  void (*run)(const OpCall& call);
  /// Strides that the kernel wants for output `index` of this concrete shape; null: row-major. A
  /// pure function of its arguments.
  Strides (*layout)(const OpInfo& op, const void* attrs, std::span<const Tensor> inputs,
                    const Shape& shape, int index) = nullptr;
  /// An output may lie in the memory of an input of the same layout: of such an input, its element
  /// i needs element i alone. The kernel does not throw.
  bool in_place = false;
};

/// Adds the kernel of an operator that has none (a user's own); ValueError when it has one. The
/// kernels of Dyad's operators are there from the start.
void register_kernel(std::string_view op, OpKernel kernel);
/// The kernel of an operator, or null.
[[nodiscard]] const OpKernel* find_kernel(const OpInfo& op) noexcept;

}  // namespace dyad::runtime
