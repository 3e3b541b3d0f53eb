#include "dyad/exec/taped_loop.h"

#include "dyad/exec/recorder.h"
#include "dyad/ir/gradient.h"

namespace dyad::exec {
namespace {

constexpr ArgInfo kX[] = {{.name = "x"}};

void with_length_grad(Gradient& g) {
  LengthAttrs attrs = attrs_at<LengthAttrs>(g.raw_attrs());
  auto* const recorder = dynamic_cast<Recorder*>(&Evaluator::current());
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

}  // namespace dyad::exec
