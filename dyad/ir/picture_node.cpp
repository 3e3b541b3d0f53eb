#include "dyad/ir/picture_node.h"

#include "dyad/core/tensor_impl.h"
#include "dyad/ir/graph_ops.h"
#include "dyad/ir/literal.h"

namespace dyad {
namespace {

constexpr std::size_t kLongestLine = 38;
constexpr std::size_t kMostTypes = 4;

constexpr NodeStyle kInput{"input", "#fff7d1", "#b8950f"};
constexpr NodeStyle kVariable{"variable", "#d8f1f0", "#2b8c8c"};
constexpr NodeStyle kConstant{"constant", "#eceef1", "#7b828d"};
constexpr NodeStyle kWrite{"write", "#fde4e1", "#c8483b"};
constexpr NodeStyle kByBody[] = {
    {"element by element", "#e6f0fd", "#4a80cc"},
    {"reduction", "#fdecd9", "#d18324"},
    {"view", "#f1f2f4", "#858c97"},
    {"composite", "#efe8fb", "#8560c4"},
    {"library or kernel", "#e1f4e8", "#389059"},
    {"control flow", "#fce8f0", "#c24d7a"},
    {"graph", "#ffffff", "#555b66"},
};

}  // namespace

const NodeStyle& style_of(const Node& node) noexcept {
  if (&node.op() == &kPlaceholderOp) return kInput;
  if (&node.op() == &kVariableOp) return kVariable;
  if (&node.op() == &kConstantOp) return kConstant;
  if (node.op().effect == Effect::write) return kWrite;
  return kByBody[static_cast<std::size_t>(node.op().kind)];
}

bool is_leaf(const Node& node) noexcept {
  return &node.op() == &kVariableOp || &node.op() == &kConstantOp;
}

std::string leaf_text(const Node& node) {
  if (&node.op() == &kVariableOp) {
    return shortened(node.attrs_as<VariableAttrs>().name + " " + to_string(node.types()[0]),
                     kLongestLine);
  }
  const Tensor& value = node.attrs_as<ConstantAttrs>().value;
  if (value.impl()->numel() != 1) return "constant " + to_string(node.types()[0]);
  return element_text(value.dtype(), value.impl()->data);
}

NodeText text_of(const Node& node, const ValueNames& names, const PictureOptions& options) {
  NodeText text;
  const std::string* name = name_of(node);
  text.title = name != nullptr ? shortened(*name, kLongestLine) : std::string(node.op().name);
  if (&node.op() == &kConstantOp) text.title = shortened(leaf_text(node), kLongestLine);
  if (!node.types().empty() && name == nullptr) {
    text.value = names(Value{const_cast<Node*>(&node), 0});
  }
  if (name == nullptr && !is_leaf(node)) {
    const std::string attrs = to_string(node.attrs().info(), node.attrs().data());
    if (!attrs.empty()) {
      text.lines.push_back(shortened(attrs.substr(1, attrs.size() - 2), kLongestLine));
    }
  }
  for (std::size_t i = 0; i < node.types().size() && i < kMostTypes; ++i) {
    text.lines.push_back(shortened(to_string(node.types()[i]), kLongestLine));
  }
  if (node.types().size() > kMostTypes) {
    text.lines.push_back("and " + std::to_string(node.types().size() - kMostTypes) + " more");
  }
  const std::string place = options.place ? options.place(node)
                            : node.loc()  ? to_string(node.loc())
                                          : "";
  text.place = shortened(place, kLongestLine);
  if (options.note) text.note = shortened(options.note(node), kLongestLine);
  return text;
}

std::string shortened(std::string text, std::size_t length) {
  if (text.size() <= length) return text;
  std::size_t end = length - 1;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;  // whole UTF-8
  return text.substr(0, end) + "…";
}

std::string xml_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += static_cast<unsigned char>(c) < 0x20 && c != '\n' ? ' ' : c;
    }
  }
  return out;
}

}  // namespace dyad
