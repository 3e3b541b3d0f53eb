#include "dyad/onnx/model_context.h"

#include <algorithm>
#include <bit>

#include "dyad/core/create.h"
#include "dyad/ops/creation.h"
#include "dyad/ops/views.h"

namespace dyad::onnx {

std::string ModelContext::fresh(std::string_view hint) {
  std::string name(hint);
  for (int i = 2; !names_.insert(name).second; ++i) {
    name = std::string(hint) + "_" + std::to_string(i);
  }
  return name;
}

std::string ModelContext::add(std::string_view hint, const Tensor& tensor) {
  std::string name = fresh(hint);
  default_value(name, tensor);
  return name;
}

void ModelContext::default_value(const std::string& name, const Tensor& tensor) {
  pb::TensorProto& proto = *graph_.add_initializer();
  fill_tensor_type(proto, name, tensor);
  weights_.push_back({&proto, tensor});
  set_dtype(name, tensor.dtype());
}

std::string ModelContext::weight(std::string_view hint, const Tensor& tensor) {
  const auto known = weight_names_.find(tensor.impl());
  return add(known == weight_names_.end() ? hint : known->second, tensor);
}

std::string ModelContext::constant(const Tensor& tensor) { return add("constant", tensor); }

std::string ModelContext::integers(std::span<const std::int64_t> values) {
  std::string& name = integers_[{values.begin(), values.end()}];
  if (name.empty()) name = constant(tensor(values));
  return name;
}

std::string ModelContext::integer(std::int64_t value) {
  std::string& name = integer_[value];
  if (name.empty()) name = constant(tensor(value));
  return name;
}

std::string ModelContext::scalar(double value, DType dtype) {
  std::string& name = scalars_[{std::bit_cast<std::uint64_t>(value), dtype}];
  if (name.empty()) name = constant(full({}, value, dtype));
  return name;
}

std::optional<DType> ModelContext::dtype_of(const std::string& name) const {
  const auto known = dtypes_.find(name);
  return known == dtypes_.end() ? std::nullopt : std::optional(known->second);
}

void ModelContext::add_problem(const Node& node, std::string text) {
  std::erase_if(problems_, [&](const Problem& earlier) {
    return earlier.node->op().effect == Effect::random &&
           std::ranges::any_of(node.inputs(),
                               [&](Value input) { return input.node == earlier.node; });
  });
  // One layer may do the same to several tensors.
  const bool known =
      std::ranges::any_of(problems_, [&](const Problem& other) { return other.text == text; });
  if (!known) problems_.push_back({&node, std::move(text)});
}

}  // namespace dyad::onnx
