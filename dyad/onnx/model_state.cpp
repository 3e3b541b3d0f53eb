#include "dyad/onnx/model_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <set>
#include <stdexcept>

#include "dyad/base/error.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/ir/graph.h"
#include "dyad/ir/graph_ops.h"
#include "dyad/ir/literal.h"

namespace dyad::onnx {
namespace {

/// More graphs than that are not kept for different values.
constexpr std::size_t kMaxBuilt = 16;
/// More bytes than any machine has, with room for multiples.
constexpr std::size_t kAllBytes = std::size_t{1} << 58;

/// A value taken apart: tensors by the names that the graph has for them.
void flatten(const std::string& name, const ModelValue& value,
             std::map<std::string, Tensor>& tensors) {
  if (value.is_tensor()) tensors[name] = value.tensor();
  for (std::size_t i = 0; i < value.sequence().size(); ++i) {
    flatten(fmt::format("{}[{}]", name, i), value.sequence()[i], tensors);
  }
}

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

/// Whether the sizes that the graph takes for equal are.
bool fits(const ImportedGraph& graph, const std::map<std::string, Tensor>& tensors) {
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

}  // namespace

ImportedGraph Model::State::build(const KnownInputs& known, const LoadOptions& how) {
  // Constants may be in the layouts of kernels alone.
  for (const Tensor& initializer : initializers) {
    if (initializer.defined()) initializer.impl()->storage->keep_contents();
  }
  Importer importer(proto, file, folder, how, loc);
  ImportedGraph made = with_memory(file, loc, [&] { return importer.build(known); });
  share_variables(made.graph);
  return made;
}

void Model::State::share_variables(const Graph& graph) {
  std::map<std::string, Tensor> tensors;
  for (const auto& [name, tensor] : graph.variables()) tensors[name] = tensor;
  const auto dense = static_cast<std::size_t>(proto.graph().initializer_size());
  initializers.resize(dense + static_cast<std::size_t>(proto.graph().sparse_initializer_size()));
  for (std::size_t i = 0; i < initializers.size(); ++i) {
    const std::string& name =
        i < dense ? proto.graph().initializer(static_cast<int>(i)).name()
                  : proto.graph().sparse_initializer(static_cast<int>(i - dense)).values().name();
    const auto found = tensors.find(name);
    if (found != tensors.end()) initializers[i] = found->second;
  }
}

bool Model::State::learn(const NeedsValues& needs) {
  built.clear();
  if (needs.weights && options.trainable) {
    options.trainable = false;  // constants may tell all that there is to know
    return true;
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
  return is_new;
}

void Model::State::fail_untold(const NeedsValues& needs) const {
  throw OnnxError(fmt::format("'{}': what the graph looks like depends on sizes that only a run "
                              "can tell: {}; give the values that they follow from as constants",
                              file, needs.reason),
                  loc);
}

void Model::State::build_first() {
  for (;;) {
    try {
      const KnownInputs known{
          .values = fixed, .forms = {}, .sizes = {}, .initializers = initializers};
      built[""] = std::make_shared<Built>(Built{.imported = build(known, options)});
      return;
    } catch (const NeedsValues& needs) {
      if (!learn(needs)) fail_untold(needs);
      if (!value_inputs.names().empty()) return;
    }
  }
}

Fed Model::State::taken_apart(const std::vector<NamedValue>& given, Loc where) const {
  Fed fed;
  for (const NamedValue& input : given) {
    if (!fed.inputs.try_emplace(input.name, input.value).second) {
      throw GraphError(fmt::format("'{}': input \"{}\" is fed twice", file, input.name), where);
    }
    flatten(input.name, input.value, fed.tensors);
  }
  return fed;
}

std::shared_ptr<Built> Model::State::graph_for(const Fed& fed, Loc where) {
  std::shared_ptr<Built> made = graph_for_what_decides(fed, where);
  if (fits(made->imported, fed.tensors)) return made;
  made = graph_for_sizes(fed, where);
  return made != nullptr ? made : graph_for_values(fed, where);
}

std::shared_ptr<Built> Model::State::graph_for_what_decides(const Fed& fed, Loc where) {
  for (;;) {
    KnownInputs known = known_of(fed, decisive_values.names(), where);
    if (sizes_decide) known.sizes = fed.tensors;
    const std::string key = key_of(known);
    const auto existing = built.find(key);
    if (existing != built.end()) return existing->second;
    try {
      return keep(key, std::make_shared<Built>(Built{.imported = build(known, options)}));
    } catch (const NeedsValues& needs) {
      if (!learn(needs)) return graph_for_values(fed, where);
    }
  }
}

std::shared_ptr<Built> Model::State::graph_for_sizes(const Fed& fed, Loc where) {
  KnownInputs known = known_of(fed, decisive_values.names(), where);
  known.sizes = fed.tensors;
  const std::string key = "sizes;" + key_of(known);
  const auto existing = built.find(key);
  if (existing != built.end()) return existing->second;
  std::shared_ptr<Built> made;
  try {
    made = std::make_shared<Built>(Built{.imported = build(known, options)});
  } catch (const NeedsValues&) {
  } catch (const MemoryError&) {
    return nullptr;  // another time there may be more
  } catch (const Error&) {
    // Perhaps of a branch that these values do not take.
  }
  return keep(key, std::move(made));
}

std::shared_ptr<Built> Model::State::graph_for_values(const Fed& fed, Loc where) {
  LoadOptions how = options;
  how.trainable = false;
  how.limits.constants = kAllBytes;
  std::vector<std::string> names;
  for (const auto& [name, tensor] : fed.tensors) names.push_back(name);
  KnownInputs known = known_of(fed, names, where);
  known.sizes = fed.tensors;
  known.is_all = true;
  const auto limit = limit_of_run();
  try {
    return std::make_shared<Built>(Built{.imported = build(known, how), .is_for_values = true});
  } catch (const NeedsValues& needs) {
    fail_untold(needs);
  }
}

KnownInputs Model::State::known_of(const Fed& fed, const std::vector<std::string>& values,
                                   Loc where) const {
  KnownInputs known{.values = fixed, .forms = {}, .sizes = {}, .initializers = initializers};
  for (const std::string& name : decisive_forms.names()) {
    const auto found = fed.inputs.find(name);
    known.forms[name] = found == fed.inputs.end() ? ModelValue() : found->second;
  }
  for (const std::string& name : values) {
    const auto found = fed.tensors.find(name);
    if (found != fed.tensors.end()) {
      known.values[name] = found->second;
    } else if (!name.ends_with(']')) {  // not of a longer sequence
      throw GraphError(fmt::format("'{}': input \"{}\" is not fed; its values decide what the "
                                   "graph looks like",
                                   file, name),
                       where);
    }
  }
  return known;
}

std::string Model::State::key_of(const KnownInputs& known) const {
  std::string key;
  for (const auto& [name, tensor] : known.sizes) key += name + ":" + type_string(tensor) + ";";
  for (const auto& [name, form] : known.forms) key += name + ":" + form_of(form) + ";";
  for (const auto& [name, tensor] : known.values) {
    if (fixed.contains(name)) continue;
    key += name + ":" + type_string(tensor) + ":";
    for (const std::byte b : packed_elements(tensor)) key += static_cast<char>(b);
  }
  return key;
}

std::shared_ptr<Built> Model::State::keep(const std::string& key, std::shared_ptr<Built> made) {
  if (built.size() >= kMaxBuilt) {
    std::erase_if(built, [](const auto& each) { return !each.first.empty(); });
  }
  return built[key] = std::move(made);
}

Model::State::Ready Model::State::ready(std::shared_ptr<Built> made, const Fed& fed) const {
  if (!made->session) {
    made->session.emplace(made->imported.graph, SessionOptions{.fast_math = options.fast_math});
  }
  std::map<std::string, Tensor> tensors;
  if (!made->is_for_values) tensors = fed.tensors;
  for (const std::string& name : decisive_values.names()) tensors.erase(name);
  Ready all{.built = std::move(made), .feeds = {}};
  for (const auto& [name, tensor] : tensors) all.feeds.emplace_back(name, tensor);
  return all;
}

std::vector<ModelValue> Model::State::run(const Ready& ready, Loc where) const {
  const auto limit = limit_of_run();
  const ImportedGraph& imported = ready.built->imported;
  std::vector<Tensor> results = with_memory(file, where, [&] {
    return ready.built->session->run(imported.graph.outputs(), ready.feeds, where);
  });
  auto next = results.begin();
  std::vector<ModelValue> values;
  for (const ModelValue& result : imported.results) values.push_back(filled(result, next));
  return values;
}

std::unique_ptr<AllocationLimit> Model::State::limit_of_run() const {
  if (options.limits.run_memory == 0) return nullptr;
  return std::make_unique<AllocationLimit>(options.limits.run_memory);
}

}  // namespace dyad::onnx
