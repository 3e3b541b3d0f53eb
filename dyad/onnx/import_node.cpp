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
#include "dyad/ops/arithmetic.h"
#include "dyad/ops/compare.h"
#include "dyad/ops/creation.h"
#include "dyad/ops/elementary.h"
#include "dyad/ops/indexing.h"
#include "dyad/ops/rearrange.h"
#include "dyad/ops/views.h"

namespace dyad::onnx {
namespace {

/// More comparisons than a node of a model needs.
constexpr std::size_t kMostAsked = 64;
/// More names than sizes are made of that are equal where two of them are.
constexpr std::size_t kMostNames = 16;

using Rename = std::function<Dim(Dim)>;

Rename of_size(Dim from, Dim to) {
  return [=](Dim size) { return size.same_as(from) ? to : size; };
}
Rename of_symbol(Dim from, Dim to) {
  return
      [=](Dim size) { return substitute(size, [&](Dim s) { return s.same_as(from) ? to : s; }); };
}
std::vector<Dim> names_in(Dim size) {
  std::vector<Dim> symbols;
  collect_symbols(size, symbols);
  return symbols;
}

/// What makes two sizes one, the first that says least: one size in the place of the other; what a
/// name must be where the sizes differ by a multiple of it and a number (an image and twice its
/// half); a name in the place of another that they are made of (batch * 4 and batch_size * 4).
std::vector<Rename> ways_to_be_equal(Dim kept, Dim other) {
  std::vector<Rename> ways{of_size(other, kept)};
  if (!kept.is_number()) ways.push_back(of_size(kept, other));
  std::int64_t coefficient = 0, constant = 0;
  Dim only;
  if (as_linear(other - kept, coefficient, only, constant) && constant % coefficient == 0) {
    ways.push_back(of_symbol(only, -constant / coefficient));
  }
  const std::vector<Dim> names = names_in(kept - other);
  const std::size_t tried = std::min(names.size(), kMostNames);
  for (const Dim from : std::span(names).first(tried)) {
    for (const Dim to : std::span(names).first(tried)) {
      const Rename way = of_symbol(from, to);
      if (!from.same_as(to) && way(kept).same_as(way(other))) ways.push_back(way);
    }
  }
  return ways;
}

/// Longer than any axis, and short enough to be counted out in memory.
constexpr std::int64_t kLongest = std::int64_t{1} << 26;

/// A tensor without elements whose first size is the element of a vector, if that is one.
Tensor counted_out(const Tensor& element, Importer& importer, Loc loc) {
  Tensor most, row;
  {
    const Evaluator::Scope now(EagerEvaluator::instance());
    most = full({1}, kLongest, DType::i64);
    row = zeros({1, 0}, DType::i64);
  }
  const Tensor count = to(element, DType::i64, loc);
  // Below 0 it ends the run.
  const Tensor checked =
      where(le(count, importer.constant(most), loc), count, neg(count, loc), loc);
  return repeat_interleave(importer.constant(row), checked, 0, loc);
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
  if (auto needs = importer_.what_tells({&wanted, 1})) {
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

std::optional<Shape> NodeImport::open_sizes(int i) {
  const Imported& given = value(i);
  // Inputs of a few integers are what a graph is built for.
  if (!given.tensor.defined() || !is_integer(given.tensor.dtype())) return {};
  const Importer::Origin origin = importer_.origin_of({&given, 1});
  if (!origin.is_data || !origin.is_pure) return {};
  const auto some = importer_.known_sizes().some_of(given.tensor);
  if (!some) return {};
  const Tensor list = reshape(given.tensor, {-1}, loc_);
  Shape sizes;
  for (std::size_t k = 0; k < some->size(); ++k) {
    if ((*some)[k]) {
      sizes.push_back(*(*some)[k]);
      continue;
    }
    importer_.count_step();
    const auto at = static_cast<std::int64_t>(k);
    const Tensor counted = counted_out(slice(list, 0, at, at + 1, 1, loc_), importer_, loc_);
    sizes.push_back(counted.shape()[0]);
    importer_.add_check(counted);
    importer_.guesses_ = true;
  }
  importer_.known_sizes().learn(given.tensor, sizes);
  return sizes;
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
  if (value.defined() && value.is_symbolic()) {
    // Numbers that follow from sizes that are numbers: what they enter is computed now too. Those
    // of floats are found for what they enter.
    const auto sizes = importer_.known_sizes().of(value);
    const auto is_number = [](Dim size) { return size.is_number(); };
    if (sizes && !is_floating(value.dtype()) && value.rank() <= 1 &&
        std::ranges::all_of(*sizes, is_number)) {
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

bool NodeImport::rename_sizes(const std::function<Dim(Dim)>& way) {
  bool changes = false;
  for (Imported& input : inputs_) {
    if (!input.tensor.defined() || !input.tensor.is_symbolic()) continue;
    Shape shape;
    for (const Dim size : input.tensor.shape()) shape.push_back(way(size));
    if (shape.same_as(input.tensor.shape())) continue;
    input = imported(assume_shape(input.tensor, shape, loc_));
    importer_.add_check(input.tensor);
    changes = true;
  }
  return changes;
}

bool NodeImport::take_for_equal(const UndecidedError& question) {
  const Dim a = question.a(), b = question.b();
  if (question.asked() != SizeQuestion::equal || !question.is_for_types()) return false;
  const auto asked = [&](const auto& pair) {
    return pair.first.same_as(a) && pair.second.same_as(b);
  };
  if (asked_.size() == kMostAsked || std::ranges::any_of(asked_, asked)) return false;
  // What stands for both is the one that says most: a number, then a name of the model's.
  const auto rank = [&](Dim size) {
    if (size.is_number()) return 0;
    return (importer_.is_of_inputs(size) ? 1 : 3) + (names_in(size)[0].same_as(size) ? 0 : 1);
  };
  const bool keeps_a = rank(a) <= rank(b);
  for (const Rename& way : ways_to_be_equal(keeps_a ? a : b, keeps_a ? b : a)) {
    if (!rename_sizes(way)) continue;
    asked_.emplace_back(a, b);
    if (importer_.is_of_inputs(a) && importer_.is_of_inputs(b)) {
      importer_.equal_sizes_.emplace_back(a, b);
    } else {
      importer_.guesses_ = true;
    }
    return true;
  }
  return false;
}

std::optional<NeedsValues> NodeImport::needs_of(const UndecidedError& question) {
  std::optional<NeedsValues> needs;
  if (importer_.is_of_inputs(question.a()) && importer_.is_of_inputs(question.b())) {
    needs.emplace().sizes = true;
  } else if (importer_.origin_of(inputs_).is_fed) {
    needs = importer_.what_tells(inputs_);
  }
  if (needs) needs->reason = fmt::format("{}: {}", description(), question.message());
  return needs;
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
