#include "dyad/nn/module.h"

#include <fmt/format.h>

#include <algorithm>

#include "dyad/autograd/grad_mode.h"
#include "dyad/base/error.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/exec/eager.h"
#include "dyad/ops/views.h"

namespace dyad::nn::detail {
namespace {

bool holds(const TensorDict& tensors, const Tensor& tensor) {
  return std::any_of(tensors.begin(), tensors.end(),
                     [&](const auto& entry) { return entry.second.is_same(tensor); });
}

/// 1234567 as 1,234,567.
std::string grouped(std::int64_t number) {
  std::string text = std::to_string(number);
  for (std::size_t at = text.size(); at > 3; at -= 3) text.insert(at - 3, ",");
  return text;
}

std::string readable_bytes(std::int64_t bytes) {
  if (bytes < 1000) return fmt::format("{} B", bytes);
  if (bytes < 1000 * 1000) return fmt::format("{:.1f} kB", static_cast<double>(bytes) / 1e3);
  return fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6);
}

}  // namespace

void Collector::on_parameter(const std::string& name, Parameter& parameter) {
  if (!holds(found.parameters, parameter)) found.parameters.add(name, parameter);
  found.state.add(name, parameter);
}

void Collector::on_buffer(const std::string& name, Buffer& buffer) {
  if (!holds(found.buffers, buffer)) found.buffers.add(name, buffer);
  found.state.add(name, buffer);
}

void Collector::on_mode(Mode& mode) { found.modes.push_back(mode); }

Tensor Cloner::copy_of(const Tensor& tensor) {
  Tensor& copy = copies_[tensor.impl()];
  if (!copy.defined()) {
    const Evaluator::Scope eager(EagerEvaluator::instance());
    const NoGrad no_grad;
    copy = dyad::clone(tensor);
  }
  return copy;
}

void Cloner::on_parameter(const std::string&, Parameter& parameter) {
  const bool learned = parameter.impl()->requires_grad;
  parameter = Parameter(copy_of(parameter));
  if (!learned) parameter.requires_grad(false);
}

void Cloner::on_buffer(const std::string&, Buffer& buffer) { buffer = Buffer(copy_of(buffer)); }

void Cloner::on_mode(Mode& mode) {
  const bool training = mode.peek();
  mode = Mode();
  mode.set(training);
}

void Summarizer::on_parameter(const std::string& name, Parameter& parameter) {
  add(name, parameter, true);
}

void Summarizer::on_buffer(const std::string& name, Buffer& buffer) { add(name, buffer, false); }

void Summarizer::add(const std::string& name, const Tensor& tensor, bool learned) {
  const std::int64_t count = tensor.impl()->numel();
  if (learned) {
    Row& row = rows_[open_.back()];
    const std::size_t dot = name.rfind('.');
    if (!row.tensors.empty()) row.tensors += ", ";
    row.tensors += (dot == name.npos ? name : name.substr(dot + 1)) + " " + type_string(tensor);
    row.parameters += count;
  }
  if (std::find(seen_.begin(), seen_.end(), tensor.impl()) != seen_.end()) return;
  seen_.push_back(tensor.impl());
  (learned ? parameters_ : buffers_) += count;
  if (learned && !tensor.impl()->requires_grad) frozen_ += count;
  bytes_ += count * static_cast<std::int64_t>(size_of(tensor.dtype()));
}

void Summarizer::on_enter(const std::string& name, std::string_view type) {
  const std::size_t dot = name.rfind('.');
  rows_.push_back({.name = dot == name.npos ? name : name.substr(dot + 1),
                   .type = std::string(type),
                   .tensors = {},
                   .depth = open_.size()});
  open_.push_back(rows_.size() - 1);
}

void Summarizer::on_leave() { open_.pop_back(); }

std::string Summarizer::table(std::string_view type) const {
  std::size_t name_width = 5, type_width = 4, tensor_width = 10;
  std::vector<std::string> names;
  for (const Row& row : rows_) {
    names.push_back(row.depth == 0 ? std::string(type)
                                   : std::string(2 * row.depth, ' ') + row.name);
    name_width = std::max(name_width, names.back().size());
    type_width = std::max(type_width, row.type.size());
    tensor_width = std::max(tensor_width, row.tensors.size());
  }
  const auto line = [&](std::string_view a, std::string_view b, std::string_view c,
                        std::string_view d) {
    std::string text = fmt::format("{:<{}}  {:<{}}  {:<{}}  {:>9}", a, name_width, b, type_width, c,
                                   tensor_width, d);
    return text.substr(0, text.find_last_not_of(' ') + 1) + "\n";
  };
  std::string table = line("layer", "type", "parameters", "count");
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    const Row& row = rows_[i];
    table +=
        line(names[i], row.type, row.tensors, row.parameters == 0 ? "" : grouped(row.parameters));
  }
  table += fmt::format("{} parameters{}", grouped(parameters_),
                       frozen_ == 0 ? "" : fmt::format(" ({} frozen)", grouped(frozen_)));
  if (buffers_ != 0) table += fmt::format(", {} in buffers", grouped(buffers_));
  return table + fmt::format(", {}\n", readable_bytes(bytes_));
}

void load_state(const TensorDict& into, const TensorDict& from, const LoadStateOptions& options,
                Loc loc) {
  std::vector<std::string> problems;
  for (const auto& [name, target] : into) {
    const Tensor* value = from.find(name);
    if (!value) {
      if (options.strict)
        problems.push_back(fmt::format("missing: {} {}", name, type_string(target)));
    } else if (!value->defined() || !value->is_concrete()) {
      problems.push_back(fmt::format("{}: expected a tensor with data", name));
    } else if (!value->shape().same_as(target.shape())) {
      problems.push_back(fmt::format("wrong shape: {} is {} in the model, {} in the state", name,
                                     type_string(target), type_string(*value)));
    } else if (value->dtype() != target.dtype()) {
      problems.push_back(fmt::format("wrong dtype: {} is {} in the model, {} in the state", name,
                                     type_string(target), type_string(*value)));
    }
  }
  if (options.strict) {
    for (const auto& [name, value] : from) {
      if (!into.contains(name)) {
        problems.push_back(fmt::format("unexpected: {} {}", name, type_string(value)));
      }
    }
  }
  if (!problems.empty()) {
    throw ValueError(fmt::format("load_state_dict: the state does not fit the model:\n  {}",
                                 fmt::join(problems, "\n  ")),
                     loc.user());
  }
  const LocScope scope(loc);
  const NoGrad no_grad;
  for (const auto& [name, target] : into) {
    if (const Tensor* value = from.find(name)) Tensor(target).copy_(*value, loc);
  }
}

void set_modes(const std::vector<Mode>& modes, bool training) {
  for (const Mode& mode : modes) mode.set(training);
}

std::vector<Tensor> tensors_of(const TensorDict& named) {
  std::vector<Tensor> tensors;
  for (const auto& [name, tensor] : named) tensors.push_back(tensor);
  return tensors;
}

}  // namespace dyad::nn::detail
