#include "dyad/onnx/load.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <new>
#include <optional>
#include <set>
#include <stdexcept>

#include "dyad/base/error.h"
#include "dyad/core/allocation_limit.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/ir/graph.h"
#include "dyad/ir/graph_constants.h"
#include "dyad/ir/graph_ops.h"
#include "dyad/ir/literal.h"
#include "dyad/onnx/cut_model.h"
#include "dyad/onnx/importer.h"
#include "dyad/onnx/model_reader.h"
#include "dyad/onnx/sort_nodes.h"
#include "dyad/onnx/tensor_reader.h"

namespace dyad::onnx {

namespace {

/// The graph of a model for some values of inputs.
struct Built {
  ImportedGraph imported;
  std::optional<Session> session;  // made at the first run
};

/// What a graph is built for of what is fed: what decides what it looks like, all sizes, or all
/// there is.
enum class Told { what_decides, sizes, values };

/// More graphs than that are not kept for different values.
constexpr std::size_t kMaxBuilt = 16;

/// A value taken apart: tensors by the names that the graph has for them.
void flatten(const std::string& name, const ModelValue& value,
             std::map<std::string, Tensor>& tensors) {
  if (value.is_tensor()) tensors[name] = value.tensor();
  for (std::size_t i = 0; i < value.sequence().size(); ++i) {
    flatten(fmt::format("{}[{}]", name, i), value.sequence()[i], tensors);
  }
}

/// Names in the order in which they came, each once.
class NameList {
 public:
  /// False when it is there.
  bool add(const std::string& name) {
    const bool is_new = known_.insert(name).second;
    if (is_new) names_.push_back(name);
    return is_new;
  }
  [[nodiscard]] bool contains(const std::string& name) const { return known_.contains(name); }
  [[nodiscard]] const std::vector<std::string>& names() const noexcept { return names_; }

 private:
  std::vector<std::string> names_;
  std::set<std::string> known_;
};

/// What a graph depends on of a value that is no tensor of a known rank.
std::string form_of(const ModelValue& value) {
  if (value.is_empty()) return "-";
  if (value.is_tensor()) return type_string(value.tensor());
  std::string all = "(";
  for (const ModelValue& element : value.sequence()) all += form_of(element) + ",";
  return all + ")";
}

/// What `work` gives; memory of the host that cannot be had is a MemoryError too.
template <class F>
auto with_memory(const std::string& file, Loc loc, F&& work) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    throw MemoryError(fmt::format("'{}': it asks for more memory than there is", file), loc);
  } catch (const std::length_error&) {
    throw MemoryError(fmt::format("'{}': it asks for more memory than there can be", file), loc);
  }
}

/// The value with the tensors that a run gave.
ModelValue filled(const ModelValue& like, std::vector<Tensor>::iterator& next) {
  if (like.is_tensor()) return ModelValue(*next++);
  if (like.is_empty()) return {};
  std::vector<ModelValue> elements;
  for (const ModelValue& element : like.sequence()) elements.push_back(filled(element, next));
  return ModelValue(std::move(elements));
}

}  // namespace

struct Model::State {
  pb::ModelProto proto;              // emptied when no other graph can be asked for
  std::vector<Tensor> initializers;  // large ones by their numbers, taken out of the message
  std::string file;
  std::optional<std::string> folder;
  LoadOptions options;
  Loc loc;

  std::vector<ValueInfo> input_info, output_info;
  std::vector<std::string> inputs, outputs;
  /// The tensors, as the graph calls them, whose elements decide; the inputs whose form decides.
  NameList decisive_values, decisive_forms;
  NameList value_inputs;      ///< both, as inputs of the model
  std::string reason;         ///< the first node that needs them, and what for
  bool sizes_decide = false;  ///< those of all inputs
  int opset = 0;
  std::string producer;
  std::map<std::string, std::string> metadata;
  std::map<std::string, Tensor> fixed;  ///< by specialize()
  std::mutex mutex;
  std::map<std::string, Built> built;  ///< by what decides

  Built build(const KnownInputs& known, const LoadOptions& how) {
    Importer importer(proto, file, folder, how, loc);
    return {.imported = with_memory(file, loc, [&] { return importer.build(known); }),
            .session = {}};
  }

  /// Takes note of what decides.
  void learn(const NeedsValues& needs) {
    built.clear();
    if (needs.weights && options.trainable) {
      options.trainable = false;  // constants may tell all that there is to know
      return;
    }
    const std::set<std::string> all(inputs.begin(), inputs.end());
    if (reason.empty()) reason = needs.reason;
    bool is_new = needs.sizes && !sizes_decide;
    sizes_decide |= needs.sizes;
    if (needs.sizes) {
      value_inputs = {};
      for (const std::string& name : inputs) value_inputs.add(name);
    }
    for (const std::string& name : needs.inputs) {
      is_new |= decisive_values.add(name);
      value_inputs.add(all.contains(name) ? name : name.substr(0, name.rfind('[')));
    }
    for (const std::string& name : needs.forms) {
      is_new |= decisive_forms.add(name);
      value_inputs.add(name);
    }
    if (!is_new) fail_untold(needs);
  }
  /// What is known of the inputs does not tell it.
  [[noreturn]] void fail_untold(const NeedsValues& needs) const {
    throw OnnxError(fmt::format("'{}': what the graph looks like depends on sizes that only a run "
                                "can tell: {}; give the values that they follow from as constants",
                                file, needs.reason),
                    loc);
  }

  /// The graph that nothing fed decides about, if there is one.
  void try_build() {
    for (;;) {
      try {
        built[""] = build({.values = fixed, .forms = {}, .sizes = {}, .initializers = initializers},
                          options);
        return;
      } catch (const NeedsValues& needs) {
        learn(needs);
        if (!value_inputs.names().empty()) return;
      }
    }
  }

  /// Other graphs of the model have the same tensors for variables.
  void share_variables(const Graph& graph) {
    std::map<std::string, Tensor> tensors;
    for (const auto& [name, tensor] : graph.variables()) tensors[name] = tensor;
    for (int i = 0; i < proto.graph().initializer_size(); ++i) {
      const auto found = tensors.find(proto.graph().initializer(i).name());
      if (found != tensors.end()) initializers.at(static_cast<std::size_t>(i)) = found->second;
    }
  }

  /// The graph for somebody who may do anything with it.
  static const Graph& handed_out(const Graph& graph) {
    visit_constants(*graph.impl(),
                    [](const Tensor& constant) { constant.impl()->storage->keep_contents(); });
    return graph;
  }

  /// What is fed by name; each may be given once.
  [[nodiscard]] std::map<std::string, ModelValue> by_name(const std::vector<NamedValue>& given,
                                                          Loc where) const {
    std::map<std::string, ModelValue> fed;
    for (const NamedValue& input : given) {
      if (fed.try_emplace(input.name, input.value).second) continue;
      throw GraphError(fmt::format("'{}': input \"{}\" is fed twice", file, input.name), where);
    }
    return fed;
  }

  /// A graph, its session, and the feeds that it takes.
  struct Ready {
    Built& built;
    Session& session;
    std::vector<Feed> feeds;
  };
  Ready ready_for(const std::vector<NamedValue>& given, Loc where, Told told = Told::what_decides) {
    const std::map<std::string, ModelValue> fed = by_name(given, where);
    Built& made = graph_for(fed, where, told);
    if (!made.session) {
      made.session.emplace(made.imported.graph, SessionOptions{.fast_math = options.fast_math});
    }
    std::map<std::string, Tensor> tensors;
    for (const auto& [name, value] : fed) flatten(name, value, tensors);
    for (const std::string& name : decisive_values.names()) tensors.erase(name);
    if (told == Told::values) tensors.clear();
    std::vector<Feed> feeds;
    for (const auto& [name, tensor] : tensors) feeds.emplace_back(name, tensor);
    return {made, *made.session, std::move(feeds)};
  }

  /// The graph for what is fed: where sizes differ that it takes for equal, another one.
  Built& graph_for(const std::map<std::string, ModelValue>& fed, Loc where,
                   Told told = Told::what_decides) {
    std::map<std::string, Tensor> tensors;
    for (const auto& [name, value] : fed) flatten(name, value, tensors);
    Built& made = graph_for(fed, tensors, told, where);
    return fits(made.imported, tensors) ? made : graph_for(fed, tensors, Told::sizes, where);
  }

  /// Whether the sizes that the graph takes for equal are.
  static bool fits(const ImportedGraph& graph, const std::map<std::string, Tensor>& tensors) {
    if (graph.equal_sizes.empty()) return true;
    SymbolMap symbols;
    for (const Value placeholder : graph.graph.impl()->placeholders()) {
      const auto fed = tensors.find(placeholder.node->attrs_as<PlaceholderAttrs>().name);
      const Shape& sizes = placeholder.type().shape();
      // What is wrong with it, the run says.
      if (fed == tensors.end() || fed->second.rank() != sizes.rank()) return true;
      for (std::size_t axis = 0; axis < sizes.size(); ++axis) {
        if (sizes[axis].is_number() || symbols.find(sizes[axis])) continue;
        symbols.bind(sizes[axis], fed->second.shape()[axis].number());
      }
    }
    try {
      return std::ranges::all_of(graph.equal_sizes, [&](const auto& pair) {
        return evaluate(pair.first, symbols) == evaluate(pair.second, symbols);
      });
    } catch (const ShapeError&) {
      return false;  // divided by 0
    }
  }

  /// The same, built for what is told.
  Built& graph_for(const std::map<std::string, ModelValue>& fed,
                   const std::map<std::string, Tensor>& tensors, Told told, Loc where) {
    LoadOptions how = options;
    how.trainable = options.trainable && told != Told::values;
    if (told != Told::what_decides) {
      // Constants may be in the layouts of kernels alone.
      for (const Tensor& initializer : initializers) {
        if (initializer.defined()) initializer.impl()->storage->keep_contents();
      }
    }
    for (;;) {
      KnownInputs known{.values = fixed, .forms = {}, .sizes = {}, .initializers = initializers};
      std::string key;
      if (sizes_decide || told != Told::what_decides) {
        known.sizes = tensors;
        for (const auto& [name, tensor] : tensors) key += name + ":" + type_string(tensor) + ";";
      }
      for (const std::string& name : decisive_forms.names()) {
        const auto found = fed.find(name);
        known.forms[name] = found == fed.end() ? ModelValue() : found->second;
        key += form_of(known.forms[name]) + ";";
      }
      std::vector<std::string> names = decisive_values.names();
      if (told == Told::values) {
        names.clear();
        for (const auto& [name, tensor] : tensors) names.push_back(name);
      }
      for (const std::string& name : names) {
        const auto found = tensors.find(name);
        if (found == tensors.end()) {
          if (name.ends_with(']')) continue;  // of a longer sequence
          throw GraphError(fmt::format("'{}': input \"{}\" is not fed; its values decide what the "
                                       "graph looks like",
                                       file, name),
                           where);
        }
        known.values[name] = found->second;
        key += name + ":" + type_string(found->second) + ":";
        for (const std::byte b : packed_elements(found->second)) key += static_cast<char>(b);
      }
      const auto existing = built.find(key);
      if (existing != built.end()) return existing->second;
      try {
        Built made = build(known, how);
        if (built.size() >= kMaxBuilt) {
          std::erase_if(built, [](const auto& each) { return !each.first.empty(); });
        }
        return built[key] = std::move(made);
      } catch (const NeedsValues& needs) {
        if (told != Told::what_decides) fail_untold(needs);
        learn(needs);
      }
    }
  }
};

namespace {

std::vector<std::string> names_of(const std::vector<ValueInfo>& values) {
  std::vector<std::string> names;
  for (const ValueInfo& value : values) names.push_back(value.name);
  return names;
}

Model read(pb::ModelProto proto, const std::string& file, std::optional<std::string> folder,
           const LoadOptions& options, Loc loc) {
  auto state = std::make_shared<Model::State>();
  state->file = file;
  state->folder = std::move(folder);
  state->options = options;
  state->loc = loc;
  state->proto = std::move(proto);
  sort_nodes(state->proto, file, loc);
  if (!options.outputs.empty()) cut_model(state->proto, options.outputs, file, loc);
  Importer importer(state->proto, file, state->folder, options, loc);
  std::vector<std::string> missing = importer.unsupported();
  state->options.limits = importer.limits();
  for (pb::TensorProto& tensor : *state->proto.mutable_graph()->mutable_initializer()) {
    state->initializers.push_back(take_tensor(tensor));
  }
  state->opset = importer.opset();
  state->input_info = inputs_of(state->proto);
  state->output_info = outputs_of(state->proto);
  state->inputs = names_of(state->input_info);
  state->outputs = names_of(state->output_info);
  state->producer = state->proto.producer_name();
  for (const pb::StringStringEntryProto& entry : state->proto.metadata_props()) {
    state->metadata[entry.key()] = entry.value();
  }
  try {
    state->try_build();
  } catch (const RefusedNodes& refused) {
    if (missing.empty()) throw;
    const std::set<std::string> listed(missing.begin(), missing.end());
    for (const std::string& line : refused.lines()) {
      if (!listed.contains(line)) missing.push_back(line);
    }
  } catch (const Error&) {
    if (missing.empty()) throw;
  }
  if (!missing.empty()) throw importer.refused(std::move(missing));
  if (state->value_inputs.names().empty()) {
    const ImportedGraph& made = state->built.at("").imported;
    if (made.guesses || !made.equal_sizes.empty()) {
      state->share_variables(made.graph);
    } else {
      state->proto = {};
      state->initializers = {};
    }
    // While nobody else has the graph, kernels that have weights in layouts of their own let the
    // memory of the constants go.
    let_constants_shed(*state->built.at("").imported.graph.impl());
  }
  return Model(std::move(state));
}

}  // namespace

const Graph& Model::graph(Loc loc) const {
  const std::lock_guard lock(state_->mutex);
  if (!state_->value_inputs.names().empty()) {
    std::string names;
    for (const std::string& name : state_->value_inputs.names()) {
      names += (names.empty() ? "\"" : ", \"") + name + "\"";
    }
    throw GraphError(
        fmt::format("'{}': what the graph looks like depends on the values of {}; fill "
                    "them in with specialize(), or run() the model{}",
                    state_->file, names,
                    state_->reason.empty()
                        ? ""
                        : ". The first node that asks for them is " + state_->reason),
        loc.user());
  }
  return State::handed_out(state_->built.at("").imported.graph);
}

const std::vector<std::string>& Model::inputs() const noexcept { return state_->inputs; }
const std::vector<std::string>& Model::outputs() const noexcept { return state_->outputs; }
const std::vector<ValueInfo>& Model::input_info() const noexcept { return state_->input_info; }
const std::vector<ValueInfo>& Model::output_info() const noexcept { return state_->output_info; }
const std::string& Model::file() const noexcept { return state_->file; }
const std::vector<std::string>& Model::value_inputs() const noexcept {
  return state_->value_inputs.names();
}
int Model::opset() const noexcept { return state_->opset; }
const std::string& Model::producer() const noexcept { return state_->producer; }
const std::map<std::string, std::string>& Model::metadata() const noexcept {
  return state_->metadata;
}

TensorDict Model::weights(Loc loc) const {
  TensorDict weights;
  for (auto& [name, tensor] : graph(loc).variables()) weights.add(name, tensor);
  return weights;
}

Model Model::specialize(const std::vector<Feed>& values, Loc loc) const {
  const std::lock_guard lock(state_->mutex);
  auto made = std::make_shared<State>();
  made->proto = state_->proto;
  made->initializers = state_->initializers;
  made->file = state_->file;
  made->folder = state_->folder;
  made->options = state_->options;
  made->loc = loc.user();
  made->opset = state_->opset;
  made->producer = state_->producer;
  made->metadata = state_->metadata;
  made->fixed = state_->fixed;
  for (const Feed& feed : values) {
    if (!state_->value_inputs.contains(feed.name)) {
      throw GraphError(fmt::format("'{}': \"{}\" is no input whose values decide what the graph "
                                   "looks like",
                                   state_->file, feed.name),
                       loc.user());
    }
    made->fixed[feed.name] = feed.value;
  }
  made->input_info = state_->input_info;
  made->output_info = state_->output_info;
  std::erase_if(made->input_info,
                [&](const ValueInfo& input) { return made->fixed.contains(input.name); });
  made->inputs = names_of(made->input_info);
  made->outputs = state_->outputs;
  made->try_build();
  return Model(std::move(made));
}

std::vector<ModelValue> Model::run_values(const std::vector<NamedValue>& inputs, Loc loc) const {
  const std::lock_guard lock(state_->mutex);
  std::optional<AllocationLimit> limit;
  const auto run = [&](State::Ready ready) {
    if (state_->options.limits.run_memory > 0) limit.emplace(state_->options.limits.run_memory);
    std::vector<Tensor> results = with_memory(state_->file, loc.user(), [&] {
      return ready.session.run(ready.built.imported.graph.outputs(), ready.feeds, loc.user());
    });
    auto next = results.begin();
    std::vector<ModelValue> values;
    for (const ModelValue& result : ready.built.imported.results)
      values.push_back(filled(result, next));
    return values;
  };
  State::Ready ready = state_->ready_for(inputs, loc.user());
  if (!ready.built.imported.guesses) return run(std::move(ready));
  try {
    return run(std::move(ready));
  } catch (const ShapeError&) {
  } catch (const IndexError&) {
  } catch (const ValueError&) {
  }
  // What was taken for granted of sizes may not hold for these values: their own graph tells.
  limit.reset();
  return run(state_->ready_for(inputs, loc.user(), Told::values));
}

void Model::prepare(const std::vector<NamedValue>& inputs, Loc loc) const {
  const std::lock_guard lock(state_->mutex);
  State::Ready ready = state_->ready_for(inputs, loc.user());
  ready.session.prepare(ready.built.imported.graph.outputs(), ready.feeds, loc.user());
}

std::optional<exec::MemoryUse> Model::memory(const std::vector<NamedValue>& inputs, Loc loc) const {
  const std::lock_guard lock(state_->mutex);
  State::Ready ready = state_->ready_for(inputs, loc.user());
  return ready.session.memory(ready.built.imported.graph.outputs(), ready.feeds, loc.user());
}

Graph Model::graph_for(const std::vector<NamedValue>& inputs, Loc loc) const {
  const std::lock_guard lock(state_->mutex);
  return State::handed_out(
      state_->graph_for(state_->by_name(inputs, loc.user()), loc.user()).imported.graph);
}

std::string Model::operator_at(Loc place) const {
  const std::lock_guard lock(state_->mutex);
  if (!place || place.file() != state_->file) return {};
  for (const auto& [key, built] : state_->built) {
    const std::vector<std::string>& operators = built.imported.operators;
    if (place.line() >= 1 && place.line() <= operators.size()) return operators[place.line() - 1];
  }
  return {};
}

std::vector<Tensor> Model::run(const std::vector<Feed>& feeds, Loc loc) const {
  std::vector<NamedValue> inputs;
  for (const Feed& feed : feeds) {
    const GraphValue* value = feed.placeholder.defined() ? graph_value(feed.placeholder) : nullptr;
    inputs.push_back({value != nullptr && value->value.node->is("placeholder")
                          ? value->value.node->attrs_as<PlaceholderAttrs>().name
                          : feed.name,
                      feed.value});
  }
  std::vector<Tensor> results;
  for (const ModelValue& value : run_values(inputs, loc.user())) {
    if (!value.is_tensor()) {
      throw GraphError(fmt::format("'{}': result {} is {}; run_values() gives results that are no "
                                   "tensors",
                                   state_->file, results.size(),
                                   value.is_sequence() ? "a sequence" : "an empty optional"),
                       loc.user());
    }
    results.push_back(value.tensor());
  }
  return results;
}

Model load(const std::string& path, const LoadOptions& options, Loc loc) {
  const ModelPlace place(path);
  return read(read_model_file(path, loc.user()), place.name, place.folder, options, loc.user());
}

Model parse(std::string_view bytes, const LoadOptions& options, Loc loc) {
  return read(read_model(bytes, "model", loc.user()), "model", {}, options, loc.user());
}

}  // namespace dyad::onnx
