#include "dyad/exec/executable_draft.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "dyad/base/error.h"
#include "dyad/exec/executable_bind.h"
#include "dyad/exec/executable_errors.h"
#include "dyad/exec/executable_program.h"
#include "dyad/ir/graph_ops.h"
#include "dyad/ir/substitute.h"
#include "dyad/passes/fused_op.h"
#include "dyad/runtime/layout.h"
#include "dyad/runtime/op_kernel.h"

namespace dyad::exec {
namespace {

/// Bytes from the first element to past the last one.
std::size_t extent(DType dtype, const Shape& shape, const Strides& strides) {
  std::int64_t last = 0;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const std::int64_t size = shape.numbers()[i];
    if (size == 0) return 0;
    last += (size - 1) * strides[i];
  }
  return static_cast<std::size_t>(last + 1) * size_of(dtype);
}

/// True when a result of a region is one of its inputs unchanged. Such a kernel may not write over
/// its inputs: what it passes through may be read after another result was written.
bool passes_through(const GraphImpl& region) {
  return std::ranges::any_of(region.outputs(), [](Value output) {
    const Node& node = *output.node;
    return node.is("clone") ||
           (node.is("cast") && node.inputs()[0].type().dtype() == node.types()[0].dtype());
  });
}

/// Walks a lowered graph in program order.
class Layouter {
 public:
  Layouter(const GraphImpl& graph, const SymbolMap& symbols, std::span<const Tensor> placeholders)
      : graph_(graph), symbols_(symbols), placeholders_(placeholders) {}

  Draft run() {
    for (const auto& node : graph_.nodes()) {
      try {
        add(*node);
      } catch (const Error& error) {
        rethrow_at(error, error.where(), node->loc());
      }
    }
    for (const Value v : graph_.outputs()) {
      draft_.outputs.push_back(draft_.slot_of.at(v));
      draft_.output_nodes.push_back(v.node);
    }
    join_parts_in_place(draft_);
    return std::move(draft_);
  }

 private:
  void add(Node& node) {
    const OpInfo& op = node.op();
    if (&op == &kPlaceholderOp) return add_placeholder(node);
    if (&op == &kVariableOp) {
      return add_held(node, Source::variable, node.attrs_as<VariableAttrs>().tensor);
    }
    if (&op == &kConstantOp) {
      return add_held(node, Source::constant, node.attrs_as<ConstantAttrs>().value);
    }
    if (&op == &kAssignOp) {
      draft_.writes.push_back(
          {draft_.slot_of.at(node.inputs()[0]), draft_.slot_of.at(node.inputs()[1]), &node});
      draft_.slot_of[node.output()] = draft_.slot_of.at(node.inputs()[1]);
      return;
    }
    if (&op == &passes::kFusedOp) return add_fused(node);
    if (&op == &passes::kRowsOp) return add_rows(node);
    switch (op.kind) {
      case BodyKind::pointwise:
        return add_pointwise(node);
      case BodyKind::reduction:
        return add_reduction(node);
      case BodyKind::view:
        return add_view(node);
      case BodyKind::opaque:
        return add_opaque(node);
      case BodyKind::control:
        return add_control(node);
      case BodyKind::composite:
      case BodyKind::structural:
        throw InternalError(fmt::format("{} cannot be executed in a graph", op.name), node.loc());
    }
  }

  void add_placeholder(Node& node) {
    const auto index = static_cast<std::size_t>(placeholder_count_++);
    const TensorImpl& fed = *placeholders_[index].impl();
    const int buffer = draft_.add_buffer(Source::placeholder, {}, static_cast<int>(index));
    draft_.slot_of[node.output()] = draft_.add_slot(buffer, fed.dtype, fed.shape, fed.strides, 0);
  }

  void add_held(Node& node, Source source, const Tensor& tensor) {
    const int buffer = draft_.add_buffer(source, tensor);
    draft_.slot_of[node.output()] =
        draft_.add_slot(buffer, tensor.dtype(), tensor.shape(), tensor.impl()->strides, 0);
  }

  [[nodiscard]] std::vector<int> slots_of(std::span<const Value> values) const {
    std::vector<int> slots;
    for (const Value v : values) slots.push_back(v ? draft_.slot_of.at(v) : -1);
    return slots;
  }
  [[nodiscard]] std::vector<Tensor> tensors_of(std::span<const int> slots) const {
    std::vector<Tensor> tensors;
    for (const int s : slots) {
      tensors.push_back(s < 0 ? Tensor() : draft_.slots[static_cast<std::size_t>(s)].tensor);
    }
    return tensors;
  }
  [[nodiscard]] Shape shape_of(const Type& type) const { return evaluate(type.shape(), symbols_); }

  DraftStep& add_step(DraftStep::Kind kind, Node& node) {
    DraftStep& step = draft_.steps.emplace_back();
    step.kind = kind;
    step.node = &node;
    step.attrs = attrs_with(node, symbols_);
    step.reads = slots_of(node.inputs());
    return step;
  }

  int add_output(DraftStep& step, Node& node, int i, const Strides& strides) {
    const Type& type = node.types()[static_cast<std::size_t>(i)];
    const int slot = draft_.add_value(type.dtype(), shape_of(type), strides);
    step.writes.push_back(slot);
    draft_.slot_of[node.output(i)] = slot;
    return slot;
  }

  /// The strides that output `i` has in eager mode.
  [[nodiscard]] Strides layout_of(const Node& node, const DraftStep& step, int i) const {
    return runtime::output_layout(node.op(), step.attrs->data(), tensors_of(step.reads),
                                  shape_of(node.types()[static_cast<std::size_t>(i)]), i);
  }

  void add_pointwise(Node& node) { add_kernel(node, true); }

  void add_reduction(Node& node) { add_kernel(node, false); }

  void add_kernel(Node& node, bool elementwise) {
    DraftStep& step = add_step(DraftStep::Kind::kernel, node);
    step.elementwise = elementwise;
    for (int i = 0; i < static_cast<int>(node.types().size()); ++i) {
      add_output(step, node, i, layout_of(node, step, i));
    }
  }

  /// A fused node's outputs get the layouts that its operators would give them one by one.
  void add_fused(Node& node) {
    DraftStep& step = add_step(DraftStep::Kind::kernel, node);
    const GraphImpl& region = *node.regions()[0];
    step.elementwise = region.outputs().size() == 1 || !passes_through(region);
    std::unordered_map<Value, Tensor, ValueHash> tensors;
    std::size_t next_input = 0;
    for (const auto& inner : region.nodes()) {
      if (&inner->op() == &kPlaceholderOp) {
        tensors[inner->output()] =
            draft_.slots[static_cast<std::size_t>(step.reads[next_input++])].tensor;
        continue;
      }
      if (inner->op().kind == BodyKind::view) {
        const TensorImpl& from = *tensors.at(inner->inputs()[0]).impl();
        const ViewLayout layout = view_layout(*inner, from.shape, from.strides);
        tensors[inner->output()] = without_memory(from.dtype, layout.shape, layout.strides);
        continue;
      }
      std::vector<Tensor> inputs;
      for (const Value v : inner->inputs()) inputs.push_back(v ? tensors.at(v) : Tensor());
      step.elementwise = step.elementwise && inner->op().kind != BodyKind::reduction;
      for (int i = 0; i < static_cast<int>(inner->types().size()); ++i) {
        const Type& type = inner->types()[static_cast<std::size_t>(i)];
        const Shape shape = shape_of(type);
        tensors[inner->output(i)] =
            without_memory(type.dtype(), shape,
                           runtime::output_layout(inner->op(), attrs_with(*inner, symbols_)->data(),
                                                  inputs, shape, i));
      }
    }
    add_reads(step, region);
    for (int i = 0; i < static_cast<int>(region.outputs().size()); ++i) {
      add_output(step, node, i,
                 tensors.at(region.outputs()[static_cast<std::size_t>(i)]).impl()->strides);
    }
  }

  [[nodiscard]] ViewLayout view_layout(const Node& view, const Shape& shape,
                                       const Strides& strides) const {
    return view.op().view(attrs_with(view, symbols_)->data(), shape, strides,
                          shape_of(view.types()[0]));
  }

  /// What a kernel computes at the places that a view shows reads its operands there.
  void add_reads(DraftStep& step, const GraphImpl& region) {
    const std::vector<int> inputs = std::exchange(step.reads, {});
    for (const RegionRead& read : region_reads(region)) {
      const int input = inputs[read.input];
      step.reads.push_back(read.views.empty() ? input : add_slot_through(read, input));
    }
  }

  int add_slot_through(const RegionRead& read, int input) {
    const Slot from = draft_.slots[static_cast<std::size_t>(input)];
    const TensorImpl& tensor = *from.tensor.impl();
    ViewLayout seen{.shape = shape_of(read.as), .strides = {}};
    seen.strides =
        runtime::broadcast_strides(tensor.shape.numbers(), tensor.strides, seen.shape.numbers());
    auto offset = static_cast<std::int64_t>(from.offset / size_of(tensor.dtype));
    for (const Node* view : read.views) {
      seen = view_layout(*view, seen.shape, seen.strides);
      offset += seen.offset;
    }
    return draft_.add_slot(from.buffer, tensor.dtype, seen.shape, seen.strides, offset);
  }

  /// The members as steps of their own, or as one step where they can be cut into blocks.
  void add_rows(Node& node) {
    const std::size_t first = draft_.steps.size();
    const GraphImpl& region = *node.regions()[0];
    std::size_t next_input = 0;
    for (const auto& inner : region.nodes()) {
      if (&inner->op() == &kPlaceholderOp) {
        draft_.slot_of[inner->output()] = draft_.slot_of.at(node.inputs()[next_input++]);
      } else {
        add(*inner);
      }
    }
    std::vector<int> results;
    for (int i = 0; i < static_cast<int>(region.outputs().size()); ++i) {
      results.push_back(draft_.slot_of.at(region.outputs()[static_cast<std::size_t>(i)]));
      draft_.slot_of[node.output(i)] = results.back();
    }
    join_rows(draft_, first, node, results, symbols_);
  }

  void add_view(Node& node) {
    ++draft_.views;
    int from = draft_.slot_of.at(node.inputs()[0]);
    ViewLayout layout = view_layout(node, draft_.tensor(from).shape, draft_.tensor(from).strides);
    const DType dtype = node.types()[0].dtype();
    const std::size_t width = size_of(dtype);
    if (!layout.possible || draft_.slots[static_cast<std::size_t>(from)].offset % width != 0) {
      from = add_copy(node, from);
      layout = view_layout(node, draft_.tensor(from).shape, draft_.tensor(from).strides);
    }
    const Slot& base = draft_.slots[static_cast<std::size_t>(from)];
    const auto start = static_cast<std::int64_t>(base.offset / width);
    draft_.slot_of[node.output()] =
        draft_.add_slot(base.buffer, dtype, layout.shape, layout.strides, start + layout.offset);
  }

  int add_copy(Node& node, int from) {
    DraftStep& step = draft_.steps.emplace_back();
    step.kind = DraftStep::Kind::copy;
    step.node = &node;
    step.reads = {from};
    const Tensor source = draft_.slots[static_cast<std::size_t>(from)].tensor;
    const int to =
        draft_.add_value(source.dtype(), source.shape(), contiguous_strides(source.shape()));
    step.writes = {to};
    return to;
  }

  void add_opaque(Node& node) {
    const runtime::OpKernel* const kernel = runtime::find_kernel(node.op());
    if (!kernel) {
      throw DeviceError(fmt::format("{} has no kernel for the CPU; register one with "
                                    "runtime::register_kernel",
                                    node.op().name),
                        node.loc());
    }
    DraftStep& step = add_step(DraftStep::Kind::opaque, node);
    step.elementwise = kernel->in_place;
    step.takes_over = kernel->takes_over;
    if (kernel->spoils) step.spoils = kernel->spoils(step.attrs->data());
    for (int i = 0; i < static_cast<int>(node.types().size()); ++i) {
      add_output(step, node, i, layout_of(node, step, i));
    }
  }

  void add_control(Node& node) {
    DraftStep& step = add_step(DraftStep::Kind::control, node);
    for (int i = 0; i < static_cast<int>(node.types().size()); ++i) {
      const Shape shape = shape_of(node.types()[static_cast<std::size_t>(i)]);
      const int slot = add_output(step, node, i, contiguous_strides(shape));
      draft_.buffer_of(slot).source = Source::control;
    }
  }

  const GraphImpl& graph_;
  const SymbolMap& symbols_;
  std::span<const Tensor> placeholders_;
  int placeholder_count_ = 0;
  Draft draft_;
};

}  // namespace

Tensor without_memory(DType dtype, const Shape& shape, const Strides& strides) {
  Ref<TensorImpl> impl = make_ref<TensorImpl>();
  impl->dtype = dtype;
  impl->shape = shape;
  impl->strides = strides;
  impl->contiguous = is_contiguous(shape, strides);
  return Tensor(std::move(impl));
}

Tensor without_memory(const Tensor& tensor) {
  const TensorImpl& impl = *tensor.impl();
  return without_memory(impl.dtype, impl.shape, impl.strides);
}

std::vector<Tensor> without_memory(std::span<const Value> values) {
  std::vector<Tensor> tensors;
  for (const Value v : values) {
    const Shape& shape = v.type().shape();
    tensors.push_back(without_memory(v.type().dtype(), shape, contiguous_strides(shape)));
  }
  return tensors;
}

bool Draft::is_empty(const DraftStep& step) const {
  return (step.kind == DraftStep::Kind::kernel || step.kind == DraftStep::Kind::copy) &&
         std::ranges::all_of(step.writes, [&](int slot) { return tensor(slot).numel() == 0; });
}

bool Draft::same_layout(int a, int b) const {
  const Slot &slot_a = slots[static_cast<std::size_t>(a)],
             &slot_b = slots[static_cast<std::size_t>(b)];
  return slot_a.offset == slot_b.offset && tensor(a).shape.same_as(tensor(b).shape) &&
         tensor(a).strides == tensor(b).strides &&
         size_of(tensor(a).dtype) == size_of(tensor(b).dtype);
}

int Draft::add_buffer(Source source, Tensor base, int index) {
  Buffer& made = buffers.emplace_back();
  made.source = source;
  made.base = std::move(base);
  made.index = index;
  return static_cast<int>(buffers.size()) - 1;
}

int Draft::add_slot(int buffer, DType dtype, const Shape& shape, const Strides& strides,
                    std::int64_t offset) {
  slots.push_back({without_memory(dtype, shape, strides), buffer,
                   static_cast<std::size_t>(offset) * size_of(dtype)});
  return static_cast<int>(slots.size()) - 1;
}

int Draft::add_value(DType dtype, const Shape& shape, const Strides& strides) {
  const int buffer = add_buffer(Source::arena);
  buffers.back().bytes = extent(dtype, shape, strides);
  return add_slot(buffer, dtype, shape, strides, 0);
}

Draft lay_out(const GraphImpl& lowered, const SymbolMap& symbols,
              std::span<const Tensor> placeholders) {
  return Layouter(lowered, symbols, placeholders).run();
}

}  // namespace dyad::exec
