#include "dyad/autograd/grad_mode.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/exec/eager.h"
#include "dyad/exec/forwarding_evaluator.h"
#include "dyad/ir/op_info.h"
#include "dyad/nn/module.h"

namespace dyad::nn::detail {
namespace {

/// Multiplications of the matrix products, alone or within an operator, and convolutions that ran,
/// each with an addition.
std::int64_t multiply_adds(const OpInfo& op, TensorRefs inputs, const Tensor& output) {
  const auto size = [](const Tensor& x, std::size_t axis) { return x.shape()[axis].number(); };
  const std::int64_t results = output.impl()->numel();
  if (op.name == "matmul" || op.name == "linear") {
    const Tensor& a = *inputs[0];
    return results * size(a, a.shape().size() - 1);
  }
  if (op.name == "recurrent_forward") {
    const Tensor &x = *inputs[0], &weight_ih = *inputs[1], &weight_hh = *inputs[2];
    return size(x, 0) * size(x, 1) * (weight_ih.impl()->numel() + weight_hh.impl()->numel());
  }
  if (op.name == "attention_forward") {
    const Tensor &q = *inputs[0], &v = *inputs[2];
    return size(q, 0) * size(q, 1) * size(q, 2) * size(v, 2) * (size(q, 3) + size(v, 3));
  }
  if (op.name.starts_with("conv") && op.kind == BodyKind::opaque && inputs.size() >= 2) {
    const Tensor &x = *inputs[0], &weight = *inputs[1];
    if (weight.rank() < 3 || size(weight, 0) == 0) return 0;
    const std::int64_t each = weight.impl()->numel() / size(weight, 0);
    // A transposed convolution spreads each of its inputs, a convolution gathers for each result.
    return op.name.find("transpose") == op.name.npos ? results * each : x.impl()->numel() * each;
  }
  return 0;
}

/// Executes as eager mode does, and takes notes.
class Observer final : public exec::ForwardingEvaluator {
 public:
  explicit Observer(Observed& observed)
      : ForwardingEvaluator(EagerEvaluator::instance()), observed_(observed) {}

  void apply(const OpInfo& op, TensorRefs inputs, const void* attrs, std::span<Tensor> outputs,
             Loc loc) override {
    to().apply(op, inputs, attrs, outputs, loc);
    if (op.kind == BodyKind::view) {  // a parameter transposed is that parameter still
      if (const auto it = views_.find(inputs[0]->impl()); it != views_.end()) {
        note_view(outputs[0], it->second);
      } else {
        note_view(outputs[0], inputs[0]->impl());
      }
      return;
    }
    // The parts of a composite come by themselves.
    const std::int64_t work =
        op.kind == BodyKind::composite ? 0 : multiply_adds(op, inputs, outputs[0]);
    observed_.multiply_adds += work;
    bool first = true;
    for (const Tensor* input : inputs) {
      if (!input->defined()) continue;
      const auto it = views_.find(input->impl());
      Observed::Result& result =
          observed_.by_tensor[it == views_.end() ? input->impl() : it->second];
      result.type = type_string(outputs[0]);
      // Counted for the weight, the second input of all of these, alone.
      if (!first && work > 0 && input == inputs[1]) result.multiply_adds += work;
      first = false;
    }
    if (op.kind == BodyKind::composite) return;
    for (const Tensor& output : outputs) {
      observed_.bytes +=
          output.impl()->numel() * static_cast<std::int64_t>(size_of(output.dtype()));
    }
    for (const Tensor& output : outputs) held_.push_back(output);
  }
  void host_access(const Tensor&, Loc) override {}

 private:
  void note_view(const Tensor& view, const TensorImpl* of) {
    views_[view.impl()] = of;
    held_.push_back(view);
  }

  Observed& observed_;
  std::unordered_map<const TensorImpl*, const TensorImpl*> views_;
  std::vector<Tensor> held_;  // so that no address comes twice
};

/// Puts modes back as they were.
class EvalScope {
 public:
  explicit EvalScope(const std::vector<Mode>& modes) : modes_(modes) {
    for (const Mode& mode : modes_) {
      training_.push_back(mode.peek());
      mode.set(false);
    }
  }
  ~EvalScope() {  // backwards: a mode that layers share comes twice, and was first as it was
    for (std::size_t i = modes_.size(); i-- > 0;) modes_[i].set(training_[i]);
  }
  EvalScope(const EvalScope&) = delete;
  EvalScope& operator=(const EvalScope&) = delete;

 private:
  const std::vector<Mode>& modes_;
  std::vector<bool> training_;
};

}  // namespace

Observed observe(const std::vector<Mode>& modes, const std::function<void()>& call) {
  Observed observed;
  Observer observer(observed);
  const EvalScope eval(modes);
  const NoGrad no_grad;
  const Evaluator::Scope scope(observer);
  call();
  return observed;
}

}  // namespace dyad::nn::detail
