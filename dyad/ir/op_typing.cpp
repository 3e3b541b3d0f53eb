#include <algorithm>
#include <string>

#include "dyad/base/error.h"
#include "dyad/core/element.h"
#include "dyad/core/promotion.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/ir/op_info.h"

namespace dyad {
namespace {

/// Which axis of the result does not fit, as text: `axis 0 is 3 in a and 5 in b`.
std::string misfit(const Shape& a, const Shape& b, std::string_view name_a,
                   std::string_view name_b) {
  const int rank = std::max(a.rank(), b.rank());
  for (int back = 1; back <= std::min(a.rank(), b.rank()); ++back) {
    const Dim da = a[static_cast<std::size_t>(a.rank() - back)];
    const Dim db = b[static_cast<std::size_t>(b.rank() - back)];
    if (da.same_as(db) || da.same_as(1) || db.same_as(1)) continue;
    if (da.is_number() && db.is_number() ? true : !(da == db)) {
      return "axis " + std::to_string(rank - back) + " is " + to_string(da) + " in " +
             std::string(name_a) + " and " + to_string(db) + " in " + std::string(name_b);
    }
  }
  return "no axis fits";
}

DType result_dtype(Typing typing, DType promoted) noexcept {
  switch (typing) {
    case Typing::same:
      return promoted;
    case Typing::floating:
      return is_floating(promoted) ? promoted : DType::f32;
    case Typing::boolean:
      return DType::boolean;
  }
  return promoted;
}

}  // namespace

Dim unknown_size() { return Dim::symbol("?"); }

bool takes_part_in_promotion(const ArgInfo& input) noexcept {
  return input.dtypes != kBool && input.dtypes != kIndex;
}

Types infer_pointwise(const InferIn& in) {
  Shape shape;
  std::string names;
  bool any = false, promoted_any = false;
  DType promoted = DType::boolean;
  for (std::size_t i = 0; i < in.inputs.size(); ++i) {
    if (!in.has(i)) continue;
    const Type& type = in[i];
    const ArgInfo& info = *input_info(in.op, i);
    if (!type.is_tensor()) fail_dtype(in, std::string(info.name) + " must be a tensor");
    if (any) {
      Shape result;
      if (!broadcast(shape, type.shape(), result)) {
        fail_shape(in, "shapes " + to_string(shape) + " and " + to_string(type.shape()) +
                           " do not broadcast: " + misfit(shape, type.shape(), names, info.name) +
                           "; sizes must be equal or one of them 1");
      }
      shape = result;
    } else {
      shape = type.shape();
      any = true;
    }
    names += (names.empty() ? "" : " with ") + std::string(info.name);
    if (takes_part_in_promotion(info)) {
      promoted = promoted_any ? promote(promoted, type.dtype()) : type.dtype();
      promoted_any = true;
    }
  }
  for (std::size_t i = 0; promoted == DType::string && i < in.inputs.size(); ++i) {
    const ArgInfo& info = *input_info(in.op, i);
    if (!in.has(i) || !takes_part_in_promotion(info) || in[i].dtype() == DType::string) continue;
    fail_dtype(in, std::string(info.name) + " is no string, and strings meet strings only");
  }
  return Types(std::max<std::size_t>(in.op.outputs.size(), 1),
               Type(result_dtype(in.op.typing, promoted), shape));
}

DType promote_inputs(const OpInfo& op, TensorRefs inputs) {
  ResultType result;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const TensorImpl* const impl = inputs[i]->impl();
    const ArgInfo* info = input_info(op, i);
    if (impl == nullptr || info == nullptr || !takes_part_in_promotion(*info)) continue;
    result.add({.dtype = impl->dtype, .rank = 1, .is_number = impl->is_number});
  }
  return result.dtype().value_or(DType::boolean);
}

Tensor convert_number(const Tensor& number, DType dtype) {
  if (number.dtype() == dtype) return number;
  Tensor made = make_empty(dtype, Shape());
  made.impl()->is_number = true;
  visit_dtype(number.dtype(), [&]<class From>(std::type_identity<From>) {
    visit_element(dtype, [&]<class To>(std::type_identity<To>) {
      *reinterpret_cast<To*>(made.impl()->data) =
          convert_element<To>(*reinterpret_cast<const From*>(number.impl()->data));
    });
  });
  return made;
}

}  // namespace dyad
