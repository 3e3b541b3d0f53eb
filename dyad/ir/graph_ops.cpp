#include "dyad/ir/graph_ops.h"

#include <string>

#include "dyad/base/error.h"
#include "dyad/ir/gradient.h"

namespace dyad {
namespace {

template <class A>
const A& attrs_of(const InferIn& in) {
  return attrs_at<A>(in.attrs);
}

Types type_of_placeholder(const InferIn& in) {
  const auto& attrs = attrs_of<PlaceholderAttrs>(in);
  for (const Dim d : attrs.shape) {
    if (d.is_number() && d.number() < 0) {
      fail_shape(in, "a size is negative; name a size that varies, such as {\"batch\", 784}");
    }
  }
  return {Type(attrs.dtype, attrs.shape)};
}

/// The type of a literal or a captured tensor, which must have data.
Types type_of_data(const InferIn& in, const Tensor& tensor) {
  if (!tensor.defined()) fail_value(in, "there is no tensor");
  if (!tensor.is_concrete()) {
    throw GraphError(std::string(in.op.name) + ": the tensor has no data (" + type_string(tensor) +
                         " is a value of a graph); a graph can only hold tensors that have data",
                     in.loc.user());
  }
  return {type_of(tensor)};
}

Types type_of_constant(const InferIn& in) {
  return type_of_data(in, attrs_of<ConstantAttrs>(in).value);
}

Types type_of_variable(const InferIn& in) {
  return type_of_data(in, attrs_of<VariableAttrs>(in).tensor);
}

Types type_of_assign(const InferIn& in) {
  if (!in[0].same_as(in[1])) {
    fail_shape(in, "the new value must have the variable's shape and dtype: " + to_string(in[0]) +
                       " and " + to_string(in[1]));
  }
  return {in[0]};
}

Types type_of_after(const InferIn& in) { return {in[0]}; }

constexpr ArgInfo kValueOut[] = {{.name = "value", .dtypes = kEverything}};
constexpr ArgInfo kAssignIn[] = {{.name = "variable", .dtypes = kEverything},
                                 {.name = "value", .dtypes = kEverything}};
constexpr ArgInfo kAfterIn[] = {{.name = "value", .dtypes = kEverything},
                                {.name = "effects", .dtypes = kEverything, .variadic = true}};

}  // namespace

constinit const OpInfo kPlaceholderOp{
    .name = "placeholder",
    .doc = "A value that is fed to the graph at each run.",
    .kind = BodyKind::structural,
    .outputs = kValueOut,
    .attrs = &attrs_info<PlaceholderAttrs>,
    .infer = type_of_placeholder,
};

constinit const OpInfo kConstantOp{
    .name = "constant",
    .doc = "A literal whose elements are part of the graph.",
    .kind = BodyKind::structural,
    .outputs = kValueOut,
    .attrs = &attrs_info<ConstantAttrs>,
    .infer = type_of_constant,
};

constinit const OpInfo kVariableOp{
    .name = "variable",
    .doc = "The elements of a captured tensor at the start of the run.",
    .kind = BodyKind::structural,
    .effect = Effect::read,
    .outputs = kValueOut,
    .attrs = &attrs_info<VariableAttrs>,
    .infer = type_of_variable,
};

constinit const OpInfo kAssignOp{
    .name = "assign",
    .doc = "Writes a value into a variable's tensor at the end of the run, and gives that value.",
    .kind = BodyKind::structural,
    .effect = Effect::write,
    .inputs = kAssignIn,
    .outputs = kValueOut,
    .infer = type_of_assign,
};

constinit const OpInfo kAfterOp{
    .name = "after",
    .doc = "The value, in runs that compute the effects as well.",
    .kind = BodyKind::structural,
    .inputs = kAfterIn,
    .outputs = kValueOut,
    .infer = type_of_after,
    .grad = [](Gradient& g) { g.set(0, g.grad()); },
};

}  // namespace dyad
