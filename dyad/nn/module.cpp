#include "dyad/nn/module.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

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
  if (bytes < 1'000'000) return fmt::format("{:.1f} kB", static_cast<double>(bytes) / 1e3);
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

/// Words with commas between them, on as many lines as their length asks for.
static std::vector<std::string> in_lines(std::span<const std::string> words) {
  constexpr std::size_t kWidth = 60;
  std::vector<std::string> lines;
  for (const std::string& word : words) {
    if (!lines.empty()) lines.back() += ",";
    if (lines.empty() || lines.back().size() + 1 + word.size() > kWidth) {
      lines.push_back(word);
    } else {
      lines.back() += " " + word;
    }
  }
  return lines;
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
    row.tensors.push_back((dot == name.npos ? name : name.substr(dot + 1)) + " " +
                          type_string(tensor));
    row.parameters += count;
    row.members.push_back(tensor.impl());
  }
  if (std::find(seen_.begin(), seen_.end(), tensor.impl()) != seen_.end()) return;
  seen_.push_back(tensor.impl());
  (learned ? parameters_ : buffers_) += count;
  if (learned && !tensor.impl()->requires_grad) frozen_ += count;
  bytes_ += count * static_cast<std::int64_t>(size_of(tensor.dtype()));
}

void Summarizer::on_enter(const std::string& name, std::string_view type) {
  // A layer in a list is `blocks.0`.
  rows_.push_back({.name = name.substr(prefixes_.back().size()),
                   .type = std::string(type),
                   .tensors = {},
                   .members = {},
                   .depth = open_.size()});
  open_.push_back(rows_.size() - 1);
  prefixes_.push_back(name + ".");
}

void Summarizer::on_leave() {
  open_.pop_back();
  prefixes_.pop_back();
}

std::string Summarizer::table(std::string_view type, const Observed* observed) const {
  using Cells = std::array<std::string, 6>;
  std::vector<Cells> lines{{"layer", "type", "parameters", "count", "output", "multiply-adds"}};
  for (const Row& row : rows_) {
    Cells cells{
        row.depth == 0 ? std::string(type) : std::string(2 * row.depth, ' ') + row.name,
        row.type,
        "",
        row.parameters == 0 ? "" : grouped(row.parameters),
        "",
        "",
    };
    std::int64_t multiply_adds = 0;
    for (const TensorImpl* member : row.members) {
      if (!observed || !observed->by_tensor.contains(member)) continue;
      const Observed::Result& result = observed->by_tensor.at(member);
      cells[4] = result.type;
      multiply_adds += result.multiply_adds;
    }
    if (multiply_adds > 0) cells[5] = grouped(multiply_adds);
    std::vector<std::string> tensors = in_lines(row.tensors);
    if (!tensors.empty()) cells[2] = std::move(tensors[0]);
    lines.push_back(std::move(cells));
    for (std::size_t i = 1; i < tensors.size(); ++i) lines.push_back({"", "", tensors[i]});
  }
  constexpr bool kRight[] = {false, false, false, true, false, true};
  const std::size_t columns = observed ? 6 : 4;
  std::array<std::size_t, 6> widths{0, 0, 0, 9, 0, 0};
  for (const Cells& cells : lines) {
    for (std::size_t c = 0; c < columns; ++c) widths[c] = std::max(widths[c], cells[c].size());
  }
  std::string table;
  for (const Cells& cells : lines) {
    std::string text;
    for (std::size_t c = 0; c < columns; ++c) {
      const std::string space(widths[c] - cells[c].size(), ' ');
      text += (c == 0 ? "" : "  ") + (kRight[c] ? space + cells[c] : cells[c] + space);
    }
    table += text.substr(0, text.find_last_not_of(' ') + 1) + "\n";
  }
  table += fmt::format("{} parameters{}", grouped(parameters_),
                       frozen_ == 0 ? "" : fmt::format(" ({} frozen)", grouped(frozen_)));
  if (buffers_ != 0) table += fmt::format(", {} in buffers", grouped(buffers_));
  table += fmt::format(", {}", readable_bytes(bytes_));
  if (observed) {
    table += fmt::format("; {} multiply-adds, {} of results", grouped(observed->multiply_adds),
                         readable_bytes(observed->bytes));
  }
  return table + "\n";
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

std::int64_t count_of(const TensorDict& parameters, bool trainable) {
  std::int64_t count = 0;
  for (const auto& [name, parameter] : parameters) {
    if (!trainable || parameter.impl()->requires_grad) count += parameter.impl()->numel();
  }
  return count;
}

}  // namespace dyad::nn::detail
