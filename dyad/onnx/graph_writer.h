#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "dyad/core/dim_expr.h"
#include "dyad/core/generator.h"
#include "dyad/ir/graph.h"
#include "dyad/ir/onnx_emitter.h"
#include "dyad/onnx/model_context.h"

namespace dyad::onnx {

/// Writes one graph as an ONNX GraphProto: the emitter that operators' rows write themselves with.
/// Only what the outputs need is written.
class GraphWriter final : public OnnxEmitter {
 public:
  GraphWriter(ModelContext& context, pb::GraphProto& graph, const GraphWriter* outer = nullptr)
      : context_(context), graph_(graph), outer_(outer) {}

  /// Notes a problem for an input or result that ONNX cannot have: complex numbers.
  void check_interface(Value value);
  /// Placeholders become inputs of the same name.
  void add_inputs(const GraphImpl& graph);
  /// A value becomes an input of that name, `first` (if defined) what it is when it is not fed.
  void add_input_for(Value value, const std::string& name, const Tensor& first);
  /// In training: the inputs `random.seed` and `random.offset`, which the random numbers of a step
  /// are functions of; and, at the end, the output `next.random.offset`.
  void add_random_inputs(RandomKey now, bool with_defaults);
  void add_random_output();
  /// The names of all values of the graph written so far.
  [[nodiscard]] const std::unordered_map<Value, std::string, ValueHash>& names() const noexcept {
    return names_;
  }
  /// Writes the nodes that `roots` need; every placeholder must have a name.
  void write_nodes(const GraphImpl& graph, std::span<const Value> roots);
  /// Makes `values` the outputs, called `names`, which must be fresh.
  void add_outputs(std::span<const Value> values, std::span<const std::string> names);

  int opset() const override { return context_.opset(); }
  int input_count() const override { return static_cast<int>(node_->inputs().size()); }
  std::string input(int i) override;
  std::string operand(int i) override;
  std::string input_as(int i, DTypeSet dtypes) override;
  const Type& input_type(int i) const override {
    return node_->inputs()[static_cast<std::size_t>(i)].type();
  }
  const Tensor* constant_input(int i) const override;
  const Type& output_type(int i) const override {
    return node_->types()[static_cast<std::size_t>(i)];
  }
  std::string node(std::string_view op, std::vector<std::string> inputs,
                   OnnxAttrs attributes) override;
  std::vector<std::string> node_multi(std::string_view op, std::vector<std::string> inputs,
                                      OnnxAttrs attributes, int outputs) override;
  std::vector<std::string> walk(const OnnxWalk& walk) override;
  std::string constant(const Tensor& value) override { return context_.constant(value); }
  std::string constant_i64(std::span<const std::int64_t> values) override {
    return context_.integers(values);
  }
  std::string scalar(double value, DType dtype) override { return context_.scalar(value, dtype); }
  std::string size(Dim size) override;
  std::string shape(const Shape& shape) override;
  std::string cast(const std::string& value, DType dtype, bool saturate = true) override;
  void output(int i, const std::string& value) override;
  void parts() override { write_parts(); }
  [[noreturn]] void fail(const std::string& reason) override;

 private:
  void write_node(Node& node);
  void write_operator();
  void check_dtypes();
  void write_by_name();
  void write_parts();
  bool write_training();
  void write_form();
  void write_random_key();
  void write_uniform_numbers();
  void write_control();
  void write_cond();
  void write_while();
  void write_while_states();
  void write_scan();
  void write_scan_by_numbers();
  /// Writes a step of a Loop, in which the body's states have names, from the step's number and
  /// whether it runs, to whether another one does.
  using StepWriter = std::function<std::string(GraphWriter& step, const std::string& number,
                                               const std::string& runs)>;
  /// The names of what a Loop gives: the states that come last, and these values of each step as
  /// rows.
  std::vector<std::string> loop(const std::string& most, const std::string& begins,
                                std::span<const std::string> states, const GraphImpl& body,
                                std::span<const Value> rows, const StepWriter& write_step);
  std::string with_sizes_of_rows(const std::string& stack, const Shape& row);
  /// A Loop that goes on while the first region of the node holds. Rows: the states before each
  /// step, or what the second region gives beside them.
  std::vector<std::string> repeat(std::span<const std::string> states,
                                  std::span<const std::string> captures, bool keeps_states);

  /// Says which name a value has.
  void bind(Value value, const std::string& name);
  /// Binds placeholders begin, begin + 1... of a region to names outside.
  void bind_all(const GraphImpl& region, std::size_t begin, std::span<const std::string> names);
  /// A new input of a subgraph.
  std::string add_input(std::string_view hint, const Type& type);
  /// The name of a value, here or outside.
  [[nodiscard]] const std::string& name_of(Value value) const;
  [[nodiscard]] std::vector<std::string> names_of(std::span<const Value> values) const;
  pb::NodeProto& add_node(std::string_view op, std::span<const std::string> inputs,
                          const OnnxAttrs& attributes);
  [[nodiscard]] std::optional<DType> result_dtype(
      std::string_view op, const google::protobuf::RepeatedPtrField<std::string>& inputs) const;
  /// Gives the node being written as many outputs as it has types.
  void add_results(pb::NodeProto& proto);
  /// The values `made` as outputs.
  void finish(std::span<const std::string> made, const Types& types,
              std::span<const std::string> names);
  void finish_region(const GraphImpl& region, std::string_view hint);

  /// A one-element i64 tensor with the size.
  std::string size_of_dim(Dim dim);
  std::string computed_size(Dim dim);
  std::string size_of_symbol(Dim symbol);
  std::string product_of(const DimTerm& term);
  std::string size_along(const std::string& value, int axis);
  void remember_sizes(const Type& type, const std::string& name);
  /// Whether the sizes of the model's inputs tell this one.
  [[nodiscard]] bool is_of_inputs(Dim size) const;

  struct Axis {
    Dim size;
    std::string value;
    int axis;
  };

  ModelContext& context_;
  pb::GraphProto& graph_;
  const GraphWriter* outer_;
  Node* node_ = nullptr;
  const Node* composite_ = nullptr;          ///< whose parts are being written
  std::string random_seed_, random_offset_;  ///< in training, of the next random key
  std::unordered_map<Value, std::string, ValueHash> names_;
  std::vector<Axis> axes_;  ///< which value shows which size, first come
  std::unordered_map<std::int64_t, std::size_t> axis_of_;  ///< word of a size -> number in axes_
  std::unordered_map<std::int64_t, std::string> sizes_;    ///< word of a size -> computed size
  std::vector<Dim> input_sizes_;  ///< symbols, of the outermost writer's inputs
};

}  // namespace dyad::onnx
