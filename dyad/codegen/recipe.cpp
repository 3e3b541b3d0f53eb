#include "dyad/codegen/recipe.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>

#include "dyad/base/error.h"

namespace dyad::codegen {
namespace {

std::string_view name_of(KernelKind kind) {
  constexpr std::string_view names[] = {"pointwise", "reduce_rows", "reduce_columns"};
  return names[static_cast<int>(kind)];
}

std::string operands_text(const std::vector<Operand>& operands) {
  constexpr std::string_view access[] = {"contiguous", "broadcast", "strided"};
  std::string out;
  for (const Operand& o : operands) {
    if (!out.empty()) out += ", ";
    out += o.index ? "index" : dyad::name_of(o.dtype);
    out += " ";
    out += access[static_cast<int>(o.access)];
  }
  return out;
}

[[noreturn]] void bad(const KernelRecipe& recipe, const std::string& what) {
  throw InternalError("kernel recipe '" + recipe.name + "': " + what + "\n" + recipe.text());
}

void verify_types(const KernelRecipe& recipe, const std::vector<Operand>& operands,
                  std::span<const std::uint32_t> ids, const ScalarProgram& program,
                  std::string_view what) {
  if (operands.size() != ids.size())
    bad(recipe, "number of " + std::string(what) + " differs from the program's");
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const Operand& o = operands[i];
    if (o.index && o.dtype != DType::i64) bad(recipe, "an index operand is i64");
    if (program.instructions()[ids[i]].type != scalar::compute_type(o.dtype)) {
      bad(recipe,
          "type of " + std::string(what) + " " + std::to_string(i) + " differs from the program's");
    }
  }
}

constexpr std::uint64_t fmix(std::uint64_t k) {
  k = (k ^ (k >> 33)) * 0xff51afd7ed558ccdu;
  k = (k ^ (k >> 33)) * 0xc4ceb9fe1a85ec53u;
  return k ^ (k >> 33);
}

}  // namespace

std::string KernelHash::hex() const { return fmt::format("{:016x}{:016x}", high, low); }

std::vector<ScalarType> KernelRecipe::accumulators() const {
  std::vector<ScalarType> types;
  for (std::size_t k = 0; is_reduction() && k < init.size(); ++k)
    types.push_back(program.output_type(k));
  return types;
}

std::string KernelRecipe::text(bool with_locs) const {
  std::string out = std::string(name_of(kind)) + " (" + operands_text(inputs) + ") -> (" +
                    operands_text(outputs) + ")\n";
  out += program.text(with_locs);
  if (is_reduction()) {
    out += "init";
    for (std::uint64_t bits : init) out += " " + std::to_string(bits);
    out += "\ncombine\n" + combine.text(with_locs) + "finish\n" + finish.text(with_locs);
  }
  return out;
}

KernelHash KernelRecipe::hash() const { return hash_bytes(text(true)); }

void KernelRecipe::verify() const {
  verify_types(*this, inputs, program.inputs(), program, "inputs");
  for (const Operand& o : outputs) {
    if (o.index) bad(*this, "an index operand cannot be an output");
    if (o.access == Access::broadcast) bad(*this, "an output cannot repeat");
  }
  if (outputs.empty()) bad(*this, "no outputs");
  if (inputs.size() + outputs.size() + 2 * std::size_t{kMaxAccumulators} > kMaxOperands)
    bad(*this, "too many operands");
  if (init.size() > kMaxAccumulators) bad(*this, "too many accumulators");
  if (!is_reduction()) {
    verify_types(*this, outputs, program.outputs(), program, "outputs");
    return;
  }
  verify_types(*this, outputs, finish.outputs(), finish, "outputs");
  const std::size_t k = init.size();
  if (k == 0 || program.outputs().size() != k || combine.inputs().size() != 2 * k ||
      combine.outputs().size() != k || finish.inputs().size() != k + 1) {
    bad(*this, "numbers of accumulators differ");
  }
  for (std::size_t i = 0; i < k; ++i) {
    const ScalarType t = program.output_type(i);
    if (combine.input_type(i) != t || combine.input_type(k + i) != t ||
        combine.output_type(i) != t || finish.input_type(i) != t) {
      bad(*this, "types of accumulator " + std::to_string(i) + " differ");
    }
  }
  if (finish.input_type(k) != ScalarType::i64) bad(*this, "the count is i64");
}

namespace {

/// A kernel sees the small dtypes as the bytes they are kept in (scalar::from_code), and strings as
/// addresses.
Operand operand_of(DType dtype) {
  if (dtype == DType::string) return {.dtype = DType::u64};
  return {.dtype = contains(kSmall, dtype) ? DType::u8 : dtype};
}

}  // namespace

KernelRecipe pointwise_recipe(std::string name, ScalarProgram program,
                              const std::vector<DType>& inputs, const std::vector<DType>& outputs) {
  KernelRecipe recipe;
  recipe.name = std::move(name);
  recipe.program = std::move(program);
  recipe.program.prune();
  for (DType t : inputs) recipe.inputs.push_back(operand_of(t));
  for (DType t : outputs) recipe.outputs.push_back(operand_of(t));
  recipe.verify();
  return recipe;
}

KernelRecipe reduction_recipe(std::string name, ReductionProgram program,
                              const std::vector<DType>& inputs, const std::vector<DType>& outputs) {
  KernelRecipe recipe;
  recipe.name = std::move(name);
  recipe.kind = KernelKind::reduce_rows;
  for (DType t : inputs) recipe.inputs.push_back(operand_of(t));
  if (program.index_input >= 0) {
    recipe.inputs.insert(recipe.inputs.begin() + program.index_input,
                         {.dtype = DType::i64, .index = true});
  }
  for (DType t : outputs) recipe.outputs.push_back(operand_of(t));
  recipe.program = std::move(program.map);
  recipe.combine = std::move(program.combine);
  recipe.finish = std::move(program.finish);
  recipe.init = std::move(program.init);
  recipe.verify();
  return recipe;
}

ScalarProgram accumulate_program(const KernelRecipe& recipe) {
  ScalarProgram program;
  Scalars operands, inputs;
  for (ScalarType t : recipe.accumulators()) operands.push_back(program.input(t));
  for (std::uint32_t id : recipe.program.inputs())
    inputs.push_back(program.input(recipe.program.instructions()[id].type));
  const Scalars values = program.inlined(recipe.program, inputs);
  operands.insert(operands.end(), values.begin(), values.end());
  for (const Scalar& joined : program.inlined(recipe.combine, operands)) program.output(joined);
  program.prune();
  return program;
}

KernelHash hash_bytes(std::string_view bytes, std::uint64_t seed) noexcept {
  constexpr std::uint64_t c1 = 0x87c37b91114253d5u, c2 = 0x4cf5ad432745937fu;
  std::uint64_t h1 = seed, h2 = seed;
  const auto mix1 = [](std::uint64_t k) { return std::rotl(k * c1, 31) * c2; };
  const auto mix2 = [](std::uint64_t k) { return std::rotl(k * c2, 33) * c1; };
  std::size_t at = 0;
  for (; at + 16 <= bytes.size(); at += 16) {
    std::uint64_t k[2];
    std::memcpy(k, bytes.data() + at, 16);
    h1 = (std::rotl(h1 ^ mix1(k[0]), 27) + h2) * 5 + 0x52dce729;
    h2 = (std::rotl(h2 ^ mix2(k[1]), 31) + h1) * 5 + 0x38495ab5;
  }
  if (at < bytes.size()) {
    std::uint64_t k[2] = {};
    std::memcpy(k, bytes.data() + at, bytes.size() - at);
    h2 ^= mix2(k[1]);
    h1 ^= mix1(k[0]);
  }
  h1 ^= bytes.size();
  h2 ^= bytes.size();
  h1 += h2;
  h2 += h1;
  h1 = fmix(h1);
  h2 = fmix(h2);
  h1 += h2;
  h2 += h1;
  return {h1, h2};
}

}  // namespace dyad::codegen
