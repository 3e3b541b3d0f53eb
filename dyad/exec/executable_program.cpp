#include "dyad/exec/executable_program.h"

#include <optional>
#include <unordered_map>

#include "dyad/codegen/program_builder.h"
#include "dyad/core/element.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/exec/executable_bind.h"
#include "dyad/ir/graph_ops.h"
#include "dyad/ir/substitute.h"
#include "dyad/ops/attrs/indexing.h"
#include "dyad/passes/fused_op.h"

namespace dyad::exec {
namespace {

using codegen::ProgramBuilder;

std::vector<DType> dtypes_of(std::span<const Type> types) {
  std::vector<DType> dtypes;
  for (const Type& type : types) dtypes.push_back(type.dtype());
  return dtypes;
}

void set_reduction(StepProgram& made, const Node& node, const void* attrs,
                   const SymbolMap& symbols) {
  const Type& element = node.inputs()[0].type();
  made.is_reduction = true;
  made.reduction =
      codegen::reduction_of(node.op(), attrs, element.dtype(), dtypes_of(node.types()));
  made.space = evaluate(element.shape(), symbols);
  made.reduced = node.op().reduced_axes(attrs, element.rank());
}

/// Writes the region of a fused node as one program.
class RegionProgram {
 public:
  explicit RegionProgram(const SymbolMap& symbols) : symbols_(symbols) {}

  StepProgram write(const GraphImpl& region) {
    StepProgram made;
    const Node* reduction = nullptr;
    for (const Value v : region.placeholders()) value_of_[v] = builder_.input(v.type().dtype());
    for (const auto& node : region.nodes()) {
      const OpInfo& op = node->op();
      if (&op != &kPlaceholderOp && &op != &kConstantOp && !node->is("full")) {
        made.name += (made.name.empty() ? "" : "_") + std::string(op.name);
      }
      if (op.kind == BodyKind::reduction) {
        reduction = node.get();
      } else if (&op != &kPlaceholderOp) {
        add_values(*node);
      }
    }
    made.counts = number_.has_value();
    if (!reduction) {
      for (const Value v : region.outputs()) builder_.output(value_of_.at(v));
      made.pointwise = builder_.take();
      return made;
    }
    builder_.output(value_of_.at(reduction->inputs()[0]));
    const Ref<Attrs> attrs = attrs_with(*reduction, symbols_);
    set_reduction(made, *reduction, attrs->data(), symbols_);
    made.reduction = codegen::with_prologue(made.reduction, builder_.take());
    return made;
  }

 private:
  void add_values(Node& node) {
    if (node.is("full") || (node.op().kind != BodyKind::pointwise && !node.op().counted)) {
      value_of_[node.output()] = constant(node);
      return;
    }
    std::vector<ProgramBuilder::Id> operands;
    for (const Value v : node.inputs()) operands.push_back(value_of_.at(v));
    if (node.op().counted) operands.push_back(number());
    const auto results = builder_.apply(node.op(), attrs_with(node, symbols_)->data(), operands,
                                        dtypes_of(node.types()), node.loc());
    for (std::size_t i = 0; i < results.size(); ++i) {
      value_of_[node.output(static_cast<int>(i))] = results[i];
    }
  }

  /// The number of the element, an input behind those of the region.
  ProgramBuilder::Id number() {
    if (!number_) number_ = builder_.input(DType::i64);
    return *number_;
  }

  ProgramBuilder::Id constant(const Node& node) {
    const DType dtype = node.types()[0].dtype();
    if (&node.op() == &kConstantOp) {
      const TensorImpl& literal = *node.attrs_as<ConstantAttrs>().value.impl();
      const double number = visit_element(dtype, [&]<class T>(std::type_identity<T>) {
        return convert_element<double>(*reinterpret_cast<const T*>(literal.data));
      });
      return builder_.constant(dtype, number);
    }
    return builder_.constant(dtype, node.attrs_as<ops::FullAttrs>().value);
  }

  const SymbolMap& symbols_;
  ProgramBuilder builder_;
  std::optional<ProgramBuilder::Id> number_;
  std::unordered_map<Value, ProgramBuilder::Id, ValueHash> value_of_;
};

}  // namespace

StepProgram program_of(const Node& node, const Attrs& attrs, const SymbolMap& symbols) {
  if (&node.op() == &passes::kFusedOp) return RegionProgram(symbols).write(*node.regions()[0]);
  StepProgram made;
  made.name = node.op().name;
  if (node.op().kind == BodyKind::reduction) {
    set_reduction(made, node, attrs.data(), symbols);
    return made;
  }
  ProgramBuilder builder;
  std::vector<ProgramBuilder::Id> operands;
  for (const Value v : node.inputs()) operands.push_back(builder.input(v.type().dtype()));
  // No source line: the kernel is the one that eager execution uses, wherever it is called.
  for (const ProgramBuilder::Id result :
       builder.apply(node.op(), attrs.data(), operands, dtypes_of(node.types()))) {
    builder.output(result);
  }
  made.pointwise = builder.take();
  return made;
}

}  // namespace dyad::exec
