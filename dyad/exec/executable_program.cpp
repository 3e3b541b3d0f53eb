#include "dyad/exec/executable_program.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <ranges>
#include <unordered_map>

#include "dyad/codegen/program_builder.h"
#include "dyad/core/element.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/exec/executable_bind.h"
#include "dyad/ir/graph_ops.h"
#include "dyad/ir/substitute.h"
#include "dyad/ops/attrs/indexing.h"
#include "dyad/passes/fused_op.h"
#include "dyad/passes/node_table.h"

namespace dyad::exec {
namespace {

using codegen::ProgramBuilder;
using passes::NodeTable;

std::vector<DType> dtypes_of(std::span<const Type> types) {
  std::vector<DType> dtypes;
  for (const Type& type : types) dtypes.push_back(type.dtype());
  return dtypes;
}

/// The program of a reduction; `made` is told what it goes over.
ReductionProgram set_reduction(StepProgram& made, const Node& node, const void* attrs,
                               const SymbolMap& symbols) {
  const Type& element = node.inputs()[0].type();
  made.is_reduction = true;
  made.space = evaluate(element.shape(), symbols);
  made.reduced = node.op().reduced_axes(attrs, element.rank());
  return codegen::reduction_of(node.op(), attrs, element.dtype(), dtypes_of(node.types()));
}

bool is_view(Value value) { return value.node->op().kind == BodyKind::view; }

/// The views through which something is seen, in the order in which they apply.
using Views = std::vector<const Node*>;

/// The nodes of a region that are computed at the kernel's own places, by number: what its results
/// need without a view between.
NodeTable<char> at_own_places(const GraphImpl& region) {
  NodeTable<char> own(region, 0);
  for (const Value v : region.outputs()) own[*v.node] = 1;
  for (const auto& node : std::views::reverse(region.nodes())) {
    if (own[*node] == 0 || node->op().kind == BodyKind::view) continue;
    for (const Value v : node->inputs()) own[*v.node] = 1;
  }
  return own;
}

/// Goes through what a region computes at other places than the kernel's own, from the views that
/// show it. `read` is told of a placeholder in the shape of its reader, `apply` of an output of an
/// operator and what that takes, `constant` of a number, each once; they give what stands for it.
template <class R>
class Elsewhere {
 public:
  std::function<R(Value placeholder, const Type& as, const Views& views)> read;
  std::function<R(Value made, const std::vector<R>& operands)> apply;
  std::function<R(const Node& node)> constant;

  R at(Value view) { return at(view, view.type(), {}); }

 private:
  struct Known {
    Value value;
    Type as;
    Views views;
    R made;
  };

  R at(Value v, Type as, Views views) {
    for (; is_view(v); v = v.node->inputs()[0]) {
      views.insert(views.begin(), v.node);
      as = v.node->inputs()[0].type();
    }
    const bool is_read = &v.node->op() == &kPlaceholderOp;
    if (!is_read) as = v.type();
    for (const Known& known : known_) {
      if (known.value == v && known.as.same_as(as) && known.views == views) return known.made;
    }
    R made = is_read ? read(v, as, views) : make(v, views);
    known_.push_back({v, as, views, made});
    return made;
  }

  R make(Value v, const Views& views) {
    if (v.node->op().kind != BodyKind::pointwise || v.node->is("full")) return constant(*v.node);
    std::vector<R> operands;
    for (const Value input : v.node->inputs()) operands.push_back(at(input, v.type(), views));
    return apply(v, operands);
  }

  std::vector<Known> known_;
};

/// Writes the region of a fused node as one program.
class RegionProgram {
 public:
  RegionProgram(const GraphImpl& region, const SymbolMap& symbols)
      : region_(region), symbols_(symbols) {
    for (const RegionRead& read : region_reads(region)) {
      const Value placeholder = region.placeholders()[read.input];
      const ProgramBuilder::Id id = builder_.input(placeholder.type().dtype());
      if (read.views.empty()) {
        value_of_[placeholder] = id;
      } else {
        read_elsewhere_.push_back(id);
      }
    }
    elsewhere_.read = [this](Value, const Type&, const Views&) {
      return read_elsewhere_[next_read_++];
    };
    elsewhere_.apply = [this](Value made, const std::vector<ProgramBuilder::Id>& operands) {
      return apply(*made.node, operands)[static_cast<std::size_t>(made.index)];
    };
    elsewhere_.constant = [this](const Node& node) { return constant(node); };
  }

  StepProgram write() {
    StepProgram made;
    bool reduces = false;
    const NodeTable<char> own = at_own_places(region_);
    for (const auto& node : region_.nodes()) {
      const OpInfo& op = node->op();
      const bool computes =
          op.kind == BodyKind::pointwise || op.kind == BodyKind::reduction || op.counted;
      if (computes && !node->is("full"))
        made.name += (made.name.empty() ? "" : "_") + std::string(op.name);
      if (op.kind == BodyKind::reduction) {
        reduces = true;
      } else if (op.kind == BodyKind::view) {
        if (own[*node] != 0) value_of_[node->output()] = elsewhere_.at(node->output());
      } else if (&op != &kPlaceholderOp && own[*node] != 0) {
        add_values(*node);
      }
    }
    made.counts = number_.has_value();
    if (reduces) {
      set_reductions(made);
      return made;
    }
    for (const Value v : region_.outputs()) builder_.output(value_of_.at(v));
    made.pointwise = builder_.take();
    return made;
  }

 private:
  /// The results of the region are those of its reductions, which are over the same axes.
  void set_reductions(StepProgram& made) {
    std::vector<ReductionProgram> all;
    for (const Value v : region_.outputs()) {
      builder_.output(value_of_.at(v.node->inputs()[0]));
      const Ref<Attrs> attrs = attrs_with(*v.node, symbols_);
      all.push_back(set_reduction(made, *v.node, attrs->data(), symbols_));
    }
    made.reduction = codegen::with_prologue(all, builder_.take());
  }

  void add_values(Node& node) {
    if (node.is("full") || (node.op().kind != BodyKind::pointwise && !node.op().counted)) {
      value_of_[node.output()] = constant(node);
      return;
    }
    std::vector<ProgramBuilder::Id> operands;
    for (const Value v : node.inputs()) operands.push_back(value_of_.at(v));
    if (node.op().counted) operands.push_back(number());
    const auto results = apply(node, operands);
    for (std::size_t i = 0; i < results.size(); ++i) {
      value_of_[node.output(static_cast<int>(i))] = results[i];
    }
  }

  std::vector<ProgramBuilder::Id> apply(Node& node,
                                        const std::vector<ProgramBuilder::Id>& operands) {
    return builder_.apply(node.op(), attrs_with(node, symbols_)->data(), operands,
                          dtypes_of(node.types()), node.loc());
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

  const GraphImpl& region_;
  const SymbolMap& symbols_;
  ProgramBuilder builder_;
  std::optional<ProgramBuilder::Id> number_;
  std::unordered_map<Value, ProgramBuilder::Id, ValueHash> value_of_;
  std::vector<ProgramBuilder::Id> read_elsewhere_;  // in the order of region_reads()
  std::size_t next_read_ = 0;
  Elsewhere<ProgramBuilder::Id> elsewhere_;
};

}  // namespace

std::vector<RegionRead> region_reads(const GraphImpl& region) {
  std::vector<RegionRead> reads;
  std::unordered_map<Value, std::size_t, ValueHash> input;
  const NodeTable<char> own = at_own_places(region);
  for (const Value placeholder : region.placeholders()) {
    const std::size_t number = input.size();
    input[placeholder] = number;
    if (own[*placeholder.node] != 0) reads.push_back({number, placeholder.type(), {}});
  }
  struct Nothing {};
  Elsewhere<Nothing> elsewhere;
  elsewhere.read = [&](Value placeholder, const Type& as, const Views& views) {
    reads.push_back({input.at(placeholder), as, views});
    return Nothing();
  };
  elsewhere.apply = [](Value, const std::vector<Nothing>&) { return Nothing(); };
  elsewhere.constant = [](const Node&) { return Nothing(); };
  for (const auto& node : region.nodes()) {
    if (node->op().kind == BodyKind::view && own[*node] != 0) (void)elsewhere.at(node->output());
  }
  return reads;
}

StepProgram program_of(const Node& node, const Attrs& attrs, const SymbolMap& symbols) {
  if (&node.op() == &passes::kFusedOp) return RegionProgram(*node.regions()[0], symbols).write();
  StepProgram made;
  made.name = node.op().name;
  if (node.op().kind == BodyKind::reduction) {
    made.reduction = set_reduction(made, node, attrs.data(), symbols);
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
