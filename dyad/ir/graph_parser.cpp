#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "dyad/ir/graph_ops.h"
#include "dyad/ir/graph_texts.h"
#include "dyad/ir/value_reader.h"

namespace dyad {
namespace {

constexpr int kMaxRegionNesting = 64;
constexpr std::int64_t kMaxZeroBytes = std::int64_t{1} << 30;

class Parser {
 public:
  Parser(std::string_view text, const NamedTensors& variables, const NamedTensors& constants)
      : in_(text), values_(in_, constants), given_(variables) {}

  Ref<GraphImpl> parse() {
    in_.expect_word("graph");
    Ref<GraphImpl> graph = block(0);
    values_.data_section();
    if (!in_.at_end()) in_.fail_expected("'data' or the end of the text");
    return graph;
  }

 private:
  /// The names of one graph or region.
  struct Scope {
    std::unordered_map<std::string, Value> values;
    std::unordered_set<std::string> own_names;  // of placeholders and variables
  };
  /// What a statement says before its node is made.
  struct Statement {
    std::vector<std::string> names;
    std::size_t op_position = 0;
    const OpInfo* op = nullptr;
    std::string own_name;     // of a placeholder or variable
    std::string identity;     // of a variable's tensor
    std::size_t literal = 0;  // where a constant's elements stand
    std::vector<Value> inputs;
    Ref<Attrs> attrs;
    Types types;
    bool typed = false;
    Loc loc;
  };

  Ref<GraphImpl> block(int depth) {
    if (depth > kMaxRegionNesting) {
      in_.fail_at(in_.position(),
                  "regions are nested more than " + std::to_string(kMaxRegionNesting) + " deep");
    }
    in_.expect('{');
    auto graph = make_ref<GraphImpl>();
    FinishedGraphEvaluator evaluator(graph);
    const Evaluator::Scope current(evaluator);
    Scope scope;
    while (depth == 0 && in_.accept_word("assume")) assumption(*graph);
    while (!in_.accept_word("return")) {
      if (in_.peek() == '}') in_.fail_expected("a statement or 'return'");
      statement(*graph, scope, depth);
    }
    while (in_.peek() != '}') {
      graph->outputs().push_back(value(scope));
      if (!in_.accept(',')) break;
    }
    in_.expect('}');
    return graph;
  }

  void assumption(GraphImpl& graph) {
    const std::size_t start = in_.position();
    in_.expect('(');
    SizeRange range{.size = values_.size()};
    in_.expect(')');
    in_.expect_word("from");
    range.min = in_.integer();
    if (in_.accept_word("to")) range.max = in_.integer();
    range.loc = place();
    at_position(in_, start, [&] { graph.assume(range); });
  }

  void statement(GraphImpl& graph, Scope& scope, int depth) {
    Statement s;
    const std::size_t start = in_.position();
    if (in_.peek() == '%') {
      do {
        const std::size_t at = in_.position();
        s.names.push_back(value_name());
        if (scope.values.contains(s.names.back())) {
          in_.fail_at(at, "%" + s.names.back() + " is there already");
        }
      } while (in_.accept(','));
      in_.expect('=');
    }
    operator_name(s);
    arguments(s, scope);
    types(s);
    s.loc = place();
    finish(s, scope);
    Node* node = at_position(in_, s.op_position, [&] { return append(graph, s); });
    if (node->types().size() != s.names.size()) {
      in_.fail_at(start, std::string(s.op->name) + " has " + std::to_string(node->types().size()) +
                             " outputs, but " + std::to_string(s.names.size()) +
                             " names stand before '='");
    }
    for (std::size_t i = 0; i < s.names.size(); ++i) {
      scope.values.emplace(s.names[i], node->output(static_cast<int>(i)));
    }
    while (in_.accept_word("region")) node->add_region(block(depth + 1));
  }

  void operator_name(Statement& s) {
    s.op_position = in_.position();
    const std::string_view name = in_.identifier("an operator");
    s.op = find_op(name);
    if (s.op == nullptr) {
      in_.fail_at(s.op_position, "there is no operator '" + std::string(name) + "'");
    }
    std::int64_t version = 1;
    if (in_.here() == '@') {
      in_.expect('@');
      version = in_.integer();
    }
    if (version != s.op->version) {
      in_.fail_at(s.op_position, "version " + std::to_string(version) + " of " + std::string(name) +
                                     " was written, but this library has "
                                     "version " +
                                     std::to_string(s.op->version));
    }
  }

  void arguments(Statement& s, const Scope& scope) {
    if (s.op == &kPlaceholderOp || s.op == &kVariableOp) {
      if (s.names.empty()) in_.fail_at(s.op_position, "expected '%name =' before it");
      s.own_name = in_.peek() == '"' ? in_.quoted("a name") : s.names[0];
      s.identity = s.own_name;
      if (s.op == &kVariableOp && in_.accept_word("of")) s.identity = in_.quoted("a name");
      return;
    }
    if (s.op == &kConstantOp) {
      s.literal = in_.position();
      values_.skip_elements();
      return;
    }
    in_.expect('(');
    while (in_.peek() != ')') {
      s.inputs.push_back(in_.accept_word("none") ? Value() : value(scope));
      if (!in_.accept(',')) break;
    }
    in_.expect(')');
    s.attrs = values_.attributes(*s.op);
  }

  void types(Statement& s) {
    s.typed = in_.accept(':');
    if (!s.typed) return;
    do s.types.push_back(values_.type());
    while (in_.accept(','));
  }

  Loc place() {
    if (!in_.accept('@')) return {};
    const std::string file = in_.peek() == '"'
                                 ? in_.quoted("a file")
                                 : std::string(in_.run_of(".+-", "a file name and line"));
    in_.expect(':');
    const std::size_t at = in_.position();
    const std::int64_t line = in_.integer();
    if (line < 0 || line > 0xFFFFFFFF) in_.fail_at(at, "a line number is out of range");
    return Loc::intern(file, static_cast<std::uint32_t>(line));
  }

  /// The attributes of what has a form of its own: they follow from its type.
  void finish(Statement& s, Scope& scope) {
    if (s.attrs) return;
    const bool needs_type = s.op != &kVariableOp || !given_.contains(s.identity);
    if (needs_type && (s.types.size() != 1 || !s.types[0].is_tensor())) {
      in_.fail_at(s.op_position,
                  std::string(s.op->name) + " needs one type of a tensor, such as ': f32[3, 4]'");
    }
    if (s.op != &kConstantOp && !scope.own_names.insert(s.own_name).second) {
      in_.fail_at(s.op_position, "the name \"" + s.own_name + "\" is used twice");
    }
    if (s.op == &kPlaceholderOp) {
      const PlaceholderAttrs attrs{s.own_name, s.types[0].dtype(), s.types[0].shape()};
      s.attrs = Attrs::copy_of(attrs_info<PlaceholderAttrs>, &attrs);
    } else if (s.op == &kVariableOp) {
      const VariableAttrs attrs{s.own_name, variable_tensor(s)};
      s.attrs = Attrs::copy_of(attrs_info<VariableAttrs>, &attrs);
    } else {
      const std::size_t after = in_.position();
      in_.seek(s.literal);
      const ConstantAttrs attrs{values_.elements(s.types[0])};
      in_.seek(after);
      s.attrs = Attrs::copy_of(attrs_info<ConstantAttrs>, &attrs);
    }
  }

  Tensor variable_tensor(const Statement& s) {
    if (const auto it = given_.find(s.identity); it != given_.end()) return it->second;
    const auto [it, is_new] = zeros_.try_emplace(s.identity);
    if (is_new) {
      const std::int64_t bytes = values_.byte_count(s.types[0], s.op_position);
      if (bytes > kMaxZeroBytes - zero_bytes_) {
        in_.fail_at(s.op_position,
                    "the variables take more than 1 GiB; give their tensors by name");
      }
      zero_bytes_ += bytes;
      it->second = make_empty(s.types[0].dtype(), s.types[0].shape());
      if (bytes > 0) std::memset(it->second.impl()->data, 0, static_cast<std::size_t>(bytes));
    }
    return it->second;
  }

  static Node* append(GraphImpl& graph, Statement& s) {
    Types inputs;
    for (const Value& input : s.inputs) inputs.push_back(input ? input.type() : Type::none());
    if (s.op->kind == BodyKind::control && s.typed) {
      return graph.append(*s.op, s.attrs, s.inputs, s.types, s.loc);
    }
    Types inferred;
    try {
      inferred = infer_types(*s.op, inputs, s.attrs->data(), s.loc);
    } catch (const Undecided&) {
      if (!s.typed) throw;
      inferred = s.types;
    }
    if (!s.typed) {
      graph.bind_unknown_sizes(inferred);
    } else if (!std::ranges::equal(s.types, inferred, is_instance_of)) {
      std::string gives;
      for (const Type& t : inferred) gives += (gives.empty() ? "" : ", ") + to_string(t);
      throw GraphError("the type that is written is not what " +
                       call_string(*s.op, inputs, s.attrs->data()) + " gives: " + gives);
    } else {
      inferred = s.types;
    }
    if (s.op == &kAssignOp && !s.inputs[0].node->is("variable")) {
      throw GraphError("only a variable can be assigned");
    }
    if (s.op == &kVariableOp && graph.find_variable(s.attrs->as<VariableAttrs>().tensor)) {
      throw GraphError("the variable is there already");
    }
    return graph.append(*s.op, s.attrs, s.inputs, std::move(inferred), s.loc);
  }

  std::string value_name() {
    in_.expect('%');
    if (in_.here() == '"') return in_.quoted("a name");
    return std::string(in_.run_of(".", "a name or number after '%'"));
  }

  Value value(const Scope& scope) {
    const std::size_t at = in_.position();
    if (in_.peek() != '%') in_.fail_expected("a value such as %x");
    const std::string name = value_name();
    const auto it = scope.values.find(name);
    if (it == scope.values.end())
      in_.fail_at(at, "there is no value %" + name + " above this line");
    return it->second;
  }

  TextReader in_;
  ValueReader values_;
  const NamedTensors& given_;
  std::map<std::string, Tensor> zeros_;  // by the identity of the variable
  std::int64_t zero_bytes_ = 0;
};

}  // namespace

Ref<GraphImpl> parse_graph(std::string_view text, const NamedTensors& variables,
                           const NamedTensors& constants) {
  return Parser(text, variables, constants).parse();
}

Ref<GraphImpl> parse_graph(std::string_view text, const NamedTensors& variables) {
  return parse_graph(text, variables, {});
}

}  // namespace dyad
