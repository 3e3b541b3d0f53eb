#include "dyad/exec/eager.h"

#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "dyad/autograd/backward.h"
#include "dyad/autograd/grad_mode.h"
#include "dyad/autograd/gradients.h"
#include "dyad/autograd/tape.h"
#include "dyad/base/error.h"
#include "dyad/core/element.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/exec/anomaly.h"
#include "dyad/exec/autocast.h"
#include "dyad/exec/cancel_scope.h"
#include "dyad/exec/row_blocks.h"
#include "dyad/exec/update.h"
#include "dyad/ir/graph_evaluator.h"
#include "dyad/ir/op.h"
#include "dyad/ir/recorded.h"
#include "dyad/ir/view_memory.h"
#include "dyad/runtime/launch.h"
#include "dyad/runtime/op_kernel.h"

namespace dyad {
namespace exec {
namespace {

[[noreturn]] void fail_no_kernel(const OpInfo& op, Loc loc) {
  throw DeviceError(std::string(op.name) +
                        " has no kernel for the CPU; register one with runtime::register_kernel",
                    loc);
}

/// Outputs of the inferred types in the layout that the kernel wants.
void allocate_outputs(const OpInfo& op, const void* attrs, std::span<const Tensor> inputs,
                      const Types& types, const runtime::OpKernel& kernel,
                      std::span<Tensor> outputs) {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Type& type = types[i];
    if (!type.shape().is_concrete()) continue;  // sizes that depend on data: the kernel allocates
    outputs[i] = kernel.layout ? make_empty_strided(type.dtype(), type.shape(),
                                                    kernel.layout(op, attrs, inputs, type.shape(),
                                                                  static_cast<int>(i)))
                               : make_empty(type.dtype(), type.shape());
  }
}

void execute_opaque(const OpInfo& op, TensorRefs inputs, const void* attrs, const Types& types,
                    std::span<Tensor> outputs, Loc loc) {
  const runtime::OpKernel* kernel = runtime::find_kernel(op);
  if (!kernel) fail_no_kernel(op, loc);
  std::vector<Tensor> concrete;
  concrete.reserve(inputs.size());
  for (const Tensor* input : inputs) concrete.push_back(*input);
  allocate_outputs(op, attrs, concrete, types, *kernel, outputs);
  kernel->run({op, attrs, concrete, outputs, loc});
}

void execute_view(const OpInfo& op, const Tensor& input, const void* attrs, const Type& type,
                  Tensor& output) {
  ViewLayout layout = op.view(attrs, input.shape(), input.strides(), type.shape());
  const bool aligned =
      type.dtype() == input.dtype() ||
      reinterpret_cast<std::uintptr_t>(input.impl()->data) % size_of(type.dtype()) == 0;
  if (layout.possible && aligned) {
    output = make_view_as(type.dtype(), input, layout.shape, layout.strides, layout.offset);
    return;
  }
  const Tensor dense = make_empty(input.dtype(), input.shape());
  copy_into(dense, input);
  layout = op.view(attrs, dense.shape(), dense.strides(), type.shape());
  output = make_view_as(type.dtype(), dense, layout.shape, layout.strides, layout.offset);
}

Types infer_from(const OpInfo& op, TensorRefs inputs, const void* attrs, Loc loc) {
  Types types;
  types.reserve(inputs.size());
  for (const Tensor* input : inputs) {
    types.push_back(type_of(*input));
  }
  return infer_types(op, types, attrs, loc);
}

}  // namespace

bool lies_as(const Tensor& a, const Tensor& b) {
  return a.raw_data() == b.raw_data() && a.dtype() == b.dtype() && a.shape().same_as(b.shape()) &&
         a.strides() == b.strides();
}

void copy_into(const Tensor& target, const Tensor& value) {
  if (!lies_as(target, value)) runtime::run_copy(target, value);
}

Tensor row_major_copy(const Tensor& tensor) {
  Tensor copy = make_empty(tensor.dtype(), tensor.shape());
  copy_into(copy, tensor);
  return copy;
}

bool is_broadcast(const TensorImpl& tensor) noexcept {
  if (tensor.contiguous) return false;
  for (std::size_t axis = 0; axis < tensor.strides.size(); ++axis) {
    if (tensor.strides[axis] == 0 && tensor.shape[axis].number() > 1) return tensor.numel() > 0;
  }
  return false;
}

void execute(const OpInfo& op, TensorRefs inputs, const void* attrs, std::span<Tensor> outputs,
             Loc loc) {
  if (op.kind == BodyKind::pointwise && outputs.size() == 1 &&
      runtime::try_run_pointwise(op, attrs, inputs, outputs[0])) {
    return;
  }
  const Types types = infer_from(op, inputs, attrs, loc);
  switch (op.kind) {
    case BodyKind::pointwise:
      runtime::run_pointwise(op, attrs, inputs, types, outputs);
      return;
    case BodyKind::reduction:
      runtime::run_reduction(op, attrs, *inputs[0], types, outputs);
      return;
    case BodyKind::view:
      execute_view(op, *inputs[0], attrs, types[0], outputs[0]);
      return;
    case BodyKind::composite: {
      if (run_in_blocks(op, inputs, attrs, types, outputs, loc)) return;
      const LocScope place(loc);
      std::vector<Tensor> results = op.expand(attrs, inputs, loc);
      std::move(results.begin(), results.end(), outputs.begin());
      return;
    }
    case BodyKind::opaque:
      execute_opaque(op, inputs, attrs, types, outputs, loc);
      return;
    case BodyKind::control:
    case BodyKind::structural:
      break;
  }
  throw GraphError(std::string(op.name) + " belongs to graphs and cannot be executed by itself",
                   loc);
}

ConvertedNumbers::ConvertedNumbers(const OpInfo& op, TensorRefs inputs)
    : converted_(inputs.size()), inputs_(inputs) {
  bool numbers = false, tensors = false;
  for (const Tensor* input : inputs) {
    if (!input->defined()) continue;
    (input->impl()->is_number ? numbers : tensors) = true;
  }
  if (!numbers || !tensors || op.kind != BodyKind::pointwise) return;
  const DType dtype = promote_inputs(op, inputs);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i]->defined() && inputs[i]->impl()->is_number) {
      refs_.push_back(&(converted_[i] = convert_number(*inputs[i], dtype)));
    } else {
      refs_.push_back(inputs[i]);
    }
  }
  inputs_ = {refs_.data(), refs_.size()};
}

}  // namespace exec

EagerEvaluator& EagerEvaluator::instance() {
  static EagerEvaluator evaluator;
  return evaluator;
}

void EagerEvaluator::apply(const OpInfo& op, TensorRefs inputs, const void* attrs,
                           std::span<Tensor> outputs, Loc loc) {
  if (autocast_dtype()) {
    const exec::AutocastInputs cast(op, inputs, loc, exec::version_of);
    apply(op, cast.inputs(), attrs, outputs, loc);
    return;
  }
  bool numbers = false;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const TensorImpl* impl = inputs[i]->impl();
    if (!impl) {
      if (i < op.inputs.size() && op.inputs[i].optional) continue;
      throw ValueError(
          std::string(op.name) + ": input " + std::to_string(i) + " is an undefined tensor",
          loc.user());
    }
    if (impl->kind == TensorImpl::Kind::symbolic) {
      GraphEvaluator(recorded_value(*inputs[i])->graph).apply(op, inputs, attrs, outputs, loc);
      return;
    }
    numbers = numbers || impl->is_number;
  }
  loc = loc.user();
  exec::CancelScope::check(loc);
  std::optional<exec::ConvertedNumbers> converted;
  if (numbers) inputs = converted.emplace(op, inputs).inputs();
  const bool on_tape = autograd::should_record(op, inputs);
  if (op.kind == BodyKind::composite && on_tape) {
    const NoGrad whole;  // the composite's own rule stands for its expansion
    exec::execute(op, inputs, attrs, outputs, loc);
  } else {
    exec::execute(op, inputs, attrs, outputs, loc);
  }
  if (on_tape) autograd::record(op, inputs, attrs, outputs, loc);
  if (DetectAnomaly::active()) exec::check_finite(op, inputs, outputs, loc);
}

const Shape& EagerEvaluator::shape(const Tensor& tensor) { return tensor.impl()->shape; }

namespace {

[[noreturn]] void fail_no_value(const std::string& what, Loc loc) {
  throw GraphError(
      what + " has no value here: it is known only while a graph runs or a function is recorded",
      loc);
}

}  // namespace

std::int64_t EagerEvaluator::dim_value(Dim dim, Loc loc) {
  fail_no_value("the size `" + to_string(dim) + "`", loc);
}

bool EagerEvaluator::dim_equal(Dim a, Dim b, Loc loc) {
  fail_no_value("`" + to_string(a) + " == " + to_string(b) + "`", loc);
}

bool EagerEvaluator::dim_less(Dim a, Dim b, Loc loc) {
  fail_no_value("`" + to_string(a) + " < " + to_string(b) + "`", loc);
}

namespace {

template <class T>
T element_as(const TensorImpl& impl) {
  if (!contains(kPlain & ~kComplex, impl.dtype)) {
    throw DTypeError("a tensor of " + std::string(name_of(impl.dtype)) +
                     " has no value that is one number" +
                     (is_complex(impl.dtype) ? "; take real(), imag() or abs() of it" : ""));
  }
  return visit_element(impl.dtype, [&]<class From>(std::type_identity<From>) {
    const From value = *reinterpret_cast<const From*>(impl.data);
    if constexpr (is_packed_float<From>) {
      return static_cast<T>(to_float(value));
    } else if constexpr (is_small_int<From>) {
      return static_cast<T>(to_int(value));
    } else if constexpr (is_complex_element<From>) {
      return T();
    } else {
      return static_cast<T>(value);
    }
  });
}

[[noreturn]] void fail_symbolic_read(const Tensor& tensor, Loc loc) {
  throw GraphError("the host reads " + type_string(tensor) +
                       ", a symbolic value, which has no data: fetch it with Session::run, or use "
                       "cond() / while_loop()",
                   loc);
}

}  // namespace

double EagerEvaluator::read_double(const Tensor& tensor, Loc loc) {
  if (!tensor.is_concrete()) fail_symbolic_read(tensor, loc);
  return element_as<double>(*tensor.impl());
}

std::int64_t EagerEvaluator::read_int(const Tensor& tensor, Loc loc) {
  if (!tensor.is_concrete()) fail_symbolic_read(tensor, loc);
  return element_as<std::int64_t>(*tensor.impl());
}

bool EagerEvaluator::read_bool(const Tensor& tensor, Loc loc) {
  if (!tensor.is_concrete()) fail_symbolic_read(tensor, loc);
  return element_as<double>(*tensor.impl()) != 0;
}

void EagerEvaluator::write(const Tensor& target, const Tensor& value, Loc loc) {
  if (value.is_symbolic()) {
    GraphEvaluator(recorded_value(value)->graph).write(target, value, loc);
    return;
  }
  write_data(target, value, 1, loc);
}

void EagerEvaluator::write_data(const Tensor& target, const Tensor& value, int handles, Loc loc) {
  if (!target.shape().same_as(value.shape()) || target.dtype() != value.dtype()) {
    throw ShapeError("in-place write of " + type_string(value) + " into " + type_string(target) +
                         ": shape and dtype must be the target's",
                     loc.user());
  }
  if (exec::is_broadcast(*target.impl())) fail_write_to_broadcast(target, loc);
  autograd::check_write(target, value, handles, loc.user());
  if (target.impl()->storage) target.impl()->storage->before_write();
  exec::copy_into(target, value);
  autograd::after_write(target, value);
}

namespace exec {
namespace {

/// Of an operator that makes its result where its first input lies.
bool try_opaque_in_place(const OpInfo& op, TensorRefs inputs, const void* attrs,
                         const Tensor& target) {
  const runtime::OpKernel* const kernel = runtime::find_kernel(op);
  const TensorImpl& impl = *target.impl();
  if (!kernel || kernel->takes_over != 0 || !inputs[0]->is_same(target) || !impl.contiguous ||
      is_broadcast(impl))
    return false;
  Types types;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (i > 0 && share_memory(*inputs[i], target)) return false;
    types.push_back(type_of(*inputs[i]));
  }
  const Loc loc = Loc().user();
  types = infer_types(op, types, attrs, loc);
  if (!types[0].same_as(type_of(target))) return false;
  std::vector<Tensor> given;
  for (const Tensor* input : inputs) given.push_back(*input);
  Tensor result = target;
  impl.storage->before_write();
  kernel->run({op, attrs, given, {&result, 1}, loc});
  impl.storage->bump_version();
  return true;
}

}  // namespace
}  // namespace exec

bool EagerEvaluator::try_in_place(const OpInfo& op, TensorRefs inputs, const void* attrs,
                                  const Tensor& target) {
  // What the tape keeps, and what is checked, are the operator's result and the write.
  if (DetectAnomaly::active() || autograd::should_record(op, inputs)) return false;
  for (const Tensor* input : inputs) {
    if (!input->is_concrete()) return false;
  }
  exec::CancelScope::check({});
  if (op.kind == BodyKind::opaque) return exec::try_opaque_in_place(op, inputs, attrs, target);
  const exec::ConvertedNumbers converted(op, inputs);
  Tensor result = target;
  target.impl()->storage->before_write();
  if (!runtime::try_run_pointwise(op, attrs, converted.inputs(), result)) return false;
  target.impl()->storage->bump_version();
  return true;
}

bool EagerEvaluator::apply_over(const OpInfo& op, TensorRefs inputs, const void* attrs, Loc loc) {
  return exec::try_over(op, inputs, attrs, loc);
}

std::vector<Tensor> EagerEvaluator::backward(std::span<const Tensor> outputs,
                                             std::span<const Tensor> grads,
                                             std::span<const Tensor> inputs, bool retain_graph,
                                             bool create_graph, Loc loc) {
  loc = loc.user();
  for (const Tensor& output : outputs) {
    if (!output.defined()) throw ValueError("backward of an undefined tensor", loc);
  }
  if (outputs[0].is_symbolic()) {
    if (inputs.empty()) {
      throw GraphError(
          "backward() of a symbolic tensor: a static graph has no grad() to fill; use "
          "gradients(loss, {...})",
          loc);
    }
    return autograd::graph_gradients(outputs, grads, inputs, loc);
  }
  return autograd::run_backward(outputs, grads, inputs, {retain_graph, create_graph}, loc);
}

}  // namespace dyad

/// Makes the eager evaluator the default before main. Programs name this function when they link
/// (see CMakeLists.txt), so that a static link takes this file in.
extern "C" [[gnu::constructor]] void dyad_exec_install() {
  dyad::Evaluator::install_default(dyad::EagerEvaluator::instance());
}
