#include "dyad/onnx/cut_model.h"

#include <fmt/format.h>

#include <unordered_set>

#include "dyad/base/error.h"

namespace dyad::onnx {
namespace {

using Names = std::unordered_set<std::string>;

/// Adds what a node takes, its subgraphs' names included.
void add_inputs(const pb::NodeProto& node, Names& names) {
  names.insert(node.input().begin(), node.input().end());
  for (const pb::AttributeProto& attribute : node.attribute()) {
    if (!attribute.has_g()) continue;
    for (const pb::NodeProto& inner : attribute.g().node()) add_inputs(inner, names);
    for (const pb::ValueInfoProto& output : attribute.g().output()) names.insert(output.name());
  }
}

/// Takes out the elements that `keep` does not want; the others stay in order.
template <class List, class Keep>
void keep_only(List& list, const Keep& keep) {
  int kept = 0;
  for (int i = 0; i < list.size(); ++i) {
    if (!keep(list.Get(i))) continue;
    if (kept != i) list.SwapElements(kept, i);
    ++kept;
  }
  list.DeleteSubrange(kept, list.size() - kept);
}

}  // namespace

void cut_model(pb::ModelProto& model, const std::vector<std::string>& outputs,
               const std::string& file, Loc loc) {
  pb::GraphProto& graph = *model.mutable_graph();
  Names needed(outputs.begin(), outputs.end()), given;
  std::unordered_set<const pb::NodeProto*> kept;
  for (int i = graph.node_size(); i-- > 0;) {
    const pb::NodeProto& node = graph.node(i);
    bool wanted = false;
    for (const std::string& output : node.output()) {
      given.insert(output);
      wanted = wanted || (!output.empty() && needed.contains(output));
    }
    if (!wanted) continue;
    kept.insert(&node);
    add_inputs(node, needed);
  }
  graph.clear_output();
  for (const std::string& output : outputs) {
    if (!given.contains(output)) {
      throw OnnxError(
          fmt::format("'{}': no node gives \"{}\", which LoadOptions::outputs names", file, output),
          loc);
    }
    graph.add_output()->set_name(output);
  }
  keep_only(*graph.mutable_node(), [&](const pb::NodeProto& node) { return kept.contains(&node); });
  keep_only(*graph.mutable_initializer(),
            [&](const pb::TensorProto& tensor) { return needed.contains(tensor.name()); });
  keep_only(*graph.mutable_input(),
            [&](const pb::ValueInfoProto& input) { return needed.contains(input.name()); });
}

}  // namespace dyad::onnx
