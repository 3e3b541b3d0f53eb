#include "dyad/exec/batching.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "dyad/base/error.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/exec/attached_gradient.h"
#include "dyad/exec/control_flow_region.h"
#include "dyad/ir/graph_ops.h"
#include "dyad/ir/op.h"
#include "dyad/ir/partial_attr_visitor.h"
#include "dyad/ir/recorded.h"
#include "dyad/ir/substitute.h"
#include "dyad/ops/arithmetic.h"
#include "dyad/ops/creation.h"
#include "dyad/ops/indexing.h"
#include "dyad/ops/linalg.h"
#include "dyad/ops/views.h"

namespace dyad::exec {
namespace {

/// Attributes whose name says how they count axes or sizes, moved on by the axis in front.
class MovedAttrs final : public PartialAttrVisitor {
 public:
  using PartialAttrVisitor::visit;
  MovedAttrs(Dim size, bool names_all_axes) : size_(size), names_all_axes_(names_all_axes) {}

  void visit(std::string_view name, std::int64_t& value) override {
    if (name.starts_with("axis") && value >= 0) ++value;
  }
  void visit(std::string_view name, Ints& value) override {
    if (name != "axes") return;
    for (std::int64_t& axis : value) axis += axis >= 0 ? 1 : 0;
    if (names_all_axes_) value.insert(0, 0);
  }
  void visit(std::string_view name, Shape& value) override {
    if (name == "shape") value.insert(0, size_);
    if (name == "low" || name == "high") value.insert(0, 0);
  }

 private:
  Dim size_;
  bool names_all_axes_;
};

/// `shape` with its first size multiplied.
class MoreSamples final : public PartialAttrVisitor {
 public:
  explicit MoreSamples(Dim size) : size_(size) {}
  using PartialAttrVisitor::visit;
  void visit(std::string_view name, Shape& value) override {
    if (name == "shape" && !value.empty()) value[0] = value[0] * size_;
  }

 private:
  Dim size_;
};

class SetAxes final : public PartialAttrVisitor {
 public:
  explicit SetAxes(const Ints& axes) : axes_(axes) {}
  using PartialAttrVisitor::visit;
  void visit(std::string_view name, std::int64_t& value) override {
    if (name == "axis" && axes_.size() == 1) value = axes_[0];
  }
  void visit(std::string_view name, Ints& value) override {
    if (name == "axes") value = axes_;
  }

 private:
  const Ints& axes_;
};

Ref<Attrs> edited(const Node& node, AttrVisitor& visitor) {
  const AttrsInfo& info = node.attrs().info();
  return Attrs::edited(info, node.attrs().data(), [&](void* attrs) { info.visit(attrs, visitor); });
}

std::vector<Tensor> call(const Node& node, std::span<const Tensor> inputs, const void* attrs) {
  std::vector<const Tensor*> refs;
  for (const Tensor& input : inputs) refs.push_back(&input);
  std::vector<Tensor> outputs(node.types().size());
  Evaluator::current().apply(node.op(), refs, attrs, outputs, node.loc());
  return outputs;
}

int rank_of(const Node& node, std::size_t input) { return node.inputs()[input].type().rank(); }

Shape with_batch(Dim size, const Shape& shape) {
  Shape made = shape;
  made.insert(0, size);
  return made;
}

Type type_for(const Tensor& x) { return {x.dtype(), shape_of(x)}; }

/// Sizes as the numbers that they are in this run, where something tells.
Shape peeked(const Shape& shape) {
  Shape made = shape;
  for (Dim& size : made) size = Evaluator::current().peek(size);
  return made;
}
Ref<Attrs> peeked(const Ref<Attrs>& attrs) {
  const Ref<Attrs> made = substitute_symbols(
      attrs->info(), attrs->data(), [](Dim symbol) { return Evaluator::current().peek(symbol); });
  return made ? made : attrs;
}

}  // namespace

Tensor padded(const Tensor& x, int rank, int wanted) {
  Tensor made = x;
  for (; rank < wanted; ++rank) made = unsqueeze(made, 1);
  return made;
}

std::vector<Batched> Batch::run(const GraphImpl& graph, std::span<const Batched> inputs) {
  std::unordered_map<Value, Batched, ValueHash> values;
  std::size_t next = 0;
  for (const auto& node : graph.nodes()) {
    const LocScope place(node->loc());
    if (&node->op() == &kPlaceholderOp) {
      values[node->output()] = inputs[next++];
      continue;
    }
    if (&node->op() == &kConstantOp) {
      values[node->output()] = {node->attrs_as<ConstantAttrs>().value, false};
      continue;
    }
    Inputs given;
    for (const Value v : node->inputs()) given.push_back(v ? values.at(v) : Batched());
    Outputs made = apply(*node, given);
    for (int i = 0; i < static_cast<int>(made.size()); ++i) {
      values[node->output(i)] = std::move(made[static_cast<std::size_t>(i)]);
    }
  }
  std::vector<Batched> outputs;
  for (const Value v : graph.outputs()) outputs.push_back(values.at(v));
  return outputs;
}

Batch::Outputs Batch::apply(const Node& node, const Inputs& inputs) {
  const OpInfo& op = node.op();
  if (op.kind == BodyKind::control) return control(node, inputs);
  if (&op == &kAfterOp) return {inputs[0]};  // all nodes run here, what it comes after among them
  if (op.kind == BodyKind::structural) {
    throw GraphError(fmt::format("vmap: {} inside a vectorised function", op.name), node.loc());
  }
  if (op.effect == Effect::random) return draw_keys(node);
  const bool any = std::ranges::any_of(inputs, [](const Batched& x) { return x.batched; });
  if (!any) {
    std::vector<Tensor> plain;
    for (const Batched& input : inputs) plain.push_back(input.tensor);
    Outputs outputs = all_batched(call(node, plain, node.attrs().data()));
    for (Batched& output : outputs) output.batched = false;
    return outputs;
  }
  Outputs outputs;
  if (try_drawn(node, inputs, outputs)) return outputs;
  switch (op.kind) {
    case BodyKind::pointwise:
      return pointwise(node, inputs);
    case BodyKind::reduction:
    case BodyKind::view:
      if (try_moved(node, inputs, outputs)) return outputs;
      break;
    default:
      switch (op.batching) {
        case Batching::leading:
          return pointwise(node, inputs);
        case Batching::axes:
          return with_new_axis(node, inputs);
        case Batching::first:
          if (std::none_of(inputs.begin() + 1, inputs.end(),
                           [](const Batched& x) { return x.batched; })) {
            return with_new_axis(node, inputs);
          }
          if (node.is("linear")) return linear(node, inputs);
          break;
        case Batching::samples:
          if (std::none_of(inputs.begin() + 1, inputs.end(),
                           [](const Batched& x) { return x.batched; })) {
            return with_more_samples(node, inputs);
          }
          break;
        case Batching::all_samples:
          return with_more_samples(node, inputs);
        case Batching::none:
          break;
      }
      if (op.expand) return by_parts(node, inputs);
  }
  return one_by_one(node, inputs);
}

/// Sample i draws its numbers behind those of the samples before it.
Batch::Outputs Batch::draw_keys(const Node& node) {
  class Count final : public PartialAttrVisitor {
   public:
    explicit Count(Dim size) : by(size) {}
    using PartialAttrVisitor::visit;
    void visit(std::string_view name, Dim& value) override {
      if (name != "count") return;
      of_one = value;
      value = value * by;
    }
    Dim by, of_one = 0;
  } count(size_);
  const Ref<Attrs> attrs = edited(node, count);
  std::vector<Tensor> key = call(node, {}, attrs->data());
  if (key.empty()) return {};  // it set the generator, for all samples
  if (key.size() != 2) {
    throw GraphError(fmt::format("vmap: {} draws random numbers without a key", node.op().name),
                     node.loc());
  }
  const Tensor numbers = arange(size_);
  const Tensor step = count.of_one.is_number() ? mul(numbers, count.of_one.number())
                                               : mul(numbers, size_tensor(count.of_one));
  return {{key[0], false}, {add(key[1], step), true, key[1], count.of_one}};
}

bool Batch::try_drawn(const Node& node, const Inputs& inputs, Outputs& outputs) {
  if (!node.is("uniform") || inputs[0].batched || !inputs[1].first.defined() ||
      !inputs[1].apart.same_as(node.types()[0].shape().numel()))
    return false;
  MovedAttrs moved(size_, false);
  const Tensor key[] = {inputs[0].tensor, inputs[1].first};
  outputs = all_batched(call(node, key, edited(node, moved)->data()));
  return true;
}

/// Inputs broadcast from the back: their axes must meet with the batch in front of all of them.
Batch::Outputs Batch::pointwise(const Node& node, const Inputs& inputs) {
  int rank = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].tensor.defined()) rank = std::max(rank, rank_of(node, i));
  }
  std::vector<Tensor> aligned;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Batched& x = inputs[i];
    aligned.push_back(x.batched ? padded(x.tensor, rank_of(node, i), rank) : x.tensor);
  }
  // A row with a rule of its own for types may want its inputs otherwise.
  if (!gives_batches(node, aligned)) return one_by_one(node, inputs);
  return all_batched(call(node, aligned, node.attrs().data()));
}

bool Batch::gives_batches(const Node& node, std::span<const Tensor> inputs) const {
  if (node.op().infer == infer_pointwise) return true;
  Types types;
  for (const Tensor& x : inputs) types.push_back(x.defined() ? type_for(x) : Type::none());
  try {
    const Types made = infer_types(node.op(), types, node.attrs().data(), node.loc());
    for (std::size_t i = 0; i < made.size(); ++i) {
      if (!made[i].shape().same_as(with_batch(size_, node.types()[i].shape()))) return false;
    }
  } catch (const Error&) {
    return false;
  }
  return true;
}

bool Batch::try_moved(const Node& node, const Inputs& inputs, Outputs& outputs) {
  const OpInfo& op = node.op();
  const int rank = rank_of(node, 0), out_rank = node.types()[0].rank();
  if (op.kind == BodyKind::reduction) {
    const Ints old = op.reduced_axes(node.attrs().data(), rank);
    // A scalar has no axis to name: one of size 1 takes its place.
    Tensor x = inputs[0].tensor;
    Ints axes;
    for (const std::int64_t axis : old) axes.push_back(axis + 1);
    int rank_now = rank;
    if (axes.empty()) {
      x = unsqueeze(x, 1);
      axes.push_back(1);
      ++rank_now;
    }
    SetAxes set(axes);
    const Ref<Attrs> attrs = edited(node, set);
    const Ints now = op.reduced_axes(attrs->data(), rank_now + 1);
    if (!std::ranges::equal(now, axes)) return false;
    outputs = all_batched(call(node, {&x, 1}, attrs->data()));
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const Shape wanted = with_batch(size_, node.types()[i].shape());
      if (outputs[i].tensor.rank() != wanted.rank())
        outputs[i].tensor = reshape(outputs[i].tensor, wanted);
    }
    return true;
  }
  // With all sizes named: beside no samples a -1 could be anything.
  if (node.is("reshape")) {
    outputs = all_batched({reshape(inputs[0].tensor, with_batch(size_, node.types()[0].shape()))});
    return true;
  }
  // The row says whether the moved attributes mean the same view of each sample.
  for (const bool pads : {false, true}) {
    if (pads && rank >= out_rank) break;
    const Tensor x = pads ? padded(inputs[0].tensor, rank, out_rank) : inputs[0].tensor;
    for (const bool names_all : {false, true}) {
      MovedAttrs moved(size_, names_all);
      const Ref<Attrs> attrs = edited(node, moved);
      const Type& sample = node.inputs()[0].type();
      const Type& result = node.types()[0];
      try {
        const Type in = type_for(x);
        const Types types = infer_types(op, {&in, 1}, attrs->data(), node.loc());
        if (!types[0].shape().same_as(with_batch(size_, result.shape()))) continue;
        // Any number of samples tells as much, where theirs is open.
        const Dim count = size_.is_number() ? size_ : Dim(2);
        const Shape from = peeked(sample.shape()), to = peeked(result.shape());
        Shape all_in = peeked(in.shape());
        all_in[0] = count;
        const bool can_tell = from.is_concrete() && all_in.is_concrete();
        if (can_tell && !to.is_concrete()) {
          if (is_known(size_)) continue;
        } else if (can_tell) {
          MovedAttrs with_count(count, names_all);
          const Ref<Attrs> of_one = peeked(node.shared_attrs());
          const Ref<Attrs> counted = peeked(edited(node, with_count));
          const std::int64_t apart = std::max<std::int64_t>(from.numel().number(), 1) * 2;
          const ViewLayout one = op.view(of_one->data(), from, contiguous_strides(from), to);
          Strides strides = contiguous_strides(from);
          for (int axis = rank; pads && axis < out_rank; ++axis) strides.insert(0, apart);
          strides.insert(0, apart);
          const ViewLayout all = op.view(counted->data(), all_in, strides, with_batch(count, to));
          if (!one.possible || !all.possible || one.offset != all.offset) continue;
          bool same = all.strides.size() == one.strides.size() + 1;
          if (same && count.number() > 1) same = all.strides[0] == apart;
          for (std::size_t i = 0; same && i < one.strides.size(); ++i) {
            same = to[i].number() == 1 || all.strides[i + 1] == one.strides[i];
          }
          if (!same && to.numel().number() > 0) continue;
        }
      } catch (const Error&) {
        continue;  // these attributes do not hold for such a tensor
      }
      outputs = all_batched(call(node, {&x, 1}, attrs->data()));
      return true;
    }
  }
  return false;
}

Batch::Outputs Batch::linear(const Node& node, const Inputs& inputs) {
  const bool is_row = rank_of(node, 0) == 1;
  const int rank = is_row ? 2 : rank_of(node, 0);
  Tensor x = for_each(inputs[0]);
  if (is_row) x = unsqueeze(x, 1);
  Tensor y = matmul(x, transpose(padded(for_each(inputs[1]), 2, rank), -1, -2));
  if (inputs[2].tensor.defined()) y = add(y, padded(for_each(inputs[2]), 1, rank));
  return all_batched({is_row ? squeeze(y, 1) : y});
}

Batch::Outputs Batch::with_new_axis(const Node& node, const Inputs& inputs) {
  MovedAttrs moved(size_, false);
  const Ref<Attrs> attrs = edited(node, moved);
  std::vector<Tensor> given;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const bool shared = node.op().batching == Batching::first && i > 0;
    given.push_back(shared ? inputs[i].tensor : for_each(inputs[i]));
  }
  return all_batched(call(node, given, attrs->data()));
}

Batch::Outputs Batch::with_more_samples(const Node& node, const Inputs& inputs) {
  MoreSamples more(size_);
  const Ref<Attrs> attrs = edited(node, more);
  std::vector<Tensor> given;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].tensor.defined() || (i > 0 && node.op().batching == Batching::samples)) {
      given.push_back(inputs[i].tensor);
      continue;
    }
    Shape joined = node.inputs()[i].type().shape();
    joined[0] = joined[0] * size_;
    given.push_back(reshape(for_each(inputs[i]), joined));
  }
  std::vector<Tensor> outputs = call(node, given, attrs->data());
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    outputs[i] = reshape(outputs[i], with_batch(size_, node.types()[i].shape()));
  }
  return all_batched(std::move(outputs));
}

Batch::Outputs Batch::by_parts(const Node& node, const Inputs& inputs) {
  if (node.is("custom_gradient")) {
    std::vector<Tensor> all;
    for (const Batched& input : inputs) all.push_back(for_each(input));
    return all_batched(batch_custom_gradient(node, all));
  }
  Captures captures;
  RegionEvaluator parts("vmap", captures);
  if (!dynamic_cast<const GraphEvaluator*>(&Evaluator::current())) parts.ask_around();
  Types types;
  std::vector<Batched> given;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].tensor.defined()) continue;
    types.push_back(node.inputs()[i].type());
    given.push_back(inputs[i]);
  }
  parts.record(
      [&](std::span<const Tensor> parameters) {
        std::vector<Tensor> all(inputs.size());
        std::vector<const Tensor*> refs;
        std::size_t next = 0;
        for (std::size_t i = 0; i < inputs.size(); ++i) {
          if (inputs[i].tensor.defined()) all[i] = parameters[next++];
          refs.push_back(&all[i]);
        }
        return node.op().expand(node.attrs().data(), refs, node.loc());
      },
      types, node.loc());
  const Ref<GraphImpl> graph = parts.finish();
  for (const Tensor& captured : captures.tensors()) given.push_back({captured, false});
  return run(*graph, given);
}

Batch::Outputs Batch::one_by_one(const Node& node, const Inputs& inputs) {
  if (!is_known(size_)) {
    throw GraphError(fmt::format("vmap: {} is called once for each sample, but the size of the "
                                 "batch, {}, is not known in this graph; give it as a number",
                                 node.op().name, to_string(size_)),
                     node.loc());
  }
  std::vector<std::vector<Tensor>> found(node.types().size());
  for (std::int64_t sample = 0; sample < size_.number(); ++sample) {
    std::vector<Tensor> given;
    for (const Batched& x : inputs) {
      given.push_back(x.batched ? select(x.tensor, 0, sample) : x.tensor);
    }
    const std::vector<Tensor> outputs = call(node, given, node.attrs().data());
    for (std::size_t i = 0; i < outputs.size(); ++i) found[i].push_back(outputs[i]);
  }
  Outputs outputs;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const Type& type = node.types()[i];
    outputs.push_back(
        {found[i].empty() ? zeros(with_batch(0, type.shape()), type.dtype()) : stack(found[i]),
         true});
  }
  return outputs;
}

Tensor Batch::for_each(const Batched& value) const {
  if (value.batched || !value.tensor.defined()) return value.tensor;
  return expand(unsqueeze(value.tensor, 0), with_batch(size_, shape_of(value.tensor)));
}

}  // namespace dyad::exec
