#include "dyad/io/saved_function.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <numeric>
#include <stdexcept>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>

#include "dyad/autograd/tape.h"
#include "dyad/base/error.h"
#include "dyad/exec/bucketed.h"
#include "dyad/exec/executable.h"
#include "dyad/exec/read_graph.h"
#include "dyad/exec/recording.h"
#include "dyad/ir/graph_ops.h"

namespace dyad::io {
namespace {

using exec::Decision;
using exec::DimGuard;
using exec::Path;
using exec::Recording;
using exec::SmallSizes;
using nlohmann::json;

constexpr std::pair<const char*, Decision::Kind> kReads[] = {{"bool", Decision::Kind::boolean},
                                                             {"int", Decision::Kind::integer},
                                                             {"float", Decision::Kind::floating}};
constexpr std::pair<const char*, DimGuard::Kind> kComparisons[] = {
    {"equal", DimGuard::Kind::equal},
    {"less", DimGuard::Kind::less},
    {"value", DimGuard::Kind::value}};

template <class Names, class Kind>
const char* name_in(const Names& names, Kind kind) {
  return std::ranges::find(names, kind, [](const auto& entry) { return entry.second; })->first;
}
template <class Names>
auto kind_in(const Names& names, const JsonValue& object, const char* key) {
  const std::string& text = object.text(key);
  for (const auto& [name, kind] : names) {
    if (text == name) return kind;
  }
  object.fail(fmt::format("another '{}'", key));
}

/// `train.cpp:41`, or nothing; and back.
std::string place_text(Loc loc) { return loc ? to_string(loc) : ""; }

Loc parse_place(const std::string& text) {
  if (text.empty()) return {};
  const std::size_t colon = text.rfind(':');
  std::uint32_t line = 0;
  const char* end = text.data() + text.size();
  const char* begin = colon == text.npos ? end : text.data() + colon + 1;
  const auto [stop, error] = std::from_chars(begin, end, line);
  if (error != std::errc() || stop != end) {
    throw std::invalid_argument("expected a place such as train.cpp:41, found '" + text + "'");
  }
  return Loc::intern(text.substr(0, colon), line);
}

json save_guards(const std::vector<DimGuard>& guards) {
  json made = json::array();
  for (const DimGuard& guard : guards) {
    made.push_back({{"compare", name_in(kComparisons, guard.kind)},
                    {"a", to_string(guard.a)},
                    {"b", to_string(guard.b)},
                    {"answer", guard.answer},
                    {"at", place_text(guard.loc)}});
  }
  return made;
}

std::vector<DimGuard> load_guards(const JsonValue& from) {
  std::vector<DimGuard> made;
  for (const JsonValue& entry : from.list("guards")) {
    made.push_back({.kind = kind_in(kComparisons, entry, "compare"),
                    .a = parse_dim(entry.text("a")),
                    .b = parse_dim(entry.text("b")),
                    .answer = entry.whole<std::int64_t>("answer"),
                    .loc = parse_place(entry.text("at"))});
  }
  return made;
}

json names_of(const std::vector<Dim>& symbols) {
  json made = json::array();
  for (const Dim symbol : symbols) made.push_back(to_string(symbol));
  return made;
}

json save_layouts(const std::vector<exec::ArgumentLayout>& layouts) {
  json made = json::array();
  for (const exec::ArgumentLayout& layout : layouts) {
    made.push_back(
        {{"strides", std::vector<std::int64_t>(layout.strides.begin(), layout.strides.end())},
         {"contiguous", layout.contiguous}});
  }
  return made;
}

/// One for each of so many arguments.
std::vector<exec::ArgumentLayout> load_layouts(const JsonValue& from, std::size_t arguments) {
  std::vector<exec::ArgumentLayout> layouts;
  for (const JsonValue& layout : from.list("layouts")) {
    exec::ArgumentLayout& made = layouts.emplace_back();
    for (const JsonValue& stride : layout.list("strides")) {
      made.strides.push_back(stride.as_whole<std::int64_t>("strides"));
    }
    made.contiguous = layout.boolean("contiguous");
  }
  if (layouts.size() != arguments) from.fail("the layout of each argument");
  return layouts;
}

/// Adds sizes by their symbols, in two lists.
void add_sizes(json& made, const SymbolMap& known) {
  made["symbols"] = made["sizes"] = json::array();
  for (const auto& [symbol, size] : known.entries()) {
    made["symbols"].push_back(to_string(symbol));
    made["sizes"].push_back(size);
  }
}

SymbolMap load_sizes(const JsonValue& from) {
  constexpr std::int64_t kMost = std::int64_t{1} << 48;
  SymbolMap made;
  const std::vector<JsonValue> symbols = from.list("symbols"), sizes = from.list("sizes");
  if (symbols.size() != sizes.size()) from.fail("the size of each symbol");
  for (std::size_t i = 0; i < symbols.size(); ++i) {
    const auto size = sizes[i].as_whole<std::int64_t>("sizes");
    if (size < 0 || size > kMost) sizes[i].fail("a size");
    made.bind(parse_dim(symbols[i].as_text("symbols")), size);
  }
  return made;
}

json save_small(const SmallSizes& known) {
  json made = {{"differs", known.differs},
               {"ways", known.ways},
               {"guards", save_guards(known.guards)},
               {"strides_matter", known.strides_matter},
               {"layouts", save_layouts(known.layouts)}};
  add_sizes(made, known.sizes);
  return made;
}

SmallSizes load_small(const JsonValue& from, const Recording& recording) {
  SmallSizes made{
      .sizes = load_sizes(from), .differs = from.text("differs"), .guards = load_guards(from)};
  for (const JsonValue& way : from.list("ways")) {
    made.ways.push_back(way.as_whole<std::size_t>("ways"));
  }
  made.strides_matter = from.boolean("strides_matter");
  if (made.differs.empty()) made.layouts = load_layouts(from, recording.shapes.size());
  return made;
}

/// The operators of a call, without those that differentiate it from outside, of which there may be
/// some even where that was given up.
Ref<GraphImpl> forward_graph_of(const Path& path) {
  std::unordered_set<int> dropped;
  const auto is_input = [&](const Node& node) {
    const auto given = path.graph->placeholders().first(static_cast<std::size_t>(path.arguments));
    return std::ranges::any_of(given, [&](const Value& v) { return v.node == &node; }) ||
           std::ranges::any_of(path.grad_captures, [&](const exec::GradCapture& capture) {
             return capture.placeholder.node == &node;
           });
  };
  for (const auto& node : path.graph->nodes()) {
    const bool after = path.backward && node->id() >= path.backward->begin;
    const bool uses_dropped = std::ranges::any_of(
        node->inputs(), [&](const Value& v) { return v && dropped.contains(v.node->id()); });
    if ((after && !node->is("variable")) || uses_dropped ||
        (node->is("placeholder") && !is_input(*node))) {
      dropped.insert(node->id());
    }
  }
  if (dropped.empty()) return path.graph;
  Ref<GraphImpl> graph = clone(*path.graph);
  graph->erase_if([&](const Node& node) { return dropped.contains(node.id()); });
  return graph;
}

class PathWriter {
 public:
  PathWriter(const Path& path, bool strides_matter, const std::vector<Tensor>& grads_read,
             SavedParts& parts, Loc loc)
      : path_(path),
        strides_matter_(strides_matter),
        grads_read_(grads_read),
        parts_(parts),
        loc_(loc) {}

  json write() {
    // Decisions come before what is left out, so positions there are the same.
    const Ref<GraphImpl> graph = forward_graph_of(path_);
    int position = 0;
    for (const auto& node : graph->nodes()) positions_[node->id()] = position++;
    json made = {{"graph", parts_.add(*graph, loc_)},
                 {"arguments", path_.arguments},
                 {"strides_matter", strides_matter_},
                 {"layout_sizes", names_of(path_.layout_sizes)},
                 {"outputs", values(path_.outputs)}};
    add_sizes(made["recorded_at"], path_.hints);
    made["captures"] = json::array();
    for (const auto& [tensor, tracked] : path_.captures) {
      made["captures"].push_back(parts_.texts.name_of(tensor, "capture"));
    }
    made["decisions"] = json::array();
    for (const Decision& decision : path_.decisions) {
      made["decisions"].push_back({{"value", value(decision.value)},
                                   {"position", decision.position},
                                   {"outcome", decision.outcome},
                                   {"read", name_in(kReads, decision.kind)},
                                   {"at", place_text(decision.loc)}});
    }
    made["guards"] = save_guards(path_.guards);
    made["writes"] = json::array();
    for (const exec::Write& write : path_.writes) {
      json entry = {{"value", value(write.value)}};
      if (write.argument >= 0) {
        entry["argument"] = write.argument;
      } else {
        entry["variable"] = parts_.texts.name_of(write.variable, "written");
      }
      made["writes"].push_back(std::move(entry));
    }
    add_grads(made);
    return made;
  }

 private:
  void add_grads(json& made) {
    made["grads"] = made["grad_captures"] = made["grad_writes"] = json::array();
    for (const exec::GradWrite& write : path_.grad_writes) {
      if (write.argument < 0) continue;
      throw GraphError(
          fmt::format("save: the function leaves a gradient in its argument {}; return the "
                      "gradient instead",
                      write.argument),
          loc_);
    }
    for (const exec::GradNote& note : path_.grads) {
      if (note.argument < 0) continue;
      throw GraphError(fmt::format("save: the function reads the gradient of its argument {}; pass "
                                   "it as an argument of its own",
                                   note.argument),
                       loc_);
    }
    for (const exec::GradNote& note : path_.grads) {
      if (!is_read(note.leaf)) continue;
      made["grads"].push_back({{"leaf", leaf_name(note.leaf)},
                               {"defined", note.defined_before},
                               {"reads", note.reads_first}});
    }
    for (const exec::GradCapture& capture : path_.grad_captures) {
      made["grad_captures"].push_back(
          {{"leaf", leaf_name(capture.leaf)}, {"placeholder", value(capture.placeholder)}});
    }
    for (const exec::GradWrite& write : path_.grad_writes) {
      if (!is_read(write.leaf)) continue;
      json entry = {{"leaf", leaf_name(write.leaf)}, {"in_place", write.in_place}};
      if (write.value) entry["value"] = value(write.value);
      made["grad_writes"].push_back(std::move(entry));
    }
  }

  /// A gradient that no call reads is nothing to the next call.
  [[nodiscard]] bool is_read(const Tensor& leaf) const {
    return std::ranges::any_of(grads_read_, [&](const Tensor& t) { return t.is_same(leaf); });
  }

  std::string leaf_name(const Tensor& leaf) {
    if (!is_differentiable(leaf.dtype())) {  // numbers of rows
      throw GraphError(
          "save: the function computes a gradient of rows of a table (an embedding with sparse = "
          "true), which a program cannot hold; make the table with sparse = false",
          loc_);
    }
    if (!is_captured(leaf)) {
      throw GraphError("save: the function adds to a gradient of " + type_string(leaf) +
                           " from before it that is no parameter's own: clear gradients inside "
                           "the function, by zero_grad()",
                       loc_);
    }
    std::string name = parts_.texts.name_of(leaf, "leaf");
    const Tensor grad = autograd::grad_of(*leaf.impl());
    const bool known =
        std::ranges::any_of(parts_.grads, [&](const auto& entry) { return entry.first == name; });
    if (grad.defined() && !known) parts_.grads.emplace_back(name, grad);
    return name;
  }
  [[nodiscard]] bool is_captured(const Tensor& leaf) const {
    return std::ranges::any_of(path_.captures,
                               [&](const auto& entry) { return entry.first.is_same(leaf); });
  }

  [[nodiscard]] json value(const Value& v) const {
    return json::array({positions_.at(v.node->id()), v.index});
  }
  [[nodiscard]] json values(const std::vector<Value>& list) const {
    json made = json::array();
    for (const Value& v : list) made.push_back(value(v));
    return made;
  }

  const Path& path_;
  bool strides_matter_;
  const std::vector<Tensor>& grads_read_;
  SavedParts& parts_;
  Loc loc_;
  std::unordered_map<int, int> positions_;
};

/// The numbers that a call passes beside its tensors.
std::vector<std::int64_t> numbers_of(const Recording& recording) {
  const auto fixed = 2 + 3 * static_cast<std::ptrdiff_t>(recording.key[1]);
  return {recording.key.begin() + fixed, recording.key.end()};
}

json save_recording(const Recording& recording, const std::vector<Tensor>& grads_read,
                    SavedParts& parts, Loc loc) {
  json paths = json::array();
  for (const exec::DecisionTree::Leaf& leaf : recording.tree->leaves()) {
    paths.push_back(
        PathWriter(*leaf.path, recording.strides_matter, grads_read, parts, loc).write());
  }
  json small = json::array();
  for (const SmallSizes& known : recording.small) small.push_back(save_small(known));
  return {{"overlap", recording.overlap},
          {"layouts", save_layouts(recording.layouts)},
          {"small_sizes", std::move(small)},
          {"paths", std::move(paths)}};
}

/// Reads one path, checking that it is what a recording can be.
class PathReader {
 public:
  PathReader(const JsonValue& from, const LoadedParts& parts) : from_(from), parts_(parts) {}

  std::shared_ptr<Path> read() {
    path_ = std::make_shared<Path>();
    const auto graph = from_.whole<std::size_t>("graph");
    if (graph >= parts_.graphs.size()) from_.at("graph").fail("the position of a graph");
    path_->graph = exec::read_graph(parts_.graphs[graph], parts_.variables, parts_.constants);
    path_->arguments = from_.whole<int>("arguments");
    path_->strides_matter = from_.boolean("strides_matter");
    placeholders();
    decisions();
    path_->guards = load_guards(from_);
    if (from_.has("recorded_at")) path_->hints = load_sizes(from_.at("recorded_at"));
    layout_sizes();
    writes();
    grads();
    for (const JsonValue& capture : from_.list("captures")) {
      const Tensor tensor = variable(capture.as_text("captures"));
      path_->captures.emplace_back(tensor, tensor.tracks_grad());
    }
    for (const JsonValue& output : from_.list("outputs")) path_->outputs.push_back(value(output));
    path_->tracked.assign(path_->outputs.size(), true);
    path_->places.resize(path_->outputs.size());
    path_->same_as.resize(path_->outputs.size());
    std::iota(path_->same_as.begin(), path_->same_as.end(), 0);  // each has memory of its own
    path_->end = static_cast<int>(path_->graph->nodes().size());
    return path_;
  }

 private:
  /// The arguments, then gradients from before the call, and nothing else.
  void placeholders() {
    const auto given = path_->graph->placeholders();
    const std::vector<JsonValue> captures = from_.list("grad_captures");
    if (path_->arguments < 0 ||
        given.size() != static_cast<std::size_t>(path_->arguments) + captures.size()) {
      from_.at("arguments")
          .fail(fmt::format("as many arguments and grad_captures as the graph's {} placeholders",
                            given.size()));
    }
    std::unordered_set<Value, ValueHash> seen(given.begin(), given.begin() + path_->arguments);
    for (const JsonValue& capture : captures) {
      const Value placeholder = value(capture.at("placeholder"));
      if (!placeholder.node->is("placeholder") || !seen.insert(placeholder).second) {
        capture.fail("a placeholder of its own for each of grad_captures");
      }
      path_->grad_captures.push_back({{variable(capture.text("leaf"))}, placeholder});
      check_fits(placeholder, path_->grad_captures.back().leaf, capture);
    }
  }

  void decisions() {
    int before = 0;
    for (const JsonValue& entry : from_.list("decisions")) {
      Decision decision{.value = value(entry.at("value")),
                        .position = entry.whole<int>("position"),
                        .outcome = entry.whole<std::int64_t>("outcome"),
                        .kind = kind_in(kReads, entry, "read"),
                        .loc = parse_place(entry.text("at"))};
      const int nodes = static_cast<int>(path_->graph->nodes().size());
      if (decision.position < before || decision.position > nodes ||
          decision.value.node->id() >= decision.position) {
        entry.fail("reads of values in the order in which they are computed");
      }
      before = decision.position;
      path_->decisions.push_back(decision);
    }
  }

  /// Of programs that were written before these were: all symbols.
  void layout_sizes() {
    if (from_.has("layout_sizes")) {
      for (const JsonValue& size : from_.list("layout_sizes"))
        path_->layout_sizes.push_back(parse_dim(size.as_text("layout_sizes")));
      return;
    }
    for (const Value& given : path_->graph->placeholders()) {
      for (const Dim size : given.type().shape()) collect_symbols(size, path_->layout_sizes);
    }
  }

  void writes() {
    for (const JsonValue& entry : from_.list("writes")) {
      exec::Write write{.variable = {}, .value = value(entry.at("value"))};
      if (entry.has("variable")) {
        write.variable = variable(entry.text("variable"));
        check_fits(write.value, write.variable, entry);
      } else {
        write.argument = entry.whole<int>("argument");
        const bool known = write.argument >= 0 && write.argument < path_->arguments;
        if (!known) entry.fail("the position of an argument");
        const Type& type =
            path_->graph->placeholders()[static_cast<std::size_t>(write.argument)].type();
        if (!type.same_as(write.value.type())) entry.fail("a value of the argument's type");
      }
      path_->writes.push_back(std::move(write));
    }
  }

  void grads() {
    for (const JsonValue& entry : from_.list("grads")) {
      exec::GradNote note;
      note.leaf = variable(entry.text("leaf"));
      note.shape = note.leaf.shape();
      note.defined_before = entry.boolean("defined");
      note.reads_first = entry.boolean("reads");
      path_->grads.push_back(std::move(note));
    }
    for (const JsonValue& entry : from_.list("grad_writes")) {
      exec::GradWrite write;
      write.leaf = variable(entry.text("leaf"));
      write.in_place = entry.boolean("in_place");
      if (entry.has("value")) {
        write.value = value(entry.at("value"));
        check_fits(write.value, write.leaf, entry);
      }
      const bool fits = write.value && write.value.type().shape().same_as(write.leaf.shape());
      if (write.in_place && !fits) entry.fail("a value of the gradient's shape");
      path_->grad_writes.push_back(std::move(write));
    }
  }

  static void check_fits(const Value& value, const Tensor& tensor, const JsonValue& entry) {
    const Type& type = value.type();
    if (!type.is_tensor() || type.dtype() != tensor.dtype() || type.rank() != tensor.rank()) {
      entry.fail("a value of the type " + type_string(tensor));
    }
  }

  [[nodiscard]] Value value(const JsonValue& from) const {
    const std::vector<JsonValue> place = from.items("value");
    if (place.size() != 2) from.fail("a node and an output");
    const auto node = place[0].as_whole<std::size_t>("node");
    const auto output = place[1].as_whole<std::size_t>("output");
    const auto& nodes = path_->graph->nodes();
    if (node >= nodes.size() || output >= nodes[node]->types().size()) {
      from.fail("a value of the graph");
    }
    return nodes[node]->output(static_cast<int>(output));
  }

  [[nodiscard]] const Tensor& variable(const std::string& name) const {
    const auto found = parts_.variables.find(name);
    if (found == parts_.variables.end()) {
      throw std::invalid_argument(fmt::format("expected a tensor 'state.{}', found none", name));
    }
    return found->second;
  }

  const JsonValue& from_;
  const LoadedParts& parts_;
  std::shared_ptr<Path> path_;
};

/// Operators are known by name where the file is read.
void check_operators(const GraphImpl& graph, Loc loc) {
  for (const auto& node : graph.nodes()) {
    if (find_op(node->op().name) != &node->op()) {
      throw GraphError(fmt::format("save: {} cannot be saved: what it does is code of this program",
                                   node->op().name),
                       loc, node->loc());
    }
    for (const Ref<GraphImpl>& region : node->regions()) check_operators(*region, loc);
  }
}

/// Adds a way through the function that agrees with those that are there up to a host read.
void add_path(Recording& recording, const std::shared_ptr<Path>& path,
              const exec::ExecutableOptions& options) {
  recording.learn(*path);
  recording.skeletons.emplace_back();
  if (!recording.tree) {
    recording.tree = std::make_shared<exec::DecisionTree>(path, options);
    return;
  }
  for (const exec::DecisionTree::Leaf& leaf : recording.tree->leaves()) {
    std::size_t common = 0;
    if (const auto difference = exec::compare_paths(*leaf.path, *path, common)) {
      throw std::invalid_argument("two paths of a recording differ: " + difference->text);
    }
  }
  if (!recording.tree->add(path)) {
    throw std::invalid_argument("two paths of a recording are one");
  }
}

std::unique_ptr<Recording> load_recording(const JsonValue& from, const LoadedParts& parts,
                                          const std::vector<std::int64_t>& numbers,
                                          const CompileOptions& options) {
  auto recording = std::make_unique<Recording>();
  recording->reason = "loaded from a file";
  recording->overlap = from.boolean("overlap");
  for (const JsonValue& entry : from.list("paths")) {
    add_path(*recording, PathReader(entry, parts).read(), exec::executable_options(options));
  }
  if (!recording->tree) from.fail("a path of each recording");
  const Path& first = *recording->tree->leaves()[0].path;
  // Calls without gradients, of arguments that track none.
  recording->key = {0, first.arguments};
  for (int i = 0; i < first.arguments; ++i) {
    const Type& type = first.graph->placeholders()[static_cast<std::size_t>(i)].type();
    if (!type.is_tensor()) from.fail("tensors for arguments");
    recording->shapes.push_back(type.shape());
    recording->types.push_back(to_string(type));
    recording->key.insert(recording->key.end(),
                          {static_cast<std::int64_t>(type.dtype()), type.rank(), 0});
  }
  recording->key.insert(recording->key.end(), numbers.begin(), numbers.end());
  recording->layouts = load_layouts(from, recording->shapes.size());
  if (from.has("small_sizes")) {
    for (const JsonValue& known : from.list("small_sizes"))
      recording->small.push_back(load_small(known, *recording));
  }
  for (const Buckets& one : options.buckets) {
    const auto argument = static_cast<std::size_t>(one.axis.argument);
    const int rank = argument < recording->shapes.size() ? recording->shapes[argument].rank() : 0;
    if (one.axis.axis < -rank || one.axis.axis >= rank)
      from.fail("an argument with the axis that is padded");
  }
  for (const exec::DecisionTree::Leaf& leaf : recording->tree->leaves())
    recording->add_buckets(leaf.path, options);
  return recording;
}

/// Those of its options that are the function's own, wherever it runs.
json save_options(const CompileOptions& options) {
  json buckets = json::array();
  for (const Buckets& one : options.buckets) {
    buckets.push_back(
        {{"argument", one.axis.argument}, {"axis", one.axis.axis}, {"sizes", one.sizes}});
  }
  return {{"name", options.name},
          {"fast_math", options.fast_math},
          {"memory_limit", options.memory_limit},
          {"hot_calls", options.hot_calls},
          {"buckets", std::move(buckets)}};
}

Buckets load_buckets(const JsonValue& from) {
  Buckets made;
  made.axis = {.argument = from.whole<int>("argument"), .axis = from.whole<int>("axis")};
  if (made.axis.argument < 0) from.at("argument").fail("the position of an argument");
  for (const JsonValue& size : from.list("sizes"))
    made.sizes.push_back(size.as_whole<std::int64_t>("sizes"));
  if (!exec::are_buckets(made.sizes))
    from.at("sizes").fail("sizes of 2 or more, the smallest first");
  return made;
}

CompileOptions load_options(const JsonValue& from) {
  CompileOptions options{.name = from.text("name"), .fast_math = from.boolean("fast_math")};
  const auto number = [&](const char* key, auto& option) {
    if (!from.has(key)) return;  // in files of earlier versions
    option = from.whole<std::remove_reference_t<decltype(option)>>(key);
    if (option < 0) from.at(key).fail("0 or more for '" + std::string(key) + "'");
  };
  number("memory_limit", options.memory_limit);
  number("hot_calls", options.hot_calls);
  if (from.has("buckets")) {
    for (const JsonValue& one : from.list("buckets")) options.buckets.push_back(load_buckets(one));
  }
  return options;
}

}  // namespace

std::size_t SavedParts::add(const GraphImpl& graph, Loc loc) {
  exec::register_all_ops();
  check_operators(graph, loc);
  graphs.push_back(texts.add(graph));
  return graphs.size() - 1;
}

std::string save_function(const exec::CompiledCore& core, SavedParts& parts, Loc loc) {
  std::vector<const Recording*> taken;
  std::string refusal = "has no recording: call it before it is saved, as it shall be called later";
  std::vector<Tensor> grads_read;
  json recordings = json::array();
  std::vector<std::int64_t> numbers;
  const auto fail = [&](const std::string& reason) {
    throw GraphError("save: '" + core.options().name + "' " + reason, loc);
  };
  const auto take = [&](const Recording& recording) {
    for (const exec::StateGuard& guard : recording.states) {
      if (guard.state->peek() == guard.value) continue;
      refusal = fmt::format(
          "was recorded with {} == {}, which is {} now: call it so before it is "
          "saved",
          guard.state->name(), guard.value, guard.state->peek());
      return;
    }
    const std::string now = exec::autocast_of(exec::key_of({}, {}));
    if (exec::autocast_of(recording.key) != now) {
      refusal = fmt::format(
          "was recorded with autocast {}, which is {} now: save it as it was "
          "called",
          exec::autocast_of(recording.key), now);
      return;
    }
    if (!recording.refusal.empty()) fail("runs eagerly: " + recording.refusal);
    taken.push_back(&recording);
    for (const exec::GradNote& note : recording.grads) {
      if (note.reads_first) grads_read.push_back(note.leaf);
    }
  };
  const auto write = [&] {
    if (taken.empty()) fail(refusal);
    numbers = numbers_of(*taken.front());
    for (const Recording* const recording : taken) {
      if (numbers != numbers_of(*recording)) {
        fail(
            "was called with several values of a number, numbers of tensors or C++ types among its "
            "arguments; pass numbers as tensors, or compile and save a function for each");
      }
      recordings.push_back(save_recording(*recording, grads_read, parts, loc));
    }
  };
  core.visit(take, write);
  json made = save_options(core.options());
  made["numbers"] = numbers;
  made["recordings"] = std::move(recordings);
  return made.dump();
}

LoadedFunction load_function(const JsonValue& from, const LoadedParts& parts, int threads) {
  LoadedFunction made;
  for (const JsonValue& number : from.list("numbers")) {
    made.numbers.push_back(number.as_whole<std::int64_t>("numbers"));
  }
  CompileOptions options = load_options(from);
  options.threads = threads;
  std::vector<std::unique_ptr<Recording>> recordings;
  for (const JsonValue& entry : from.list("recordings")) {
    recordings.push_back(load_recording(entry, parts, made.numbers, options));
  }
  if (recordings.empty()) from.fail("a recording");
  const Path& newest = *recordings.back()->tree->leaves()[0].path;
  for (int i = 0; i < newest.arguments; ++i) {
    made.inputs.push_back(newest.graph->placeholders()[static_cast<std::size_t>(i)].type());
  }
  for (const Value& output : newest.outputs) made.outputs.push_back(output.type());
  for (const auto& recording : recordings) {
    for (const exec::DecisionTree::Leaf& leaf : recording->tree->leaves()) {
      if (leaf.path->outputs.size() != made.outputs.size() ||
          leaf.path->arguments != newest.arguments) {
        from.at("name").fail("as many arguments and outputs of each path");
      }
    }
  }
  made.core =
      std::make_unique<exec::CompiledCore>(std::move(options), Loc(), std::move(recordings));
  return made;
}

}  // namespace dyad::io
