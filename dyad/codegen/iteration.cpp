#include "dyad/codegen/iteration.h"

#include <algorithm>
#include <cstdlib>

#include "dyad/base/error.h"

namespace dyad::codegen {

Iteration::Iteration(std::span<const std::int64_t> sizes, int reduced)
    : sizes_(sizes), reduced_(reduced) {
  if (reduced < 0 || reduced > rank())
    throw InternalError("an iteration reduces more dims than it has");
}

void Iteration::add(std::span<const std::int64_t> strides) {
  if (strides.size() != sizes_.size())
    throw InternalError("an operand needs a stride for each dim");
  for (std::int64_t s : strides) strides_.push_back(s);
  ++operands_;
}

void Iteration::add_index() {
  InlineVector<std::int64_t, kMaxRank> strides(sizes_.size(), 0);
  std::int64_t step = 1;
  const int first = reduced_ > 0 ? rank() - reduced_ : 0;
  for (int d = rank() - 1; d >= first; --d) {
    strides[d] = step;
    step *= sizes_[d];
  }
  add(strides);
}

std::int64_t Iteration::elements() const noexcept {
  std::int64_t count = 1;
  for (std::int64_t s : sizes_) count *= s;
  return count;
}

/// Rebuilds sizes and strides from some dims of the old ones, in that order.
void Iteration::keep_dims(std::span<const int> dims, int reduced) {
  InlineVector<std::int64_t, kMaxRank> sizes;
  InlineVector<std::int64_t, 32> strides;
  for (int d : dims) sizes.push_back(sizes_[d]);
  for (int o = 0; o < operands_; ++o) {
    for (int d : dims) strides.push_back(stride(o, d));
  }
  sizes_ = sizes;
  strides_ = strides;
  reduced_ = reduced;
}

bool Iteration::mergeable(int dim) const noexcept {
  for (int o = 0; o < operands_; ++o) {
    if (stride(o, dim) != stride(o, dim + 1) * sizes_[dim + 1]) return false;
  }
  return true;
}

/// Sorts the kept dims so that strides fall from outside in: those of the output decide, or of the
/// first input in a reduction, which reads more than it writes; then those of the others.
void Iteration::order_kept() {
  const int kept = rank() - reduced_;
  const auto inside_of = [&](int a, int b) {  // whether dim a should be inside of dim b
    for (int i = 0; i < operands_; ++i) {
      const int o = reduced_ > 0 ? i : operands_ - 1 - i;
      const std::int64_t sa = std::abs(stride(o, a)), sb = std::abs(stride(o, b));
      if (sa == 0 || sb == 0 || sa == sb) continue;
      return sa < sb;
    }
    return false;
  };
  InlineVector<int, kMaxRank> order;
  bool sorted = true;
  for (int d = 0; d < rank(); ++d) {
    int at = d;
    while (d < kept && at > 0 && inside_of(order[at - 1], d)) --at;
    order.insert(at, d);
    sorted = sorted && at == d;
  }
  if (!sorted) keep_dims(order, reduced_);
}

void Iteration::collapse() {
  InlineVector<int, kMaxRank> dims;
  int reduced = 0;
  for (int d = 0; d < rank(); ++d) {
    if (sizes_[d] == 1) continue;
    dims.push_back(d);
    if (d >= rank() - reduced_) ++reduced;
  }
  if (static_cast<int>(dims.size()) != rank()) keep_dims(dims, reduced);
  order_kept();
  for (int d = rank() - 2; d >= 0; --d) {
    if (d + 1 == rank() - reduced_ || !mergeable(d)) continue;
    sizes_[d + 1] *= sizes_[d];
    dims.clear();
    for (int k = 0; k < rank(); ++k) {
      if (k != d) dims.push_back(k);
    }
    keep_dims(dims, d >= rank() - reduced_ ? reduced_ - 1 : reduced_);
  }
}

Access Iteration::access(int operand, int dim) const noexcept {
  if (dim < 0 || sizes_[dim] == 1)
    return Access::contiguous;  // one element: its stride does not matter
  const std::int64_t s = stride(operand, dim);
  return s == 1 ? Access::contiguous : s == 0 ? Access::broadcast : Access::strided;
}

KernelKind Iteration::kind(int outputs) const noexcept {
  if (reduced_ == 0) return KernelKind::pointwise;
  const int kept = rank() - reduced_;
  if (kept == 0) return KernelKind::reduce_rows;
  for (int o = 0; o < operands_ - outputs; ++o) {
    const std::int64_t along_reduced = std::abs(stride(o, rank() - 1)),
                       along_kept = std::abs(stride(o, kept - 1));
    if (along_reduced == along_kept) continue;
    if (along_reduced == 0) return KernelKind::reduce_columns;
    if (along_kept == 0) return KernelKind::reduce_rows;
    return along_reduced < along_kept ? KernelKind::reduce_rows : KernelKind::reduce_columns;
  }
  return KernelKind::reduce_rows;
}

std::uint64_t Iteration::access_key(int outputs) const noexcept {
  const KernelKind k = kind(outputs);
  const int kept = rank() - reduced_;
  std::uint64_t key = static_cast<std::uint64_t>(k);
  for (int o = 0; o < operands_; ++o) {
    const bool output = o >= operands_ - outputs;
    const int dim = k == KernelKind::reduce_rows && !output ? rank() - 1 : kept - 1;
    key = key << 2 | static_cast<std::uint64_t>(access(o, dim));
  }
  return key;
}

void Iteration::specialize(KernelRecipe& recipe) const {
  const int inputs = static_cast<int>(recipe.inputs.size()),
            outputs = static_cast<int>(recipe.outputs.size());
  if (inputs + outputs != operands_)
    throw InternalError("an iteration and its recipe differ in their operands");
  const bool reduction = recipe.is_reduction();
  // A reduction of nothing but dims of size 1 still combines each element with its initial value.
  recipe.kind = !reduction      ? KernelKind::pointwise
                : reduced_ == 0 ? KernelKind::reduce_rows
                                : kind(outputs);
  const int kept = rank() - reduced_;
  for (int o = 0; o < operands_; ++o) {
    if (o >= inputs) {
      recipe.outputs[o - inputs].access = access(o, kept - 1);
    } else {
      const int dim =
          recipe.kind == KernelKind::reduce_rows ? (reduced_ > 0 ? rank() - 1 : -1) : kept - 1;
      recipe.inputs[o].access = access(o, dim);
    }
  }
  recipe.verify();
}

DyadKernelArgs Iteration::args(void* const* data, const std::uint64_t* slots) const noexcept {
  return {.data = data,
          .sizes = sizes_.data(),
          .strides = strides_.data(),
          .slots = slots,
          .scratch = nullptr,
          .rank = rank(),
          .reduced = reduced_,
          .flags = 0};
}

}  // namespace dyad::codegen
