#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "dyad/base/error.h"
#include "dyad/core/tensor.h"
#include "dyad/ir/op.h"
#include "dyad/ir/scalar_dual.h"

namespace dyad {

/// What define_op() may be told beside the expression.
struct CustomOpOptions {
  std::string doc = {};              ///< one sentence
  std::vector<ArgInfo> inputs = {};  ///< names and dtypes; otherwise x, or a, b, c, d of any number
                                     ///< type. The names must outlive the program (literals do).
  Typing typing = Typing::floating;
  /// The gradient rule; otherwise derived from the expression. It reads any input.
  void (*grad)(Gradient& g) = nullptr;
  OnnxName onnx = {};
  Samples samples = {};
};

namespace custom {

/// Derivatives up to this order are derived from an expression.
inline constexpr int kOrders = 3;

/// A scalar function of N numbers and an attribute struct A, without state.
template <class F, class A, int N>
struct Expression {
  using Attrs = A;
  static constexpr int inputs = N;
  static constexpr int order = 0;
  template <class T>
  static T call([[maybe_unused]] const A& attrs, const std::array<T, N>& x) {
    return std::apply(
        [&](const auto&... each) -> T {
          if constexpr (std::is_empty_v<A>) {
            return F{}(each...);
          } else {
            return F{}(attrs, each...);
          }
        },
        x);
  }
};

/// x[0] times the slope of E along its input I at x[1], x[2]...
template <class E, int I>
struct SlopeOf {
  using Attrs = typename E::Attrs;
  static constexpr int inputs = E::inputs + 1;
  static constexpr int order = E::order + 1;
  template <class T>
  static T call(const Attrs& attrs, const std::array<T, inputs>& x) {
    using scalar::like;
    const auto point = [&]<std::size_t... J>(std::index_sequence<J...>) {
      return std::array<scalar::Dual<T>, E::inputs>{
          (J == I ? scalar::Dual<T>(x[J + 1], like(x[J + 1], 1)) : scalar::Dual<T>(x[J + 1]))...};
    };
    const scalar::Dual<T> y = E::call(attrs, point(std::make_index_sequence<E::inputs>{}));
    return y.varies() ? x[0] * y.slope() : like(x[0], 0);
  }
};

template <class E>
inline constexpr bool is_slope = false;
template <class E, int I>
inline constexpr bool is_slope<SlopeOf<E, I>> = true;

/// What a row of an expression refers to; it lives as long as the process.
struct Row {
  std::string name, doc;
  std::vector<ArgInfo> inputs;
  OpInfo info;
};
template <class E>
Row& row_of() {
  static Row row;  // made when first asked for, which may be before main
  return row;
}

/// Calls a row on tensors.
[[nodiscard]] Tensor call(const OpInfo& row, const void* attrs, std::span<const Tensor> inputs,
                          Loc loc);
[[noreturn]] void fail_order(const OpInfo& row);
/// The names that inputs get when they are not given: x, or a, b, c, d.
[[nodiscard]] std::vector<ArgInfo> default_inputs(int count);
/// Adds rows to the registry, after those of Dyad itself, whose names are taken.
void add_rows(std::span<const OpInfo* const> rows);
/// ValueError unless the name is of lower-case letters, digits and underscores.
void check_name(const std::string& name);
inline constexpr ArgInfo kResult[] = {{"out"}};
inline constexpr ArgInfo kIncoming[] = {{"grad", kFloat}, {"grad2", kFloat}, {"grad3", kFloat}};

template <class E>
void derived_grad(Gradient& g);

template <class E>
void fill_row(std::string name, const CustomOpOptions& options, std::vector<const OpInfo*>& made) {
  using Attrs = typename E::Attrs;
  Row& row = row_of<E>();
  row.name = std::move(name);
  row.doc = options.doc;
  row.inputs = options.inputs;
  row.info = {
      .name = row.name,
      .doc = row.doc,
      .kind = BodyKind::pointwise,
      .typing = options.typing,
      .inputs = row.inputs,
      .outputs = kResult,
      .onnx = options.onnx,
      .samples = options.samples,
      .saved_inputs = (1u << E::inputs) - 1,
      .attrs = &attrs_info<Attrs>,
      .infer = infer_pointwise,
      .eval =
          [](const void* attrs, std::span<const Scalar> in, std::span<Scalar> out) {
            const auto given = [&]<std::size_t... I>(std::index_sequence<I...>) {
              return std::array<Scalar, E::inputs>{in[I]...};
            };
            out[0] = E::template call<Scalar>(attrs_at<Attrs>(attrs),
                                              given(std::make_index_sequence<E::inputs>{}));
          },
      .grad = options.grad ? options.grad : derived_grad<E>,
  };
  made.push_back(&row.info);
  if constexpr (E::order < kOrders) {
    if (options.grad) return;
    CustomOpOptions of_slope = options;
    of_slope.onnx = {};
    of_slope.inputs.insert(of_slope.inputs.begin(), kIncoming[E::order]);
    const auto fill = [&]<int I>(std::integral_constant<int, I>) {
      const ArgInfo by = row.inputs[I];
      // The incoming gradient of a slope enters it as a factor: no new row is needed.
      if (is_slope<E> && I == 0) return;
      of_slope.doc =
          "grad times the derivative of " + row.name + " by " + std::string(by.name) + ".";
      fill_row<SlopeOf<E, I>>(row.name + "_by_" + std::string(by.name), of_slope, made);
    };
    [&]<int... I>(std::integer_sequence<int, I...>) {
      (fill(std::integral_constant<int, I>{}), ...);
    }(std::make_integer_sequence<int, E::inputs>{});
  }
}

template <class E>
void derived_grad(Gradient& g) {
  using Attrs = typename E::Attrs;
  const Attrs& attrs = g.attrs<Attrs>();
  std::vector<Tensor> inputs{g.grad()};
  for (int i = 0; i < E::inputs; ++i) inputs.push_back(g.input(i));
  const auto set = [&]<int I>(std::integral_constant<int, I>) {
    if (!g.needs(I)) return;
    if constexpr (is_slope<E> && I == 0) {
      std::vector<Tensor> again = inputs;
      again.erase(again.begin() + 1);
      g.set(0, call(row_of<E>().info, &attrs, again, {}));
    } else if constexpr (E::order < kOrders) {
      g.set(I, call(row_of<SlopeOf<E, I>>().info, &attrs, inputs, {}));
    } else {
      fail_order(row_of<E>().info);
    }
  };
  [&]<int... I>(std::integer_sequence<int, I...>) {
    (set(std::integral_constant<int, I>{}), ...);
  }(std::make_integer_sequence<int, E::inputs>{});
}

/// An expression is handed its attributes only if it has any: generic parameters take anything.
template <class F, class A, class... In>
concept Takes = (std::is_empty_v<A> && std::invocable<const F&, In...>) ||
                (!std::is_empty_v<A> && std::invocable<const F&, const A&, In...>);

/// How many numbers F takes, attributes not counted.
template <class F, class A>
consteval int count_inputs() {
  if constexpr (Takes<F, A, Scalar>) {
    return 1;
  } else if constexpr (Takes<F, A, Scalar, Scalar>) {
    return 2;
  } else if constexpr (Takes<F, A, Scalar, Scalar, Scalar>) {
    return 3;
  } else if constexpr (Takes<F, A, Scalar, Scalar, Scalar, Scalar>) {
    return 4;
  } else {
    return 0;
  }
}

}  // namespace custom

/// An operator that define_op() made: call it with tensors or numbers, which broadcast.
template <class E>
class CustomOp {
 public:
  using Attrs = typename E::Attrs;
  explicit CustomOp(Attrs attrs = {}) : attrs_(std::move(attrs)) {}
  /// The same operator with other attributes.
  [[nodiscard]] CustomOp with(Attrs attrs) const { return CustomOp(std::move(attrs)); }
  [[nodiscard]] const OpInfo& info() const noexcept { return custom::row_of<E>().info; }

  Tensor operator()(const Arg& x, Loc loc = std::source_location::current()) const
    requires(E::inputs == 1)
  {
    return call({{x.tensor()}}, loc);
  }
  Tensor operator()(const Arg& a, const Arg& b, Loc loc = std::source_location::current()) const
    requires(E::inputs == 2)
  {
    return call({{a.tensor(), b.tensor()}}, loc);
  }
  Tensor operator()(const Arg& a, const Arg& b, const Arg& c,
                    Loc loc = std::source_location::current()) const
    requires(E::inputs == 3)
  {
    return call({{a.tensor(), b.tensor(), c.tensor()}}, loc);
  }
  Tensor operator()(const Arg& a, const Arg& b, const Arg& c, const Arg& d,
                    Loc loc = std::source_location::current()) const
    requires(E::inputs == 4)
  {
    return call({{a.tensor(), b.tensor(), c.tensor(), d.tensor()}}, loc);
  }

 private:
  [[nodiscard]] Tensor call(const std::array<Tensor, E::inputs>& inputs, Loc loc) const {
    return custom::call(info(), &attrs_, inputs, loc);
  }
  Attrs attrs_;
};

/// Adds an operator given as a scalar expression to the registry:
///
///     const auto bump = define_op("bump", [](auto x) { return exp(-x * x); });
///     Tensor y = bump(x);
///
/// `f` is a lambda without captures of 1 to 4 numbers, written for any number type (`auto`
/// parameters) with the operators and functions of dyad/ir/scalar_math.h; conditions are made by
/// select(). With attributes, `define_op<A>(name, f)`, f takes `const A&` first, and
/// `bump.with({...})(x)` sets them. The result is an operator as any other: inputs broadcast and
/// are promoted, it runs eagerly, in static graphs and compiled functions, where it is fused with
/// its neighbours, graphs with it are saved and loaded (by a program that has defined it), and it
/// is differentiated, to order 3, by the slopes of the expression, unless the options give a rule.
/// Call it once for each operator, before graphs that use it are read. ValueError for a name that
/// is taken or is not of lower-case letters, digits and underscores.
template <class A = NoAttrs, class F>
auto define_op(std::string name, F, const CustomOpOptions& options = {}) {
  static_assert(std::is_empty_v<F> && std::is_default_constructible_v<F>,
                "the expression of an operator is a lambda without captures: numbers that vary are "
                "inputs or attributes");
  constexpr int count = custom::count_inputs<F, A>();
  static_assert(count > 0, "the expression takes 1 to 4 numbers, and const A& before them if any");
  using E = custom::Expression<F, A, count>;
  static const std::string first = name;
  if (first != name) {
    throw ValueError("define_op(\"" + name + "\"): this expression is the operator \"" + first +
                     "\" already");
  }
  static const bool done = [&] {
    custom::check_name(name);
    CustomOpOptions complete = options;
    if (complete.inputs.empty()) complete.inputs = custom::default_inputs(count);
    if (complete.inputs.size() != count) {
      throw ValueError("define_op(\"" + name + "\"): the expression takes " +
                       std::to_string(count) + " inputs, but the options describe " +
                       std::to_string(complete.inputs.size()));
    }
    if (complete.doc.empty()) complete.doc = "Defined by the program.";
    std::vector<const OpInfo*> rows;
    custom::fill_row<E>(name, complete, rows);
    custom::add_rows(rows);
    return true;
  }();
  (void)done;
  return CustomOp<E>();
}

/// Adds the operators whose structs (ir/op.h) a program defines to the registry, so that graphs
/// with them can be read: `register_op<MyOp>()`. One that is opaque needs a kernel too:
/// runtime::register_kernel (dyad/runtime/op_kernel.h). ValueError for a name that is taken.
template <Operator... Op>
void register_op() {
  const OpInfo* const rows[] = {&op_info<Op>...};
  custom::add_rows(rows);
}

}  // namespace dyad
