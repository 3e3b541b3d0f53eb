#include "dyad/ops/solve.h"

#include <limits>

#include "dyad/core/promotion.h"
#include "dyad/ops/attrs/linalg.h"
#include "dyad/ops/elementary.h"
#include "dyad/ops/linalg.h"
#include "dyad/ops/matrix_support.h"
#include "dyad/ops/reduce.h"
#include "dyad/ops/registry.h"

namespace dyad {
namespace ops {
namespace {

// Gradients: M. Giles, "Collected matrix derivative results for forward and reverse mode
// algorithmic differentiation", 2008.

constexpr ArgInfo kSystem[] = {{"a", kFloat}, {"b", kFloat}};

Types infer_system(const InferIn& in) {
  InferIn system = in;
  system.inputs = in.inputs.first(2);
  require_one_dtype(system);
  require_square(in, 0);
  require_matrices(in, 1);
  const Shape &a = in[0].shape(), &b = in[1].shape();
  if (!(from_back(a, 1) == from_back(b, 2))) {
    fail_shape(in, "a has " + to_string(from_back(a, 1)) + " rows but b has " +
                       to_string(from_back(b, 2)));
  }
  Shape shape;
  if (!broadcast(leading(a, 2), leading(b, 2), shape)) {
    fail_shape(in, "the axes before the last two, " + to_string(leading(a, 2)) + " and " +
                       to_string(leading(b, 2)) + ", do not broadcast");
  }
  return {Type(in[0].dtype(), with_axes(shape, {from_back(b, 2), from_back(b, 1)}))};
}

constexpr ArgInfo kSolve[] = {{"a", kFloat},
                              {"b", kFloat},
                              {"factors", kFloat, /*optional=*/true},
                              {"pivots", set_of(DType::i32), /*optional=*/true}};

struct Solve {
  using Attrs = SolveAttrs;
  static constexpr Schema schema{
      .name = "solve",
      .inputs = kSolve,
      .outputs = kOut,
      .doc =
          "x with a @ x = b, or with transpose a^T @ x = b; by the factors of lu_factors(a) "
          "where they are given.",
      .saved_inputs = kFirst | kThird | kFourth,
      .saved_outputs = kFirst,
      .checks = kFirst,
      .batching = Batching::leading};
  static Types infer(const InferIn& in, const Attrs&) {
    const Types types = infer_system(in);
    if (!in.has(2)) return types;
    const Types factors = types_of_factors(in);
    for (std::size_t i = 2; i < 4; ++i) {
      if (in.has(i) && in[i].dtype() == factors[i - 2].dtype() &&
          in[i].shape() == factors[i - 2].shape()) {
        continue;
      }
      fail_shape(in, std::string(in.op.inputs[i].name) + " must be that of lu_factors(a)");
    }
    return types;
  }
  /// Factors are a function of a; what they pass on is its gradient.
  static void grad(Gradient& g, const Attrs& attrs) {
    const Attrs turned{.transpose = !attrs.transpose};
    const Tensor& a = g.input(0);
    const Tensor b = g.input_count() > 2
                         ? apply<Solve>(turned, {}, a, g.grad(), g.input(2), g.input(3))
                         : apply<Solve>(turned, {}, a, g.grad());
    if (g.needs(0)) {
      const Tensor &x = g.output(), left = attrs.transpose ? x : b, right = attrs.transpose ? b : x;
      g.set(0, -matmul(left, mt(right)));
    }
    if (g.needs(1)) g.set(1, b);
  }

  /// The types of the factors of input 0.
  static Types types_of_factors(const InferIn& in) {
    const Shape& a = in[0].shape();
    return {Type(in[0].dtype() == DType::f64 ? DType::f64 : DType::f32, a),
            Type(DType::i32, with_axes(leading(a, 2), {1, from_back(a, 1)}))};
  }
};

constexpr ArgInfo kLuFactors[] = {{"factors", kFloat}, {"pivots", set_of(DType::i32)}};

struct LuFactors {
  using Attrs = NoAttrs;
  static constexpr Schema schema{
      .name = "lu_factors",
      .inputs = kUnaryFloat,
      .outputs = kLuFactors,
      .doc =
          "The LU factors of transposed matrices in one, stored by columns: row i was exchanged "
          "with row pivots[0, i] - 1, from the first on. Singular matrices have some too.",
      .batching = Batching::leading};
  static Types infer(const InferIn& in, const Attrs&) {
    require_square(in, 0);
    return Solve::types_of_factors(in);
  }
};

struct TriangularSolve {
  using Attrs = TriangularSolveAttrs;
  static constexpr Schema schema{
      .name = "triangular_solve",
      .inputs = kSystem,
      .outputs = kOut,
      .doc = "x with a @ x = b (a^T @ x = b), where only the upper or lower triangle of a counts.",
      .saved_inputs = kFirst,
      .saved_outputs = kFirst,
      .checks = kFirst,
      .batching = Batching::leading};
  static Types infer(const InferIn& in, const Attrs&) { return infer_system(in); }
  static void grad(Gradient& g, const Attrs& attrs) {
    Attrs other = attrs;
    other.transpose = !attrs.transpose;
    const Tensor b = apply<TriangularSolve>(other, {}, g.input(0), g.grad());
    if (g.needs(0)) {
      const Tensor &x = g.output(), left = attrs.transpose ? x : b, right = attrs.transpose ? b : x;
      const Tensor a = -matmul(left, mt(right));
      const std::int64_t unit = attrs.unit_diagonal ? 1 : 0;
      g.set(0, attrs.upper ? where(lower_mask(a, unit - 1), 0, a) : lower_part(a, -unit));
    }
    if (g.needs(1)) g.set(1, b);
  }
};

struct Inverse {
  using Attrs = NoAttrs;
  static constexpr Schema schema{.name = "inverse",
                                 .inputs = kUnaryFloat,
                                 .outputs = kOut,
                                 .doc = "The inverses of square matrices.",
                                 .saved_outputs = kFirst,
                                 .checks = kFirst,
                                 .batching = Batching::leading};
  static Types infer(const InferIn& in, const Attrs&) {
    require_square(in, 0);
    return {in[0]};
  }
  static void grad(Gradient& g, const Attrs&) {
    const Tensor y = mt(g.output());
    g.set(0, -matmul(matmul(y, g.grad()), y));
  }
};

Types infer_cofactor(const InferIn& in) {
  require_square(in, 0);
  return {in[0]};
}

/// Scalars of a batch beside its matrices.
Tensor as_matrices(const Tensor& x) { return unsqueeze(unsqueeze(x, -1), -1); }

struct Cofactor {
  using Attrs = NoAttrs;
  static constexpr Schema schema{
      .name = "cofactor",
      .inputs = kUnaryFloat,
      .outputs = kOut,
      .doc =
          "The derivative of the determinant: det(x) times the transposed inverse of x, of a "
          "singular x its limit.",
      .saved_inputs = kFirst,
      .saved_outputs = kFirst,
      .batching = Batching::leading};
  static Types infer(const InferIn& in, const Attrs&) { return infer_cofactor(in); }
  static void grad(Gradient& g, const Attrs&) {
    const Tensor c = g.output(), turned = mt(apply<Inverse>({}, {}, g.input(0)));
    const Tensor along = sum(g.grad() * c, {-2, -1}, true);
    g.set(0, along * turned - matmul(matmul(c, mt(g.grad())), turned));
  }
};

struct Det {
  using Attrs = NoAttrs;
  static constexpr Schema schema{.name = "det",
                                 .inputs = kUnaryFloat,
                                 .outputs = kOut,
                                 .doc = "The determinants of square matrices.",
                                 .saved_inputs = kFirst,
                                 .batching = Batching::leading};
  static Types infer(const InferIn& in, const Attrs&) {
    require_square(in, 0);
    return {Type(in[0].dtype(), leading(in[0].shape(), 2))};
  }
  static void grad(Gradient& g, const Attrs&) {
    g.set(0, as_matrices(g.grad()) * apply<Cofactor>({}, {}, g.input(0)));
  }
  static void to_onnx(OnnxEmitter& e, const Attrs&) {
    const std::string x =
        e.input_as(0, set_of(DType::f64) | set_of(DType::f32) | set_of(DType::f16));
    e.output(0, e.node("Det", {x}));
  }
};

constexpr ArgInfo kSignAndLog[] = {{"sign"}, {"logabsdet"}};

struct Slogdet {
  using Attrs = NoAttrs;
  static constexpr Schema schema{
      .name = "slogdet",
      .inputs = kUnaryFloat,
      .outputs = kSignAndLog,
      .doc = "The signs of determinants and the logarithms of their absolute values.",
      .saved_inputs = kFirst,
      .batching = Batching::leading};
  static Types infer(const InferIn& in, const Attrs&) {
    require_square(in, 0);
    const Type type(in[0].dtype(), leading(in[0].shape(), 2));
    return {type, type};
  }
  static void grad(Gradient& g, const Attrs&) {
    g.set(0, as_matrices(g.grad(1)) * mt(apply<Inverse>({}, {}, g.input(0))));
  }
};

/// Whether b holds vectors, one for each matrix of a.
bool holds_vectors(const Tensor& a, const Tensor& b, Loc loc) {
  if (b.rank() == 1) return true;
  if (b.rank() != a.rank() - 1) return false;
  for (int i = 0; i < b.rank(); ++i) {
    if (!(a.size(i, loc) == b.size(i, loc))) return false;
  }
  return true;
}

/// `solve(b)`, where b is made of matrices for it when it holds vectors.
template <class Solver>
Tensor with_matrices(const Tensor& a, const Tensor& b, Loc loc, const Solver& solver) {
  const bool vectors = a.defined() && b.defined() && holds_vectors(a, b, loc);
  return vectors ? squeeze(solver(unsqueeze(b, -1, loc)), -1, loc) : solver(b);
}

Tensor solve_matrices(const Tensor& a, const Tensor& b, Loc loc) {
  if (any_complex(a, b)) {
    const LocScope scope(loc);
    const DType dtype = result_type({a, b});
    const Tensor real = real_matrix(to(a, dtype));
    return complex_columns(solve_matrices(real, real_columns(to(b, dtype)), loc));
  }
  // Where the gradient will solve with a^T it does so by the same factors.
  const bool again = (is_taped(a) || is_taped(b)) && a.rank() >= 2 &&
                     a.size(-1, loc) == a.size(-2, loc) && is_floating(a.dtype());
  if (!again) return apply<Solve>({}, loc, a, b);
  const Tensor* const inputs[] = {&a};
  const std::vector<Tensor> parts = apply_multi<LuFactors>({}, loc, inputs, 2);
  return apply<Solve>({}, loc, a, b, parts[0], parts[1]);
}

}  // namespace

std::span<const OpInfo* const> solve_rows() {
  static constexpr const OpInfo* kRows[] = {
      &op_info<Solve>, &op_info<LuFactors>, &op_info<TriangularSolve>, &op_info<Inverse>,
      &op_info<Det>,   &op_info<Cofactor>,  &op_info<Slogdet>};
  return kRows;
}

}  // namespace ops

Tensor solve(const Tensor& a, const Tensor& b, Loc loc) {
  return ops::with_matrices(
      a, b, loc, [&](const Tensor& matrices) { return ops::solve_matrices(a, matrices, loc); });
}
Tensor triangular_solve(const Tensor& a, const Tensor& b, bool upper, bool transpose,
                        bool unit_diagonal, Loc loc) {
  const ops::TriangularSolveAttrs attrs{
      .upper = upper, .transpose = transpose, .unit_diagonal = unit_diagonal};
  return ops::with_matrices(a, b, loc, [&](const Tensor& matrices) {
    return apply<ops::TriangularSolve>(attrs, loc, a, matrices);
  });
}
Tensor cholesky_solve(const Tensor& b, const Tensor& factor, bool upper, Loc loc) {
  // l l^T x = b, or u^T u x = b: the triangle that comes first is the lower one.
  const Tensor half = triangular_solve(factor, b, upper, upper, false, loc);
  return triangular_solve(factor, half, upper, !upper, false, loc);
}
Tensor inverse(const Tensor& x, Loc loc) {
  if (!ops::is_complex(x)) return apply<ops::Inverse>({}, loc, x);
  const LocScope scope(loc);
  return ops::complex_matrix(inverse(ops::real_matrix(x), loc));
}

Tensor det(const Tensor& x, Loc loc) { return apply<ops::Det>({}, loc, x); }
SignAndLog slogdet(const Tensor& x, Loc loc) {
  const Tensor* const inputs[] = {&x};
  std::vector<Tensor> parts = apply_multi<ops::Slogdet>({}, loc, inputs, 2);
  return {parts[0], parts[1]};
}
Tensor logdet(const Tensor& x, Loc loc) {
  const SignAndLog parts = slogdet(x, loc);
  return where(lt(parts.sign, 0, loc), std::numeric_limits<double>::quiet_NaN(), parts.logabsdet,
               loc);
}

}  // namespace dyad
