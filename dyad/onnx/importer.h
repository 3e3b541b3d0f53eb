#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "dyad/exec/control_flow.h"
#include "dyad/exec/graph.h"
#include "dyad/ir/onnx_node.h"
#include "dyad/ir/undecided.h"
#include "dyad/onnx/known_sizes.h"
#include "dyad/onnx/load.h"
#include "dyad/onnx/node_use.h"
#include "dyad/onnx/tensor_reader.h"
#include "dyad/onnx/unsupported.h"
#include "dyad/passes/size_sources.h"

namespace dyad::onnx {

/// A value of a model while its graph is built. How many elements a sequence has, and whether an
/// optional holds something, is known by then: neither exists when the graph runs.
struct Imported {
  Tensor tensor;    ///< a value of the graph, or concrete when the model alone tells it
  Tensor constant;  ///< its elements, when the model alone tells them
  std::shared_ptr<const std::vector<Imported>> sequence;  ///< the elements of a sequence
  bool is_empty_optional = false;  ///< one that holds something is what it holds
  /// Of a map, or of maps with the same keys: the keys; `tensor` holds the values, [..., keys].
  Tensor keys;
  bool is_refused = false;  ///< its node cannot be run, which is reported with others

  [[nodiscard]] bool is_present() const noexcept {
    return tensor.defined() || sequence || is_empty_optional || is_refused;
  }
  /// Whether the model alone tells all of it.
  [[nodiscard]] bool is_known() const noexcept;
};
/// A sequence of these.
[[nodiscard]] Imported sequence_of(std::vector<Imported> elements);
/// A tensor with elements that the model tells, when it is concrete.
[[nodiscard]] Imported imported(const Tensor& tensor);

/// What a list of refused nodes says of one.
[[nodiscard]] std::string refusal(const pb::NodeProto& node, int version,
                                  const std::string& reason);

/// The names that nodes see: those of their graph, then those of the graphs around it.
class ImportScope {
 public:
  explicit ImportScope(const ImportScope* outer = nullptr) : outer_(outer) {}
  [[nodiscard]] const Imported* find(const std::string& name) const noexcept;
  /// False when the graph has the name already.
  bool add(const std::string& name, Imported value);

 private:
  const ImportScope* outer_;
  std::unordered_map<std::string, Imported> values_;
};

/// Where nodes stand: a graph of the model, or the body of one of its functions.
struct ImportFrame {
  ImportScope& scope;
  const std::map<std::string, int>& opsets;  ///< domain -> version
  /// Attributes of the call of the function that the nodes are the body of, by name.
  const std::map<std::string, const pb::AttributeProto*>* arguments = nullptr;
  int depth = 0;
};

/// Thrown through the rules when a node needs values that only inputs of the model tell.
struct NeedsValues {
  std::vector<std::string> inputs;  ///< whose elements are needed
  std::vector<std::string> forms;   ///< of which it must be known what they are: lengths, ranks
  bool weights = false;             ///< those of initializers that may be assigned, too
  bool sizes = false;               ///< as numbers, of all inputs
  std::string reason = {};          ///< the node that needs them, and what for
};

/// What is known of the inputs before the graph is built.
struct KnownInputs {
  /// The elements of tensors, which are constants then; those of sequences are called `x[0]`.
  std::map<std::string, Tensor> values;
  /// What is given for inputs that are not tensors of a known rank. Of tensors dtype and sizes
  /// count.
  std::map<std::string, ModelValue> forms;
  /// Tensors whose sizes are known.
  std::map<std::string, Tensor> sizes;
  /// Initializers by their numbers, sparse ones behind the others, that take the place of those in
  /// the message.
  std::span<const Tensor> initializers = {};
  /// What is known is all that there is: a node that takes too much memory is an error, as it would
  /// be in a run.
  bool is_all = false;
};

/// The graph of a model. Sequences are taken apart: their elements are inputs and outputs.
struct ImportedGraph {
  Graph graph;
  std::vector<ModelValue> results;  ///< of the model: of values of the graph
  /// The ONNX operator of each place in the graph: that of line i of the file stands at i - 1.
  std::vector<std::string> operators;
  /// Sizes of the inputs that were taken for equal. Where they are not, the graph is another one.
  std::vector<std::pair<Dim, Dim>> equal_sizes;
  /// Whether it takes something for granted of sizes that data tell. Where a run finds that it is
  /// not so, the graph is another one too.
  bool guesses = false;
};

class NodeImport;

/// Builds the static graph of a model.
class Importer {
 public:
  /// `file` is named in messages. The model must outlive the importer.
  Importer(const pb::ModelProto& model, std::string file, std::optional<std::string> folder,
           const LoadOptions& options, Loc loc);

  /// All nodes, those of subgraphs and functions too.
  [[nodiscard]] std::vector<NodeUse> nodes() const;
  /// Those of them that no rule can build: operator, version, name and reason.
  [[nodiscard]] std::vector<std::string> unsupported() const;
  /// An error that lists nodes.
  [[nodiscard]] RefusedNodes refused(std::vector<std::string> lines) const;
  /// The graph, for what is known of the inputs. NeedsValues when it depends on more, RefusedNodes
  /// with all that rules refuse.
  ImportedGraph build(const KnownInputs& known);

  [[nodiscard]] int opset() const;
  /// Those that were given, or what the model's size allows.
  [[nodiscard]] const LoadLimits& limits() const noexcept { return options_.limits; }
  /// Domain (empty: ONNX's own) -> version.
  [[nodiscard]] const std::map<std::string, int>& opsets() const noexcept { return opsets_; }

  // For the rules of control flow and of sequences.

  /// The results of a subgraph for these inputs.
  std::vector<Imported> run_graph(const pb::GraphProto& graph, std::span<const Imported> inputs,
                                  const ImportFrame& around);
  /// What operators take for a value: the value itself, or a constant of the graph being built.
  Tensor operand(const Imported& value);
  /// Whether nothing that a run brings enters a subgraph from outside, nor random numbers.
  [[nodiscard]] bool is_closed(const pb::GraphProto& graph, const ImportFrame& around) const;
  /// OnnxError when a subgraph, or one in it, names a value that nothing gives: its nodes may never
  /// be built, and what they read is checked all the same.
  void check_names(const pb::GraphProto& graph, const ImportFrame& around);
  /// A rule makes as many steps as a value says; OnnxError when they come to too many.
  void count_step(std::int64_t steps = 1);
  /// Looking at so many bytes takes as long as a rule takes; OnnxError when they come to too many.
  void count_bytes(std::int64_t bytes);
  /// The tensor of an attribute or of a subgraph. What is `repeated` may be run any number of times
  /// and is read once: nobody writes to it.
  Tensor tensor_of(const pb::TensorProto& proto, bool repeated, Loc loc);
  Tensor tensor_of(const pb::SparseTensorProto& proto, bool repeated, Loc loc);
  /// The results of a construct whose bodies are subgraphs. While these are recorded, what a
  /// model's input tells can be asked for where it is a size, or a weight, but not where it is an
  /// element.
  std::vector<Tensor> record(const std::function<std::vector<Tensor>()>& construct);
  [[nodiscard]] bool in_region() const noexcept { return regions_ > 0; }
  /// The results of the graph, or of the subgraph, that is being recorded: whoever reads one of
  /// them has all checked that was taken for granted in it.
  void check_before(std::vector<Tensor>& results);
  /// What values of the graph being built follow from, sizes that data decide included.
  struct Origin {
    bool is_fed = false;       ///< from inputs of the model
    bool is_data = false;      ///< from inputs that are more than a few integers
    bool can_be_told = false;  ///< from inputs, their sizes, or weights
    bool is_pure = true;       ///< from nothing that a run alone tells
  };
  [[nodiscard]] Origin origin_of(std::span<const Imported> values);
  /// What tells them: their elements are known once these inputs are. Nothing where a run alone
  /// can. What was asked for before is not told again.
  [[nodiscard]] std::optional<NeedsValues> what_tells(std::span<const Imported> values);
  /// A number or list of the model as an operand.
  Tensor constant(const Tensor& value) { return operand(imported(value)); }
  /// Whether the sizes of the model's inputs tell this one.
  [[nodiscard]] bool is_of_inputs(Dim size) const;
  [[nodiscard]] KnownSizes& known_sizes() noexcept { return known_sizes_; }
  [[nodiscard]] ExternalData& external() noexcept { return external_; }

 private:
  friend class NodeImport;
  class Region;
  /// A run that computes this value checks something that was taken for granted.
  void add_check(const Tensor& check);
  void run_nodes(const google::protobuf::RepeatedPtrField<pb::NodeProto>& nodes,
                 const ImportFrame& frame);
  void run_node(const pb::NodeProto& node, Loc loc, const ImportFrame& frame);
  void call_function(const pb::FunctionProto& function, const pb::NodeProto& node, Loc loc,
                     const ImportFrame& frame);
  void add_initializers(const pb::GraphProto& graph, std::span<const Tensor> taken,
                        ImportScope& scope);
  [[nodiscard]] const pb::FunctionProto* find_function(const pb::NodeProto& node) const;
  Imported add_input(const std::string& name, const Type& type, const KnownInputs& known);
  Imported add_map(const std::string& name, const pb::TypeProto::Map& type,
                   const KnownInputs& known);
  Imported add_form(const std::string& name, const ModelValue& form, const KnownInputs& known);
  ModelValue result_of(const Imported& value, std::vector<Tensor>& results);
  [[nodiscard]] bool draws(const pb::NodeProto& node) const;
  void find_functions_that_draw();
  void check_versions(const std::map<std::string, int>& opsets) const;
  void set_limits();
  void check_names(const pb::GraphProto& graph, const ImportFrame& around,
                   std::vector<std::unordered_set<std::string>>& inner) const;
  void count_node(const pb::NodeProto& node);
  [[nodiscard]] static std::vector<const GraphValue*> handles_of(std::span<const Imported> values);
  /// The nodes that a node follows from: its inputs, and what decides its sizes.
  static void add_behind(const Node& node, const passes::SizeSources& sizes,
                         std::vector<const Node*>& nodes);
  Origin origin_of(const Node* node);
  [[nodiscard]] static Origin both(const Origin& a, const Origin& b) noexcept;
  [[nodiscard]] bool is_size_of_inputs(const Node& node) const;
  /// Adds what a node alone needs; false where nobody can give it.
  bool note_need(const Node& node, NeedsValues& needs) const;
  /// what_tells() in a subgraph that is recorded: what comes from outside cannot be asked for
  /// there.
  [[nodiscard]] std::optional<NeedsValues> what_tells_inside(std::span<const Imported> values);
  void count_elements(const NodeImport& node);
  void count_call(const pb::GraphProto& graph);
  void count_call(const pb::FunctionProto& function);
  void list_nodes(const google::protobuf::RepeatedPtrField<pb::NodeProto>& nodes,
                  const std::map<std::string, int>& opsets, int depth,
                  std::vector<NodeUse>& uses) const;
  /// A mask that is taken of several tensors is searched once: false for one that was not yet.
  [[nodiscard]] bool reuse_places(NodeImport& node);
  /// Computes a node whose inputs are known, now; false where that would cost too much.
  [[nodiscard]] bool fold(NodeImport& node, const std::function<void(NodeImport&)>& build);
  void check_value(const std::string& name, const Type& type, const Tensor& value) const;
  [[noreturn]] void fail(const std::string& message) const;
  Loc place_of(const pb::NodeProto& node);

  const pb::ModelProto& model_;
  std::string file_;
  LoadOptions options_;
  Loc loc_;
  ExternalData external_;
  KnownSizes known_sizes_;
  std::map<std::string, int> opsets_;
  std::map<std::pair<std::string, std::string>, const pb::FunctionProto*> functions_;
  /// Concrete tensors (kept, so that no other has their address) as constants of graphs.
  struct Constant {
    Tensor concrete, symbolic;
  };
  std::map<std::pair<const GraphImpl*, const TensorImpl*>, Constant> constants_;
  /// What NonZero gave, by the handle that it was given (kept, so that no other has its address).
  struct Places {
    Tensor of;
    Imported places;
  };
  std::unordered_map<const TensorImpl*, Places> places_;
  std::unordered_map<const pb::NodeProto*, std::uint32_t> numbers_;
  std::vector<std::string> operators_;               // by number - 1
  bool is_all_known_ = false;                        ///< see KnownInputs::is_all
  std::optional<passes::SizeSources> size_sources_;  ///< of the model's graph
  std::unordered_map<const Node*, Origin> origins_;
  std::unordered_set<const Node*> asked_;
  /// Tensors of subgraphs and functions, by their messages.
  std::unordered_map<const void*, Tensor> repeated_;
  std::int64_t node_count_ = 0, byte_count_ = 0, most_bytes_ = 0;
  std::size_t constants_left_ = 0;  ///< bytes that constants may still take
  std::size_t work_left_ = 0;       ///< bytes that computing them may still read and write
  std::unordered_map<const pb::FunctionProto*, bool> functions_that_draw_;
  int regions_ = 0;
  std::unordered_set<std::int64_t> input_symbols_;  ///< by their words
  std::vector<std::pair<Dim, Dim>> equal_sizes_;    ///< see ImportedGraph
  bool guesses_ = false;
  /// By the graph that they are values of, which they keep.
  std::unordered_map<const GraphImpl*, std::vector<Tensor>> checks_;
  std::size_t check_count_ = 0;
  std::unordered_set<std::string> small_inputs_;  ///< a few integers, which say what the graph does
};

/// One node being built. Rules of control flow and of sequences get it whole.
class NodeImport final : public OnnxNode {
 public:
  NodeImport(Importer& importer, const pb::NodeProto& node, int version, Loc loc,
             const ImportFrame& frame);

  [[nodiscard]] std::string_view op() const override { return node_.op_type(); }
  [[nodiscard]] int version() const override { return version_; }
  [[nodiscard]] Loc loc() const override { return loc_; }
  [[nodiscard]] int input_count() const override { return static_cast<int>(inputs_.size()); }
  [[nodiscard]] int output_count() const override { return node_.output_size(); }
  [[nodiscard]] bool has(int i) const override;
  [[nodiscard]] bool wants(int i) const override;
  [[nodiscard]] Tensor input(int i) override;
  [[nodiscard]] Tensor constant(int i) override;
  [[nodiscard]] std::optional<Shape> known_sizes(int i) override;
  [[nodiscard]] std::optional<Shape> open_sizes(int i) override;
  void output(int i, const Tensor& value) override;

  [[nodiscard]] bool has_attribute(std::string_view name) const override;
  [[nodiscard]] std::int64_t integer(std::string_view name, std::int64_t otherwise) override;
  [[nodiscard]] double number(std::string_view name, double otherwise) override;
  [[nodiscard]] std::string text(std::string_view name, std::string_view otherwise) override;
  [[nodiscard]] Ints integers(std::string_view name, const Ints& otherwise) override;
  [[nodiscard]] std::vector<double> numbers(std::string_view name) override;
  [[nodiscard]] std::vector<std::string> texts(std::string_view name) override;
  [[nodiscard]] Tensor tensor(std::string_view name) override;
  [[nodiscard]] DType dtype(std::string_view name, DType otherwise) override;
  [[noreturn]] void fail(const std::string& reason) override;
  [[noreturn]] void need_constant(int i) override;

  /// Input i with all that is known of it; nothing present when it is absent.
  [[nodiscard]] const Imported& value(int i) const;
  void set_output(int i, Imported value);
  /// What the rule gave for output i so far.
  [[nodiscard]] const Imported& result(int i) const {
    return outputs_[static_cast<std::size_t>(i)];
  }
  /// The elements of a sequence that is input i.
  [[nodiscard]] const std::vector<Imported>& sequence(int i);
  /// Refuses the node as need_constant does, for want of the elements of any value; `what` names
  /// it.
  [[noreturn]] void need_elements(const Imported& value, const std::string& what);
  [[nodiscard]] const pb::AttributeProto* attribute(std::string_view name) const;
  /// A subgraph that the operator needs.
  [[nodiscard]] const pb::GraphProto& graph(std::string_view name);
  /// Runs a subgraph.
  std::vector<Imported> run(const pb::GraphProto& graph, std::span<const Imported> inputs);
  [[nodiscard]] const Imported* find(const std::string& name) const {
    return frame_.scope.find(name);
  }
  [[nodiscard]] bool is_closed(const pb::GraphProto& graph) const {
    return importer_.is_closed(graph, frame_);
  }
  void check_names(const pb::GraphProto& graph) { importer_.check_names(graph, frame_); }
  [[nodiscard]] Importer& importer() noexcept { return importer_; }

  /// Whether the model alone tells all inputs.
  [[nodiscard]] bool is_constant() const;
  /// Takes two sizes for equal whose comparison no rule can do without: inputs get the one in the
  /// place of the other, which a run checks. False where that answers nothing.
  bool take_for_equal(const UndecidedError& question);
  /// What a rule that cannot do without the answer asks for: the sizes of the model's inputs, or,
  /// where data decide, the values that they follow from. Nothing where neither can be had.
  [[nodiscard]] std::optional<NeedsValues> needs_of(const UndecidedError& question);
  /// Puts the outputs into the scope; OnnxError for one that the rule did not give.
  void finish(ImportScope& scope);
  /// `"conv1" (Conv 13)`, for messages.
  [[nodiscard]] std::string description() const;

 private:
  /// Says that the sizes of the inputs are what they become by it; false where all stay.
  bool rename_sizes(const std::function<Dim(Dim)>& way);

  Importer& importer_;
  const pb::NodeProto& node_;
  int version_;
  Loc loc_;
  const ImportFrame& frame_;
  std::vector<Imported> inputs_;
  std::vector<Imported> outputs_;
  std::vector<std::pair<Dim, Dim>> asked_;  ///< and answered by take_for_equal
};

/// The domain of the operators of classical machine learning.
inline constexpr std::string_view kMl = "ai.onnx.ml";

/// A rule that needs more of the model than OnnxNode shows: subgraphs, sequences.
struct ModelRule {
  std::string_view op;
  int since = 1;
  void (*build)(NodeImport& node) = nullptr;
  std::string_view domain = {};
};
[[nodiscard]] std::span<const ModelRule> control_rules();
[[nodiscard]] std::span<const ModelRule> loop_rules();
[[nodiscard]] std::span<const ModelRule> sequence_rules();
[[nodiscard]] std::span<const ModelRule> recurrent_rules();
[[nodiscard]] std::span<const ModelRule> text_rules();
[[nodiscard]] std::span<const ModelRule> encoder_rules();
[[nodiscard]] std::span<const ModelRule> learned_rules();
[[nodiscard]] std::span<const ModelRule> svm_rules();
[[nodiscard]] std::span<const ModelRule> tree_rules();
[[nodiscard]] std::span<const ModelRule> map_rules();
/// The rule for an operator in a version of its domain, or null.
[[nodiscard]] const ModelRule* find_model_rule(std::string_view domain, std::string_view op,
                                               int version);

}  // namespace dyad::onnx
