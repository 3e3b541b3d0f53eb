#include "dyad/codegen/program_builder.h"

#include <optional>
#include <utility>

namespace dyad::codegen {
namespace {

/// A result as its dtype holds it. What is too large for a small float is the operator's business:
/// one that does not saturate gives the infinity that f8e5m2 has.
Scalar rounded(Scalar x, DType dtype) {
  if (!contains(kSmallFloat, dtype)) return scalar::cast(x, dtype);
  return scalar::from_code(scalar::to_code(x, dtype, /*saturate=*/false), dtype);
}

}  // namespace

ProgramBuilder::Id ProgramBuilder::add(Scalar scalar, DType dtype) {
  values_.push_back({scalar, dtype});
  return static_cast<Id>(values_.size() - 1);
}

ProgramBuilder::Id ProgramBuilder::input(DType dtype) {
  if (!contains(kSmall, dtype)) return add(program_.input(dtype), dtype);
  return add(scalar::from_code(program_.input(ScalarType::i32), dtype), dtype);
}

ProgramBuilder::Id ProgramBuilder::constant(DType dtype, double value) {
  const Scalar exact = program_.constant(ScalarType::f64, value);
  return add(scalar::cast(exact, dtype), dtype);
}

std::vector<ProgramBuilder::Id> ProgramBuilder::apply(const OpInfo& op, const void* attrs,
                                                      std::span<const Id> operands,
                                                      std::span<const DType> dtypes, Loc loc) {
  program_.set_loc(loc);
  const auto promotes = [&](std::size_t i) {
    const ArgInfo* info = input_info(op, i);
    return info == nullptr || takes_part_in_promotion(*info);
  };
  DType common = dtypes[0];
  bool any = false;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (!promotes(i)) continue;
    const DType own = this->dtype(operands[i]);
    common = any ? promote(common, own) : own;
    any = true;
  }
  if (op.typing == Typing::floating && !is_floating(common)) common = dtypes[0];

  std::vector<Scalar> in;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const Value& value = values_[static_cast<std::size_t>(operands[i])];
    in.push_back(promotes(i) && value.dtype != common ? scalar::cast(value.scalar, common)
                                                      : value.scalar);
  }
  std::vector<Scalar> results(dtypes.size(), Scalar(0));
  op.eval(attrs, in, results);
  std::vector<Id> made;
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (results[i].is_literal()) {
      results[i] = program_.constant(scalar::compute_type(dtypes[i]), results[i]);
    }
    made.push_back(add(rounded(results[i], dtypes[i]), dtypes[i]));
  }
  return made;
}

void ProgramBuilder::output(Id value) {
  const auto& [scalar, dtype] = values_[static_cast<std::size_t>(value)];
  program_.output(contains(kSmall, dtype) ? scalar::to_code(scalar, dtype, /*saturate=*/false)
                                          : scalar);
}

ReductionProgram reduction_of(const OpInfo& op, const void* attrs, DType element,
                              std::span<const DType> results) {
  ReductionBuilder builder(element, {results.begin(), results.end()});
  op.reduce(attrs, builder);
  return builder.build();
}

KernelRecipe recipe_of(const OpInfo& op, const void* attrs, std::span<const DType> inputs,
                       std::span<const DType> results) {
  const std::vector<DType> in(inputs.begin(), inputs.end()), out(results.begin(), results.end());
  if (op.kind == BodyKind::reduction) {
    return reduction_recipe(std::string(op.name), reduction_of(op, attrs, in.at(0), results), in,
                            out);
  }
  ProgramBuilder builder;
  std::vector<ProgramBuilder::Id> operands;
  std::vector<DType> read = in;
  if (op.counted) read.push_back(DType::i64);
  for (const DType dtype : read) operands.push_back(builder.input(dtype));
  for (const ProgramBuilder::Id result : builder.apply(op, attrs, operands, out)) {
    builder.output(result);
  }
  KernelRecipe recipe = pointwise_recipe(std::string(op.name), builder.take(), read, out);
  if (op.counted) recipe.inputs.back().index = true;
  return recipe;
}

ReductionProgram with_prologue(const ReductionProgram& reduction, const ScalarProgram& prologue) {
  return with_prologue(std::span(&reduction, 1), prologue);
}

ReductionProgram with_prologue(std::span<const ReductionProgram> reductions,
                               const ScalarProgram& prologue) {
  ReductionProgram fused;
  std::vector<Scalar> inputs;
  for (std::size_t i = 0; i < prologue.inputs().size(); ++i) {
    inputs.push_back(fused.map.input(prologue.input_type(i)));
  }
  const std::vector<Scalar> elements = fused.map.inlined(prologue, inputs);
  std::optional<Scalar> index;
  std::vector<ScalarType> types;  // of all accumulators
  for (std::size_t i = 0; i < reductions.size(); ++i) {
    const ReductionProgram& one = reductions[i];
    std::vector<Scalar> mapped{elements[i]};
    if (one.index_input >= 0) {
      if (fused.index_input < 0) {
        fused.index_input = static_cast<int>(inputs.size());
        index = fused.map.input(ScalarType::i64);
      }
      mapped.insert(mapped.begin() + one.index_input, *index);
    }
    for (const Scalar& value : fused.map.inlined(one.map, mapped)) {
      fused.map.output(value);
      types.push_back(value.type());
    }
    fused.init.insert(fused.init.end(), one.init.begin(), one.init.end());
  }

  std::vector<Scalar> before, taken_in, finished;
  for (const ScalarType type : types) before.push_back(fused.combine.input(type));
  for (const ScalarType type : types) taken_in.push_back(fused.combine.input(type));
  for (const ScalarType type : types) finished.push_back(fused.finish.input(type));
  const Scalar count = fused.finish.input(ScalarType::i64);
  std::size_t first = 0;
  for (const ReductionProgram& one : reductions) {
    const auto own_of = [&](const std::vector<Scalar>& all) {
      const auto begin = all.begin() + static_cast<std::ptrdiff_t>(first);
      return std::vector<Scalar>(begin, begin + static_cast<std::ptrdiff_t>(one.init.size()));
    };
    std::vector<Scalar> both = own_of(before);
    const std::vector<Scalar> others = own_of(taken_in);
    both.insert(both.end(), others.begin(), others.end());
    for (const Scalar& value : fused.combine.inlined(one.combine, both))
      fused.combine.output(value);
    std::vector<Scalar> ends = own_of(finished);
    ends.push_back(count);
    for (const Scalar& value : fused.finish.inlined(one.finish, ends)) fused.finish.output(value);
    first += one.init.size();
  }
  return fused;
}

}  // namespace dyad::codegen
