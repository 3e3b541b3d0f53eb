#include <algorithm>
#include <optional>

#include "dyad/core/create.h"
#include "dyad/core/dim_expr.h"
#include "dyad/ir/onnx_node.h"
#include "dyad/ops/creation.h"
#include "dyad/ops/elementary.h"
#include "dyad/ops/indexing.h"
#include "dyad/ops/op_support.h"
#include "dyad/ops/registry.h"
#include "dyad/ops/views.h"

// What ONNX's operators mean that make tensors, ask for shapes, and rearrange elements.

namespace dyad::ops {
namespace {

/// Sizes as a 1-d tensor: concrete when they are numbers.
Tensor tensor_of_sizes(std::span<const Dim> sizes, Loc loc) {
  const bool numbers = std::ranges::all_of(sizes, [](Dim d) { return d.is_number(); });
  if (numbers) {
    std::vector<std::int64_t> values;
    for (const Dim d : sizes) values.push_back(d.number());
    return tensor(values, {static_cast<std::int64_t>(values.size())}, loc);
  }
  std::vector<Tensor> parts;
  for (const Dim d : sizes) parts.push_back(size_tensor(d, loc));
  return stack(parts, 0, loc);
}

void shape(OnnxNode& n) {
  const Shape all = sizes_of(n.input(0), n.loc());
  const auto rank = static_cast<std::int64_t>(all.size());
  const auto clip = [&](std::int64_t at) {
    return std::clamp<std::int64_t>(at < 0 ? at + rank : at, 0, rank);
  };
  const std::int64_t begin = clip(n.integer("start", 0)), end = clip(n.integer("end", rank));
  const std::span<const Dim> sizes(all.begin(), all.size());
  n.output(0, tensor_of_sizes(sizes.subspan(static_cast<std::size_t>(begin),
                                            static_cast<std::size_t>(std::max(begin, end) - begin)),
                              n.loc()));
}

void size(OnnxNode& n) {
  Dim count = 1;
  for (const Dim d : sizes_of(n.input(0), n.loc())) count = count * d;
  n.output(0, count.is_number() ? tensor(count.number()) : size_tensor(count, n.loc()));
}

void reshape_to(OnnxNode& n) {
  const Tensor x = n.input(0);
  Shape sizes = n.has(1) ? n.sizes(1) : Shape();
  if (!n.has(1)) {
    for (const std::int64_t s : n.integers("shape", {})) sizes.push_back(s);
  }
  if (!n.flag("allowzero")) {
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      if (!sizes[i].is_number() || sizes[i].number() != 0) continue;
      if (static_cast<int>(i) >= x.rank()) {
        n.fail("size " + std::to_string(i) +
               " is 0, which keeps that of the input, but the input "
               "has " +
               std::to_string(x.rank()) + " axes");
      }
      sizes[i] = x.size(static_cast<int>(i));
    }
  }
  n.output(0, reshape(x, sizes, n.loc()));
}

void flatten_to_matrix(OnnxNode& n) {
  const Tensor x = n.input(0);
  const std::int64_t axis = from_front(n.integer("axis", 1), x.rank());
  Dim rows = 1, columns = 1;
  for (int i = 0; i < x.rank(); ++i)
    (i < axis ? rows : columns) = (i < axis ? rows : columns) * x.size(i);
  n.output(0, reshape(x, {rows, columns}, n.loc()));
}

void transpose_axes(OnnxNode& n) {
  const Tensor x = n.input(0);
  Ints reversed;
  for (int i = x.rank(); i-- > 0;) reversed.push_back(i);
  n.output(0, permute(x, n.integers("perm", reversed), n.loc()));
}

void squeeze_axes(OnnxNode& n) {
  const Tensor x = n.input(0);
  Ints axes = n.integers_or_input("axes", 1, {});
  const bool named = n.has(1) || n.has_attribute("axes");
  if (!named) {
    for (int i = 0; i < x.rank(); ++i) {
      const Dim d = x.size(i);
      if (d.is_number() && d.number() == 1) axes.push_back(i);
    }
  }
  for (std::int64_t& axis : axes) axis = from_front(axis, x.rank());
  std::ranges::sort(axes, std::greater<>());
  Tensor result = x;
  for (const std::int64_t axis : axes) result = squeeze(result, axis, n.loc());
  n.output(0, result);
}

void unsqueeze_axes(OnnxNode& n) {
  Tensor x = n.input(0);
  Ints axes = n.integers_or_input("axes", 1, {});
  const int rank = x.rank() + static_cast<int>(axes.size());
  for (std::int64_t& axis : axes) axis = from_front(axis, rank);
  std::ranges::sort(axes);
  for (const std::int64_t axis : axes) x = unsqueeze(x, axis, n.loc());
  n.output(0, x);
}

void concat_inputs(OnnxNode& n) {
  n.output(0, concat(n.inputs_from(0), n.integer("axis", 1), n.loc()));
}

void split_parts(OnnxNode& n) {
  const Tensor x = n.input(0);
  const std::int64_t axis = n.integer("axis", 0);
  const int count = n.output_count();
  Shape sizes;
  if (n.has(1)) {
    sizes = n.sizes(1);
  } else if (n.has_attribute("split")) {
    for (const std::int64_t s : n.integers("split", {})) sizes.push_back(s);
  } else {
    const Dim whole = x.size(from_front(axis, x.rank()));
    const Dim each = ceil_div(whole, count);
    for (int i = 0; i + 1 < count; ++i) sizes.push_back(each);
    sizes.push_back(whole - each * (count - 1));
  }
  const std::vector<Tensor> parts = split(x, sizes, axis, n.loc());
  if (parts.size() < static_cast<std::size_t>(count)) {
    n.fail("it splits x into " + std::to_string(parts.size()) + " parts, but has " +
           std::to_string(count) + " outputs");
  }
  for (int i = 0; i < count; ++i) n.output(i, parts.at(static_cast<std::size_t>(i)));
}

/// Bounds of Slice reach to the ends of int64 and int32; Dyad's sizes end before.
Dim bound(Dim at) {
  if (!at.is_number()) return at;
  return std::clamp<std::int64_t>(at.number(), -kEnd, kEnd);
}

void slice_by(OnnxNode& n, const Shape& begins, const Shape& ends, const Ints& axes,
              const Ints& steps) {
  Tensor x = n.input(0);
  const int rank = x.rank();
  const auto fits = [&](const auto& numbers) { return numbers.size() == begins.size(); };
  if (!fits(ends) || !(axes.empty() || fits(axes)) || !(steps.empty() || fits(steps))) {
    n.fail("its starts, ends, axes and steps are not one for each axis that it cuts");
  }
  for (std::size_t i = 0; i < begins.size(); ++i) {
    const std::int64_t axis = axes.empty() ? static_cast<std::int64_t>(i) : axes[i];
    x = slice(x, n.axis_of(axis, rank), bound(begins[i]), bound(ends[i]),
              steps.empty() ? 1 : steps[i], n.loc());
  }
  n.output(0, x);
}

void slice_by_attributes(OnnxNode& n) {
  Shape begins, ends;
  for (const std::int64_t at : n.integers("starts", {}))
    begins.push_back(bound(std::clamp<std::int64_t>(at, -kEnd, kEnd)));
  for (const std::int64_t at : n.integers("ends", {}))
    ends.push_back(bound(std::clamp<std::int64_t>(at, -kEnd, kEnd)));
  slice_by(n, begins, ends, n.integers("axes", {}), {});
}

/// Begins or ends of Slice that are an input.
Shape bounds(OnnxNode& n, int i) {
  if (!n.constant(i).defined()) {
    const Shape open = n.sizes(i);
    for (const Dim at : open) {
      // Below 0 it counts from the end, and 0 does not: the sign must be known.
      const auto most = at.is_number() ? std::nullopt : detail::upper_bound(at);
      if (most && *most <= 0) n.need_constant(i);
    }
    return open;
  }
  Shape all;
  for (const std::int64_t at : n.constant_integers(i)) {
    all.push_back(std::clamp<std::int64_t>(at, -kEnd, kEnd));
  }
  return all;
}

void slice_by_inputs(OnnxNode& n) {
  slice_by(n, bounds(n, 1), bounds(n, 2), n.has(3) ? n.constant_integers(3) : Ints{},
           n.has(4) ? n.constant_integers(4) : Ints{});
}

void gather_slices(OnnxNode& n) {
  n.output(0, index_select(n.input(0), n.integer("axis", 0), n.input(1), n.loc()));
}

void gather_elements(OnnxNode& n) {
  n.output(0, gather(n.input(0), n.integer("axis", 0), n.input(1), n.loc()));
}

void expand_to(OnnxNode& n) {
  const Tensor x = n.input(0);
  Shape wanted = n.sizes(1);
  // Broadcasting goes both ways: a 1 in the shape keeps the size of x.
  const auto rank = static_cast<int>(wanted.size());
  Shape result;
  for (int i = 0; i < std::max(rank, x.rank()); ++i) {
    const int from_x = i - (std::max(rank, x.rank()) - x.rank());
    const int from_wanted = i - (std::max(rank, x.rank()) - rank);
    Dim size = from_wanted >= 0 ? wanted[static_cast<std::size_t>(from_wanted)] : Dim(1);
    if (from_x >= 0 && size.is_number() && size.number() == 1) size = x.size(from_x);
    result.push_back(size);
  }
  n.output(0, expand(x, result, n.loc()));
}

void constant_of_shape(OnnxNode& n) {
  const Tensor value = n.tensor("value");
  const Shape shape = n.sizes(0);
  if (!value.defined()) {
    n.output(0, zeros(shape, f32, n.loc()));
    return;
  }
  n.output(0, expand(reshape(value, {}, n.loc()), shape, n.loc()).clone(n.loc()));
}

void constant(OnnxNode& n) {
  if (n.has_attribute("value")) {
    n.output(0, n.tensor("value"));
  } else if (n.has_attribute("sparse_value")) {
    n.output(0, n.tensor("sparse_value"));
  } else if (n.has_attribute("value_int")) {
    n.output(0, tensor(n.integer("value_int", 0)));
  } else if (n.has_attribute("value_float")) {
    n.output(0, tensor(static_cast<float>(n.number("value_float", 0))));
  } else if (n.has_attribute("value_ints")) {
    const Ints values = n.integers("value_ints", {});
    n.output(0, tensor(std::vector<std::int64_t>(values.begin(), values.end())));
  } else if (n.has_attribute("value_floats")) {
    const std::vector<double> values = n.numbers("value_floats");
    n.output(0, tensor(std::vector<float>(values.begin(), values.end())));
  } else {
    n.fail("it has no value that Dyad reads");
  }
}

}  // namespace

std::span<const OnnxRule> shape_onnx_rules() {
  static constexpr OnnxRule kRules[] = {
      {"Shape", 1, shape},
      {"Size", 1, size},
      {"Reshape", 1, reshape_to},
      {"Flatten", 1, flatten_to_matrix},
      {"Transpose", 1, transpose_axes},
      {"Squeeze", 1, squeeze_axes},
      {"Unsqueeze", 1, unsqueeze_axes},
      {"Concat", 1, concat_inputs},
      {"Split", 2, split_parts},
      {"Slice", 1, slice_by_attributes},
      {"Slice", 10, slice_by_inputs},
      {"Gather", 1, gather_slices},
      {"GatherElements", 11, gather_elements},
      {"Expand", 8, expand_to},
      {"ConstantOfShape", 9, constant_of_shape},
      {"Constant", 1, constant},
  };
  return kRules;
}

}  // namespace dyad::ops
