#include <fmt/format.h>

#include <algorithm>

#include "dyad/base/error.h"
#include "dyad/core/create.h"
#include "dyad/core/dim_expr.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/exec/eager.h"
#include "dyad/ir/graph_ops.h"
#include "dyad/onnx/importer.h"
#include "dyad/onnx/unsupported.h"
#include "dyad/ops/creation.h"
#include "dyad/ops/elementary.h"
#include "dyad/ops/indexing.h"

namespace dyad::onnx {
namespace {

/// Operators of versions from 8 on whose inputs broadcast.
bool broadcasts(std::string_view op) {
  constexpr std::string_view kOps[] = {"Add", "Sub", "Mul",   "Div",   "Pow",  "Max",    "Min",
                                       "Sum", "And", "Equal", "Where", "Less", "Greater"};
  return std::ranges::find(kOps, op) != std::end(kOps);
}

/// Whether `size` is min(whole, n) for a number n that is not 1: if it broadcasts to `whole`, it is
/// `whole`.
bool is_first_of(Dim size, Dim whole) {
  if (size.is_number() || whole.is_number()) return false;
  const DimAtom* atom = size.expr().atom();
  if (atom == nullptr || atom->kind != DimAtom::Kind::min) return false;
  const auto fits = [&](Dim a, Dim b) {
    return a.same_as(whole) && b.is_number() && b.number() > 1;
  };
  return fits(atom->a, atom->b) || fits(atom->b, atom->a);
}

}  // namespace

NodeImport::NodeImport(Importer& importer, const pb::NodeProto& node, int version, Loc loc,
                       const ImportFrame& frame)
    : importer_(importer), node_(node), version_(version), loc_(loc), frame_(frame) {
  for (const std::string& name : node.input()) {
    if (name.empty()) {
      inputs_.emplace_back();
      continue;
    }
    const Imported* found = frame.scope.find(name);
    if (found == nullptr) {
      fail(fmt::format("nothing before it gives its input \"{}\"", name));
    }
    inputs_.push_back(*found);
  }
  while (!inputs_.empty() && !inputs_.back().is_present()) inputs_.pop_back();
  outputs_.resize(static_cast<std::size_t>(node.output_size()));
}

std::string NodeImport::description() const {
  std::string name = node_.name();
  if (name.empty() && node_.output_size() > 0) name = node_.output(0);
  return fmt::format("\"{}\" ({} {})", name, node_.op_type(), version_);
}

void NodeImport::fail(const std::string& reason) {
  throw RefusedNodes(fmt::format("'{}': {}: {}", importer_.file_, description(), reason),
                     {refusal(node_, version_, reason)}, loc_);
}

void NodeImport::need_constant(int i) { need_elements(value(i), fmt::format("input {}", i)); }

void NodeImport::need_elements(const Imported& wanted, const std::string& what) {
  std::vector<const Node*> nodes;
  const auto follow = [&](const auto& self, const Imported& from) -> void {
    if (from.sequence) {
      for (const Imported& element : *from.sequence) self(self, element);
      return;
    }
    const GraphValue* handle = from.tensor.defined() ? graph_value(from.tensor) : nullptr;
    if (handle != nullptr) nodes.push_back(handle->value.node);
  };
  follow(follow, wanted);
  if (auto needs = importer_.what_tells(std::move(nodes))) {
    needs->reason = fmt::format("{}: {} must be known", description(), what);
    throw NeedsValues(*needs);
  }
  fail(
      fmt::format("{} holds values that only a run can tell; they must be constants, or "
                  "follow from the sizes or the values of the model's inputs",
                  what));
}

const std::vector<Imported>& NodeImport::sequence(int i) {
  if (!value(i).sequence) fail(fmt::format("input {} must be a sequence", i));
  return *value(i).sequence;
}

const Imported& NodeImport::value(int i) const {
  static const Imported none;
  const auto at = static_cast<std::size_t>(i);
  return at < inputs_.size() ? inputs_[at] : none;
}

bool NodeImport::has(int i) const { return value(i).is_present(); }

bool NodeImport::wants(int i) const { return i < node_.output_size() && !node_.output(i).empty(); }

Tensor NodeImport::input(int i) {
  const Imported& given = value(i);
  if (i == 0 && !given.is_present()) fail("it has no input");
  if (given.sequence) fail(fmt::format("input {} is a sequence, but a tensor is needed", i));
  if (given.keys.defined()) fail(fmt::format("input {} is a map, but a tensor is needed", i));
  if (given.is_empty_optional) fail(fmt::format("input {} is an optional that is empty", i));
  return importer_.operand(given);
}

Tensor NodeImport::constant(int i) { return value(i).constant; }

std::optional<Shape> NodeImport::known_sizes(int i) {
  const Imported& given = value(i);
  return importer_.known_sizes().of(given.constant.defined() ? given.constant : given.tensor);
}

bool NodeImport::is_constant() const {
  // Of what CastLike is like, the dtype is known anyway.
  const std::size_t read = op() == "CastLike" ? 1 : inputs_.size();
  const std::span<const Imported> inputs(inputs_.data(), std::min(read, inputs_.size()));
  if (!std::ranges::all_of(inputs, [](const Imported& i) { return i.is_known(); })) return false;
  // A subgraph sees names from outside, which may be values of a run.
  return std::ranges::all_of(node_.attribute(), [&](const pb::AttributeProto& attribute) {
    return !attribute.has_g() || is_closed(attribute.g());
  });
}

void NodeImport::output(int i, const Tensor& value) {
  Imported made = imported(value);
  if (value.defined() && value.is_symbolic() && value.rank() <= 1 &&
      (is_integer(value.dtype()) || value.dtype() == DType::boolean)) {
    // Numbers that follow from sizes that are numbers: what they enter is computed now too.
    const auto sizes = importer_.known_sizes().of(value);
    const auto is_number = [](Dim size) { return size.is_number(); };
    if (sizes && std::ranges::all_of(*sizes, is_number)) {
      std::vector<std::int64_t> numbers;
      for (const Dim size : *sizes) numbers.push_back(size.number());
      const Evaluator::Scope now(EagerEvaluator::instance());
      made = imported(to(dyad::tensor(numbers, value.shape(), loc_), value.dtype(), loc_));
    }
  }
  set_output(i, std::move(made));
}

void NodeImport::set_output(int i, Imported value) {
  if (static_cast<std::size_t>(i) < outputs_.size()) {
    outputs_[static_cast<std::size_t>(i)] = std::move(value);
  }
}

bool NodeImport::match_sizes() {
  if (version_ < 8) return false;
  std::vector<Shape> shapes;
  if (op() == "Expand") {
    const auto wanted = known_sizes(1);
    if (!wanted) return false;
    shapes = {inputs_[0].tensor.shape(), *wanted};
  } else if (broadcasts(op())) {
    for (const Imported& input : inputs_) {
      if (!input.tensor.defined()) return false;
      shapes.push_back(input.tensor.shape());
    }
  }
  bool found = false;
  const std::size_t changeable = op() == "Expand" ? 1 : shapes.size();
  for (std::size_t i = 0; i < changeable; ++i) {
    const int rank = shapes[i].rank();
    for (int axis = 0; axis < rank; ++axis) {
      for (const Shape& other : shapes) {
        const int at = other.rank() - rank + axis;
        if (at < 0) continue;
        const Dim whole = other[static_cast<std::size_t>(at)];
        if (!is_first_of(shapes[i][static_cast<std::size_t>(axis)], whole)) continue;
        // More than the table has is an index outside of it when the graph runs.
        inputs_[i] =
            imported(index_select(inputs_[i].tensor, axis, arange(whole, DType::i64, loc_), loc_));
        found = true;
        break;
      }
    }
  }
  return found;
}

void NodeImport::finish(ImportScope& scope) {
  for (int i = 0; i < node_.output_size(); ++i) {
    if (node_.output(i).empty()) continue;
    Imported& made = outputs_[static_cast<std::size_t>(i)];
    if (!made.is_present()) {
      fail(fmt::format("its output {}, \"{}\", cannot be computed", i, node_.output(i)));
    }
    if (!scope.add(node_.output(i), std::move(made))) {
      fail(fmt::format("another node gives \"{}\" too", node_.output(i)));
    }
  }
}

const pb::AttributeProto* NodeImport::attribute(std::string_view name) const {
  for (const pb::AttributeProto& attribute : node_.attribute()) {
    if (attribute.name() != name) continue;
    if (attribute.ref_attr_name().empty()) return &attribute;
    if (frame_.arguments == nullptr) return nullptr;
    const auto found = frame_.arguments->find(attribute.ref_attr_name());
    return found == frame_.arguments->end() ? nullptr : found->second;
  }
  return nullptr;
}

bool NodeImport::has_attribute(std::string_view name) const { return attribute(name) != nullptr; }

std::int64_t NodeImport::integer(std::string_view name, std::int64_t otherwise) {
  const pb::AttributeProto* found = attribute(name);
  return found != nullptr ? found->i() : otherwise;
}

double NodeImport::number(std::string_view name, double otherwise) {
  const pb::AttributeProto* found = attribute(name);
  if (found == nullptr) return otherwise;
  // Written as a float: the decimal number that its writer had in mind is the nearest short one.
  return std::stod(fmt::format("{}", found->f()));
}

std::string NodeImport::text(std::string_view name, std::string_view otherwise) {
  const pb::AttributeProto* found = attribute(name);
  return found != nullptr ? found->s() : std::string(otherwise);
}

Ints NodeImport::integers(std::string_view name, const Ints& otherwise) {
  const pb::AttributeProto* found = attribute(name);
  if (found == nullptr) return otherwise;
  Ints values;
  for (const std::int64_t value : found->ints()) values.push_back(value);
  return values;
}

std::vector<double> NodeImport::numbers(std::string_view name) {
  const pb::AttributeProto* found = attribute(name);
  return found != nullptr ? std::vector<double>(found->floats().begin(), found->floats().end())
                          : std::vector<double>();
}

std::vector<std::string> NodeImport::texts(std::string_view name) {
  const pb::AttributeProto* found = attribute(name);
  return found != nullptr
             ? std::vector<std::string>(found->strings().begin(), found->strings().end())
             : std::vector<std::string>();
}

Tensor NodeImport::tensor(std::string_view name) {
  const pb::AttributeProto* found = attribute(name);
  if (found == nullptr) return {};
  if (found->has_sparse_tensor()) {
    return importer_.tensor_of(found->sparse_tensor(), frame_.depth > 0, loc_);
  }
  return found->has_t() ? importer_.tensor_of(found->t(), frame_.depth > 0, loc_) : Tensor();
}

DType NodeImport::dtype(std::string_view name, DType otherwise) {
  const pb::AttributeProto* found = attribute(name);
  if (found == nullptr) return otherwise;
  return read_dtype(found->i(), fmt::format("attribute {} of {}", name, description()), loc_);
}

const pb::GraphProto& NodeImport::graph(std::string_view name) {
  const pb::AttributeProto* found = attribute(name);
  if (found == nullptr || !found->has_g()) fail(fmt::format("it has no subgraph {}", name));
  return found->g();
}

std::vector<Imported> NodeImport::run(const pb::GraphProto& graph,
                                      std::span<const Imported> inputs) {
  return importer_.run_graph(graph, inputs, frame_);
}

}  // namespace dyad::onnx
