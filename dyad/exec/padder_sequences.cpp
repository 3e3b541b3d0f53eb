/// What operators do along a padded axis whose elements have an order: recurrent layers, running
/// sums, concatenations, slices from the end and backwards.
#include <algorithm>
#include <string_view>
#include <utility>

#include "dyad/exec/executable_bind.h"
#include "dyad/exec/padder.h"
#include "dyad/ops/arithmetic.h"
#include "dyad/ops/attrs/cumulative.h"
#include "dyad/ops/attrs/indexing.h"
#include "dyad/ops/compare.h"
#include "dyad/ops/creation.h"
#include "dyad/ops/elementary.h"
#include "dyad/ops/indexing.h"
#include "dyad/ops/views.h"

namespace dyad::exec {
namespace {

/// What a running operator from the last element on may meet first without a change; nothing where
/// that is not known.
std::optional<double> neutral_start(const Node& node) {
  if (node.is("cumsum") || node.is("linear_scan")) return 0;
  if (node.is("cumprod")) return 1;
  return std::nullopt;
}

/// Positions that there are, whatever is asked for.
Tensor within(const Tensor& positions, Dim size) {
  return clamp(positions, 0, size_tensor(size) - 1);
}

}  // namespace

/// Steps beyond the exact number are not taken: every sample has that length. Samples do not meet,
/// but for the gradients of weights, to which zeros add nothing.
Padder::Rule Padder::recurrent(const Node& node, Forms& inputs, std::size_t first) {
  constexpr std::size_t kLengths = 5;  // behind x
  const PaddedForm& x = inputs[first];
  const Dim steps = x.type.shape()[0], samples = x.type.shape()[1];
  std::vector<AxisOf> along_time, along_samples;
  for (const PaddedForm& form : inputs) {
    if (!form.type.is_tensor()) continue;
    const int rank = form.type.rank();
    if (rank == 3) along_time.push_back({&form, 0});
    const bool has_samples = rank > 0 && form.type.shape()[rank == 3 ? 1 : 0].same_as(samples);
    if (has_samples) along_samples.push_back({&form, rank == 3 ? 1 : 0});
    for (int axis = 0; axis < rank; ++axis) {
      const bool may_be = (rank == 3 && axis == 0) || (has_samples && axis == (rank == 3 ? 1 : 0));
      if (!may_be && !form.axes[static_cast<std::size_t>(axis)].empty()) return std::nullopt;
    }
  }
  const auto time = common_parts(along_time), batch = common_parts(along_samples);
  if (!time || !batch || time->size() > 1) return std::nullopt;
  std::vector<std::vector<AxisParts>> axes;
  for (const Type& type : node.types()) {
    std::vector<AxisParts>& of_output = axes.emplace_back(static_cast<std::size_t>(type.rank()));
    if (type.rank() == 3) of_output[0] = *time;
    if (type.rank() >= 2 && type.shape()[type.rank() == 3 ? 1 : 0].same_as(samples))
      of_output[type.rank() == 3 ? 1 : 0] = *batch;
  }
  for (PaddedForm& form : inputs) zero_padding(form);
  if (!time->empty()) {
    if (inputs.size() <= first + kLengths)
      inputs.resize(first + kLengths + 1, plain(Type::none(), {}));
    PaddedForm& lengths = inputs[first + kLengths];
    if (!lengths.type.is_tensor()) {
      const Tensor all = expand(exact_size(steps), {pad(samples)}, node.loc());
      lengths = plain({DType::i64, {samples}}, value(all));
    }
  }
  return renamed(node, inputs, std::move(axes));
}

/// What comes after an element does not matter to it.
Padder::Rule Padder::running(const Node& node, Forms& inputs) {
  const auto& attrs = node.attrs_as<ops::ScanAttrs>();
  const int rank = node.types()[0].rank(), along = from_front(attrs.axis, rank);
  std::vector<AxisParts> axes;
  for (int axis = 0; axis < rank; ++axis) {
    std::vector<AxisOf> meet;
    for (const PaddedForm& form : inputs) meet.push_back({&form, axis});
    const auto parts = common_parts(meet);
    if (!parts || (axis == along && parts->size() > 1)) return std::nullopt;
    axes.push_back(*parts);
  }
  if (attrs.reverse && !axes[static_cast<std::size_t>(along)].empty()) {
    const auto start = neutral_start(node);
    if (!start) return std::nullopt;
    for (PaddedForm& form : inputs) form.padded = masked(form, {&along, 1}, *start);
  }
  return renamed(node, inputs, std::vector(node.types().size(), axes));
}

/// A slice that begins at a place that depends on sizes, or goes backwards.
Padder::Rule Padder::slice_at_size(const Node& node, PaddedForm& x, std::int64_t begin,
                                   std::int64_t begin_at_more, const SymbolMap& more) {
  const auto& attrs = node.attrs_as<ops::SliceAttrs>();
  const int axis = from_front(attrs.axis, x.type.rank());
  const auto at = static_cast<std::size_t>(axis);
  const Dim size = x.type.shape()[at], made = node.types()[0].shape()[at];
  if (x.axes[at].size() > 1) return std::nullopt;
  const auto is_begin = [&](Dim candidate) {
    return evaluate(candidate, hints_) == begin && evaluate(candidate, more) == begin_at_more;
  };
  const Dim from_end = size + (begin - evaluate(size, hints_));
  if (!is_begin(attrs.begin) && !is_begin(from_end)) return std::nullopt;
  Tensor first = exact_size(is_begin(attrs.begin) ? attrs.begin : from_end);
  if (attrs.step > 0) first = maximum(first, 0);  // of fewer elements than are asked for: all
  std::vector<AxisParts> axes = x.axes;
  axes[at] = is_padded(made) ? AxisParts{made} : AxisParts{};
  return picked(node, x, axis, within(first + arange(pad(made)) * attrs.step, pad(size)),
                std::move(axes));
}

/// The parts side by side with their padding, and then what counts of each.
Padder::Rule Padder::concat(const Node& node, Forms& inputs) {
  if (Rule apart = along_axes(node, inputs)) return apart;
  const Type& type = node.types()[0];
  const int along = from_front(node.attrs_as<ops::AxisAttrs>().axis, type.rank());
  std::vector<AxisParts> axes;
  for (int axis = 0; axis < type.rank(); ++axis) {
    std::vector<AxisOf> meet;
    for (const PaddedForm& form : inputs) {
      if (axis != along) {
        meet.push_back({&form, axis});
      } else if (form.axes[static_cast<std::size_t>(axis)].size() > 1) {
        return std::nullopt;
      }
    }
    const auto parts = common_parts(meet);
    if (!parts) return std::nullopt;
    axes.push_back(*parts);
  }
  const Dim size = type.shape()[static_cast<std::size_t>(along)];
  axes[static_cast<std::size_t>(along)] = {size};
  std::vector<Tensor> parts;
  const Tensor place = arange(pad(size));
  Tensor from = place;
  Dim exact_begin = 0, padded_begin = 0;
  for (const PaddedForm& form : inputs) {
    const Tensor begin = exact_size(exact_begin);
    if (!parts.empty())
      from = where(place >= begin, place - begin + size_tensor(padded_begin), from);
    parts.push_back(tensor(form.padded));
    const Dim exact = form.type.shape()[static_cast<std::size_t>(along)];
    exact_begin = exact_begin + exact;
    padded_begin = padded_begin + pad(exact);
  }
  const PaddedForm all = plain(type, value(dyad::concat(parts, along, node.loc())));
  return picked(node, all, along, within(from, padded_begin), std::move(axes));
}

}  // namespace dyad::exec
