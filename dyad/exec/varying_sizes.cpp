#include "dyad/exec/varying_sizes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "dyad/base/error.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/exec/assumed_sizes.h"

namespace dyad::exec {
namespace {

std::int64_t size_of_axis(const Tensor& tensor, std::size_t axis) {
  return tensor.impl()->shape[axis].number();
}

/// What is said of two axes; null for nothing.
bool same_range(const VaryingAxis* a, const VaryingAxis* b) {
  const VaryingAxis nothing;
  if (!a) a = &nothing;
  if (!b) b = &nothing;
  return a->min == b->min && a->max == b->max;
}

}  // namespace

void VaryingSizes::check_ranges(std::span<const Tensor> arguments) const {
  for (const VaryingAxis& one : options_.varying) {
    // What a call does not have is told where it is recorded.
    if (one.argument < 0 || static_cast<std::size_t>(one.argument) >= arguments.size()) continue;
    const Tensor& argument = arguments[static_cast<std::size_t>(one.argument)];
    const int axis = from_front(one.axis, argument.rank());
    if (axis < 0 || axis >= argument.rank()) continue;
    const std::int64_t size = size_of_axis(argument, static_cast<std::size_t>(axis));
    if (size >= one.min && size <= one.max) continue;
    throw ValueError(fmt::format("{}: axis {} of argument {} is {}, but varying says that it is {}",
                                 options_.name, one.axis, one.argument, size,
                                 to_string(SizeRange{{}, one.min, one.max})),
                     loc_);
  }
}

const VaryingAxis* VaryingSizes::find(std::size_t argument, std::size_t axis, int rank) const {
  const auto at = std::ranges::find_if(options_.varying, [&](const VaryingAxis& one) {
    return std::cmp_equal(one.argument, argument) &&
           std::cmp_equal(from_front(one.axis, rank), axis);
  });
  return at == options_.varying.end() ? nullptr : &*at;
}

VaryingSizes::Flags VaryingSizes::said_to_vary(std::span<const Tensor> arguments) const {
  Flags flags;
  for (const Tensor& argument : arguments)
    flags.emplace_back(static_cast<std::size_t>(argument.rank()), false);
  std::vector<std::pair<std::string_view, ArgumentAxis>> named;
  named.reserve(options_.varying.size() + options_.buckets.size());
  for (const VaryingAxis& one : options_.varying)
    named.emplace_back("varying", ArgumentAxis{one.argument, one.axis});
  for (const Buckets& one : options_.buckets) named.emplace_back("buckets", one.axis);
  std::vector<std::pair<int, int>> bucketed;  // arguments and axes
  for (const auto& [option, place] : named) {
    const auto [argument, axis] = place;
    if (argument < 0 || static_cast<std::size_t>(argument) >= flags.size()) {
      throw ValueError(fmt::format("{}: {} names argument {}, but the call has {} tensors",
                                   options_.name, option, argument, flags.size()),
                       loc_);
    }
    std::vector<bool>& axes = flags[static_cast<std::size_t>(argument)];
    const int rank = static_cast<int>(axes.size()), at = from_front(axis, rank);
    if (at < 0 || at >= rank) {
      throw ValueError(
          fmt::format("{}: {} names axis {} of argument {}, which is {}", options_.name, option,
                      axis, argument, type_string(arguments[static_cast<std::size_t>(argument)])),
          loc_);
    }
    axes[static_cast<std::size_t>(at)] = true;
    if (option != "buckets") continue;
    if (std::ranges::find(bucketed, std::pair(argument, at)) != bucketed.end()) {
      throw ValueError(fmt::format("{}: buckets names axis {} of argument {} a second time; give "
                                   "all its sizes at once",
                                   options_.name, axis, argument),
                       loc_);
    }
    bucketed.emplace_back(argument, at);
  }
  // What a range decides must hold of what is computed.
  for (const Buckets& one : options_.buckets) {
    const auto argument = static_cast<std::size_t>(one.axis.argument);
    const int rank = arguments[argument].rank();
    const int axis = from_front(one.axis.axis, rank);
    const VaryingAxis* const said = find(argument, static_cast<std::size_t>(axis), rank);
    if (!said || one.sizes.back() <= said->max) continue;
    throw ValueError(
        fmt::format("{}: the last of the buckets for axis {} of argument {} is {}, but "
                    "varying says that it is {}",
                    options_.name, one.axis.axis, one.axis.argument, one.sizes.back(),
                    to_string(SizeRange{{}, said->min, said->max})),
        loc_);
  }
  return flags;
}

void VaryingSizes::learn(const Recording& recording, std::span<const Tensor> arguments,
                         Flags& flags) {
  SymbolMap bound;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    for (std::size_t axis = 0; axis < flags[i].size(); ++axis) {
      const Dim before = recording.shapes[i][axis];
      const std::int64_t size = size_of_axis(arguments[i], axis);
      if (before.is_number()) {
        if (before.number() != size) flags[i][axis] = true;
        continue;
      }
      flags[i][axis] = true;
      const std::int64_t* first = bound.find(before);
      if (first && *first != size) distinct_[recording.key] = true;
      if (!first) bound.bind(before, size);
    }
  }
}

std::vector<Shape> VaryingSizes::shapes_for(const CallKey& key, std::span<const Tensor> arguments,
                                            std::span<const std::unique_ptr<Recording>> recordings,
                                            SymbolMap& hints) {
  Flags& flags = varying_[key];
  if (flags.empty()) flags = said_to_vary(arguments);
  for (const auto& recording : recordings) {
    if (recording->key == key && options_.dynamic_sizes) learn(*recording, arguments, flags);
  }
  struct Symbol {
    Dim symbol;
    std::int64_t size = 0;
    const VaryingAxis* said = nullptr;
  };
  std::vector<Symbol> symbols;
  std::vector<Shape> shapes;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    Shape& shape = shapes.emplace_back(arguments[i].impl()->shape);
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
      const std::int64_t size = shape[axis].number();
      if (!flags[i][axis] || size < 2) continue;
      const VaryingAxis* const said = find(i, axis, arguments[i].rank());
      auto same = std::ranges::find_if(symbols, [&](const Symbol& known) {
        return known.size == size && same_range(known.said, said) && !distinct_[key];
      });
      if (same == symbols.end()) {
        symbols.push_back({Dim::symbol(fmt::format("s{}", symbols.size())), size, said});
        same = symbols.end() - 1;
        hints.bind(same->symbol, size);
      }
      shape[axis] = same->symbol;
    }
  }
  return shapes;
}

std::vector<DimGuard> VaryingSizes::ranges_of(std::span<const Shape> shapes) const {
  std::vector<DimGuard> ranges;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    for (std::size_t axis = 0; axis < shapes[i].size(); ++axis) {
      const VaryingAxis* const said = find(i, axis, shapes[i].rank());
      const Dim size = shapes[i][axis];
      if (said && !size.is_number()) add_range({size, said->min, said->max, loc_}, ranges);
    }
  }
  return ranges;
}

void VaryingSizes::forget() {
  varying_.clear();
  distinct_.clear();
}

}  // namespace dyad::exec
