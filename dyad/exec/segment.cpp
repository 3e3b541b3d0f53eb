#include "dyad/exec/segment.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "dyad/exec/guarded_sizes.h"
#include "dyad/ir/graph_ops.h"
#include "dyad/passes/size_sources.h"

namespace dyad::exec {
Segment::Segment(std::shared_ptr<const Path> path, int begin, int end,
                 std::span<const Write> writes, ExecutableOptions options)
    : path_(std::move(path)),
      begin_(begin),
      end_(end),
      options_(std::move(options)),
      graph_(make_ref<GraphImpl>()) {
  options_.memory.sizes = path_->hints;
  const std::span<const Value> placeholders = path_->graph->placeholders();
  for (int i = 0; i < path_->arguments; ++i) {
    const Value argument = placeholders[static_cast<std::size_t>(i)];
    values_.emplace(
        id_of(argument),
        graph_->add_placeholder("arg" + std::to_string(i), argument.type(), argument.node->loc()));
  }
  const auto& nodes = path_->graph->nodes();
  for (int at = begin; at < end; ++at) {
    const Node& node = *nodes[static_cast<std::size_t>(at)];
    if (node.is("placeholder") || node.is("variable")) continue;  // brought in where they are used
    bind_sizes(node);
    std::vector<Value> inputs;
    for (const Value& input : node.inputs()) inputs.push_back(input ? resolve(input) : Value());
    Node* copy = graph_->append_copy(node, inputs);
    for (int i = 0; i < static_cast<int>(node.types().size()); ++i)
      values_.emplace(ValueId{at, i}, copy->output(i));
  }
  for (const Write& write : writes) {
    if (!write.variable.defined()) continue;
    const Value value = resolve(write.value);
    Value variable = graph_->find_variable(write.variable);
    if (!variable) {
      variable = graph_->add_variable("written" + std::to_string(graph_->variables().size()),
                                      write.variable, value.node->loc());
    }
    const NoAttrs none;
    graph_->append_checked(kAssignOp, Attrs::copy_of(*kAssignOp.attrs, &none), {variable, value},
                           value.node->loc());
  }
}

Segment::Segment(const Segment& whole, Ref<GraphImpl> graph, std::span<const ValueId> inputs,
                 std::vector<ValueId> exposed)
    : path_(whole.path_),
      begin_(whole.begin_),
      end_(whole.end_),
      options_(whole.options_),
      graph_(std::move(graph)),
      exposed_(std::move(exposed)) {
  const std::span<const ValueId> others =
      inputs.subspan(static_cast<std::size_t>(path_->arguments));
  externals_.assign(others.begin(), others.end());
}

Value Segment::value_of(const Value& recorded) const {
  const auto known = values_.find(id_of(recorded));
  return known == values_.end() ? Value() : known->second;
}

std::vector<ValueId> Segment::inputs() const {
  std::vector<ValueId> all;
  const auto arguments = static_cast<std::size_t>(path_->arguments);
  for (const Value& argument : path_->graph->placeholders().first(arguments))
    all.push_back(id_of(argument));
  all.insert(all.end(), externals_.begin(), externals_.end());
  return all;
}

bool Segment::looks_at(ValueId input, const Tensor& tensor) const {
  std::vector<Value> sought{graph_->find_variable(tensor)};
  const std::vector<ValueId> all = inputs();
  const auto at = std::ranges::find(all, input);
  if (at != all.end())
    sought.push_back(graph_->placeholders()[static_cast<std::size_t>(at - all.begin())]);
  const auto has_any = [&](std::span<const Value> values) {
    return std::ranges::any_of(values, [&](const Value& value) {
      return value && std::ranges::find(sought, value) != sought.end();
    });
  };
  return has_any(graph_->outputs()) ||
         std::ranges::any_of(graph_->nodes(), [&](const auto& n) { return has_any(n->inputs()); });
}

void Segment::bind_sizes(const Node& node) {
  std::vector<Dim> used;
  passes::collect_all_symbols(node, used);
  for (const Dim symbol : used) {
    const auto is_symbol = [&](Dim size) { return size.same_as(symbol); };
    const auto tells = [&](Value v) {
      return v.type().is_tensor() && std::ranges::any_of(v.type().shape(), is_symbol);
    };
    // Not the seeds of a backward part, which may not be given.
    const auto is_sure = [&](std::size_t i) {
      const auto arguments = static_cast<std::size_t>(path_->arguments);
      return i < arguments || externals_[i - arguments].node < begin_;
    };
    bool known = false;
    for (std::size_t i = 0; i < graph_->placeholders().size() && !known; ++i)
      known = is_sure(i) && tells(graph_->placeholders()[i]);
    if (known) continue;
    const auto& nodes = path_->graph->nodes();
    for (int at = 0; at < begin_; ++at) {
      const auto& made = nodes[static_cast<std::size_t>(at)];
      int output = 0;
      const auto outputs = static_cast<int>(made->types().size());
      while (output < outputs && !tells(made->output(output))) ++output;
      if (output == outputs) continue;
      bring_in(made->output(output));
      break;
    }
  }
}

Value Segment::bring_in(Value recorded) {
  const ValueId id = id_of(recorded);
  if (const auto known = values_.find(id); known != values_.end()) return known->second;
  const std::string name = "v" + std::to_string(id.node) + "_" + std::to_string(id.index);
  const Value here = graph_->add_placeholder(name, recorded.type(), recorded.node->loc());
  externals_.push_back(id);
  values_.emplace(id, here);
  return here;
}

Value Segment::resolve(Value recorded) {
  const ValueId id = id_of(recorded);
  if (auto it = values_.find(id); it != values_.end()) return it->second;
  Value here;
  const Node& node = *recorded.node;
  if (node.is("variable")) {
    const auto& attrs = node.attrs_as<VariableAttrs>();
    here = graph_->add_variable(attrs.name, attrs.tensor, node.loc());
  } else if (node.is("constant")) {
    here = graph_->add_constant(node.attrs_as<ConstantAttrs>().value, node.loc());
  } else if (node.op().kind == BodyKind::view) {
    bind_sizes(node);
    // Views are made where they are read: strides decide how a library computes.
    std::vector<Value> inputs;
    for (const Value& input : node.inputs()) inputs.push_back(input ? resolve(input) : Value());
    Node* copy = graph_->append_copy(node, inputs);
    here = copy->output(recorded.index);
  } else {
    bind_sizes(node);
    return bring_in(recorded);
  }
  values_.emplace(id, here);
  return here;
}

void Segment::expose(ValueId value) {
  const std::scoped_lock lock(mutex_);
  if (std::find(exposed_.begin(), exposed_.end(), value) != exposed_.end()) return;
  exposed_.push_back(value);
  graph_->outputs().push_back(values_.at(value));
  forget_executable();
}

void Segment::write_back(ValueId target, ValueId value) {
  const std::scoped_lock lock(mutex_);
  written_back_.emplace_back(target, value);
  forget_executable();
}

ExecutableOptions Segment::options_now() const {
  ExecutableOptions options = options_;
  const auto place_of = [](const auto& list, const auto& item) {
    const auto at = std::ranges::find(list, item);
    return at == list.end() ? -1 : static_cast<int>(at - list.begin());
  };
  for (const auto& [target, value] : written_back_) {
    const auto here = values_.find(target);
    if (here == values_.end()) continue;  // nothing reads it
    const WrittenBack back{place_of(graph_->placeholders(), here->second),
                           place_of(exposed_, value)};
    if (back.placeholder >= 0 && back.output >= 0) options.written_back.push_back(back);
  }
  return options;
}

Executable& Segment::executable() {
  if (Executable* const ready = ready_.load(std::memory_order_acquire)) return *ready;
  const std::scoped_lock lock(mutex_);
  if (!executable_) {
    const GuardedSizes sizes(path_->guards);
    const SizeFacts::Scope scope(sizes);
    executable_ = std::make_shared<Executable>(graph_, options_now());
  }
  ready_.store(executable_.get(), std::memory_order_release);
  return *executable_;
}

Segment::Ahead Segment::ahead() const {
  const std::scoped_lock lock(mutex_);
  return {executable_ ? nullptr : clone(*graph_), exposed_, options_now()};
}

void Segment::compile(const Ahead& ahead, std::span<const Tensor> arguments, Environment& layouts) {
  std::shared_ptr<Executable> made;
  if (ahead.graph) {
    const GuardedSizes sizes(path_->guards);
    const SizeFacts::Scope scope(sizes);
    made = std::make_shared<Executable>(ahead.graph, ahead.options);
  } else {
    const std::scoped_lock lock(mutex_);
    made = executable_;
  }
  if (!made) return;
  std::vector<Tensor> inputs(arguments.begin(), arguments.end());
  for (const ValueId& external : externals_) {
    if (const auto at = layouts.find(external); at != layouts.end()) inputs.push_back(at->second);
  }
  // Where data decide on sizes, those of later segments are not known.
  if (inputs.size() == arguments.size() + externals_.size()) {
    const std::vector<Tensor> outputs = made->prepare(inputs);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      layouts.insert_or_assign(ahead.exposed[i], outputs[i]);
    }
  }
  const std::scoped_lock lock(mutex_);
  if (!executable_ && exposed_ == ahead.exposed) executable_ = std::move(made);
}

ExecutableStats Segment::stats() const {
  const std::scoped_lock lock(mutex_);
  return executable_ ? executable_->stats() : ExecutableStats{.nodes = count_operators(*graph_)};
}

std::vector<ExplainedKernel> Segment::kernels(const StepProfile* profile) const {
  const std::scoped_lock lock(mutex_);
  return executable_ ? executable_->kernels(profile) : std::vector<ExplainedKernel>();
}

std::vector<ExplainedPasses> Segment::explain_passes(const std::string& name) {
  const Executable& compiled = executable();
  const GuardedSizes sizes(path_->guards);
  const SizeFacts::Scope scope(sizes);
  return compiled.explain_passes(name);
}

void Segment::run(Executable& compiled, std::span<const Tensor> arguments, Environment& env,
                  const CancelToken* cancel, std::uint64_t given_away) const {
  std::vector<Tensor> inputs;
  if (!externals_.empty()) {
    inputs.reserve(arguments.size() + externals_.size());
    inputs.assign(arguments.begin(), arguments.end());
    for (const ValueId& external : externals_) inputs.push_back(env.at(external));
    arguments = inputs;
  }
  std::vector<Tensor> outputs = compiled.run(arguments, cancel, {}, given_away);
  for (std::size_t i = 0; i < exposed_.size(); ++i)
    env.insert_or_assign(exposed_[i], std::move(outputs[i]));
}

}  // namespace dyad::exec
