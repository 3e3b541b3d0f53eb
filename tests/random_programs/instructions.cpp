#include "instructions.h"

#include <algorithm>

#include "dyad/ops/ops.h"

namespace dyad::testing {
namespace {

std::vector<std::int64_t> sizes_of(const Tensor& x) {
  const auto sizes = x.shape().numbers();
  return {sizes.begin(), sizes.end()};
}

}  // namespace

std::vector<Tensor> Frame::all() const {
  std::vector<Tensor> tensors;
  for (std::size_t i = 0; i < inputs(); ++i) tensors.push_back((*this)[i]);
  return tensors;
}

Dim Frame::size(std::size_t i) const {
  const Number& number = statement_.numbers[i];
  return number.of < 0 ? Dim(number.n)
                       : values_[static_cast<std::size_t>(number.of)].size(number.n);
}

Shape Frame::sizes(std::size_t first) const {
  Shape shape;
  for (std::size_t i = first; i < statement_.numbers.size(); ++i) shape.push_back(size(i));
  return shape;
}

Ints Frame::wholes(std::size_t first) const {
  Ints ints;
  for (std::size_t i = first; i < statement_.numbers.size(); ++i) ints.push_back(whole(i));
  return ints;
}

std::vector<Tensor> Frame::run(std::size_t i, const std::vector<Tensor>& arguments) const {
  return run_body(statement_.bodies[i], arguments, values_);
}

std::vector<Tensor> run_body(const Body& body, const std::vector<Tensor>& arguments,
                             std::vector<Tensor>& values) {
  for (std::size_t i = 0; i < body.parameters.size(); ++i) {
    values[static_cast<std::size_t>(body.parameters[i])] = arguments[i];
  }
  for (const Statement& statement : body.statements) {
    std::vector<Tensor> made = statement.op->run(Frame(values, statement));
    for (std::size_t i = 0; i < statement.out.size(); ++i) {
      values[static_cast<std::size_t>(statement.out[i])] = std::move(made.at(i));
    }
  }
  std::vector<Tensor> results;
  for (const int result : body.results) results.push_back(values[static_cast<std::size_t>(result)]);
  return results;
}

bool Draft::axis(std::size_t i) {
  const int rank = example(i).rank();
  if (rank == 0) return false;
  whole(numbers.chance(30) ? -rank : 0, rank - 1);
  return true;
}

bool Draft::axes(std::size_t i) {
  const int rank = example(i).rank();
  for (int axis = 0; axis < rank; ++axis) {
    if (numbers.chance(50)) number(numbers.chance(20) ? axis - rank : axis);
  }
  return true;
}

const Instructions& instructions() {
  static const Instructions all = [] {
    Instructions list;
    add_pointwise(list);
    add_shapes(list);
    add_reductions(list);
    add_products(list);
    add_indexing(list);
    add_sources(list);
    add_writes(list);
    add_control(list);
    add_stateful(list);
    const auto layered = static_cast<std::ptrdiff_t>(list.size());
    add_layers(list);
    add_nested_control(list);
    add_functions(list);
    std::for_each(list.begin() + layered, list.end(), [](Instruction& one) { one.layered = true; });
    const auto wide = static_cast<std::ptrdiff_t>(list.size());
    add_wide_pointwise(list);
    add_wide_shapes(list);
    add_wide_reductions(list);
    add_wide_sources(list);
    add_wide_products(list);
    add_wide_layers(list);
    std::for_each(list.begin() + wide, list.end(), [](Instruction& one) { one.wide = true; });
    return list;
  }();
  return all;
}

std::size_t instructions_of(std::uint64_t seed) {
  const auto [first, end] = special_instructions(seed);
  return special_instructions(0).first + end - first;
}

std::pair<std::size_t, std::size_t> special_instructions(std::uint64_t seed) {
  const auto count = [](bool Instruction::* kind) {
    return static_cast<std::size_t>(std::ranges::count(instructions(), true, kind));
  };
  static const std::size_t end = instructions().size(), wide = end - count(&Instruction::wide),
                           layered = wide - count(&Instruction::layered),
                           stateful = layered - count(&Instruction::stateful);
  if (is_stateful(seed)) return {stateful, layered};
  if (is_layered(seed)) return {layered, wide};
  if (is_wide(seed)) return {layered, end};
  return {stateful, stateful};
}

bool any_value(const Tensor&) { return true; }
bool is_float(const Tensor& x) { return is_floating(x.dtype()); }
bool is_f32_or_f64(const Tensor& x) { return x.dtype() == f32 || x.dtype() == f64; }
bool is_whole(const Tensor& x) {
  return !is_float(x) && !is_complex(x.dtype()) && x.dtype() != DType::boolean;
}
bool is_bool(const Tensor& x) { return x.dtype() == DType::boolean; }
bool is_number(const Tensor& x) { return !is_bool(x); }

Draft::Fits with_rank(int low, int high, const Draft::Fits& fits) {
  return [=](const Tensor& x) { return x.rank() >= low && x.rank() <= high && fits(x); };
}

Draft::Fits broadcasts_with(const Tensor& other, const Draft::Fits& fits) {
  return [sizes = sizes_of(other), fits](const Tensor& x) {
    const std::vector<std::int64_t> mine = sizes_of(x);
    for (std::size_t i = 1; i <= std::min(mine.size(), sizes.size()); ++i) {
      const std::int64_t a = mine[mine.size() - i], b = sizes[sizes.size() - i];
      if (a != b && a != 1 && b != 1) return false;
    }
    return fits(x);
  };
}

Draft::Fits same_type(const Tensor& other) {
  return [dtype = other.dtype(), sizes = sizes_of(other)](const Tensor& x) {
    return x.dtype() == dtype && sizes_of(x) == sizes;
  };
}

}  // namespace dyad::testing
