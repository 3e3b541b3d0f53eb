#include "dyad/ops/einsum.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "dyad/ops/arithmetic.h"
#include "dyad/ops/einsum_plan.h"
#include "dyad/ops/elementary.h"
#include "dyad/ops/indexing.h"
#include "dyad/ops/linalg.h"
#include "dyad/ops/op_support.h"
#include "dyad/ops/reduce.h"
#include "dyad/ops/registry.h"
#include "dyad/ops/views.h"

namespace dyad {
namespace ops {
namespace {

using Sizes = std::map<Subscript, Dim>;

bool has(const Subscripts& list, Subscript s) {
  return std::find(list.begin(), list.end(), s) != list.end();
}

/// An operand with its subscripts, one for each axis.
struct Labelled {
  Tensor tensor;
  Subscripts subscripts;

  [[nodiscard]] std::int64_t axis(Subscript s) const {
    return std::find(subscripts.begin(), subscripts.end(), s) - subscripts.begin();
  }
};

/// x with its last two axes, of one size, replaced by their diagonal: the elements n + 1 apart, or,
/// where the size is not known, the first column of rows that are one element longer.
Tensor last_diagonal(const Tensor& x, Loc loc) {
  Shape shape = sizes_of(x, loc);
  const Dim n = shape.back();
  shape.pop_back();
  shape.back() = n * n;
  Tensor flat = reshape(x, shape, loc);
  const auto axis = static_cast<std::int64_t>(shape.size()) - 1;
  if (n.is_number()) return slice(flat, axis, 0, kEnd, n.number() + 1, loc);
  Shape low(shape.size(), 0), high(shape.size(), 0);
  high.back() = n;
  flat = pad(flat, low, high, 0, loc);
  shape.back() = n;
  shape.push_back(n + 1);
  return select(reshape(flat, shape, loc), -1, 0, loc);
}

/// The operand with each subscript once.
Labelled without_repeats(Labelled x, Loc loc) {
  for (std::size_t i = 0; i < x.subscripts.size(); ++i) {
    const Subscript s = x.subscripts[i];
    const auto again =
        std::find(x.subscripts.begin() + static_cast<std::ptrdiff_t>(i) + 1, x.subscripts.end(), s);
    if (again == x.subscripts.end()) continue;
    const auto second = static_cast<std::size_t>(again - x.subscripts.begin());
    Ints order;
    Subscripts left;
    for (std::size_t axis = 0; axis < x.subscripts.size(); ++axis) {
      if (axis == i || axis == second) continue;
      order.push_back(static_cast<std::int64_t>(axis));
      left.push_back(x.subscripts[axis]);
    }
    order.push_back(static_cast<std::int64_t>(i));
    order.push_back(static_cast<std::int64_t>(second));
    left.push_back(s);
    x = {last_diagonal(permute(x.tensor, order, loc), loc), left};
    i = static_cast<std::size_t>(-1);  // from the start: axes have moved
  }
  return x;
}

/// Sums over the subscripts that are not needed any more.
Labelled reduced(Labelled x, const Subscripts& needed, Loc loc) {
  Ints axes;
  Subscripts left;
  for (std::size_t i = 0; i < x.subscripts.size(); ++i) {
    if (has(needed, x.subscripts[i])) {
      left.push_back(x.subscripts[i]);
    } else {
      axes.push_back(static_cast<std::int64_t>(i));
    }
  }
  if (axes.empty()) return x;
  const DType dtype = x.tensor.dtype();
  return {to(sum(x.tensor, axes, false, loc), dtype, loc), left};
}

/// The axes in the order of `subscripts`, which are all that x has.
Tensor ordered(const Labelled& x, const Subscripts& subscripts, Loc loc) {
  if (x.subscripts == subscripts) return x.tensor;
  Ints axes;
  for (const Subscript s : subscripts) axes.push_back(x.axis(s));
  return permute(x.tensor, axes, loc);
}

Dim volume(const Subscripts& subscripts, const Sizes& sizes) {
  Dim total = 1;
  for (const Subscript s : subscripts) total *= sizes.at(s);
  return total;
}

Subscripts joined(std::initializer_list<Subscripts> lists) {
  Subscripts all;
  for (const Subscripts& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

/// The axes batch..., rows..., columns... of x as batch..., [rows], [columns].
Tensor as_matrix(const Labelled& x, const Subscripts& batch, const Subscripts& rows,
                 const Subscripts& columns, const Sizes& sizes, Loc loc) {
  Tensor axes = ordered(x, joined({batch, rows, columns}), loc);
  if (rows.size() == 1 && columns.size() == 1) return axes;
  Shape shape;
  for (const Subscript s : batch) shape.push_back(sizes.at(s));
  shape.push_back(volume(rows, sizes));
  shape.push_back(volume(columns, sizes));
  return reshape(axes, shape, loc);
}

/// Without a sum: the product of each pair of elements, in the order of `wanted`.
Labelled multiplied(const Labelled& a, const Labelled& b, const Subscripts& wanted, Loc loc) {
  const auto spread = [&](const Labelled& x) {
    Subscripts own;
    for (const Subscript s : wanted) {
      if (has(x.subscripts, s)) own.push_back(s);
    }
    Tensor y = ordered(x, own, loc);
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      if (!has(own, wanted[i])) y = unsqueeze(y, static_cast<std::int64_t>(i), loc);
    }
    return y;
  };
  return {mul(spread(a), spread(b), loc), wanted};
}

/// One pair as one product of matrices. `needed` are the subscripts that the result or operands
/// still to come have.
Labelled contracted(Labelled a, Labelled b, const Subscripts& needed, const Sizes& sizes, Loc loc) {
  a = reduced(std::move(a), joined({needed, b.subscripts}), loc);
  b = reduced(std::move(b), joined({needed, a.subscripts}), loc);
  Subscripts batch, sums, rows, columns;
  for (const Subscript s : a.subscripts) {
    if (!has(b.subscripts, s)) {
      rows.push_back(s);
    } else {
      (has(needed, s) ? batch : sums).push_back(s);
    }
  }
  for (const Subscript s : b.subscripts) {
    if (!has(a.subscripts, s)) columns.push_back(s);
  }
  if (sums.empty()) {
    Subscripts wanted;
    for (const Subscript s : needed) {
      if ((has(a.subscripts, s) || has(b.subscripts, s)) && !has(wanted, s)) wanted.push_back(s);
    }
    return multiplied(a, b, wanted, loc);
  }
  // The axis that ends the result is best a column of the product, so that the result is dense.
  if (!needed.empty() && has(rows, needed.back())) {
    std::swap(a, b);
    std::swap(rows, columns);
  }
  const Tensor product = matmul(as_matrix(a, batch, rows, sums, sizes, loc),
                                as_matrix(b, batch, sums, columns, sizes, loc), loc);
  Labelled made{product, joined({batch, rows, columns})};
  if (rows.size() != 1 || columns.size() != 1) {
    Shape shape;
    for (const Subscript s : made.subscripts) shape.push_back(sizes.at(s));
    made.tensor = reshape(product, shape, loc);
  }
  return made;
}

struct EinsumAttrs {
  std::string equation;
};

constexpr ArgInfo kOperands[] = {{"tensors", kNumber, false, /*variadic=*/true}};

/// How the sizes that two operands have for one subscript go together.
enum class Fit : std::uint8_t { equal, first_is_one, second_is_one, none };

Fit fit_of(Dim first, Dim second) {
  if (first.same_as(second)) return Fit::equal;
  if (second.same_as(1)) return Fit::second_is_one;
  if (first.same_as(1)) return Fit::first_is_one;
  if (first == second) return Fit::equal;
  // An expression of symbols may have the value 1, such as min(s, 1).
  if (second == 1) return Fit::second_is_one;
  return first == 1 ? Fit::first_is_one : Fit::none;
}

/// What the operands have of one subscript.
struct Extent {
  Dim size;
  std::vector<std::size_t> whole;   ///< operands of that size
  std::vector<std::size_t> single;  ///< operands of size 1, which are repeated
};
using Extents = std::map<Subscript, Extent>;

Extents extents_of(std::span<const Labelled> operands, Loc loc) {
  Extents extents;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const Labelled& x = operands[i];
    for (std::size_t axis = 0; axis < x.subscripts.size(); ++axis) {
      const Dim size = x.tensor.size(static_cast<std::int64_t>(axis), loc);
      const auto [at, added] = extents.try_emplace(x.subscripts[axis], Extent{size, {i}, {}});
      if (added) continue;
      Extent& known = at->second;
      const Fit fit = fit_of(known.size, size);
      if (fit == Fit::second_is_one) {
        known.single.push_back(i);
        continue;
      }
      if (fit == Fit::first_is_one) {
        known.single.insert(known.single.end(), known.whole.begin(), known.whole.end());
        known.whole.clear();
        known.size = size;
      }
      known.whole.push_back(i);
    }
  }
  return extents;
}

/// Drops the axes of size 1 along which another operand is longer, where nothing but a repetition
/// happens.
Labelled without_broadcasts(Labelled x, std::size_t operand, const Extents& extents, Loc loc) {
  for (std::size_t i = x.subscripts.size(); i-- > 0;) {
    if (std::ranges::count(extents.at(x.subscripts[i]).single, operand) == 0) continue;
    x.tensor = squeeze(x.tensor, static_cast<std::int64_t>(i), loc);
    x.subscripts.erase(x.subscripts.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return x;
}

/// How many elements the outer product of operands with data has.
double most_elements(std::span<const Labelled> operands) {
  std::map<Subscript, double> sizes;
  for (const Labelled& x : operands) {
    for (std::size_t i = 0; i < x.subscripts.size(); ++i) {
      double& size = sizes[x.subscripts[i]];
      size = std::max(size, static_cast<double>(x.tensor.impl()->shape[i].number()));
    }
  }
  double all = 1;
  for (const auto& [subscript, size] : sizes) all *= std::max(size, 1.0);
  return all;
}

/// The order of the products. Where the call is recorded on data it is eager's: which order takes
/// less is asked, or, of many operands and of sizes beyond integers, each size.
ContractionOrder order_of(std::span<const Labelled> operands, const Subscripts& result,
                          const Sizes& sizes, Loc loc) {
  constexpr std::size_t kCompared = 4;
  constexpr double kUnknown = 64, kLarge = 0x1p50;
  std::vector<Subscripts> subscripts;
  for (const Labelled& x : operands) subscripts.push_back(x.subscripts);
  const bool known = std::ranges::all_of(sizes, [](const auto& s) { return s.second.is_number(); });
  const bool asks =
      !known && operands.size() > 2 &&
      std::ranges::all_of(operands, [](const Labelled& x) { return x.tensor.is_concrete(); });
  if (asks && operands.size() <= kCompared && most_elements(operands) < kLarge)
    return contraction_order(subscripts, result, [&](Subscript s) { return sizes.at(s); });
  return contraction_order(subscripts, result, [&](Subscript s) {
    const Dim size = sizes.at(s);
    return size.is_number() || asks ? static_cast<double>(size.value(loc)) : kUnknown;
  });
}

struct Einsum {
  using Attrs = EinsumAttrs;
  static constexpr Schema schema{
      .name = "einsum",
      .inputs = kOperands,
      .outputs = kOut,
      .doc =
          "Products of tensors summed over the subscripts that the result does not name, as a "
          "chain of matrix products."};

  static Types infer(const InferIn& in, const Attrs& attrs) {
    if (in.inputs.empty()) fail_value(in, "at least one operand is needed");
    for (std::size_t i = 1; i < in.inputs.size(); ++i) {
      if (in[i].dtype() == in[0].dtype()) continue;
      fail_dtype(in, "one dtype is needed, but operand 0 is " +
                         std::string(name_of(in[0].dtype())) + " and operand " + std::to_string(i) +
                         " is " + std::string(name_of(in[i].dtype())) + "; convert one with to()");
    }
    std::vector<int> ranks;
    for (const Type& type : in.inputs) ranks.push_back(type.rank());
    std::string error;
    bool shape_error = false;
    const EinsumTerms terms = parse_einsum(attrs.equation, ranks, error, shape_error);
    if (!error.empty()) shape_error ? fail_shape(in, error) : fail_value(in, error);
    struct Found {
      Dim size;
      std::size_t operand;
    };
    std::map<Subscript, Found> found;
    for (std::size_t i = 0; i < in.inputs.size(); ++i) {
      for (std::size_t axis = 0; axis < terms.operands[i].size(); ++axis) {
        const Subscript s = terms.operands[i][axis];
        const Dim size = in[i].shape()[axis];
        const Subscripts& own = terms.operands[i];
        const auto first = std::find(own.begin(), own.end(), s) - own.begin();
        if (first < static_cast<std::ptrdiff_t>(axis)) {
          const Dim before = in[i].shape()[static_cast<std::size_t>(first)];
          if (before == size) continue;
          fail_shape(in, "subscript " + subscript_name(s) + " names axes of sizes " +
                             to_string(before) + " and " + to_string(size) + " of operand " +
                             std::to_string(i) + ", which have no diagonal");
        }
        const auto [at, added] = found.try_emplace(s, Found{size, i});
        Found& known = at->second;
        if (added) continue;
        const Fit fit = fit_of(known.size, size);
        if (fit == Fit::first_is_one) known = {size, i};
        if (fit != Fit::none) continue;
        fail_shape(in, "subscript " + subscript_name(s) + " has size " + to_string(known.size) +
                           " in operand " + std::to_string(known.operand) + " but " +
                           to_string(size) + " in operand " + std::to_string(i));
      }
    }
    constexpr std::size_t kMost = 64;
    if (found.size() > kMost) fail_value(in, "at most 64 subscripts can be told apart");
    Shape shape;
    for (const Subscript s : terms.result) shape.push_back(found.at(s).size);
    return {Type(in[0].dtype(), shape)};
  }

  static std::vector<Tensor> expand(const Attrs& attrs, TensorRefs in, Loc loc) {
    // Of two operands the one product is rounded once as it is.
    if (in.size() < 3) return contracted_all(attrs, in, loc);
    return inputs_in_f32(in, [&](TensorRefs wide) { return contracted_all(attrs, wide, loc); });
  }
  static std::vector<Tensor> contracted_all(const Attrs& attrs, TensorRefs in, Loc loc) {
    std::vector<int> ranks;
    for (const Tensor* x : in) ranks.push_back(x->rank());
    std::string error;
    bool shape_error = false;
    const EinsumTerms terms = parse_einsum(attrs.equation, ranks, error, shape_error);

    std::vector<Labelled> list;
    for (std::size_t i = 0; i < in.size(); ++i)
      list.push_back(without_repeats({*in[i], terms.operands[i]}, loc));
    const Extents extents = extents_of(list, loc);
    Sizes sizes;
    for (const auto& [subscript, extent] : extents) sizes.emplace(subscript, extent.size);
    for (std::size_t i = 0; i < list.size(); ++i)
      list[i] = without_broadcasts(std::move(list[i]), i, extents, loc);
    const ContractionOrder order = order_of(list, terms.result, sizes, loc);
    for (const auto& [first, second] : order) {
      Labelled a = std::move(list[static_cast<std::size_t>(first)]);
      Labelled b = std::move(list[static_cast<std::size_t>(second)]);
      list.erase(list.begin() + second);
      list.erase(list.begin() + first);
      // The result's own order last, so that the last product can follow it.
      Subscripts needed;
      for (const Labelled& x : list) needed = joined({needed, x.subscripts});
      needed = joined({needed, terms.result});
      list.push_back(contracted(std::move(a), std::move(b), needed, sizes, loc));
    }
    const Labelled last = reduced(std::move(list[0]), terms.result, loc);
    return {ordered(last, terms.result, loc)};
  }

  /// ONNX broadcasts the axes of `...` only between operands that have equally many.
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    constexpr DTypeSet kTaken =
        set_of(DType::f64) | set_of(DType::f32) | set_of(DType::f16) | kIndex;
    std::vector<int> ranks;
    for (int i = 0; i < e.input_count(); ++i) ranks.push_back(e.input_type(i).rank());
    const std::vector<EllipsisAt> ellipses = ellipses_of(attrs.equation, ranks);
    int most = 0;
    for (const EllipsisAt& at : ellipses) most = std::max(most, at.axes);
    std::vector<std::string> inputs;
    for (int i = 0; i < e.input_count(); ++i) {
      std::string x = e.input_as(i, kTaken);
      const EllipsisAt at = ellipses[static_cast<std::size_t>(i)];
      if (at.axis >= 0 && at.axes < most) {
        std::vector<std::int64_t> added;
        for (int k = at.axes; k < most; ++k) added.push_back(at.axis + k - at.axes);
        x = e.node("Unsqueeze", {x, e.constant_i64(added)});
      }
      inputs.push_back(x);
    }
    std::string equation;
    std::copy_if(attrs.equation.begin(), attrs.equation.end(), std::back_inserter(equation),
                 [](char c) { return c != ' ' && c != '\t'; });
    e.output(0, e.node("Einsum", inputs, {{"equation", equation}}));
  }
};

}  // namespace

std::span<const OpInfo* const> einsum_rows() {
  static constexpr const OpInfo* kRows[] = {&op_info<Einsum>};
  return kRows;
}

namespace {

/// The same products of complex numbers, by the functions that take these.
Tensor complex_einsum(const EinsumAttrs& attrs, TensorRefs tensors, Loc loc) {
  const LocScope scope(loc);
  std::vector<Type> types;
  for (const Tensor* x : tensors) types.push_back(type_of(*x));
  (void)Einsum::infer({.op = op_info<Einsum>, .inputs = types, .attrs = &attrs, .loc = loc}, attrs);
  return Einsum::expand(attrs, tensors, loc)[0];
}

}  // namespace
}  // namespace ops

Tensor einsum(std::string_view equation, std::span<const Tensor> tensors, Loc loc) {
  std::vector<const Tensor*> refs;
  for (const Tensor& x : tensors) refs.push_back(&x);
  const ops::EinsumAttrs attrs{.equation = std::string(equation)};
  const bool defined = std::ranges::all_of(tensors, &Tensor::defined);
  if (defined && std::ranges::any_of(tensors, [](const Tensor& x) { return ops::is_complex(x); })) {
    return ops::complex_einsum(attrs, refs, loc);
  }
  return apply_multi<ops::Einsum>(attrs, loc, refs, 1)[0];
}
Tensor einsum(std::string_view equation, std::initializer_list<Tensor> tensors, Loc loc) {
  return einsum(equation, std::span(tensors.begin(), tensors.size()), loc);
}

}  // namespace dyad
