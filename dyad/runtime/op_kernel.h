#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "dyad/core/tensor.h"
#include "dyad/ir/op_info.h"

namespace dyad::runtime {

/// What a kernel keeps from one run of a plan's step to the next: weights in the layout that a
/// library wants. Each kernel has its own.
class KernelMemo {
 public:
  virtual ~KernelMemo() = default;
};

/// One execution of an opaque operator: concrete inputs (undefined where optional and absent) and
/// outputs, which the caller has allocated in the layout that the kernel asked for (or left
/// undefined when their sizes depend on data: then the kernel allocates).
struct OpCall {
  const OpInfo& op;
  const void* attrs;
  std::span<const Tensor> inputs;
  std::span<Tensor> outputs;
  Loc loc;
  /// Bit i: the elements of input i are the same in every call with this memo.
  std::uint64_t constants = 0;
  /// Where a step of a plan keeps its kernel's memo; null in eager execution.
  std::unique_ptr<KernelMemo>* memo = nullptr;
  /// Whether nobody needs the input that OpKernel::spoils names once the kernel has run.
  bool may_spoil = false;
  /// Whether results leave the caches before anything reads them, whatever their size.
  bool past_caches = false;

  template <class A>
  [[nodiscard]] const A& attrs_as() const noexcept {
    return attrs_at<A>(attrs);
  }
  [[nodiscard]] bool is_constant(std::size_t input) const noexcept {
    return memo != nullptr && input < 64 && (constants >> input & 1) != 0;
  }
  /// The memo of type M, made when there is none.
  template <class M>
  [[nodiscard]] M& memo_as() const {
    if (*memo == nullptr) *memo = std::make_unique<M>();
    return static_cast<M&>(**memo);
  }
};

/// How a kernel works on some rows at a time if its outputs but the first are sums over all rows.
/// Rows are added up part by part, each part in order and from zeros on, and then the parts.
struct RowSums {
  struct Parts {
    std::int64_t rows = 0;  ///< of a part; the last one may have fewer
    std::size_t bytes = 0;  ///< that the sums of a part take
  };
  Parts (*parts)(const OpCall& whole);
  /// Writes output 0 of some rows of a part, the tensors of `some`, and adds them to its sums.
  void (*add)(const OpCall& some, std::byte* sums);
  /// Writes those of the other outputs that are defined, from the sums of `count` parts.
  void (*total)(const OpCall& whole, std::byte* sums, std::int64_t count);
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
  /// The one input in whose memory output 0 may lie if it has that layout, and nothing else of the
  /// call does; -1: none. The kernel may throw.
  int takes_over = -1;
  /// The one input that the kernel reads under a ContentsHold if it is a constant: it keeps a copy
  /// in a layout of its own, for which the constant's own contents may be away; -1: none.
  int packs = -1;
  /// The one input in whose memory the kernel works, if it may, instead of in memory of its own;
  /// -1: none with these attributes. Null: none.
  int (*spoils)(const void* attrs) = nullptr;
  /// Any contents are good, and memory is asked for only to work in: a plan may run it when it has
  /// begun to write variables. Those of `in_place` need not say so.
  bool cannot_fail = false;
  /// Null: the outputs are not those of a RowSums.
  const RowSums* row_sums = nullptr;
  /// Stores results past the caches where OpCall::past_caches says that these gain nothing.
  bool streams = false;
};

/// Adds the kernel of an operator that has none (a user's own); ValueError when it has one. The
/// kernels of Dyad's operators are there from the start.
void register_kernel(std::string_view op, OpKernel kernel);
/// The kernel of an operator, or null.
[[nodiscard]] const OpKernel* find_kernel(const OpInfo& op) noexcept;

}  // namespace dyad::runtime
