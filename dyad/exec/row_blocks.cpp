#include "dyad/exec/row_blocks.h"

#include <algorithm>
#include <vector>

#include "dyad/autograd/grad_mode.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/ir/partial_attr_visitor.h"
#include "dyad/ir/view_memory.h"
#include "dyad/runtime/launch.h"
#include "dyad/runtime/threads.h"

namespace dyad::exec {
namespace {

/// A block is so large that dispatch does not count, and small enough that a few steps' results
/// stay in the cache of one core.
constexpr std::int64_t kBlockBytes = 128 << 10;
constexpr std::int64_t kFewestBlocks = 4;

/// Whether `axis` or `axes` of an operator name axis 0.
class NamesAxisZero final : public PartialAttrVisitor {
 public:
  using PartialAttrVisitor::visit;
  NamesAxisZero(const OpInfo& op, const void* attrs, int rank) : rank_(rank) {
    // The visitor only reads.
    op.attrs->visit(const_cast<void*>(attrs), *this);
  }
  [[nodiscard]] bool found() const noexcept { return found_; }

  void visit(std::string_view name, std::int64_t& value) override {
    if (name == "axis") check(value);
  }
  void visit(std::string_view name, Ints& values) override {
    if (name != "axes") return;
    found_ = found_ || values.empty();  // all of them
    for (const std::int64_t value : values) check(value);
  }

 private:
  void check(std::int64_t axis) { found_ = found_ || axis == 0 || axis == -rank_; }
  int rank_;
  bool found_ = false;
};

/// Whether the members of axis 0 of all inputs do not meet.
bool members_are_apart(const OpInfo& op, TensorRefs inputs, const void* attrs, const Types& types) {
  if (op.batching != Batching::axes) return false;
  const Tensor& first = *inputs[0];
  const std::int64_t members = first.shape()[0].number();
  for (const Tensor* input : inputs) {
    if (!input->defined() || input->rank() != first.rank() ||
        input->shape()[0].number() != members) {
      return false;
    }
  }
  for (const Type& type : types) {
    if (type.rank() < 1 || !type.shape().is_concrete() || type.shape()[0].number() != members) {
      return false;
    }
  }
  return !NamesAxisZero(op, attrs, first.rank()).found();
}

/// Members lo to hi of axis 0: a view.
Tensor members(const Tensor& x, std::int64_t lo, std::int64_t hi) {
  Shape shape = x.shape();
  shape[0] = hi - lo;
  return make_view(x, shape, x.strides(), lo * x.strides()[0]);
}

}  // namespace

bool run_in_blocks(const OpInfo& op, TensorRefs inputs, const void* attrs, const Types& types,
                   std::span<Tensor> outputs, Loc loc) {
  if (inputs.empty() || inputs[0]->rank() < 2) return false;
  const TensorImpl& first = *inputs[0]->impl();
  const std::int64_t count = first.shape[0].number();
  const auto bytes = first.numel() * static_cast<std::int64_t>(size_of(first.dtype));
  if (count < kFewestBlocks || bytes < kFewestBlocks * kBlockBytes) return false;
  if (!members_are_apart(op, inputs, attrs, types)) return false;

  for (std::size_t i = 0; i < outputs.size(); ++i) {
    outputs[i] = make_empty(types[i].dtype(), types[i].shape());
  }
  const std::int64_t block = std::max<std::int64_t>(1, kBlockBytes / (bytes / count));
  const std::int64_t blocks = (count + block - 1) / block;
  runtime::parallel_for(0, blocks, 1, [&](std::int64_t from, std::int64_t to) {
    const NoGrad whole;  // of this thread
    const LocScope place(loc);
    std::vector<Tensor> parts(inputs.size());
    std::vector<const Tensor*> refs;
    for (const Tensor& part : parts) refs.push_back(&part);
    for (std::int64_t at = from; at < to; ++at) {
      const std::int64_t lo = at * block, hi = std::min(count, lo + block);
      for (std::size_t i = 0; i < inputs.size(); ++i) parts[i] = members(*inputs[i], lo, hi);
      const std::vector<Tensor> results = op.expand(attrs, refs, loc);
      for (std::size_t i = 0; i < outputs.size(); ++i) {
        runtime::run_copy(members(outputs[i], lo, hi), results[i]);
      }
    }
  });
  return true;
}

}  // namespace dyad::exec
