#include "dyad/ir/onnx_node.h"

#include <map>
#include <mutex>
#include <shared_mutex>
#include <utility>

#include "dyad/core/element.h"
#include "dyad/core/tensor_impl.h"

namespace dyad {
namespace {

struct RuleTable {
  std::shared_mutex mutex;
  std::map<std::pair<std::string_view, std::string_view>, std::map<int, const OnnxRule*>> rules;
};

/// Filled when the operators are registered.
RuleTable& rule_table() {
  static RuleTable table;
  return table;
}

/// The elements of a concrete tensor in row-major order.
template <class T>
std::vector<T> elements_as(const Tensor& x) {
  std::vector<T> values;
  visit_dtype(x.dtype(), [&]<class E>(std::type_identity<E>) {
    const E* first = reinterpret_cast<const E*>(x.impl()->data);
    for_each_offset(x.shape(), x.strides(), [&](std::int64_t offset) {
      values.push_back(convert_element<T>(first[offset]));
    });
  });
  return values;
}

template <class T>
T only_element(OnnxNode& node, int i) {
  const Tensor known = node.must_be_constant(i);
  const std::vector<T> values = elements_as<T>(known);
  if (values.size() != 1) {
    node.fail("input " + std::to_string(i) + " must be one number, but is " + type_string(known));
  }
  return values[0];
}

}  // namespace

std::vector<Tensor> OnnxNode::inputs_from(int i) {
  std::vector<Tensor> found;
  for (; i < input_count(); ++i) found.push_back(input(i));
  return found;
}

Shape OnnxNode::sizes(int i) {
  auto sizes = known_sizes(i);
  if (!sizes) sizes = open_sizes(i);
  if (!sizes) need_constant(i);
  return *sizes;
}

Dim OnnxNode::one_size(int i) {
  const Shape found = sizes(i);
  if (found.size() != 1) fail("input " + std::to_string(i) + " must be one number");
  return found[0];
}

std::int64_t OnnxNode::constant_integer(int i) {
  const Ints found = constant_integers(i);
  if (found.size() != 1) fail("input " + std::to_string(i) + " must be one number");
  return found[0];
}

std::int64_t OnnxNode::axis_of(std::int64_t axis, int rank) {
  if (axis < -rank || axis >= rank) {
    fail("axis " + std::to_string(axis) + " is none of the " + std::to_string(rank) +
         " axes of its input");
  }
  return axis < 0 ? axis + rank : axis;
}

std::size_t OnnxNode::spatial_axes(const Tensor& x) {
  if (x.rank() < 2) fail("it takes images [n, c, ...], but is given " + type_string(x));
  return static_cast<std::size_t>(x.rank()) - 2;
}

Tensor OnnxNode::must_be_constant(int i) {
  const Tensor known = constant(i);
  if (!known.defined()) need_constant(i);
  return known;
}

Ints OnnxNode::constant_integers(int i) {
  Ints values;
  if (const Tensor known = constant(i); known.defined()) {
    for (const std::int64_t v : elements_as<std::int64_t>(known)) values.push_back(v);
    return values;
  }
  const auto known = known_sizes(i);
  if (!known) need_constant(i);
  for (const Dim size : *known) {
    if (!size.is_number()) {
      fail("input " + std::to_string(i) +
           " must be a constant, but depends on the model's sizes: " + to_string(size));
    }
    values.push_back(size.number());
  }
  return values;
}

double OnnxNode::constant_number(int i, double otherwise) {
  return has(i) ? only_element<double>(*this, i) : otherwise;
}

std::int64_t OnnxNode::constant_integer(int i, std::int64_t otherwise) {
  return has(i) ? only_element<std::int64_t>(*this, i) : otherwise;
}

Ints OnnxNode::integers_or_input(std::string_view name, int i, const Ints& otherwise) {
  return has(i) ? constant_integers(i) : integers(name, otherwise);
}

void register_onnx_rules(std::span<const OnnxRule> rules) {
  RuleTable& table = rule_table();
  const std::unique_lock lock(table.mutex);
  for (const OnnxRule& rule : rules) {
    table.rules[{rule.domain, rule.op}].insert_or_assign(rule.since, &rule);
  }
}

const OnnxRule* find_onnx_rule(std::string_view domain, std::string_view op, int version) {
  RuleTable& table = rule_table();
  const std::shared_lock lock(table.mutex);
  const auto found = table.rules.find({domain, op});
  if (found == table.rules.end()) return nullptr;
  const auto after = found->second.upper_bound(version);
  return after == found->second.begin() ? nullptr : std::prev(after)->second;
}

std::vector<const OnnxRule*> all_onnx_rules() {
  RuleTable& table = rule_table();
  const std::shared_lock lock(table.mutex);
  std::vector<const OnnxRule*> all;
  for (const auto& [name, versions] : table.rules) {
    for (const auto& [since, rule] : versions) all.push_back(rule);
  }
  return all;
}

}  // namespace dyad
