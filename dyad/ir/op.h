#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <span>
#include <type_traits>
#include <utility>

#include "dyad/ir/gradient.h"
#include "dyad/ir/onnx_emitter.h"
#include "dyad/ir/op_info.h"
#include "dyad/ir/promoted_inputs.h"
#include "dyad/ir/scalar.h"

namespace dyad {

/// The part of an operator's struct that is data.
struct Schema {
  std::string_view name;
  std::span<const ArgInfo> inputs;
  std::span<const ArgInfo> outputs;
  std::string_view doc = {};
  OnnxName onnx = {};
  Samples samples = {};
  Typing typing = Typing::same;
  Effect effect = Effect::pure;
  std::uint32_t saved_inputs = 0;
  std::uint32_t saved_outputs = 0;
  std::uint32_t checks = 0;  ///< see OpInfo
  int version = 1;
  bool cheap = false;      ///< see OpInfo
  bool may_copy = false;   ///< views: see OpInfo
  bool own_types = false;  ///< pointwise: see OpInfo
  bool counted = false;    ///< see OpInfo
  Batching batching = Batching::none;
  BodyKind kind = BodyKind::opaque;  ///< read only when the struct has no body of its own: opaque,
                                     ///< control, structural
};

namespace detail {

template <class Op, std::size_t... I>
auto call_eval(const typename Op::Attrs& attrs, std::span<const Scalar> in,
               std::index_sequence<I...>) {
  if constexpr (requires { Op::eval(attrs, in[I]...); }) {
    return Op::eval(attrs, in[I]...);
  } else {
    return Op::eval(in[I]...);
  }
}

template <class Op>
inline constexpr bool has_eval = requires { &Op::eval; };
template <class Op>
inline constexpr bool has_reduce = requires { &Op::reduce; };
template <class Op>
inline constexpr bool has_view = requires { &Op::view; };
template <class Op>
inline constexpr bool has_expand = requires { &Op::expand; };

}  // namespace detail

/// What makes a struct an operator: a schema, an attribute struct, and at most one body.
template <class Op>
concept Operator =
    requires {
      { Op::schema } -> std::convertible_to<const Schema&>;
      typename Op::Attrs;
    } && reflect::Aggregate<typename Op::Attrs> &&
    (detail::has_eval<Op> + detail::has_reduce<Op> + detail::has_view<Op> +
         detail::has_expand<Op> <=
     1) &&
    (detail::has_eval<Op> || requires { &Op::infer; });

/// Erases an operator's struct into its row.
template <Operator Op>
constexpr OpInfo make_op_info() {
  using A = typename Op::Attrs;
  constexpr const Schema& s = Op::schema;
  OpInfo row{.name = s.name,
             .doc = s.doc,
             .version = s.version,
             .kind = s.kind,
             .effect = s.effect,
             .typing = s.typing,
             .inputs = s.inputs,
             .outputs = s.outputs,
             .onnx = s.onnx,
             .samples = s.samples,
             .saved_inputs = s.saved_inputs,
             .saved_outputs = s.saved_outputs,
             .checks = s.checks,
             .cheap = s.cheap,
             .may_copy = s.may_copy,
             .own_types = s.own_types,
             .counted = s.counted,
             .batching = s.batching,
             .attrs = &attrs_info<A>};
  if constexpr (requires { &Op::infer; }) {
    row.infer = [](const InferIn& in) -> Types { return Op::infer(in, attrs_at<A>(in.attrs)); };
  } else {
    row.infer = infer_pointwise;
  }
  if constexpr (detail::has_eval<Op>) {
    if (!s.counted) row.kind = BodyKind::pointwise;
    row.eval = [](const void* attrs, std::span<const Scalar> in, std::span<Scalar> out) {
      const auto results = detail::call_eval<Op>(
          attrs_at<A>(attrs), in,
          std::make_index_sequence<Op::schema.inputs.size() + (Op::schema.counted ? 1 : 0)>{});
      if constexpr (std::convertible_to<decltype(results), Scalar>) {
        out[0] = results;
      } else {  // several outputs: a std::array
        std::ranges::copy(results, out.begin());
      }
    };
  }
  if constexpr (detail::has_reduce<Op>) {
    row.kind = BodyKind::reduction;
    row.reduce = [](const void* attrs, ReductionBuilder& builder) {
      Op::reduce(attrs_at<A>(attrs), builder);
    };
    row.reduced_axes = [](const void* attrs, int rank) {
      return Op::reduced_axes(attrs_at<A>(attrs), rank);
    };
  }
  if constexpr (detail::has_view<Op>) {
    row.kind = BodyKind::view;
    row.view = [](const void* attrs, const Shape& in, const Strides& strides, const Shape& out) {
      return Op::view(attrs_at<A>(attrs), in, strides, out);
    };
  }
  if constexpr (requires { &Op::write; }) {
    row.write = [](const void* attrs, const Tensor& x, const Tensor& value, Loc loc) -> Tensor {
      return Op::write(attrs_at<A>(attrs), x, value, loc);
    };
  }
  if constexpr (detail::has_expand<Op>) {
    row.kind = BodyKind::composite;
    row.expand = [](const void* attrs, TensorRefs in, Loc loc) -> std::vector<Tensor> {
      return Op::expand(attrs_at<A>(attrs), in, loc);
    };
  }
  if constexpr (requires { &Op::grad; }) {
    row.grad = [](Gradient& g) { Op::grad(g, g.attrs<A>()); };
  }
  if constexpr (requires { &Op::to_onnx; }) {
    row.to_onnx = [](OnnxEmitter& emitter, const void* attrs) {
      Op::to_onnx(emitter, attrs_at<A>(attrs));
    };
  }
  return row;
}

/// The row of an operator.
template <Operator Op>
inline constexpr OpInfo op_info = make_op_info<Op>();

/// Calls an operator through the current evaluator, its inputs promoted: the body of nearly every
/// public function.
template <Operator Op, class... In>
Tensor apply(const typename Op::Attrs& attrs, Loc loc, const In&... inputs) {
  const Tensor* refs[sizeof...(In) + 1] = {&inputs..., nullptr};
  const TensorRefs given(refs, sizeof...(In));
  Tensor out;
  const auto call = [&](TensorRefs in) {
    Evaluator::current().apply(op_info<Op>, in, &attrs, std::span<Tensor>(&out, 1), loc);
  };
  if constexpr (op_info<Op>.kind == BodyKind::pointwise && sizeof...(In) > 1) {
    with_promoted_inputs(op_info<Op>, given, loc, call);
  } else {
    call(given);
  }
  return out;
}

/// Op(first, second), in the memory of `first` where nobody else holds it.
template <Operator Op>
Tensor apply_over(const typename Op::Attrs& attrs, Tensor first, const Tensor& second) {
  const Tensor* inputs[] = {&first, &second};
  if (Evaluator::current().apply_over(op_info<Op>, inputs, &attrs, {})) return first;
  return apply<Op>(attrs, {}, first, second);
}

/// The same for a list of inputs (variadic operators) and `outputs` results.
template <Operator Op>
std::vector<Tensor> apply_multi(const typename Op::Attrs& attrs, Loc loc, TensorRefs inputs,
                                std::size_t outputs) {
  std::vector<Tensor> out(outputs);
  Evaluator::current().apply(op_info<Op>, inputs, &attrs, out, loc);
  return out;
}

}  // namespace dyad
