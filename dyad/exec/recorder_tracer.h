#pragma once

#include <utility>

#include "dyad/exec/recorder.h"
#include "dyad/ir/graph_evaluator.h"
#include "dyad/ir/view_memory.h"
#include "dyad/ops/views.h"

namespace dyad::exec {

/// Views and writes of a recording, as of any graph, but that the strides of what was executed tell
/// which is which.
class Recorder::Tracer final : public GraphEvaluator {
 public:
  Tracer(Recorder& recorder, Ref<GraphImpl> graph)
      : GraphEvaluator(std::move(graph)), recorder_(recorder) {}

  using GraphEvaluator::now;

  std::int64_t dim_value(Dim dim, Loc loc) override { return recorder_.dim_value(dim, loc); }
  bool dim_equal(Dim a, Dim b, Loc loc) override { return recorder_.dim_equal(a, b, loc); }
  bool dim_less(Dim a, Dim b, Loc loc) override { return recorder_.dim_less(a, b, loc); }

  void place_view(const GraphValue& input, GraphValue& view) {
    place_in({input.value, input.memory, input.content, true}, view);
  }

  /// What the target shows becomes `value`, which lies `like_target` in memory or not.
  void overwrite(const GraphValue& target, Value value, bool like_target, Loc loc) {
    whole_ = target.value == target.content;
    like_target_ = like_target;
    write_through({target.value, target.memory, target.content, true}, value, loc);
    now(target);
  }

 protected:
  void replace(Value memory, Value now, Loc loc) override {
    const BodyKind kind = now.node->op().kind;
    const bool keeps_layout = whole_ ? like_target_ : kind != BodyKind::view;
    if ((!keeps_layout || kind == BodyKind::structural) && now.type().rank() > 0)
      now = copied(memory, now, loc);
    graph()->overwrite(memory, now);
  }

  // Executing the view told whether it is one, for these strides.
  void require_view(const Node& view, const Placed&, Loc) override {
    recorder_.path_.strides_matter = recorder_.path_.strides_matter || view.op().may_copy;
  }

 private:
  /// `value` in the layout of what the memory holds.
  Value copied(Value memory, Value value, Loc loc) {
    const Scope scope(*this);
    const Tensor whole = symbolic_tensor(graph(), graph()->current(memory));
    return graph_value(slice_scatter(whole, symbolic_tensor(graph(), value), 0, 0, kEnd, 1, loc))
        ->value;
  }

  Recorder& recorder_;
  bool whole_ = false, like_target_ = false;  // of the write being done
};

}  // namespace dyad::exec
