#include "dyad/codegen/kernel.h"

#include <utility>

#include "dyad/codegen/driver.h"

namespace dyad::codegen {
namespace {

double bytes_of(const std::vector<Operand>& operands) {
  double bytes = 0;
  for (const Operand& o : operands) {
    if (!o.index && o.access != Access::broadcast) bytes += static_cast<double>(size_of(o.dtype));
  }
  return bytes;
}

}  // namespace

CompiledKernel::CompiledKernel(KernelRecipe recipe, const DyadKernelCode& code, KernelOrigin origin,
                               std::shared_ptr<const void> owner, const void* const contexts[5])
    : code_(code), recipe_(std::move(recipe)), origin_(origin), owner_(std::move(owner)) {
  for (int i = 0; contexts != nullptr && i < 5; ++i) contexts_[i] = contexts[i];
  for (const Operand& o : recipe_.inputs)
    sizes_[operands_++] = o.index ? 1 : static_cast<std::int32_t>(size_of(o.dtype));
  inputs_ = operands_;
  for (const Operand& o : recipe_.outputs)
    sizes_[operands_++] = static_cast<std::int32_t>(size_of(o.dtype));
  for (ScalarType t : recipe_.accumulators()) {
    accumulator_bytes_[accumulators_++] =
        static_cast<std::uint8_t>(size_of(scalar::dtype_of_type(t)));
  }
  run_ = recipe_.is_reduction() ? &ReductionDriver::run : &PointwiseDriver::run;
  element_cost_ = {bytes_of(recipe_.inputs), static_cast<double>(recipe_.program.cost())};
  output_cost_ = {bytes_of(recipe_.outputs), static_cast<double>(recipe_.finish.cost())};
  element_cost_.flops += recipe_.combine.cost();
}

std::int64_t CompiledKernel::units(const KernelArgs& args) const noexcept {
  std::int64_t units = 1;
  for (int d = 0; d < args.rank - args.reduced; ++d) units *= args.sizes[d];
  return units;
}

std::int64_t CompiledKernel::reduced_count(const KernelArgs& args) const noexcept {
  std::int64_t count = 1;
  for (int d = args.rank - args.reduced; d < args.rank; ++d) count *= args.sizes[d];
  return count;
}

KernelCost CompiledKernel::unit_cost(const KernelArgs& args) const noexcept {
  const auto elements = static_cast<double>(reduced_count(args));
  return {elements * element_cost_.bytes + output_cost_.bytes,
          elements * element_cost_.flops + output_cost_.flops};
}

std::int64_t CompiledKernel::partials(const KernelArgs& args) const noexcept {
  return units(args) * ReductionDriver::chunks(reduced_count(args));
}

std::size_t CompiledKernel::scratch_bytes(const KernelArgs& args) const noexcept {
  return recipe_.is_reduction() ? accumulators_ * ReductionDriver::scratch_stride(partials(args))
                                : 0;
}

void CompiledKernel::partial(const KernelArgs& args, std::int64_t lo, std::int64_t hi) const {
  ReductionDriver::partial(*this, args, lo, hi);
}

void CompiledKernel::combine(const KernelArgs& args, std::int64_t lo, std::int64_t hi) const {
  ReductionDriver::combine(*this, args, lo, hi);
}

}  // namespace dyad::codegen
