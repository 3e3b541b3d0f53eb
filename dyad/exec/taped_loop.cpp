#include "dyad/exec/taped_loop.h"

#include "dyad/autograd/tape.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/exec/recorder.h"
#include "dyad/ir/gradient.h"

namespace dyad::exec {
namespace {

constexpr ArgInfo kX[] = {{.name = "x"}};

void with_length_grad(Gradient& g) {
  LengthAttrs attrs = attrs_at<LengthAttrs>(g.raw_attrs());
  auto* const recorder = attrs.loop >= 0 ? dynamic_cast<Recorder*>(&Evaluator::current()) : nullptr;
  attrs.gradient = true;
  g.set(0, recorder ? recorder->with_length(g.grad(), g.input_shape(0)[0], attrs, Loc().user())
                    : g.grad());
}

}  // namespace

constinit const OpInfo kWithLengthOp{
    .name = "with_length",
    .doc = "x itself, whose first size is a number or a symbol from here on.",
    .kind = BodyKind::structural,
    .inputs = kX,
    .outputs = kX,
    .attrs = &attrs_info<LengthAttrs>,
    .grad = with_length_grad,
};

Tensor apart_on_tape(const Tensor& x, const LengthAttrs& attrs, Loc loc) {
  const Tensor made(make_ref<TensorImpl>(*x.impl()));
  made.impl()->grad_meta = nullptr;
  made.impl()->requires_grad = false;
  const Tensor* const inputs[] = {&x};
  if (autograd::should_record(kWithLengthOp, inputs)) {
    Tensor outputs[] = {made};
    autograd::record(kWithLengthOp, inputs, &attrs, outputs, loc);
  }
  return made;
}

}  // namespace dyad::exec
