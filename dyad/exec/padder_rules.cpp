/// What single operators do on padded sizes: element by element, along axes, and views.
#include <algorithm>
#include <limits>
#include <utility>

#include "dyad/base/error.h"
#include "dyad/exec/executable_bind.h"
#include "dyad/exec/padder.h"
#include "dyad/ir/substitute.h"
#include "dyad/ops/arithmetic.h"
#include "dyad/ops/attrs/indexing.h"
#include "dyad/ops/elementary.h"
#include "dyad/ops/indexing.h"
#include "dyad/ops/reduce.h"
#include "dyad/passes/edit_attrs.h"

namespace dyad::exec {
namespace {

/// What leaves every result of a reduction as it is, as an element more; nothing where that is not
/// known.
std::optional<double> neutral_element(const Node& node) {
  const bool floating = is_floating(node.inputs()[0].type().dtype());
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (node.is("sum") || node.is("sum_of_repeats") || node.is("any")) return 0;
  if (node.is("prod") || node.is("all")) return 1;
  if (node.is("max") && floating) return -kInfinity;
  if (node.is("min") && floating) return kInfinity;
  return std::nullopt;
}

/// Which elements of its input a view shows, along each axis.
struct ViewMap {
  std::vector<std::vector<std::int64_t>> steps;  ///< of each input axis, along each output axis
  std::vector<std::int64_t> starts;              ///< the first position, by input axis
};

/// By looking at one axis after the other: its stride 1, all others 0.
ViewMap map_of(const Node& node, const SymbolMap& sizes) {
  const Shape in = evaluate(node.inputs()[0].type().shape(), sizes),
              out = evaluate(node.types()[0].shape(), sizes);
  const Ref<Attrs> attrs = attrs_with(node, sizes);
  ViewMap map;
  for (std::size_t axis = 0; axis < in.size(); ++axis) {
    Strides strides(in.size(), 0);
    strides[axis] = 1;
    const ViewLayout layout = node.op().view(attrs->data(), in, strides, out);
    std::vector<std::int64_t>& steps =
        map.steps.emplace_back(layout.strides.begin(), layout.strides.end());
    for (std::size_t j = 0; j < steps.size(); ++j) {
      if (node.types()[0].shape()[j].same_as(1)) steps[j] = 0;
    }
    map.starts.push_back(layout.offset);
  }
  return map;
}

}  // namespace

Padder::Rule Padder::created(const Node& node, const Forms& inputs) {
  if (node.is("size_tensor")) {
    const Dim size = node.attrs_as<ops::SizeAttrs>().size;
    return Forms{plain(node.types()[0], value(exact_size(size)))};
  }
  if (node.op().effect == Effect::random) {  // keys, for as many numbers as there are then
    std::vector<std::vector<AxisParts>> axes;
    for (const Type& type : node.types()) axes.emplace_back(static_cast<std::size_t>(type.rank()));
    return renamed(node, {}, std::move(axes));
  }
  const bool is_filled = node.is("full");
  if (!is_filled && !node.is("arange") && !node.is("uniform") && !node.is("normal"))
    return std::nullopt;
  std::vector<AxisParts> axes;
  for (const Dim size : node.types()[0].shape())
    axes.push_back(is_padded(size) ? AxisParts{size} : AxisParts{});
  Forms made = renamed(node, inputs, {axes});
  if (is_filled) made[0].is_uniform.assign(axes.size(), true);
  return made;
}

Padder::Rule Padder::pointwise(const Node& node, Forms& inputs) {
  // The kernels of some refuse elements that padding may hold.
  if (node.op().checks != 0 || has_padded_attrs(node)) return std::nullopt;
  std::vector<std::vector<AxisParts>> axes;
  for (const Type& type : node.types()) {
    std::vector<AxisParts>& of_output = axes.emplace_back();
    for (int axis = 0; axis < type.rank(); ++axis) {
      const Dim size = type.shape()[static_cast<std::size_t>(axis)];
      std::vector<AxisOf> meet;
      for (const PaddedForm& form : inputs) {
        if (!form.type.is_tensor()) continue;
        const int at = axis - (type.rank() - form.type.rank());
        if (at >= 0 && form.type.shape()[static_cast<std::size_t>(at)].same_as(size))
          meet.push_back({&form, at});
      }
      auto parts = common_parts(meet);
      if (!parts || parts->empty() == is_padded(size)) return std::nullopt;
      of_output.push_back(*std::move(parts));
    }
  }
  return renamed(node, inputs, std::move(axes));
}

Padder::Rule Padder::reduction(const Node& node, Forms& inputs) {
  PaddedForm& x = inputs[0];
  if (inputs.size() != 1 || has_padded_attrs(node)) return std::nullopt;
  const int rank = x.type.rank();
  const Ints reduced = node.op().reduced_axes(node.attrs().data(), rank);
  std::vector<int> padded_ones;
  for (const std::int64_t axis : reduced) {
    if (!x.axes[static_cast<std::size_t>(axis)].empty())
      padded_ones.push_back(static_cast<int>(axis));
  }
  std::vector<std::vector<AxisParts>> axes;
  for (const Type& type : node.types()) {
    const bool keeps = type.rank() == rank;
    std::vector<AxisParts>& of_output = axes.emplace_back();
    for (int axis = 0; axis < rank; ++axis) {
      const bool is_reduced = std::ranges::find(reduced, axis) != reduced.end();
      if (!is_reduced) of_output.push_back(x.axes[static_cast<std::size_t>(axis)]);
      if (is_reduced && keeps) of_output.emplace_back();
    }
  }
  if (!padded_ones.empty()) {
    if (node.is("mean") || node.is("var") || node.is("std"))
      return moment(node, x, padded_ones, std::move(axes[0]));
    const auto neutral = neutral_element(node);
    if (!neutral) return std::nullopt;
    x.padded = masked(x, padded_ones, *neutral);
  }
  return renamed(node, inputs, std::move(axes));
}

/// By how many elements count.
Padder::Rule Padder::moment(const Node& node, const PaddedForm& x, std::span<const int> padded_ones,
                            std::vector<AxisParts> axes) {
  const Ints reduced = node.op().reduced_axes(node.attrs().data(), x.type.rank());
  Dim count = 1;
  for (const std::int64_t axis : reduced)
    count = count * x.type.shape()[static_cast<std::size_t>(axis)];
  PaddedForm of_result = plain(node.types()[0], {});
  of_result.axes = std::move(axes);
  const bool keeps = of_result.type.rank() == x.type.rank();
  const DType dtype = of_result.type.dtype(), wide = dtype == DType::f64 ? DType::f64 : DType::f32;
  const Loc loc = node.loc();
  const Tensor counted = exact_size(count).to(wide);
  const bool is_mean = node.is("mean");
  Tensor result = tensor(masked(x, padded_ones, 0)).to(wide);
  result = sum(result, reduced, keeps || !is_mean, loc) / counted;
  if (!is_mean) {
    PaddedForm distance = x;
    distance.type = {wide, x.type.shape()};
    distance.padded = value(tensor(x.padded).to(wide) - result);
    const Tensor squares = square(tensor(masked(distance, padded_ones, 0)));
    const auto correction = static_cast<double>(passes::int_attr(node, "correction").value());
    result = sum(squares, reduced, keeps, loc) / maximum(counted - correction, 0);
    if (node.is("std")) result = sqrt(result);
  }
  of_result.padded = value(result.to(dtype));
  if (!is_padded(of_result.type)) of_result.exact = of_result.padded;
  return Forms{of_result};
}

Padder::Rule Padder::view(const Node& node, Forms& inputs) {
  PaddedForm& x = inputs[0];
  if (inputs.size() != 1 || node.types().size() != 1) return std::nullopt;
  if (node.is("reshape")) return reshape(node, x);
  // What depends on sizes shows at two of them.
  SymbolMap more = hints_;
  for (const PaddedSymbol& one : symbols_) {
    if (const std::int64_t* hint = hints_.find(one.exact)) more.bind(one.exact, *hint + 3);
  }
  ViewMap map, at_more;
  try {
    map = map_of(node, hints_);
    at_more = map_of(node, more);
  } catch (const Error&) {
    return std::nullopt;
  }
  const Shape& shape = node.types()[0].shape();
  std::vector<AxisParts> axes(shape.size());
  std::vector<int> shown(shape.size(), 0);  // input axes along each output axis
  if (map.steps != at_more.steps) return std::nullopt;
  for (std::size_t axis = 0; axis < x.axes.size(); ++axis) {
    const AxisParts& parts = x.axes[axis];
    const bool padded = !parts.empty();
    std::vector<std::size_t> along;
    for (std::size_t j = 0; j < shape.size(); ++j) {
      if (map.steps[axis][j] == 0) continue;
      along.push_back(j);
      ++shown[j];
    }
    const std::int64_t start = map.starts[axis], start_at_more = at_more.starts[axis];
    if (start != start_at_more) {
      if (node.is("slice")) return slice_at_size(node, x, start, start_at_more, more);
      return node.is("select") ? select_at_size(node, x) : std::nullopt;
    }
    if (along.size() > 1 && padded) return std::nullopt;
    for (const std::size_t j : along) {
      if (!is_padded(shape[j])) continue;
      const std::int64_t step = map.steps[axis][j];
      if (parts.size() > 1) {
        if (step != 1 || map.starts[axis] != 0 || !shape[j].same_as(x.type.shape()[axis]))
          return std::nullopt;
        axes[j] = parts;
      } else {
        if (step < 1) return std::nullopt;
        axes[j] = {shape[j]};
      }
    }
    // A part of a fixed size may end within an axis of several parts.
    if (parts.size() > 1 && along.size() == 1 && !is_padded(shape[along[0]])) return std::nullopt;
    if (parts.size() > 1 && along.empty()) return std::nullopt;
  }
  std::vector<bool> uniform(shape.size(), false);
  for (std::size_t j = 0; j < shape.size(); ++j) {
    if (shown[j] > 1) return std::nullopt;
    if (shown[j] == 1 || !is_padded(shape[j])) continue;
    axes[j] = {shape[j]};  // repeated
    uniform[j] = true;
  }
  Forms made = renamed(node, inputs, {axes});
  for (std::size_t j = 0; j < shape.size(); ++j) {
    // What repeats along an axis still does behind the view.
    for (std::size_t axis = 0; axis < x.axes.size(); ++axis) {
      if (map.steps[axis][j] != 0 && x.is_uniform[axis]) uniform[j] = true;
    }
  }
  made[0].is_uniform = uniform;
  return made;
}

Padder::Rule Padder::reshape(const Node& node, PaddedForm& x) {
  std::vector<Dim> left;  // parts in row-major order, the next one last
  for (std::size_t axis = x.axes.size(); axis-- > 0;) {
    const AxisParts whole{x.type.shape()[axis]};
    const AxisParts& parts = x.axes[axis].empty() ? whole : x.axes[axis];
    for (std::size_t i = parts.size(); i-- > 0;) {
      if (!left.empty() && left.back().is_number() && parts[i].is_number()) {
        left.back() = left.back() * parts[i];
      } else {
        left.push_back(parts[i]);
      }
    }
  }
  std::erase_if(left, [](Dim part) { return part.same_as(1); });
  std::vector<AxisParts> axes;
  for (const Dim size : node.types()[0].shape()) {
    AxisParts taken;
    Dim have = 1;
    while (!same_size(have, size)) {
      if (left.empty()) return std::nullopt;
      const Dim next = left.back();
      left.pop_back();
      // A number may be shared out between axes.
      Dim share = next;
      if (next.is_number() && !(have * next).same_as(size)) {
        for (std::int64_t divisor = 2; divisor < next.number(); ++divisor) {
          if (next.number() % divisor != 0 || !(have * divisor).same_as(size)) continue;
          share = divisor;
          left.emplace_back(next.number() / divisor);
          break;
        }
      }
      have = have * share;
      taken.push_back(share);
    }
    const bool padded = std::ranges::any_of(taken, [&](Dim part) { return is_padded(part); });
    axes.push_back(padded ? std::move(taken) : AxisParts{});
  }
  if (!left.empty()) return std::nullopt;
  return renamed(node, {x}, {std::move(axes)});
}

Padder::Forms Padder::picked(const Node& node, const PaddedForm& x, int axis,
                             const Tensor& positions, std::vector<AxisParts> axes) {
  PaddedForm form = plain(node.types()[0],
                          value(dyad::index_select(tensor(x.padded), axis, positions, node.loc())));
  form.axes = std::move(axes);
  if (is_padded(form.type)) form.exact = {};
  return {form};
}

/// `x[s - 1]`
Padder::Rule Padder::select_at_size(const Node& node, PaddedForm& x) {
  const auto& attrs = node.attrs_as<ops::SelectAttrs>();
  const int axis = from_front(attrs.axis, x.type.rank());
  const AxisParts& parts = x.axes[static_cast<std::size_t>(axis)];
  Dim index = attrs.index;
  if (index.is_number() && index.number() < 0)
    index = index + x.type.shape()[static_cast<std::size_t>(axis)];
  if (parts.size() > 1) return std::nullopt;
  std::vector<AxisParts> axes = x.axes;
  axes.erase(axes.begin() + axis);
  return picked(node, x, axis, exact_size(index), std::move(axes));
}

/// What is added behind an axis begins with its padding.
Padder::Rule Padder::pad_axes(const Node& node, PaddedForm& x) {
  const auto& attrs = node.attrs_as<ops::PadAttrs>();
  std::vector<AxisParts> axes;
  std::vector<int> added_to;
  for (std::size_t axis = 0; axis < x.axes.size(); ++axis) {
    const Dim size = node.types()[0].shape()[axis];
    const bool grows = !attrs.low[axis].same_as(0) || !attrs.high[axis].same_as(0);
    if (!grows) {
      axes.push_back(x.axes[axis]);
      continue;
    }
    if (x.axes[axis].size() > 1 || is_padded(attrs.low[axis])) return std::nullopt;
    if (x.axes[axis].empty() && is_padded(size)) return std::nullopt;
    added_to.push_back(static_cast<int>(axis));
    axes.push_back(is_padded(size) ? AxisParts{size} : AxisParts{});
  }
  x.padded = masked(x, added_to, attrs.value);
  return renamed(node, {x}, {std::move(axes)});
}

/// Operators that work along some axes, for each place along the others.
Padder::Rule Padder::along_axes(const Node& node, Forms& inputs) {
  const int rank = node.types()[0].rank();
  std::vector<bool> worked(static_cast<std::size_t>(rank), false);
  const auto axis = passes::int_attr(node, "axis");
  const auto list = passes::ints_attr(node, "axes");
  if (axis.has_value() == list.has_value()) return std::nullopt;
  for (const std::int64_t one : list ? *list : Ints{*axis}) {
    const int at = from_front(one, rank);
    if (at < 0 || at >= rank) return std::nullopt;
    worked[static_cast<std::size_t>(at)] = true;
  }
  if (list && list->empty()) return std::nullopt;
  std::vector<AxisParts> axes(static_cast<std::size_t>(rank));
  for (int at = 0; at < rank; ++at) {
    std::vector<AxisOf> meet;
    for (PaddedForm& form : inputs) {
      if (!form.type.is_tensor()) continue;
      if (form.type.rank() != rank) return std::nullopt;
      meet.push_back({&form, at});
    }
    const auto parts = common_parts(meet);
    if (!parts || (worked[static_cast<std::size_t>(at)] && !parts->empty())) return std::nullopt;
    axes[static_cast<std::size_t>(at)] = *parts;
  }
  std::vector<std::vector<AxisParts>> of_outputs;
  for (const Type& type : node.types()) {
    if (type.rank() != rank) return std::nullopt;
    for (std::size_t at = 0; at < axes.size(); ++at) {
      if (is_padded(type.shape()[at]) == axes[at].empty()) return std::nullopt;
    }
    of_outputs.push_back(axes);
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if ((node.op().checks >> i & 1) != 0) zero_padding(inputs[i]);
  }
  return renamed(node, inputs, std::move(of_outputs));
}

/// Axis 0 counts samples, which do not meet.
Padder::Rule Padder::samples(const Node& node, Forms& inputs) {
  std::vector<AxisOf> meet;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const PaddedForm& form = inputs[i];
    if (!form.type.is_tensor()) continue;
    const bool counts = i == 0 || node.op().batching == Batching::all_samples;
    for (std::size_t at = 0; at < form.axes.size(); ++at) {
      if (!form.axes[at].empty() && (at > 0 || !counts)) return std::nullopt;
    }
    if (counts && form.type.rank() > 0) meet.push_back({&form, 0});
  }
  const auto parts = common_parts(meet);
  if (!parts) return std::nullopt;
  std::vector<std::vector<AxisParts>> axes;
  for (const Type& type : node.types()) {
    if (type.rank() < 1 || !type.shape()[0].same_as(inputs[0].type.shape()[0])) return std::nullopt;
    axes.emplace_back(static_cast<std::size_t>(type.rank()))[0] = *parts;
    if (std::ranges::any_of(type.shape().begin() + 1, type.shape().end(),
                            [&](Dim size) { return is_padded(size); }))
      return std::nullopt;
  }
  return renamed(node, inputs, std::move(axes));
}

}  // namespace dyad::exec
