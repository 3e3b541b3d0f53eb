#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "dyad/base/hash.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/ir/attr_text.h"
#include "dyad/ir/base64.h"
#include "dyad/ir/graph_ops.h"
#include "dyad/ir/graph_texts.h"
#include "dyad/ir/literal.h"
#include "dyad/ir/value_names.h"

namespace dyad {
namespace {

/// Elements too many for a line, by the hash of their bytes; equal constants are written once.
class DataSection {
 public:
  std::string key_of(const Tensor& tensor) {
    const std::vector<std::byte> bytes = packed_elements(tensor);
    std::array<char, 16> digits;
    const std::uint64_t hash = fnv1a(bytes);
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), hash, 16).ptr;
    const std::string name(digits.data(), end);
    std::string key = name;
    for (int i = 1;; ++i) {
      const auto [it, is_new] = entries_.try_emplace(key, tensor);
      if (is_new || same(it->second, tensor, bytes)) return key;
      key = name + "_" + std::to_string(i);
    }
  }

  [[nodiscard]] const std::map<std::string, Tensor>& entries() const noexcept { return entries_; }

  [[nodiscard]] std::string text(std::int64_t limit) const {
    if (entries_.empty()) return "";
    std::int64_t bytes = 0;
    for (const auto& [key, tensor] : entries_) {
      bytes += tensor.impl()->numel() * static_cast<std::int64_t>(size_of(tensor.dtype()));
    }
    if (bytes > limit) {
      return "// " + std::to_string(entries_.size()) + " constants of " + std::to_string(bytes) +
             " bytes are left out\n";
    }
    std::string out = "data {\n";
    for (const auto& [key, tensor] : entries_) {
      out += "  #" + key + " = \"" + to_base64(packed_elements(tensor)) + "\"\n";
    }
    return out + "}\n";
  }

 private:
  static bool same(const Tensor& known, const Tensor& tensor, std::span<const std::byte> bytes) {
    return known.is_same(tensor) ||
           (known.dtype() == tensor.dtype() && known.shape().same_as(tensor.shape()) &&
            std::ranges::equal(packed_elements(known), bytes));
  }

  std::map<std::string, Tensor> entries_;
};

/// What tensors are called: variables of one name, in different graphs, may be one tensor or two.
class TensorNames {
 public:
  const std::string& name_of(const Tensor& tensor, const std::string& wanted) {
    const auto known = names_.find(tensor.impl());
    if (known != names_.end()) return known->second;
    std::string name = wanted;
    for (int i = 2; !taken_.insert(name).second; ++i) name = wanted + "'" + std::to_string(i);
    tensors_.emplace_back(name, tensor);
    return names_.emplace(tensor.impl(), std::move(name)).first->second;
  }
  [[nodiscard]] const GraphTexts::Named& tensors() const noexcept { return tensors_; }

 private:
  std::unordered_map<const TensorImpl*, std::string> names_;
  std::unordered_set<std::string> taken_;
  GraphTexts::Named tensors_;
};

class GraphPrinter {
 public:
  GraphPrinter(GraphTextOptions options, TensorNames& names, DataSection& data)
      : options_(options), tensor_names_(names), data_(data) {}

  std::string print(const GraphImpl& graph) {
    block("graph", graph, "");
    return std::move(text_);
  }

 private:
  /// Attributes with every element of their tensors.
  class AttrsWithElements final : public AttrPrinter {
   public:
    explicit AttrsWithElements(GraphPrinter& printer) : printer_(printer) {}

   protected:
    std::string tensor_text(const Tensor& tensor) override {
      return type_string(tensor) + " " + printer_.elements(tensor);
    }

   private:
    GraphPrinter& printer_;
  };

  void block(std::string_view keyword, const GraphImpl& graph, const std::string& indent) {
    const ValueNames names(graph);
    text_ += indent + std::string(keyword) + " {\n";
    for (const SizeRange& range : graph.ranges()) assumption(range, indent + "  ");
    for (const auto& node : graph.nodes()) statement(*node, names, indent + "  ");
    text_ += indent + "  return";
    for (std::size_t i = 0; i < graph.outputs().size(); ++i) {
      text_ += (i ? ", " : " ") + names(graph.outputs()[i]);
    }
    text_ += "\n" + indent + "}\n";
  }

  void assumption(const SizeRange& range, const std::string& indent) {
    text_ += indent + "assume (" + to_string(range.size) + ") from " + std::to_string(range.min);
    if (range.max != kAnySize) text_ += " to " + std::to_string(range.max);
    line_end(range.loc);
  }

  void line_end(Loc loc) {
    if (options_.lines && loc) text_ += " @" + place(loc);
    text_ += '\n';
  }

  void statement(const Node& node, const ValueNames& names, const std::string& indent) {
    text_ += indent;
    if (!node.types().empty()) text_ += names.of_outputs(node) + " = ";
    text_ += node.op().name;
    if (node.op().version != 1) text_ += "@" + std::to_string(node.op().version);
    if (const std::string* name = name_of(node)) {
      if (!names.by_own_name(node)) text_ += " " + quote(*name);
      if (&node.op() == &kVariableOp) tensor_identity(node, *name);
    } else if (&node.op() == &kConstantOp) {
      text_ += " " + elements(node.attrs_as<ConstantAttrs>().value);
    } else {
      call(node, names);
    }
    for (std::size_t i = 0; i < node.types().size(); ++i) {
      text_ += (i ? ", " : " : ") + to_string(node.types()[i]);
    }
    line_end(node.loc());
    for (const auto& region : node.regions()) block("region", *region, indent + "  ");
  }

  void call(const Node& node, const ValueNames& names) {
    text_ += '(';
    for (std::size_t i = 0; i < node.inputs().size(); ++i) {
      const Value input = node.inputs()[i];
      text_ += (i ? ", " : "") + (input ? names(input) : "none");
    }
    text_ += ')';
    AttrsWithElements printer(*this);
    node.attrs().visit(printer);
    if (!printer.text().empty()) text_ += " {" + printer.text() + "}";
  }

  void tensor_identity(const Node& node, const std::string& name) {
    const std::string& key = tensor_names_.name_of(node.attrs_as<VariableAttrs>().tensor, name);
    if (key != name) text_ += " of " + quote(key);
  }

  std::string elements(const Tensor& tensor) {
    const std::int64_t count = tensor.impl()->numel();
    // Strings are written out: their words are addresses.
    if (count > kSmallConstant && tensor.dtype() != DType::string)
      return "#" + data_.key_of(tensor);
    const std::vector<std::byte> bytes = packed_elements(tensor);
    const std::size_t width = size_of(tensor.dtype());
    if (tensor.rank() == 0) return element_text(tensor.dtype(), bytes.data());
    std::string list = "[";
    for (std::size_t at = 0; at < bytes.size(); at += width) {
      list += (at ? ", " : "") + element_text(tensor.dtype(), bytes.data() + at);
    }
    return list + "]";
  }

  static std::string place(Loc loc) {
    const std::string text = to_string(loc);
    const std::string file = text.substr(0, text.rfind(':'));
    for (const char c : file) {
      const bool plain = std::isalnum(static_cast<unsigned char>(c)) ||
                         std::string_view("_.+-").find(c) != std::string_view::npos;
      if (!plain) return quote(file) + ":" + std::to_string(loc.line());
    }
    return file.empty() ? "\"\":" + std::to_string(loc.line()) : text;
  }

  GraphTextOptions options_;
  std::string text_;
  TensorNames& tensor_names_;
  DataSection& data_;
};

}  // namespace

std::string to_string(const GraphImpl& graph, GraphTextOptions options) {
  TensorNames names;
  DataSection data;
  const std::string text = GraphPrinter(options, names, data).print(graph);
  return text + data.text(options.data_limit);
}

struct GraphTexts::State {
  TensorNames names;
  DataSection data;
};

GraphTexts::GraphTexts() : state_(std::make_unique<State>()) {}
GraphTexts::~GraphTexts() = default;

std::string GraphTexts::name_of(const Tensor& tensor, const std::string& wanted) {
  return state_->names.name_of(tensor, wanted);
}

std::string GraphTexts::add(const GraphImpl& graph) {
  return GraphPrinter({}, state_->names, state_->data).print(graph);
}

const GraphTexts::Named& GraphTexts::variables() const noexcept { return state_->names.tensors(); }

GraphTexts::Named GraphTexts::constants() const {
  return {state_->data.entries().begin(), state_->data.entries().end()};
}

}  // namespace dyad
