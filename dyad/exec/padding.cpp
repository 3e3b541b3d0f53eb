#include "dyad/exec/padding.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

#include "dyad/base/error.h"
#include "dyad/core/create.h"
#include "dyad/exec/eager.h"
#include "dyad/exec/executable_bind.h"
#include "dyad/exec/guarded_sizes.h"
#include "dyad/exec/padder.h"
#include "dyad/ir/graph_ops.h"
#include "dyad/ops/creation.h"
#include "dyad/ops/views.h"

namespace dyad::exec {
namespace {

/// A call is not padded, for a reason that its user may change.
struct NotPadded {
  std::string why;
};

class PathPadder {
 public:
  PathPadder(const Path& from, std::span<const PaddedSymbol> symbols, bool tells_exact_sizes)
      : from_(from),
        symbols_(symbols),
        tells_exact_sizes_(tells_exact_sizes),
        padder_(symbols, from.hints) {}

  PaddedPath make() {
    auto path = std::make_shared<Path>(from_);
    path->guards = guards();
    const GuardedSizes known(path->guards);
    const SizeFacts::Scope facts(known);
    const Evaluator::Scope scope(padder_.evaluator());
    made_.arguments.resize(static_cast<std::size_t>(from_.arguments));
    made_.seeds.resize(from_.backward ? from_.backward->seeds.size() : 0);
    check_arguments();
    const auto& nodes = from_.graph->nodes();
    for (const auto& node : nodes) {
      positions_.push_back(static_cast<int>(padder_.graph()->nodes().size()));
      add(*node);
      if (static_cast<int>(positions_.size()) == from_.arguments) add_sizes(node->loc());
    }
    positions_.push_back(static_cast<int>(padder_.graph()->nodes().size()));
    check_writes();
    path->graph = padder_.graph();
    path->arguments += static_cast<int>(symbols_.size()) * (tells_exact_sizes_ ? 2 : 1);
    set_places(*path);
    path->replace_values([&](Value v) {
      const PaddedForm& form = forms_.at(v);
      return form.padded ? form.padded : form.exact;
    });
    path->replace_positions([&](int at) { return positions_[static_cast<std::size_t>(at)]; });
    for (const PaddedSymbol& one : symbols_) {
      if (const std::int64_t* const hint = from_.hints.find(one.exact))
        path->hints.bind(one.padded, *hint);
    }
    made_.path = std::move(path);
    made_.exact = padder_.exact();
    return std::move(made_);
  }

 private:
  /// What holds of the exact sizes must hold of the padded ones, which are no smaller.
  [[nodiscard]] std::vector<DimGuard> guards() const {
    std::vector<DimGuard> all = from_.guards;
    for (const DimGuard& guard : from_.guards) {
      DimGuard of_padded = guard;
      of_padded.a = padder_.pad(guard.a);
      of_padded.b = padder_.pad(guard.b);
      if (!of_padded.asks_same(guard)) all.push_back(of_padded);
    }
    for (const PaddedSymbol& one : symbols_)
      all.push_back({DimGuard::Kind::less, one.padded, one.exact, 0, {}});
    return all;
  }

  [[nodiscard]] bool is_padded_argument(int argument) const {
    return argument >= 0 &&
           padder_.is_padded(
               from_.graph->placeholders()[static_cast<std::size_t>(argument)].type());
  }

  void check_arguments() const {
    for (int i = 0; i < from_.arguments; ++i) {
      const Value v = from_.graph->placeholders()[static_cast<std::size_t>(i)];
      if (is_padded_argument(i) && v.type().dtype() == DType::string)
        throw NotPadded{fmt::format("argument {} holds strings", i)};
    }
    for (const auto& [argument, on] : from_.switched) {
      if (is_padded_argument(argument))
        throw NotPadded{fmt::format("requires_grad() of argument {} is called", argument)};
    }
    for (const GradCapture& capture : from_.grad_captures) {
      if (is_padded_argument(capture.argument))
        throw NotPadded{fmt::format("the gradient of argument {} is used", capture.argument)};
    }
  }

  void check_writes() const {
    for (const Write& write : from_.writes) {
      if (is_padded_argument(write.argument))
        throw NotPadded{fmt::format("argument {} is written", write.argument)};
      if (is_padded(write.value))
        throw NotPadded{"a tensor from outside is written with a size that varies"};
    }
    for (const GradWrite& write : from_.grad_writes) {
      if (is_padded_argument(write.argument) || (write.value && is_padded(write.value)))
        throw NotPadded{fmt::format("argument {} gets a gradient inside", write.argument)};
    }
    if (!from_.backward) return;
    for (const BackwardPart::Part& part : from_.backward->leaf_grads) {
      for (const Value v : {part.whole, part.index, part.rows}) {
        if (v && is_padded(v)) throw NotPadded{"a leaf's gradient has a size that varies"};
      }
    }
    for (const BackwardPart::Part& part : from_.backward->argument_grads) {
      if (part.loops > 0 || part.index || part.rows)
        throw NotPadded{"an argument gets its gradient step by step, or by rows"};
    }
  }

  [[nodiscard]] bool is_padded(Value v) const { return padder_.is_padded(v.type()); }

  void add(const Node& node) {
    const LocScope place(node.loc());
    if (&node.op() == &kPlaceholderOp) return add_placeholder(node);
    Padder::Forms inputs;
    for (const Value v : node.inputs())
      inputs.push_back(v ? forms_.at(v) : Padder::plain(Type::none(), {}));
    set(node, padder_.apply(node, std::move(inputs)));
  }

  void set(const Node& node, Padder::Forms forms) {
    for (std::size_t i = 0; i < forms.size(); ++i) {
      const Value v{const_cast<Node*>(&node), static_cast<int>(i)};
      forms_[v] = std::move(forms[i]);
    }
  }

  void add_placeholder(const Node& node) {
    const Value v = const_cast<Node&>(node).output();
    const auto& name = node.attrs_as<PlaceholderAttrs>().name;
    PaddedForm form;
    const PaddedForm* const of_result = is_padded(v) ? form_of_seeded(v) : nullptr;
    if (of_result && !of_result->padded) {
      form = Padder::plain(v.type(), padder_.graph()->add_placeholder(name, v.type(), node.loc()));
      form.padded = {};
    } else {
      form = padder_.placeholder(name, v.type(), node.loc());
      if (of_result) {
        form.axes = of_result->axes;
        made_.seeds[number_of_seed(v)] = layout_of(form);
      }
    }
    // The arguments are the first nodes.
    if (static_cast<int>(positions_.size()) <= from_.arguments)
      made_.arguments[positions_.size() - 1] = layout_of(form);
    set(node, {std::move(form)});
  }

  [[nodiscard]] std::size_t number_of_seed(Value v) const {
    const std::vector<Value>& seeds = from_.backward->seeds;
    return static_cast<std::size_t>(std::ranges::find(seeds, v) - seeds.begin());
  }
  /// The result that a placeholder is the gradient of, which lies as that does; null for others.
  [[nodiscard]] const PaddedForm* form_of_seeded(Value v) const {
    if (!from_.backward) return nullptr;
    const std::size_t number = number_of_seed(v);
    if (number == from_.backward->seeds.size()) return nullptr;
    const auto output = static_cast<std::size_t>(from_.backward->outputs[number]);
    return &forms_.at(from_.outputs[output]);
  }

  void add_sizes(Loc loc) {
    for (std::size_t i = 0; i < symbols_.size(); ++i)
      padder_.add_size(i, fmt::format("size_of_{}", to_string(symbols_[i].exact)), loc);
    for (std::size_t i = 0; i < symbols_.size() && tells_exact_sizes_; ++i) {
      padder_.graph()->add_placeholder(fmt::format("exact_{}", to_string(symbols_[i].exact)),
                                       {DType::boolean, {symbols_[i].exact}}, loc);
    }
  }

  [[nodiscard]] PaddedLayout layout_of(const PaddedForm& form) const {
    if (!padder_.is_padded(form.type) || !form.padded) return {};
    PaddedLayout layout{form.axes};
    for (const AxisParts& parts : layout.axes) {
      for (const Dim part : parts) {
        std::vector<Dim> symbols;
        collect_symbols(part, symbols);
        for (const Dim symbol : symbols) {
          if (!from_.hints.find(symbol))
            throw NotPadded{"a result has a size that data decide on beside one that is padded"};
        }
      }
    }
    return layout;
  }

  /// Results are cut from padded ones: they cannot lie where others do.
  void set_places(Path& path) {
    const auto shows_padding = [&](const Place& place, Value value) {
      return is_padded(place.memory ? place.memory : value);
    };
    for (std::size_t i = 0; i < path.outputs.size(); ++i) {
      Place& place = path.places[i];
      const Value output = path.outputs[i];
      made_.results.push_back(layout_of(forms_.at(output)));
      if (path.same_as[i] != static_cast<int>(i) || !shows_padding(place, output)) continue;
      if (place.outside) throw NotPadded{fmt::format("result {} lies in an argument's memory", i)};
      for (std::size_t j = 0; j < path.outputs.size(); ++j) {
        if (i != j && path.same_as[j] == static_cast<int>(j) && place.lies_in &&
            path.places[j].lies_in == place.lies_in)
          throw NotPadded{fmt::format("results {} and {} share memory", i, j)};
      }
      place = Place{.memory = {}, .views = {}, .captured = {}, .lies_in = output};
    }
    for (GradWrite& write : path.grad_writes) {
      if (write.value && shows_padding(write.place, write.value))
        write.place = Place{.memory = {}, .views = {}, .captured = {}, .lies_in = write.value};
    }
    if (!from_.backward) return;
    for (const BackwardPart::Part& part : from_.backward->argument_grads)
      made_.argument_grads.push_back(part.whole ? layout_of(forms_.at(part.whole))
                                                : PaddedLayout{});
  }

  const Path& from_;
  std::span<const PaddedSymbol> symbols_;
  bool tells_exact_sizes_;
  Padder padder_;
  PaddedPath made_;
  std::vector<int> positions_;  // of the new graph, by those of the recorded one
  std::unordered_map<Value, PaddedForm, ValueHash> forms_;
};

struct AllParts {
  Shape padded, exact;  ///< of all axes, each by its parts
};

AllParts all_parts(const Shape& shape, const PaddedLayout& layout, const SymbolMap& exact,
                   const SymbolMap& padded) {
  AllParts parts;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    if (layout.axes[axis].empty()) {
      parts.exact.push_back(shape[axis]);
      parts.padded.push_back(shape[axis]);
    }
    for (const Dim part : layout.axes[axis]) {
      parts.exact.push_back(evaluate(part, exact));
      parts.padded.push_back(evaluate(part, padded));
    }
  }
  return parts;
}

/// `shape` with the sizes of what is padded.
Shape whole(Shape shape, const PaddedLayout& layout, const SymbolMap& sizes) {
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    if (layout.axes[axis].empty()) continue;
    shape[axis] = 1;
    for (const Dim part : layout.axes[axis]) shape[axis] = shape[axis] * evaluate(part, sizes);
  }
  return shape;
}

Tensor counting_part(Tensor x, const AllParts& parts) {
  for (std::size_t at = 0; at < parts.exact.size(); ++at) {
    if (!parts.exact[at].same_as(parts.padded[at]))
      x = slice(x, static_cast<std::int64_t>(at), 0, parts.exact[at]);
  }
  return x;
}

}  // namespace

PaddedPath pad_path(const Path& path, std::span<const PaddedSymbol> symbols,
                    bool tells_exact_sizes) {
  PaddedPath refused;
  try {
    return PathPadder(path, symbols, tells_exact_sizes).make();
  } catch (const NotPadded& reason) {
    refused.refusal = reason.why;
  } catch (const Error& error) {
    refused.refusal = error.what();  // sizes that compare in no known way
  }
  return refused;
}

Tensor put_in_padding(const Tensor& x, const PaddedLayout& layout, const SymbolMap& exact,
                      const SymbolMap& padded) {
  const AllParts parts = all_parts(x.shape(), layout, exact, padded);
  if (parts.exact.same_as(parts.padded)) return x;
  const Shape shape = whole(x.shape(), layout, padded);
  const bool ends_in_padding =
      std::equal(parts.exact.begin() + 1, parts.exact.end(), parts.padded.begin() + 1,
                 [](Dim a, Dim b) { return a.same_as(b); });
  Tensor all = ends_in_padding ? make_empty(x.dtype(), shape) : zeros(shape, x.dtype());
  if (ends_in_padding) {
    const auto bytes = [&](const Shape& of) {
      return static_cast<std::size_t>(of.numel().number()) * size_of(x.dtype());
    };
    std::memset(static_cast<std::byte*>(all.impl()->data) + bytes(parts.exact), 0,
                bytes(parts.padded) - bytes(parts.exact));
  }
  const Tensor place = counting_part(reshape(all, parts.padded), parts);
  copy_into(place, reshape(x, parts.exact));
  return all;
}

Tensor cut_from_padding(const Tensor& x, const PaddedLayout& layout, const SymbolMap& exact,
                        const SymbolMap& padded) {
  const AllParts parts = all_parts(x.shape(), layout, exact, padded);
  if (parts.exact.same_as(parts.padded)) return x;
  const Tensor part = counting_part(reshape(x, parts.padded), parts);
  Tensor cut = make_empty(x.dtype(), parts.exact);
  copy_into(cut, part);
  return reshape(cut, whole(x.shape(), layout, exact));
}

}  // namespace dyad::exec
