#include <algorithm>

#include "dyad/core/dim_expr.h"
#include "dyad/onnx/graph_writer.h"

// Symbolic sizes: read off the shape of a value that has the size, or computed from others that
// are.

namespace dyad::onnx {

void GraphWriter::remember_sizes(const Type& type, const std::string& name) {
  if (!type.is_tensor()) return;
  for (int axis = 0; axis < type.rank(); ++axis) {
    const Dim size = type.shape()[static_cast<std::size_t>(axis)];
    if (size.is_symbolic() && axis_of_.try_emplace(size.word(), axes_.size()).second) {
      axes_.push_back({size, name, axis});
    }
  }
}

bool GraphWriter::is_of_inputs(Dim size) const {
  const GraphWriter* outermost = this;
  while (outermost->outer_ != nullptr) outermost = outermost->outer_;
  std::vector<Dim> symbols;
  collect_symbols(size, symbols);
  return std::ranges::all_of(symbols, [&](Dim symbol) {
    return std::ranges::any_of(outermost->input_sizes_,
                               [&](Dim given) { return given.same_as(symbol); });
  });
}

std::string GraphWriter::size_along(const std::string& value, int axis) {
  return node("Shape", {value}, {{"start", std::int64_t{axis}}, {"end", std::int64_t{axis} + 1}});
}

std::string GraphWriter::size_of_dim(Dim dim) {
  if (dim.is_number()) {
    const std::int64_t number = dim.number();
    return context_.integers({&number, 1});
  }
  for (const GraphWriter* writer = this; writer; writer = writer->outer_) {
    if (auto known = writer->sizes_.find(dim.word()); known != writer->sizes_.end()) {
      return known->second;
    }
  }
  std::string name;
  for (const GraphWriter* writer = this; writer && name.empty(); writer = writer->outer_) {
    if (auto known = writer->axis_of_.find(dim.word()); known != writer->axis_of_.end()) {
      const Axis& shown = writer->axes_[known->second];
      name = size_along(shown.value, shown.axis);
    }
  }
  if (name.empty()) name = computed_size(dim);
  sizes_[dim.word()] = name;
  return name;
}

std::string GraphWriter::computed_size(Dim dim) {
  const DimExpr& expr = dim.expr();
  const DimAtom* atom = expr.atom();
  if (!atom) {
    std::string sum;
    for (const DimTerm& term : expr.terms) {
      const std::string product = product_of(term);
      sum = sum.empty() ? product : node("Add", {sum, product}, {});
    }
    return expr.constant == 0 ? sum : node("Add", {sum, size_of_dim(expr.constant)}, {});
  }
  if (atom->kind == DimAtom::Kind::symbol) return size_of_symbol(dim);
  const std::string a = size_of_dim(atom->a), b = size_of_dim(atom->b);
  switch (atom->kind) {
    case DimAtom::Kind::mod:
      return node("Mod", {a, b}, {});
    case DimAtom::Kind::max:
      return node("Max", {a, b}, {});
    case DimAtom::Kind::min:
      return node("Min", {a, b}, {});
    default: {
      // ONNX divides towards zero, sizes divide towards the smaller number.
      const auto least = dyad::detail::lower_bound(atom->a);
      if (least && *least >= 0) return node("Div", {a, b}, {});
      return node("Div", {node("Sub", {a, node("Mod", {a, b}, {})}, {}), b}, {});
    }
  }
}

std::string GraphWriter::product_of(const DimTerm& term) {
  std::string product;
  for (const DimAtom* factor : term.factors) {
    const std::string next = size_of_dim(factor->self);
    product = product.empty() ? next : node("Mul", {product, next}, {});
  }
  return term.coefficient == 1 ? product
                               : node("Mul", {product, size_of_dim(term.coefficient)}, {});
}

/// A symbol that is no size itself, out of a size such as 2*n + 1.
std::string GraphWriter::size_of_symbol(Dim symbol) {
  for (const GraphWriter* writer = this; writer; writer = writer->outer_) {
    for (const Axis& shown : writer->axes_) {
      std::int64_t coefficient = 0, constant = 0;
      Dim of;
      if (!as_linear(shown.size, coefficient, of, constant) || !of.same_as(symbol)) continue;
      std::string size = size_along(shown.value, shown.axis);
      if (constant != 0) size = node("Sub", {size, size_of_dim(constant)}, {});
      return coefficient == 1 ? size : node("Div", {size, size_of_dim(coefficient)}, {});
    }
  }
  fail("no value of the graph shows the size `" + to_string(symbol) + "`");
}

std::string GraphWriter::size(Dim size) {
  if (size.is_number()) return context_.integer(size.number());
  const std::int64_t axes[] = {0};
  return node("Squeeze", {size_of_dim(size), context_.integers(axes)}, {});
}

std::string GraphWriter::shape(const Shape& shape) {
  if (shape.is_concrete()) return context_.integers(shape.numbers());
  std::vector<std::string> sizes;
  for (const Dim dim : shape) sizes.push_back(size_of_dim(dim));
  return sizes.size() == 1 ? sizes[0]
                           : node("Concat", std::move(sizes), {{"axis", std::int64_t{0}}});
}

}  // namespace dyad::onnx
