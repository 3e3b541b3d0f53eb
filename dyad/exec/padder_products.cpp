/// Products, attention, norms and picks by index on padded sizes.
#include <algorithm>
#include <limits>

#include "dyad/exec/padder.h"
#include "dyad/ops/attrs/attention.h"
#include "dyad/ops/attrs/indexing.h"
#include "dyad/ops/attrs/linalg.h"
#include "dyad/ops/compare.h"
#include "dyad/ops/creation.h"
#include "dyad/ops/views.h"

namespace dyad::exec {
namespace {

bool is_whole_behind_first(const PaddedForm& form) {
  return std::all_of(form.axes.begin() + 1, form.axes.end(),
                     [](const AxisParts& parts) { return parts.empty(); });
}

bool along_same_axes(const PaddedForm& a, const PaddedForm& b) {
  return std::ranges::equal(a.axes, b.axes, same_parts);
}

}  // namespace

Padder::Rule Padder::matmul(const Node& node, Forms& inputs) {
  const auto& attrs = node.attrs_as<ops::MatmulAttrs>();
  PaddedForm &a = inputs[0], &b = inputs[1];
  const int rank_a = a.type.rank(), rank_b = b.type.rank(), rank = node.types()[0].rank();
  const int m = rank_a - (attrs.transpose_a ? 1 : 2), k_of_a = rank_a - (attrs.transpose_a ? 2 : 1);
  const int n = rank_b - (attrs.transpose_b ? 2 : 1), k_of_b = rank_b - (attrs.transpose_b ? 1 : 2);
  std::vector<AxisParts> axes;
  for (int axis = 0; axis < rank - 2; ++axis) {
    std::vector<AxisOf> meet;
    for (const PaddedForm* form : {&a, &b}) {
      const int at = axis - (rank - form->type.rank());
      if (at >= 0 && !form->type.shape()[static_cast<std::size_t>(at)].same_as(1))
        meet.push_back({form, at});
    }
    const auto parts = common_parts(meet);
    if (!parts) return std::nullopt;
    axes.push_back(*parts);
  }
  axes.push_back(a.axes[static_cast<std::size_t>(m)]);
  axes.push_back(b.axes[static_cast<std::size_t>(n)]);
  const AxisOf contracted[] = {{&a, k_of_a}, {&b, k_of_b}};
  const auto parts = common_parts(contracted);
  if (!parts) return std::nullopt;
  if (!parts->empty()) {
    // Both: what padding holds may be infinite.
    a.axes[static_cast<std::size_t>(k_of_a)] = b.axes[static_cast<std::size_t>(k_of_b)] = *parts;
    a.padded = masked(a, std::span(&k_of_a, 1), 0);
    b.padded = masked(b, std::span(&k_of_b, 1), 0);
  }
  return renamed(node, inputs, {std::move(axes)});
}

/// Each row of x by itself.
Padder::Rule Padder::norm(const Node& node, Forms& inputs) {
  const PaddedForm& x = inputs[0];
  if (!std::all_of(inputs.begin() + 1, inputs.end(), is_whole)) return std::nullopt;
  const auto rows = x.axes.size() - static_cast<std::size_t>(inputs[1].type.rank());
  if (!std::all_of(x.axes.begin() + static_cast<std::ptrdiff_t>(rows), x.axes.end(),
                   [](const AxisParts& parts) { return parts.empty(); }))
    return std::nullopt;
  return renamed(node, inputs, {x.axes});
}

/// The gradients of weight and bias are sums over rows.
Padder::Rule Padder::norm_backward(const Node& node, Forms& inputs) {
  PaddedForm &grad = inputs[0], &x = inputs[1];
  const auto rows = static_cast<std::size_t>(x.type.rank() - inputs[2].type.rank());
  if (!is_whole(inputs[2]) || !along_same_axes(grad, x)) return std::nullopt;
  for (std::size_t axis = rows; axis < x.axes.size(); ++axis) {
    if (!x.axes[axis].empty()) return std::nullopt;
  }
  zero_padding(grad);
  zero_padding(x);
  std::vector<std::vector<AxisParts>> axes{x.axes};
  for (std::size_t i = 1; i < node.types().size(); ++i)
    axes.emplace_back(static_cast<std::size_t>(node.types()[i].rank()));
  return renamed(node, inputs, std::move(axes));
}

/// Sums of products over all axes that are padded: what is no element adds zeros.
Padder::Rule Padder::sum_of_products(const Node& node, Forms& inputs) {
  if (is_padded(node.types()[0])) return std::nullopt;
  for (PaddedForm& form : inputs) {
    if (form.type.is_tensor()) zero_padding(form);
  }
  if (node.is("conv_backward_weight")) {
    for (const PaddedForm& form : inputs) {
      if (form.type.is_tensor() && !is_whole_behind_first(form)) return std::nullopt;
    }
  }
  return renamed(node, inputs, {std::vector<AxisParts>(node.types()[0].shape().size())});
}

/// Queries are rows by themselves; keys in the padding are masked. `first` is the place of q.
bool Padder::mask_keys(const Node& node, Forms& inputs, std::size_t first) {
  PaddedForm &q = inputs[first], &k = inputs[first + 1], &v = inputs[first + 2];
  const auto& attrs = node.attrs_as<ops::AttentionAttrs>();
  if (attrs.dropout > 0) return false;
  for (std::size_t axis = 0; axis < 4; ++axis) {
    const int at = static_cast<int>(axis);
    const AxisOf all[] = {{&q, at}, {&k, at}, {&v, at}}, keys[] = {{&k, at}, {&v, at}};
    const auto parts = axis == 2 ? common_parts(keys) : common_parts(all);
    const bool fits = parts && (axis != 3 || parts->empty()) &&
                      (axis == 2 || same_parts(q.axes[axis], *parts) || parts->empty());
    if (!fits) return false;
  }
  zero_padding(k);
  zero_padding(v);
  const AxisParts& keys = k.axes[2];
  if (keys.empty()) return true;
  // Of a query that counts the keys up to it count, too.
  if (attrs.is_causal) return keys.size() == 1 && same_parts(q.axes[2], keys);
  PaddedForm& mask = inputs[first + 3];
  const Tensor counts = dyad::reshape(axis_mask(keys), {1, 1, 1, pad(k.type.shape()[2])});
  if (!mask.type.is_tensor()) {
    mask = plain({DType::boolean, {1, 1, 1, k.type.shape()[2]}}, value(counts));
    return true;
  }
  mask.padded = value(
      mask.type.dtype() == DType::boolean
          ? logical_and(tensor(mask.padded), counts)
          : where(counts, tensor(mask.padded),
                  dyad::full({}, -std::numeric_limits<double>::infinity(), mask.type.dtype())));
  return true;
}

Padder::Rule Padder::attention(const Node& node, Forms& inputs) {
  if (!mask_keys(node, inputs, 0)) return std::nullopt;
  const std::vector<AxisParts>& rows = inputs[0].axes;
  return renamed(node, inputs, {rows, {rows.begin(), rows.begin() + 3}});
}

/// Queries in the padding give nothing to keys: their gradient is 0, and all else is finite.
Padder::Rule Padder::attention_backward(const Node& node, Forms& inputs) {
  if (!mask_keys(node, inputs, 2)) return std::nullopt;
  for (const std::size_t i : {0, 1, 2, 8, 9}) {
    if (i >= inputs.size() || !inputs[i].type.is_tensor()) continue;
    for (std::size_t axis = 0; axis < inputs[i].axes.size(); ++axis) {
      if (axis < 3 && !same_parts(inputs[i].axes[axis], inputs[2].axes[axis])) return std::nullopt;
    }
    zero_padding(inputs[i]);
  }
  return renamed(node, inputs, {inputs[2].axes, inputs[3].axes, inputs[4].axes});
}

Padder::Rule Padder::linear(const Node& node, Forms& inputs) {
  if (!inputs[0].axes.back().empty() || !is_whole(inputs[1]) ||
      (inputs.size() > 2 && !is_whole(inputs[2])))
    return std::nullopt;
  return renamed(node, inputs, {inputs[0].axes});
}

Padder::Rule Padder::index_select(const Node& node, Forms& inputs) {
  PaddedForm &x = inputs[0], &index = inputs[1];
  const int axis = from_front(node.attrs_as<ops::IndexAttrs>().axis, x.type.rank());
  // Whether an index is in range depends on the exact size.
  if (!x.axes[static_cast<std::size_t>(axis)].empty()) return std::nullopt;
  std::vector<AxisParts> axes;
  for (int at = 0; at < x.type.rank(); ++at) {
    if (at == axis) {
      axes.insert(axes.end(), index.axes.begin(), index.axes.end());
    } else {
      axes.push_back(x.axes[static_cast<std::size_t>(at)]);
    }
  }
  zero_padding(index);
  return renamed(node, inputs, {std::move(axes)});
}

Padder::Rule Padder::gather(const Node& node, Forms& inputs) {
  PaddedForm &x = inputs[0], &index = inputs[1];
  const int rank = x.type.rank();
  const int axis = from_front(node.attrs_as<ops::IndexAttrs>().axis, rank);
  for (int at = 0; at < rank; ++at) {
    const auto i = static_cast<std::size_t>(at);
    if (at == axis ? !x.axes[i].empty() : !same_parts(x.axes[i], index.axes[i]))
      return std::nullopt;
  }
  zero_padding(index);
  return renamed(node, inputs, {index.axes});
}

/// Places in the padding of the index get a zero more each.
Padder::Rule Padder::scatter_add(const Node& node, Forms& inputs) {
  PaddedForm &x = inputs[0], &index = inputs[1], &source = inputs[2];
  const int rank = x.type.rank();
  const int axis = from_front(node.attrs_as<ops::IndexAttrs>().axis, rank);
  for (int at = 0; at < rank; ++at) {
    const auto i = static_cast<std::size_t>(at);
    const AxisOf meet[] = {{&index, at}, {&source, at}};
    const auto parts = common_parts(meet);
    if (!parts) return std::nullopt;
    index.axes[i] = source.axes[i] = *parts;
    if (at == axis ? !x.axes[i].empty() : !same_parts(x.axes[i], *parts)) return std::nullopt;
  }
  zero_padding(index);
  zero_padding(source);
  return renamed(node, inputs, {x.axes});
}

}  // namespace dyad::exec
