#include "dyad/runtime/kernel_call.h"

#include <algorithm>
#include <string>
#include <vector>

#include "dyad/base/error.h"
#include "dyad/codegen/kernel_provider.h"
#include "dyad/core/storage.h"
#include "dyad/runtime/caches.h"
#include "dyad/runtime/planned_team.h"
#include "dyad/runtime/threads.h"

namespace dyad::runtime {

AxisOrder::AxisOrder(std::size_t rank, std::span<const std::int64_t> reduced) {
  const auto is_reduced = [&](std::int64_t axis) {
    return std::find(reduced.begin(), reduced.end(), axis) != reduced.end();
  };
  for (std::int64_t axis = 0; axis < static_cast<std::int64_t>(rank); ++axis) {
    if (!is_reduced(axis)) axes_.push_back(axis);
  }
  for (const std::int64_t axis : reduced) axes_.push_back(axis);
}

Ints AxisOrder::permuted(std::span<const std::int64_t> values) const {
  Ints result;
  for (const std::int64_t axis : axes_) result.push_back(values[static_cast<std::size_t>(axis)]);
  return result;
}

void KernelCall::specialize(codegen::KernelRecipe& recipe) {
  space.collapse();
  space.specialize(recipe);
}

void KernelCall::prepare(codegen::KernelRecipe recipe) {
  specialize(recipe);
  prepare(codegen::KernelProvider::instance().get(recipe));
}

void KernelCall::prepare(std::shared_ptr<const codegen::CompiledKernel> found) {
  held = std::move(found);
  prepare(*held);
}

void KernelCall::prepare(const codegen::CompiledKernel& found) {
  kernel = &found;
  plan();
}

void KernelCall::fail_rank() const {
  throw ShapeError("a reduction along " + std::to_string(space.reduced()) +
                   " axes that do not lie one after the other in memory; " +
                   std::to_string(codegen::kMaxRank) +
                   " are allowed: call contiguous() on its input first");
}

void KernelCall::plan() {
  outer_ = std::max(0, space.rank() - codegen::kMaxRank);
  if (outer_ > space.rank() - space.reduced()) fail_rank();
  codegen::KernelArgs args = space.args(nullptr);
  args.sizes += outer_;
  args.rank -= outer_;
  units_ = kernel->units(args);
  const codegen::KernelCost cost = kernel->unit_cost(args);
  grain_ = grain_for({cost.bytes, cost.flops}, units_);
  partials_ = 0;

  if (!kernel->recipe().is_reduction()) {
    // Results this large leave the caches before anything reads them again.
    constexpr std::int64_t kLine = 64;
    const auto size = static_cast<std::int64_t>(size_of(kernel->recipe().outputs[0].dtype));
    const auto bytes = static_cast<std::size_t>(units_ * size);
    // Lines that two rows share gain nothing: of rows shorter than this too many are.
    constexpr std::int64_t kLongRow = 640;
    const std::int64_t row = args.rank > 1 ? args.sizes[args.rank - 1] * size : kLongRow;
    const bool long_rows = row >= kLongRow || row % kLine == 0;
    const bool past = past_caches || bytes >= kPastCachesBytes;
    flags_ = past && long_rows ? DYAD_KERNEL_STREAM : 0;
    return;
  }
  // Columns are reduced side by side in vectors, and a thread gets a few of those. One of a team
  // gets more: pieces of rows so short come slowly when two cores ask (512 x 512: 45 us, and 31 on
  // one thread; with four times as many 25).
  const bool columns = kernel->recipe().kind == codegen::KernelKind::reduce_columns;
  const std::int64_t threads = planned_team_size(), few = threads > 1 ? 256 : 64;
  const std::int64_t narrowest = columns ? few : 1;
  if (columns) grain_ = std::max(grain_, few);
  const std::int64_t all_partials = kernel->partials(args);
  const bool too_few = units_ < 2 * narrowest * threads;
  if (units_ > 0 && all_partials > units_ && too_few &&
      static_cast<double>(units_) * std::max(cost.bytes / 25, cost.flops / 60) > 5000) {
    partials_ = all_partials;
    const std::int64_t of_unit = all_partials / units_;
    const auto parts = static_cast<double>(of_unit);
    partial_grain_ =
        std::max<std::int64_t>(columns ? std::min(units_, few) : 1,
                               grain_for({cost.bytes / parts, cost.flops / parts}, all_partials));
    scratch_bytes_ = kernel->scratch_bytes(args);
  }
}

void KernelCall::run_block(void* const* data, const std::uint64_t* slots) const {
  codegen::KernelArgs args = space.args(data, slots);
  args.flags = flags_;
  InlineVector<std::int64_t, 32> inner;
  if (outer_ > 0) {
    for (int o = 0; o < space.operands(); ++o) {
      for (int d = outer_; d < space.rank(); ++d) inner.push_back(space.stride(o, d));
    }
    args.strides = inner.data();
    args.sizes += outer_;
    args.rank -= outer_;
  }
  if (partials_ > 0) {
    const Ref<Storage> scratch = Storage::allocate(scratch_bytes_);
    args.scratch = scratch->data();
    parallel_for(0, partials_, partial_grain_,
                 [&](std::int64_t lo, std::int64_t hi) { kernel->partial(args, lo, hi); });
    kernel->combine(args, 0, units_);
    return;
  }
  parallel_for(0, units_, grain_,
               [&](std::int64_t lo, std::int64_t hi) { (*kernel)(args, lo, hi); });
}

void KernelCall::run_units(void* const* data, const std::uint64_t* slots, std::int64_t lo,
                           std::int64_t hi) const {
  codegen::KernelArgs args = space.args(data, slots);
  args.flags = flags_;
  (*kernel)(args, lo, hi);
}

void KernelCall::run(void* const* data, const std::uint64_t* slots) const {
  if (outer_ == 0) {
    run_block(data, slots);
    return;
  }
  std::vector<void*> moved(data, data + space.operands());
  std::vector<std::int64_t> at(static_cast<std::size_t>(outer_), 0);
  const auto& recipe = kernel->recipe();
  const auto bytes_of = [&](int operand) -> std::int64_t {
    const auto i = static_cast<std::size_t>(operand);
    const auto& o =
        i < recipe.inputs.size() ? recipe.inputs[i] : recipe.outputs[i - recipe.inputs.size()];
    return o.index ? 1 : static_cast<std::int64_t>(size_of(o.dtype));
  };
  if (std::any_of(space.sizes().begin(), space.sizes().begin() + outer_,
                  [](std::int64_t size) { return size == 0; })) {
    return;
  }
  for (;;) {
    for (int o = 0; o < space.operands(); ++o) {
      std::int64_t offset = 0;
      for (int d = 0; d < outer_; ++d)
        offset += at[static_cast<std::size_t>(d)] * space.stride(o, d);
      moved[static_cast<std::size_t>(o)] = static_cast<char*>(data[o]) + offset * bytes_of(o);
    }
    run_block(moved.data(), slots);
    int d = outer_ - 1;
    while (d >= 0 &&
           ++at[static_cast<std::size_t>(d)] == space.sizes()[static_cast<std::size_t>(d)]) {
      at[static_cast<std::size_t>(d--)] = 0;
    }
    if (d < 0) return;
  }
}

}  // namespace dyad::runtime
