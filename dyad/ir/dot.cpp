#include "dyad/ir/dot.h"

#include <unordered_set>

#include "dyad/ir/literal.h"
#include "dyad/ir/picture_node.h"

namespace dyad {
namespace {

class DotWriter {
 public:
  explicit DotWriter(const PictureOptions& options) : options_(options) {}

  std::string write(const GraphImpl& graph) {
    text_ = "digraph {\n  rankdir = TB;\n";
    if (!options_.title.empty())
      text_ += "  labelloc = t; label = " + quote(options_.title) + ";\n";
    text_ += "  node [shape = box, style = \"rounded,filled\", fontname = \"sans-serif\"];\n";
    nodes(graph, "  ");
    return text_ + "}\n";
  }

 private:
  void nodes(const GraphImpl& graph, const std::string& indent) {
    const ValueNames names(graph);
    std::unordered_set<const Node*> outputs;
    for (const Value& output : graph.outputs()) outputs.insert(output.node);
    for (const auto& node : graph.nodes()) {
      if (shown_++ >= options_.max_nodes) break;
      const NodeText text = text_of(*node, names, options_);
      const NodeStyle& style = style_of(*node);
      std::string label = text.title + (text.value.empty() ? "" : "  " + text.value);
      for (const std::string& line : text.lines) label += "\n" + line;
      if (!text.place.empty()) label += "\n" + text.place;
      if (!text.note.empty()) label += "\n" + text.note;
      text_ += indent + id(*node) + " [label = " + quote(label) + ", fillcolor = \"" +
               std::string(style.fill) + "\", color = \"" + std::string(style.line) + "\"" +
               (outputs.contains(node.get()) ? ", peripheries = 2" : "") + "];\n";
      for (const Value& input : node->inputs()) {
        if (!input) continue;
        text_ += indent + id(*input.node) + " -> " + id(*node);
        if (input.node->types().size() > 1) {
          text_ += " [taillabel = \"" + std::to_string(input.index) + "\"]";
        }
        text_ += ";\n";
      }
      for (std::size_t i = 0; i < node->regions().size(); ++i) {
        // Graphviz draws a box around what is in a subgraph of such a name.
        text_ += indent + "subgraph cluster_" + id(*node) + "_" + std::to_string(i) + " {\n" +
                 indent + "  label = " + quote(text.value + " region " + std::to_string(i)) + ";\n";
        nodes(*node->regions()[i], indent + "  ");
        text_ += indent + "}\n";
      }
    }
  }

  std::string id(const Node& node) {
    const auto it = ids_.try_emplace(&node, ids_.size()).first;
    return "n" + std::to_string(it->second);
  }

  const PictureOptions& options_;
  std::string text_;
  std::unordered_map<const Node*, std::size_t> ids_;
  std::size_t shown_ = 0;
};

}  // namespace

std::string to_dot(const GraphImpl& graph, const PictureOptions& options) {
  return DotWriter(options).write(graph);
}

}  // namespace dyad
