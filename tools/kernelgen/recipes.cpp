#include "tools/kernelgen/recipes.h"

#include <functional>
#include <optional>
#include <string_view>

#include "dyad/base/error.h"
#include "dyad/codegen/program_builder.h"
#include "dyad/ir/op_info.h"
#include "dyad/ops/registry.h"

namespace dyad::kernelgen {
namespace {

using codegen::Access;
using codegen::KernelKind;
using codegen::KernelRecipe;

constexpr DType kCommon[] = {DType::f32, DType::f64,  DType::i64,
                             DType::i32, DType::bf16, DType::boolean};

/// Changes flags and dtypes of attributes, which have few values; numbers keep their defaults.
class Variants final : public AttrVisitor {
 public:
  /// Every combination for a row whose attributes begin as `defaults`.
  static std::vector<Ref<Attrs>> of(const AttrsInfo& info) {
    std::vector<Ref<Attrs>> made;
    for (std::size_t number = 0;; ++number) {
      Variants visitor(number);
      made.push_back(
          Attrs::edited(info, nullptr, [&](void* attrs) { info.visit(attrs, visitor); }));
      if (number + 1 >= visitor.count_) return made;
    }
  }

  void visit(std::string_view, bool& value) override { value = choose(2) != 0; }
  void visit(std::string_view, DType& value) override {
    value = kCommon[choose(std::size(kCommon))];
  }
  void visit(std::string_view, std::int64_t&) override {}
  void visit(std::string_view, double&) override {}
  void visit(std::string_view, std::string&) override {}
  void visit(std::string_view, Dim&) override {}
  void visit(std::string_view, Ints&) override {}
  void visit(std::string_view, Shape&) override {}
  void visit(std::string_view, Tensor&) override {}

 private:
  explicit Variants(std::size_t number) : number_(number) {}
  std::size_t choose(std::size_t among) {
    const std::size_t chosen = number_ / count_ % among;
    count_ *= among;
    return chosen;
  }

  std::size_t number_, count_ = 1;
};

/// The row's recipe for operands of `dtype`, where it takes such operands and no others are needed.
std::optional<KernelRecipe> recipe_for(const OpInfo& op, const void* attrs, DType dtype) {
  std::vector<DType> inputs;
  std::vector<Type> types;
  for (const ArgInfo& input : op.inputs) {
    if (input.optional || input.variadic) return std::nullopt;
    DType own = dtype;
    if (!takes_part_in_promotion(input))
      own = contains(input.dtypes, DType::boolean) ? DType::boolean : DType::i64;
    if (!contains(input.dtypes, own)) return std::nullopt;
    inputs.push_back(own);
    types.emplace_back(own, op.counted ? Shape() : Shape{2, 2});
  }
  if (inputs.empty()) return std::nullopt;
  try {
    std::vector<DType> results;
    for (const Type& type : infer_types(op, types, attrs, {})) results.push_back(type.dtype());
    return codegen::recipe_of(op, attrs, inputs, results);
  } catch (const InternalError&) {
    throw;
  } catch (const Error&) {
    return std::nullopt;  // these attributes mean nothing to this row
  }
}

/// Whether a program may rather be compiled when it is first used: what is large, and functions of
/// analysis of integers.
bool is_rare(const OpInfo& op, const KernelRecipe& recipe, DType dtype) {
  constexpr int kLarge = 200, kSmall = 20;  // exp takes 30 operations, gelu 80, digamma 210
  const int cost = recipe.program.cost();
  return cost > kLarge || (op.typing == Typing::floating && !is_floating(dtype) && cost > kSmall);
}

void add_pointwise(std::vector<KernelRecipe>& recipes, const KernelRecipe& recipe, DType dtype) {
  const std::size_t inputs = recipe.inputs.size();
  const auto add = [&](const std::function<Access(std::size_t)>& access) {
    recipes.push_back(recipe);
    for (std::size_t i = 0; i < inputs; ++i) recipes.back().inputs[i].access = access(i);
  };
  // Of many inputs the last ones are numbers: updates of optimizers.
  constexpr std::size_t kMany = 4;
  for (std::size_t numbers = 0; inputs >= kMany && numbers < inputs; ++numbers) {
    add([&](std::size_t i) {
      return i >= inputs - numbers ? Access::broadcast : Access::contiguous;
    });
  }
  if (inputs >= kMany) return;
  // Some of the inputs single elements, or repeated along the innermost axis; not all of them.
  for (std::size_t repeated = 0; repeated + 1 < std::size_t{1} << inputs; ++repeated) {
    add([&](std::size_t i) {
      return (repeated >> i & 1) != 0 ? Access::broadcast : Access::contiguous;
    });
  }
  // A transposed or sliced view among contiguous tensors.
  for (std::size_t view = 0; dtype == DType::f32 && view < inputs; ++view) {
    add([&](std::size_t i) { return i == view ? Access::strided : Access::contiguous; });
  }
}

/// Of scalars and the element's number; for one element, too.
void add_counted(std::vector<KernelRecipe>& recipes, KernelRecipe recipe) {
  recipes.push_back(recipe);
  for (codegen::Operand& input : recipe.inputs) {
    if (!input.index) input.access = Access::broadcast;
  }
  recipes.push_back(std::move(recipe));
}

void add_reduction(std::vector<KernelRecipe>& recipes, KernelRecipe recipe) {
  recipe.kind = KernelKind::reduce_rows;
  recipes.push_back(recipe);
  recipe.kind = KernelKind::reduce_columns;
  // The number of an element is the same for all columns.
  for (codegen::Operand& input : recipe.inputs) {
    if (input.index) input.access = Access::broadcast;
  }
  recipes.push_back(recipe);
}

}  // namespace

std::vector<KernelRecipe> common_recipes() {
  ops::register_builtin_ops();
  std::vector<KernelRecipe> recipes;
  for (const OpInfo* op : all_ops()) {
    const bool reduction = op->kind == BodyKind::reduction;
    if (op->effect != Effect::pure ||
        (op->kind != BodyKind::pointwise && !reduction && !op->counted))
      continue;
    for (const Ref<Attrs>& attrs : Variants::of(*op->attrs)) {
      for (const DType dtype : kCommon) {
        const std::optional<KernelRecipe> recipe = recipe_for(*op, attrs->data(), dtype);
        if (!recipe) continue;
        if (reduction)
          add_reduction(recipes, *recipe);
        else if (op->counted)
          add_counted(recipes, *recipe);
        else if (!is_rare(*op, *recipe, dtype))
          add_pointwise(recipes, *recipe, dtype);
      }
    }
  }
  return recipes;
}

}  // namespace dyad::kernelgen
