#include "dyad/ops/op_support.h"

#include <algorithm>

#include "dyad/base/error.h"
#include "dyad/core/promotion.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/ir/graph_evaluator.h"
#include "dyad/ops/arithmetic.h"
#include "dyad/ops/creation.h"
#include "dyad/ops/elementary.h"
#include "dyad/ops/views.h"

namespace dyad::ops {

int checked_axis(const InferIn& in, std::int64_t axis, int rank) {
  if (axis < -rank || axis >= rank) {
    fail_index(in, "axis " + std::to_string(axis) + " is out of range for " +
                       (rank == 0 ? "a scalar, which has no axes"
                                  : std::to_string(rank) + " axes (" + std::to_string(-rank) +
                                        " to " + std::to_string(rank - 1) + ")"));
  }
  return from_front(axis, rank);
}

Ints checked_axes(const InferIn& in, const Ints& axes, int rank) {
  for (const std::int64_t axis : axes) (void)checked_axis(in, axis, rank);
  Ints sorted = sorted_axes(axes, rank);
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end()) {
    fail_value(in, "axis " + std::to_string(*twice) + " is named twice");
  }
  return sorted;
}

Ints sorted_axes(const Ints& axes, int rank) {
  Ints sorted;
  if (axes.empty()) {
    for (int i = 0; i < rank; ++i) sorted.push_back(i);
    return sorted;
  }
  for (const std::int64_t axis : axes) sorted.push_back(from_front(axis, rank));
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}

Shape reduced_shape(const Shape& shape, const Ints& axes, bool keepdim) {
  Shape result;
  for (int i = 0; i < shape.rank(); ++i) {
    if (std::find(axes.begin(), axes.end(), i) == axes.end()) {
      result.push_back(shape[static_cast<std::size_t>(i)]);
    } else if (keepdim) {
      result.push_back(1);
    }
  }
  return result;
}

Dim count_of(const Shape& shape, const Ints& axes) {
  Dim count = 1;
  for (const std::int64_t axis : axes) count *= shape[static_cast<std::size_t>(axis)];
  return count;
}

void fail_index(const InferIn& in, const std::string& rule) {
  throw IndexError(call_string(in.op, in.inputs, in.attrs) + ": " + rule, in.loc.user());
}

Tensor as_vector(const Tensor& x, Loc loc) { return reshape(x, {1}, loc); }
Tensor as_scalar(const Tensor& x, Loc loc) { return reshape(x, {}, loc); }
ValuesAndIndices as_scalar(const ValuesAndIndices& x, Loc loc) {
  return {as_scalar(x.values, loc), as_scalar(x.indices, loc)};
}

Types infer_of_numbers(const InferIn& in, const std::string& rule) {
  if (in[0].dtype() == DType::boolean && in[1].dtype() == DType::boolean) fail_dtype(in, rule);
  return infer_pointwise(in);
}

void require_one_dtype(const InferIn& in) {
  const auto name = [&](std::size_t i) { return std::string(input_info(in.op, i)->name); };
  for (std::size_t i = 1; i < in.inputs.size(); ++i) {
    if (!in.has(i) || in[i].dtype() == in[0].dtype()) continue;
    fail_dtype(in, "one dtype is needed, but " + name(0) + " is " +
                       std::string(name_of(in[0].dtype())) + " and " + name(i) + " is " +
                       std::string(name_of(in[i].dtype())) + "; convert one with to()");
  }
}

Shape sizes_of(const Tensor& x, Loc loc) {
  Shape sizes;
  for (int i = 0; i < x.rank(); ++i) sizes.push_back(x.size(i, loc));
  return sizes;
}

std::vector<Tensor> derivative(const TensorFunction& f, std::vector<Tensor> inputs,
                               const std::vector<bool>& wanted, const std::vector<Tensor>& grads,
                               Loc loc) {
  std::vector<Tensor> places, outputs, seeds;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!wanted[i]) continue;
    inputs[i] = clone(inputs[i], loc);  // what f sees is a place of its own
    if (inputs[i].is_concrete()) inputs[i].impl()->requires_grad = true;
    places.push_back(inputs[i]);
  }
  const std::vector<Tensor> results = f(inputs);
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (!grads[i].defined() || !(results[i].is_symbolic() || results[i].tracks_grad())) continue;
    outputs.push_back(results[i]);
    seeds.push_back(grads[i]);
  }
  std::vector<Tensor> found(places.size());
  if (!outputs.empty()) {
    found = Evaluator::current().backward(outputs, seeds, places, true, true, loc);
  }
  std::vector<Tensor> gradients(inputs.size());
  for (std::size_t i = 0, next = 0; i < inputs.size(); ++i) {
    if (!wanted[i]) continue;
    gradients[i] = found[next].defined() ? found[next] : zeros_like(inputs[i], loc);
    ++next;
  }
  return gradients;
}

Tensor widened(const Tensor& x) {
  return x.defined() && is_narrow(x.dtype()) ? to(x, DType::f32) : x;
}
Tensor narrowed(const Tensor& x, DType dtype) {
  return is_narrow(dtype) && x.defined() && x.dtype() == DType::f32 ? to(x, dtype) : x;
}
std::vector<Tensor> narrowed(std::vector<Tensor> x, DType dtype) {
  for (Tensor& tensor : x) tensor = narrowed(tensor, dtype);
  return x;
}
std::optional<DType> dtype_with_narrow(TensorRefs tensors) {
  const auto found = std::ranges::find_if(
      tensors, [](const Tensor* x) { return x->defined() && is_narrow(x->dtype()); });
  if (found == tensors.end()) return std::nullopt;
  ResultType result;
  for (const Tensor* x : tensors) result.add(*x);
  return result.dtype();
}
Tensor over_count(const Tensor& grad, Dim count) {
  return in_f32([&](const Tensor& x) { return x / size_arg(count); }, grad);
}

Arg size_arg(Dim size, Loc loc) {
  return size.is_number() ? Arg(size.number(), loc) : Arg(size_tensor(size, loc), loc);
}

Tensor as_dtype(const Arg& value, DType dtype, Loc loc) {
  const Tensor& x = value.tensor();
  if (!x.defined() || !x.impl()->is_number) return to(x, dtype, loc);
  const std::byte* data = static_cast<const std::byte*>(x.impl()->data);
  const auto filled = [&](Number number) { return full({}, number, dtype, loc); };
  if (x.dtype() == DType::f64) return filled(*reinterpret_cast<const double*>(data));
  if (x.dtype() == DType::boolean) return filled(*reinterpret_cast<const bool*>(data));
  const auto integer = *reinterpret_cast<const std::int64_t*>(data);
  return dtype == DType::u64 ? filled(static_cast<std::uint64_t>(integer)) : filled(integer);
}

Tensor& overwrite(Tensor& target, const Tensor& value, std::string_view name, Loc loc) {
  const auto call = [&] { return std::string(name) + " on " + type_string(target); };
  bool fits = value.rank() == target.rank();
  for (int axis = 0; fits && axis < value.rank(); ++axis) {
    fits = value.size(axis, loc) == target.size(axis, loc);
  }
  if (!fits) {
    throw ShapeError(call() + ": the result would be " + size_text(value.shape()) +
                         ", but in place the shape " + size_text(target.shape()) + " stays",
                     loc.user());
  }
  if (category_of(value.dtype()) > category_of(target.dtype())) {
    throw DTypeError(call() + ": the result would be " + std::string(name_of(value.dtype())) +
                         ", but in place the dtype " + std::string(name_of(target.dtype())) +
                         " stays; convert the operand with to()",
                     loc.user());
  }
  Evaluator::current().write(target, to(value, target.dtype(), loc), loc);
  return target;
}

Dim size_now(Dim size) {
  if (is_known(size)) return Evaluator::current().peek(size);
  if (dynamic_cast<const GraphEvaluator*>(&Evaluator::current()) != nullptr) return size;
  const Tensor number = size_tensor(size);
  return number.is_concrete() ? Dim(*reinterpret_cast<const std::int64_t*>(number.impl()->data))
                              : size;
}

bool is_below(Dim size, Dim least) {
  if (is_known(size) && is_known(least)) return size < least;
  const Dim beyond = size_now(size - least);
  if (!beyond.is_number()) return false;
  if (beyond.number() < 0) return true;
  // Nothing reads it, but the sizes of a call must suit its type, too.
  static_cast<void>(full({size - least}, 0, DType::boolean));
  return false;
}

bool leaves_rest(Dim size, std::int64_t of) {
  if (is_known(size)) return !(size % of == 0);
  const Dim now = size_now(size);
  return now.is_number() && now.number() % of != 0;
}

}  // namespace dyad::ops
