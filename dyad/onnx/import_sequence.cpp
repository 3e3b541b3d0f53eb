#include <fmt/format.h>

#include <algorithm>

#include "dyad/core/create.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/exec/eager.h"
#include "dyad/onnx/importer.h"
#include "dyad/ops/elementary.h"
#include "dyad/ops/indexing.h"
#include "dyad/ops/views.h"

// Sequences and optionals: lists of values that are known by name while the graph is built. What
// decides about them (positions, lengths) must be known then; otherwise the values of the model's
// inputs are asked for.

namespace dyad::onnx {
namespace {

void construct(NodeImport& n) {
  std::vector<Imported> elements;
  for (int i = 0; i < n.input_count(); ++i) elements.push_back(n.value(i));
  n.set_output(0, sequence_of(std::move(elements)));
}

/// The place in a sequence that input i names; `places` is how many there are.
std::size_t place_of(NodeImport& n, int i, std::size_t places, std::int64_t otherwise) {
  const auto length = static_cast<std::int64_t>(n.sequence(0).size());
  const std::int64_t at = n.has(i) ? n.constant_integer(i) : otherwise;
  const std::int64_t place = at < 0 ? at + length : at;
  if (place < 0 || place >= static_cast<std::int64_t>(places)) {
    n.fail(fmt::format("position {} is outside the sequence, which has {} elements", at, length));
  }
  return static_cast<std::size_t>(place);
}

void at(NodeImport& n) { n.set_output(0, n.sequence(0)[place_of(n, 1, n.sequence(0).size(), 0)]); }

void insert(NodeImport& n) {
  std::vector<Imported> elements = n.sequence(0);
  const auto end = static_cast<std::int64_t>(elements.size());
  const std::size_t place = place_of(n, 2, elements.size() + 1, end);
  elements.insert(elements.begin() + static_cast<std::ptrdiff_t>(place), n.value(1));
  n.set_output(0, sequence_of(std::move(elements)));
}

void erase(NodeImport& n) {
  std::vector<Imported> elements = n.sequence(0);
  const std::size_t place = place_of(n, 1, elements.size(), -1);
  elements.erase(elements.begin() + static_cast<std::ptrdiff_t>(place));
  n.set_output(0, sequence_of(std::move(elements)));
}

void length(NodeImport& n) {
  const Evaluator::Scope now(EagerEvaluator::instance());
  n.output(0, tensor(static_cast<std::int64_t>(n.sequence(0).size())));
}

void split_to_sequence(NodeImport& n) {
  const Tensor x = n.input(0);
  const std::int64_t given = n.integer("axis", 0);
  const std::int64_t axis = given < 0 ? given + x.rank() : given;
  if (axis < 0 || axis >= x.rank()) n.fail(fmt::format("it has no axis {}", given));
  const Dim whole = x.size(axis, n.loc());
  Shape sizes;
  if (n.has(1) && n.input(1).rank() == 1) {
    sizes = n.sizes(1);
  } else {
    // As many parts of one size as there is room for: their number must be known.
    if (!whole.is_number()) n.need_constant(0);
    const std::int64_t each = n.has(1) ? n.constant_integer(1) : 1;
    if (each < 1) n.fail(fmt::format("its parts have the size {}", each));
    for (std::int64_t begin = 0; begin < whole.number(); begin += each) {
      n.importer().count_step();
      sizes.push_back(std::min(each, whole.number() - begin));
    }
  }
  const bool keep = n.has(1) || n.flag("keepdims", true);
  std::vector<Imported> elements;
  for (const Tensor& part : split(x, sizes, axis, n.loc())) {
    elements.push_back(imported(keep ? part : squeeze(part, axis, n.loc())));
  }
  n.set_output(0, sequence_of(std::move(elements)));
}

void concat_from_sequence(NodeImport& n) {
  std::vector<Tensor> tensors;
  for (const Imported& element : n.sequence(0)) tensors.push_back(n.importer().operand(element));
  if (tensors.empty()) n.fail("the sequence is empty; there is nothing to concatenate");
  const std::int64_t axis = n.integer("axis", 0);
  n.output(0, n.flag("new_axis") ? stack(tensors, axis, n.loc()) : concat(tensors, axis, n.loc()));
}

/// The first input is a sequence; others may be, or are the same for all its elements.
void map_sequence(NodeImport& n) {
  const pb::GraphProto& body = n.graph("body");
  const std::size_t count = n.sequence(0).size();
  std::vector<std::vector<Imported>> results(static_cast<std::size_t>(n.output_count()));
  for (std::size_t i = 0; i < count; ++i) {
    n.importer().count_step();
    std::vector<Imported> inputs;
    for (int k = 0; k < n.input_count(); ++k) {
      const Imported& given = n.value(k);
      if (given.sequence && given.sequence->size() != count) {
        n.fail(fmt::format("its sequences have {} and {} elements", count, given.sequence->size()));
      }
      inputs.push_back(given.sequence ? (*given.sequence)[i] : given);
    }
    std::vector<Imported> made = n.run(body, inputs);
    if (made.size() != results.size()) {
      n.fail(
          fmt::format("its subgraph gives {} values for {} outputs", made.size(), results.size()));
    }
    for (std::size_t k = 0; k < made.size(); ++k) results[k].push_back(std::move(made[k]));
  }
  for (std::size_t k = 0; k < results.size(); ++k) {
    n.set_output(static_cast<int>(k), sequence_of(std::move(results[k])));
  }
}

void optional(NodeImport& n) {
  Imported made;
  made.is_empty_optional = true;
  n.set_output(0, n.has(0) ? n.value(0) : made);
}

void has_element(NodeImport& n) {
  const Evaluator::Scope now(EagerEvaluator::instance());
  n.output(0, to(tensor(n.has(0) && !n.value(0).is_empty_optional ? 1.0f : 0.0f), boolean));
}

void get_element(NodeImport& n) {
  if (n.value(0).is_empty_optional) n.fail("the optional is empty; it has no element to give");
  n.set_output(0, n.value(0));
}

}  // namespace

std::span<const ModelRule> sequence_rules() {
  static constexpr ModelRule kRules[] = {
      {"SequenceConstruct", 11, construct},
      {"SequenceEmpty", 11, [](NodeImport& n) { n.set_output(0, sequence_of({})); }},
      {"SequenceAt", 11, at},
      {"SequenceInsert", 11, insert},
      {"SequenceErase", 11, erase},
      {"SequenceLength", 11, length},
      {"SequenceMap", 17, map_sequence},
      {"SplitToSequence", 11, split_to_sequence},
      {"ConcatFromSequence", 11, concat_from_sequence},
      {"Optional", 15, optional},
      {"OptionalHasElement", 15, has_element},
      {"OptionalGetElement", 15, get_element},
      {"Identity", 1, [](NodeImport& n) { n.set_output(0, n.value(0)); }},
  };
  return kRules;
}

}  // namespace dyad::onnx
