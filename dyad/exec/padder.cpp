#include "dyad/exec/padder.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "dyad/base/error.h"
#include "dyad/core/dim_expr.h"
#include "dyad/ir/graph_ops.h"
#include "dyad/ir/size_facts.h"
#include "dyad/ir/substitute.h"
#include "dyad/ops/arithmetic.h"
#include "dyad/ops/compare.h"
#include "dyad/ops/creation.h"
#include "dyad/ops/division.h"
#include "dyad/ops/indexing.h"
#include "dyad/ops/views.h"

namespace dyad::exec {
namespace {

Dim product(const AxisParts& parts) {
  Dim all = 1;
  for (const Dim part : parts) all = all * part;
  return all;
}

/// Whether the parts of an operator are products with matrices of zeros and shares, where a NaN
/// reaches all elements along an axis.
bool has_products_as_parts(const Node& node) {
  constexpr std::array kThose{"avg_pool_backward", "embedding_bag", "embedding_bag_backward",
                              "row_sums"};
  return std::ranges::any_of(kThose, [&](const char* name) { return node.is(name); });
}

}  // namespace

bool same_size(Dim a, Dim b) {
  if (a.same_as(b)) return true;
  const SizeFacts* const facts = SizeFacts::current();
  return facts && facts->equal(a, b).value_or(false);
}

bool same_parts(const AxisParts& a, const AxisParts& b) {
  return std::ranges::equal(a, b, same_size);
}

bool is_whole(const PaddedForm& form) {
  return std::ranges::all_of(form.axes, [](const AxisParts& parts) { return parts.empty(); });
}

Padder::Padder(std::span<const PaddedSymbol> symbols, const SymbolMap& hints)
    : symbols_(symbols.begin(), symbols.end()), hints_(hints) {
  rename_ = [this](Dim symbol) {
    for (const PaddedSymbol& one : symbols_) {
      if (one.exact.same_as(symbol)) return one.padded;
    }
    return symbol;
  };
}

bool Padder::is_padded(Dim size) const {
  if (size.is_number()) return false;
  std::vector<Dim> used;
  collect_symbols(size, used);
  return std::ranges::any_of(used, [&](Dim symbol) { return !rename_(symbol).same_as(symbol); });
}

bool Padder::is_padded(const Type& type) const {
  return type.is_tensor() &&
         std::ranges::any_of(type.shape(), [&](Dim size) { return is_padded(size); });
}

Padder::Trend Padder::trend(Dim size) const {
  if (!is_padded(size)) return Trend::same;
  const auto turned = [](Trend one) {
    return one == Trend::up ? Trend::down : one == Trend::down ? Trend::up : one;
  };
  const auto together = [](Trend a, Trend b) {
    if (a == b || b == Trend::same) return a;
    return a == Trend::same ? b : Trend::unknown;
  };
  const auto of_atom = [&](const DimAtom& atom) {
    switch (atom.kind) {
      case DimAtom::Kind::symbol:
        return is_padded(atom.self) ? Trend::up : Trend::same;
      case DimAtom::Kind::floordiv:
        return atom.b.is_number() && atom.b.number() > 0 ? trend(atom.a) : Trend::unknown;
      case DimAtom::Kind::max:
      case DimAtom::Kind::min:
        return together(trend(atom.a), trend(atom.b));
      case DimAtom::Kind::mod:
        break;
    }
    return is_padded(atom.self) ? Trend::unknown : Trend::same;
  };
  Trend all = Trend::same;
  for (const DimTerm& term : detail::polynomial(size).terms) {
    Trend of_term = Trend::same;
    for (const DimAtom* const factor : term.factors) {
      // A product grows with its factors where none is negative.
      const bool is_size = detail::lower_bound(factor->self).value_or(-1) >= 0;
      of_term = together(of_term,
                         is_size || term.factors.size() == 1 ? of_atom(*factor) : Trend::unknown);
    }
    all = together(all, term.coefficient < 0 ? turned(of_term) : of_term);
  }
  return all;
}

bool Padder::grows(const Type& type) const {
  return !type.is_tensor() || std::ranges::all_of(type.shape(), [&](Dim size) {
    const Trend one = trend(size);
    return one == Trend::up || one == Trend::same;
  });
}

Dim Padder::pad(Dim size) const { return size.is_number() ? size : substitute(size, rename_); }

Type Padder::pad(const Type& type) const { return with_sizes(type, rename_); }

PaddedForm Padder::plain(const Type& type, Value value) {
  PaddedForm form{.type = type, .padded = value, .exact = value, .axes = {}, .is_uniform = {}};
  if (type.is_tensor()) {
    form.axes.resize(static_cast<std::size_t>(type.rank()));
    form.is_uniform.resize(form.axes.size(), false);
  }
  return form;
}

PaddedForm Padder::placeholder(const std::string& name, const Type& type, Loc loc) {
  PaddedForm form = plain(type, graph_->add_placeholder(name, pad(type), loc));
  if (!is_padded(type)) return form;
  form.exact = {};
  for (std::size_t axis = 0; axis < form.axes.size(); ++axis) {
    if (is_padded(type.shape()[axis])) form.axes[axis] = {type.shape()[axis]};
  }
  return form;
}

void Padder::add_size(std::size_t symbol, const std::string& name, Loc loc) {
  sizes_.resize(symbols_.size());
  sizes_[symbol] = graph_->add_placeholder(name, {DType::i64, {}}, loc);
}

bool Padder::has_padded_attrs(const Node& node) const {
  bool found = false;
  static_cast<void>(substitute_symbols(node.attrs().info(), node.attrs().data(), [&](Dim symbol) {
    found = found || is_padded(symbol);
    return symbol;
  }));
  return found;
}

Padder::Forms Padder::apply(const Node& node, Forms inputs) {
  if (&node.op() == &kVariableOp) {
    const auto& attrs = node.attrs_as<VariableAttrs>();
    return {plain(node.types()[0], graph_->add_variable(attrs.name, attrs.tensor, node.loc()))};
  }
  const auto padded = [&](const PaddedForm& form) {
    return form.type.is_tensor() && is_padded(form.type);
  };
  const bool any = std::ranges::any_of(inputs, padded) || has_padded_attrs(node) ||
                   std::ranges::any_of(node.types(), [&](const Type& t) { return is_padded(t); });
  if (!any) {
    std::vector<Value> values;
    for (const PaddedForm& form : inputs) values.push_back(form.padded);
    Node* const made = graph_->append_copy(node, values);
    Forms outputs;
    for (std::size_t i = 0; i < node.types().size(); ++i)
      outputs.push_back(plain(node.types()[i], made->output(static_cast<int>(i))));
    return outputs;
  }
  // What a rule writes before it finds that it does not hold is dead.
  Forms tried = inputs;
  if (Rule made = by_rule(node, tried)) return *std::move(made);
  if (node.op().expand && !has_products_as_parts(node)) {
    if (Rule made = by_parts(node, inputs)) return *std::move(made);
  }
  return apply_exactly(node, inputs);
}

Padder::Rule Padder::by_rule(const Node& node, Forms& inputs) {
  const OpInfo& op = node.op();
  if (!node.regions().empty()) return std::nullopt;
  for (const Type& type : node.types()) {
    if (!grows(type)) return std::nullopt;
  }
  for (PaddedForm& form : inputs) {
    if (form.type.is_tensor() && !make_padded(form)) return std::nullopt;
  }
  if (inputs.empty() || node.is("uniform") || node.is("normal")) return created(node, inputs);
  if (&op == &kAfterOp || node.is("dropout")) {
    return renamed(node, inputs, {inputs[0].axes});
  }
  switch (op.kind) {
    case BodyKind::pointwise:
      return pointwise(node, inputs);
    case BodyKind::reduction:
      return reduction(node, inputs);
    case BodyKind::view:
      return view(node, inputs);
    default:
      break;
  }
  if (node.is("pad")) return pad_axes(node, inputs[0]);
  // The shape that it has as an attribute may grow by its samples alone.
  if (node.is("avg_pool_backward")) return samples(node, inputs);
  if (op.kind != BodyKind::opaque || has_padded_attrs(node)) return std::nullopt;
  if (node.is("matmul")) return matmul(node, inputs);
  if (node.is("linear")) return linear(node, inputs);
  if (node.is("layer_norm") || node.is("rms_norm")) return norm(node, inputs);
  if (node.is("layer_norm_backward") || node.is("rms_norm_backward"))
    return norm_backward(node, inputs);
  if (node.is("attention_forward")) return attention(node, inputs);
  if (node.is("attention_backward")) return attention_backward(node, inputs);
  if (node.is("embedding_backward") || node.is("conv_backward_weight"))
    return sum_of_products(node, inputs);
  if (node.is("index_select")) return index_select(node, inputs);
  if (node.is("gather")) return gather(node, inputs);
  if (node.is("scatter_add")) return scatter_add(node, inputs);
  if (node.is("concat")) return concat(node, inputs);
  if (node.is("recurrent_forward")) return recurrent(node, inputs, 0);
  if (node.is("recurrent_backward")) return recurrent(node, inputs, 3);
  for (const char* const name :
       {"cumsum", "cumprod", "logcumsumexp", "cummax", "cummin", "linear_scan"}) {
    if (node.is(name)) return running(node, inputs);
  }
  switch (op.batching) {
    case Batching::axes:
      return along_axes(node, inputs);
    case Batching::samples:
    case Batching::all_samples:
      return samples(node, inputs);
    default:
      return std::nullopt;
  }
}

Padder::Rule Padder::by_parts(const Node& node, const Forms& inputs) {
  const auto parts = make_ref<GraphImpl>();
  std::unordered_map<Value, PaddedForm, ValueHash> forms;
  std::vector<Value> results;
  try {
    GraphEvaluator recorder(parts);
    const Evaluator::Scope scope(recorder);
    std::vector<Tensor> given;
    for (const PaddedForm& form : inputs) {
      if (!form.type.is_tensor()) {
        given.emplace_back();
        continue;
      }
      const Value here =
          parts->add_placeholder(fmt::format("in{}", given.size()), form.type, node.loc());
      forms.emplace(here, form);
      given.push_back(symbolic_tensor(parts, here));
    }
    std::vector<const Tensor*> refs;
    refs.reserve(given.size());
    for (const Tensor& one : given) refs.push_back(&one);
    for (const Tensor& made : node.op().expand(node.attrs().data(), refs, node.loc()))
      results.push_back(recorder.value_of(made, &node.op(), node.loc()));
  } catch (const Error&) {
    return std::nullopt;  // it asks for sizes, or fails: then the call does
  }
  for (const auto& part : parts->nodes()) {
    if (&part->op() == &kPlaceholderOp) continue;
    Forms of_part;
    for (const Value v : part->inputs())
      of_part.push_back(v ? forms.at(v) : plain(Type::none(), {}));
    Forms made = apply(*part, std::move(of_part));
    for (std::size_t i = 0; i < made.size(); ++i)
      forms[part->output(static_cast<int>(i))] = std::move(made[i]);
  }
  Forms outputs;
  for (const Value v : results) outputs.push_back(forms.at(v));
  return outputs;
}

Padder::Forms Padder::apply_exactly(const Node& node, Forms& inputs) {
  std::string note = fmt::format("{} at {}", node.op().name, to_string(node.loc()));
  if (std::ranges::find(exact_notes_, note) == exact_notes_.end())
    exact_notes_.push_back(std::move(note));
  std::vector<Value> values;
  for (PaddedForm& form : inputs)
    values.push_back(form.type.is_tensor() ? exact_of(form) : form.padded);
  Node* const made = graph_->append_copy(node, values);
  Forms outputs;
  for (std::size_t i = 0; i < node.types().size(); ++i) {
    const Value value = made->output(static_cast<int>(i));
    PaddedForm& form = outputs.emplace_back(plain(node.types()[i], value));
    if (is_padded(form.type)) form.padded = {};
  }
  return outputs;
}

Padder::Forms Padder::renamed(const Node& node, const Forms& inputs,
                              std::vector<std::vector<AxisParts>> axes) {
  std::vector<Value> values;
  for (const PaddedForm& form : inputs) values.push_back(form.padded);
  Types types;
  for (const Type& type : node.types()) types.push_back(pad(type));
  const Ref<Attrs> attrs = substitute_symbols(node.attrs().info(), node.attrs().data(), rename_);
  Node* const made = graph_->append(node.op(), attrs ? attrs : node.shared_attrs(), values,
                                    std::move(types), node.loc());
  Forms outputs;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    PaddedForm& form =
        outputs.emplace_back(plain(node.types()[i], made->output(static_cast<int>(i))));
    if (!is_padded(form.type)) continue;
    form.exact = {};
    form.axes = std::move(axes[i]);
  }
  return outputs;
}

std::optional<AxisParts> Padder::common_parts(std::span<const AxisOf> candidates) {
  const AxisParts* found = nullptr;
  const AxisParts* uniform = nullptr;
  for (const AxisOf& one : candidates) {
    const auto axis = static_cast<std::size_t>(one.axis);
    const AxisParts& parts = one.form->axes[axis];
    if (parts.empty()) continue;
    if (one.form->is_uniform[axis]) {
      uniform = &parts;
    } else if (found && !same_parts(*found, parts)) {
      return std::nullopt;
    } else {
      found = &parts;
    }
  }
  if (!found) found = uniform;
  return found ? *found : AxisParts{};
}

Tensor Padder::exact_size(Dim size) {
  const auto of_atom = [&](const DimAtom& atom) {
    switch (atom.kind) {
      case DimAtom::Kind::symbol:
        break;
      case DimAtom::Kind::floordiv:
        return floor_divide(exact_size(atom.a), exact_size(atom.b));
      case DimAtom::Kind::mod:
        return remainder(exact_size(atom.a), exact_size(atom.b));
      case DimAtom::Kind::max:
        return maximum(exact_size(atom.a), exact_size(atom.b));
      case DimAtom::Kind::min:
        return minimum(exact_size(atom.a), exact_size(atom.b));
    }
    const auto known = std::ranges::find_if(
        symbols_, [&](const PaddedSymbol& symbol) { return symbol.exact.same_as(atom.self); });
    return known == symbols_.end()
               ? size_tensor(atom.self)
               : tensor(sizes_[static_cast<std::size_t>(known - symbols_.begin())]);
  };
  const DimExpr polynomial = detail::polynomial(size);
  if (const DimAtom* const atom = polynomial.atom()) return of_atom(*atom);
  Tensor all = dyad::full({}, static_cast<double>(polynomial.constant), DType::i64);
  for (const DimTerm& term : polynomial.terms) {
    Tensor one = dyad::full({}, static_cast<double>(term.coefficient), DType::i64);
    for (const DimAtom* const factor : term.factors) one = one * of_atom(*factor);
    all = all + one;
  }
  return all;
}

Tensor Padder::axis_mask(const AxisParts& parts) {
  std::string key;
  for (const Dim part : parts) key += to_string(part) + ";";
  if (const auto known = masks_.find(key); known != masks_.end()) return tensor(known->second);
  Shape sizes;
  for (const Dim part : parts) sizes.push_back(pad(part));
  Tensor all;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (!is_padded(parts[i])) continue;
    Shape line(parts.size(), 1);
    line[i] = sizes[i];
    const Tensor counts = arange(sizes[i]) < exact_size(parts[i]);
    const Tensor one = parts.size() > 1 ? dyad::reshape(counts, line) : counts;
    all = all.defined() ? logical_and(all, one) : one;
  }
  if (parts.size() > 1)
    all = dyad::reshape(expand(all, sizes), {product({sizes.begin(), sizes.end()})});
  masks_.emplace(key, value(all));
  return all;
}

void Padder::zero_padding(PaddedForm& form) {
  std::vector<int> all(form.axes.size());
  std::iota(all.begin(), all.end(), 0);
  form.padded = masked(form, all, 0);
}

Value Padder::masked(const PaddedForm& form, std::span<const int> axes, double value_elsewhere) {
  Tensor counts;
  for (const int axis : axes) {
    const AxisParts& parts = form.axes[static_cast<std::size_t>(axis)];
    if (parts.empty()) continue;
    Tensor one = axis_mask(parts);
    for (int behind = axis + 1; behind < form.type.rank(); ++behind) one = unsqueeze(one, -1);
    counts = counts.defined() ? logical_and(counts, one) : one;
  }
  if (!counts.defined()) return form.padded;
  return value(
      where(counts, tensor(form.padded), dyad::full({}, value_elsewhere, form.type.dtype())));
}

bool Padder::make_padded(PaddedForm& form) {
  if (form.padded) return true;
  if (!grows(form.type)) return false;
  Shape low(form.axes.size(), 0), high = low;
  for (std::size_t axis = 0; axis < form.axes.size(); ++axis) {
    const Dim size = form.type.shape()[axis];
    if (!is_padded(size)) continue;
    form.axes[axis] = {size};
    high[axis] = pad(size) - size;
  }
  form.padded = value(dyad::pad(tensor(form.exact), low, high, 0, form.exact.node->loc()));
  return true;
}

Value Padder::exact_of(PaddedForm& form) {
  if (form.exact) return form.exact;
  Shape sizes, counting;  // of all parts
  bool is_split = false;
  for (std::size_t axis = 0; axis < form.axes.size(); ++axis) {
    is_split = is_split || form.axes[axis].size() > 1;
    const AxisParts whole{form.type.shape()[axis]};
    for (const Dim part : form.axes[axis].empty() ? whole : form.axes[axis]) {
      sizes.push_back(pad(part));
      counting.push_back(part);
    }
  }
  Value now = is_split ? value(dyad::reshape(tensor(form.padded), sizes)) : form.padded;
  for (std::size_t at = 0; at < sizes.size(); ++at) {
    if (sizes[at].same_as(counting[at])) continue;
    sizes[at] = counting[at];
    const Tensor part = slice(tensor(now), static_cast<std::int64_t>(at), 0, counting[at], 1,
                              form.padded.node->loc());
    now = value(part);
    // No more than there are: the guards say so.
    now.node->set_types({Type(form.type.dtype(), sizes)});
  }
  if (is_split) now = value(dyad::reshape(tensor(now), form.type.shape()));
  return form.exact = now;
}

}  // namespace dyad::exec
