#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "dyad/base/inline_vector.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/ir/op_info.h"

namespace dyad {

class Node;
class GraphImpl;

/// Output `index` of a node.
struct Value {
  Node* node = nullptr;
  int index = 0;

  [[nodiscard]] explicit operator bool() const noexcept { return node != nullptr; }
  [[nodiscard]] bool operator==(const Value&) const noexcept = default;
  [[nodiscard]] const Type& type() const;
};

struct ValueHash {
  std::size_t operator()(const Value& v) const noexcept {
    return std::hash<const void*>()(v.node) * 31 + static_cast<std::size_t>(v.index);
  }
};

/// One application of an operator in a graph. Inputs may be absent (a Value without node) where the
/// row says optional.
class Node {
 public:
  Node(const OpInfo& op, Ref<Attrs> attrs, std::span<const Value> inputs, Types types, Loc loc)
      : op_(&op),
        attrs_(std::move(attrs)),
        inputs_(inputs),
        types_(std::make_shared<const Types>(std::move(types))),
        loc_(loc) {}
  /// The same on other inputs. Passes copy nodes by the thousand: most take no memory but their
  /// own.
  Node(const Node& like, std::span<const Value> inputs)
      : op_(like.op_),
        attrs_(like.attrs_),
        inputs_(inputs),
        types_(like.types_),
        loc_(like.loc_),
        regions_(like.regions_) {}

  [[nodiscard]] const OpInfo& op() const noexcept { return *op_; }
  [[nodiscard]] bool is(std::string_view name) const noexcept { return op_->name == name; }
  [[nodiscard]] const Attrs& attrs() const noexcept { return *attrs_; }
  [[nodiscard]] const Ref<Attrs>& shared_attrs() const noexcept { return attrs_; }
  template <class A>
  [[nodiscard]] const A& attrs_as() const noexcept {
    return attrs_->as<A>();
  }
  [[nodiscard]] std::span<const Value> inputs() const noexcept { return inputs_; }
  [[nodiscard]] std::span<const Type> types() const noexcept { return *types_; }
  [[nodiscard]] Value output(int i = 0) noexcept { return {this, i}; }
  [[nodiscard]] Loc loc() const noexcept { return loc_; }
  /// Position in program order; unique in the graph.
  [[nodiscard]] int id() const noexcept { return id_; }
  /// Graphs inside a control operator (branches, bodies).
  [[nodiscard]] std::span<const Ref<GraphImpl>> regions() const noexcept { return regions_; }

  void set_input(std::size_t i, Value value) { inputs_[i] = value; }
  void set_types(Types types) { types_ = std::make_shared<const Types>(std::move(types)); }
  void add_region(Ref<GraphImpl> region) { regions_.push_back(std::move(region)); }
  void set_region(std::size_t i, Ref<GraphImpl> region) { regions_[i] = std::move(region); }

 private:
  friend class GraphImpl;
  const OpInfo* op_;
  Ref<Attrs> attrs_;
  InlineVector<Value, 3> inputs_;
  std::shared_ptr<const Types> types_;  // of a node and its copies
  Loc loc_;
  int id_ = -1;
  std::vector<Ref<GraphImpl>> regions_;
};

/// What a graph takes for granted of a size (a symbol, or an expression of some): from `min` to
/// `max` in every run.
struct SizeRange {
  Dim size;
  std::int64_t min = 0, max = kAnySize;
  Loc loc = {};
};

/// `from 2 to 512`, `2 or more`.
[[nodiscard]] std::string to_string(const SizeRange& range);

/// A static graph: nodes in program order (each after what it uses, effects in the order they
/// happen), the inputs it is fed (placeholders), the variables it reads and writes (captured
/// tensors), and outputs. Shared by the tensors that are its values.
class GraphImpl : public RefCounted<GraphImpl> {
 public:
  GraphImpl() = default;
  GraphImpl(const GraphImpl&) = delete;
  GraphImpl& operator=(const GraphImpl&) = delete;

  /// Appends a node of known types (no checks). What the graph knows of placeholders, variables and
  /// assignments follows from the nodes.
  Node* append(const OpInfo& op, Ref<Attrs> attrs, const std::vector<Value>& inputs, Types types,
               Loc loc);
  /// Appends a node after checking and inferring its types; each size that only a run can tell
  /// (unknown_size) becomes a fresh symbol.
  Node* append_checked(const OpInfo& op, Ref<Attrs> attrs, const std::vector<Value>& inputs,
                       Loc loc);
  /// Appends a copy of a node of any graph on other inputs: the same operator, attributes, types,
  /// line and (shared) regions. How passes carry over what they do not change.
  Node* append_copy(const Node& node, std::span<const Value> inputs);

  /// A value fed from outside; the name must be new (GraphError).
  Value add_placeholder(std::string name, const Type& type, Loc loc);
  /// The value of a concrete tensor that the graph reads at each run (and may write): one node for
  /// each tensor object. A name in use gets a number (`w_1`).
  Value add_variable(const std::string& name, const Tensor& tensor, Loc loc);
  /// A literal: a copy of the tensor's elements becomes part of the graph. A tensor that is moved
  /// in, and that nobody else holds, is taken over without a copy.
  Value add_constant(const Tensor& value, Loc loc);
  Value add_constant(Tensor&& value, Loc loc);

  /// Adds what is taken for granted of a size, once. ValueError where no size can be so: what
  /// varies has a symbol, a symbol is no negative number, and other ranges of the same size hold,
  /// too.
  void assume(const SizeRange& range);
  [[nodiscard]] std::span<const SizeRange> ranges() const noexcept { return ranges_; }

  [[nodiscard]] const std::deque<std::unique_ptr<Node>>& nodes() const noexcept { return nodes_; }
  [[nodiscard]] std::span<const Value> placeholders() const noexcept { return placeholders_; }
  [[nodiscard]] std::span<const Value> variables() const noexcept { return variables_; }
  [[nodiscard]] std::vector<Value>& outputs() noexcept { return outputs_; }
  [[nodiscard]] const std::vector<Value>& outputs() const noexcept { return outputs_; }
  [[nodiscard]] Value find_placeholder(std::string_view name) const noexcept;
  /// The variable node of a tensor object, or no value.
  [[nodiscard]] Value find_variable(const Tensor& tensor) const noexcept;
  /// What the memory holds now that first held `memory`: a variable's assigned value, what
  /// `overwrite` named last, or the value itself.
  [[nodiscard]] Value current(Value memory) const;
  /// Puts a fresh symbol in place of each size that only a run can tell (unknown_size).
  void bind_unknown_sizes(Types& types);
  [[nodiscard]] bool has_overwrites() const noexcept { return !overwritten_.empty(); }
  /// The same, but for values that were only assigned.
  [[nodiscard]] Value written(Value memory) const;
  /// Says that the assignment that gave `now` was a write in place to `memory`.
  void note_write_in_place(Value memory, Value now) {
    written_in_place_.insert_or_assign(memory, now);
  }
  /// From here on the memory that first held `memory` holds `now`.
  void overwrite(Value memory, Value now);
  /// A symbol not used in this graph: `u0`, `u1`... for a size known only at run time.
  [[nodiscard]] Dim fresh_symbol();

  /// Removes the nodes that `drop` names; the others keep their order, and must not use a removed
  /// one.
  void erase_if(const std::function<bool(const Node&)>& drop);
  /// The same for the nodes from number `begin` on, of which those that stay are numbered anew.
  /// They must not be removed when they are placeholders, variables or assignments.
  void erase_from(int begin, const std::function<bool(const Node&)>& drop);
  /// Puts the nodes in this order and numbers them anew; gives the others, which must be neither
  /// placeholders, variables nor assignments.
  std::vector<std::unique_ptr<Node>> rearrange(std::span<Node* const> order);
  /// Puts `by(value)` in the place of every output, and of what memory is known by and holds.
  void replace_values(const std::function<Value(Value)>& by);

 private:
  [[nodiscard]] std::string free_name(const std::string& wanted);
  /// The placeholder or variable of a name, or no value.
  [[nodiscard]] Value find_name(const std::string& name);
  Node* adopt(std::unique_ptr<Node> node);
  void remember(Node& node);
  void note_symbols(const Type& type);
  std::deque<std::unique_ptr<Node>> nodes_;
  std::vector<Value> placeholders_;
  std::vector<Value> variables_;
  std::vector<Value> outputs_;
  std::vector<SizeRange> ranges_;
  std::unordered_map<const TensorImpl*, Value> variable_of_;
  std::unordered_map<std::string, Value> by_name_;  // of as many as the next two say
  std::size_t named_placeholders_ = 0, named_variables_ = 0;
  std::unordered_map<Value, Value, ValueHash> overwritten_;       // memory -> what it holds
  std::unordered_map<Value, Value, ValueHash> written_in_place_;  // of which variables
  int next_id_ = 0;
  int next_symbol_ = 0;
};

/// Where a value lies. Values never change, but the memory of a tensor does when it is written in
/// place; each memory is known by the value that it held first.
struct Placed {
  Value value;                 ///< `content` itself, or a view of it
  Value memory;                ///< the value that its memory held first
  Value content;               ///< what its memory held when `value` was read
  bool follows_assign = true;  ///< see GraphValue
};

/// What a symbolic tensor stands for: a value, with its graph kept alive.
class GraphValue final : public Recorded {
 public:
  GraphValue(Ref<GraphImpl> graph, Value value)
      : graph(std::move(graph)), value(value), memory(value), content(value) {}
  /// Of the placeholder or variable; of the operator for other values.
  [[nodiscard]] std::string name() const override;
  Ref<GraphImpl> graph;
  mutable Value value;    ///< renewed after writes, when it follows them
  Value memory;           ///< see Placed
  mutable Value content;  ///< see Placed
  /// A tensor of the user's program: reading it shows the writes in place that happened since, to
  /// it and to what it is a view of. Others stand for one value for ever.
  bool follows_writes = false;
  /// False for what stands for a variable at the start of the run, whatever is assigned to it, and
  /// for views of that: only writes in place show.
  bool follows_assign = true;
};

/// The symbolic tensor of a value; its handle keeps the graph alive. `follows_writes` for what the
/// user's program gets (see GraphValue).
[[nodiscard]] Tensor symbolic_tensor(const Ref<GraphImpl>& graph, Value value,
                                     bool follows_writes = false);
/// The value behind a symbolic tensor; null when the tensor is not symbolic.
[[nodiscard]] const GraphValue* graph_value(const Tensor& tensor) noexcept;

/// True when the regions of the nodes are the same graphs.
[[nodiscard]] bool same_regions(const Node& a, const Node& b);
/// True when the nodes do the same to whatever comes: operators, attributes, types and regions are
/// equal, and so is the number of inputs.
[[nodiscard]] bool same_work(const Node& a, const Node& b);
/// True when the graphs have the same nodes in the same order, with equal attributes, inputs, types
/// and regions, and the same outputs. Lines are not compared, nor the elements of variables.
[[nodiscard]] bool same_graph(const GraphImpl& a, const GraphImpl& b);

/// A copy of `graph`, with what it takes for granted, in a new one; `map` (if given) receives old
/// value -> new value.
[[nodiscard]] Ref<GraphImpl> clone(const GraphImpl& graph,
                                   std::unordered_map<Value, Value, ValueHash>* map = nullptr);

/// Checks every invariant above plus types against each row's infer; GraphError listing all
/// violations found, with node and line.
void verify(const GraphImpl& graph);

/// What the text form of a graph shows.
struct GraphTextOptions {
  bool lines = true;  ///< the user's source line of each node, `@train.cpp:41`
  /// Bytes of elements up to which the data section is written. In the place of a larger one a
  /// comment says what was left out; parse_graph then lacks it.
  std::int64_t data_limit = std::numeric_limits<std::int64_t>::max();
};

/// The text form, one node a line (docs/design/graph_text.md); `parse_graph` reads it back to an
/// equal graph.
[[nodiscard]] std::string to_string(const GraphImpl& graph, GraphTextOptions options = {});

/// Tensors for the variables of a graph that is read from text, by name.
using NamedTensors = std::unordered_map<std::string, Tensor>;
/// Reads the text form. Types that are not written are inferred; those that are written are
/// checked. A variable gets the tensor of its name in `variables`, or zeros. GraphError with line,
/// column and what was expected.
[[nodiscard]] Ref<GraphImpl> parse_graph(std::string_view text, const NamedTensors& variables = {});

}  // namespace dyad
