#include "dyad/ops/decompositions.h"

#include "dyad/ops/attrs/linalg.h"
#include "dyad/ops/elementary.h"
#include "dyad/ops/indexing.h"
#include "dyad/ops/linalg.h"
#include "dyad/ops/matrix_support.h"
#include "dyad/ops/reduce.h"
#include "dyad/ops/registry.h"
#include "dyad/ops/solve.h"

namespace dyad {
namespace ops {
namespace {

[[noreturn]] void fail_gradient(const std::string& text) {
  throw GradError(text, Loc(std::source_location::current()).user());
}

/// t^-1 b or t^-T b for the triangular factor t.
Tensor solved(const Tensor& t, const Tensor& b, bool upper, bool transposed) {
  return triangular_solve(t, b, upper, transposed);
}
/// b t^-1 or b t^-T.
Tensor solved_right(const Tensor& t, const Tensor& b, bool upper, bool transposed) {
  return mt(triangular_solve(t, mt(b), upper, !transposed));
}

// --- cholesky ------------------------------------------------------------------------------------

struct Cholesky {
  using Attrs = CholeskyAttrs;
  static constexpr Schema schema{
      .name = "cholesky",
      .inputs = kUnaryFloat,
      .outputs = kOut,
      .doc = "The triangular factor l of symmetric positive definite matrices l @ l^T, or l^T.",
      .saved_outputs = kFirst,
      .checks = kFirst,
      .batching = Batching::leading};
  static Types infer(const InferIn& in, const Attrs&) {
    require_square(in, 0);
    return {in[0]};
  }
  /// I. Murray, "Differentiation of the Cholesky decomposition", 2016, equation (10).
  static void grad(Gradient& g, const Attrs& attrs) {
    const Tensor l = attrs.upper ? mt(g.output()) : g.output();
    const Tensor gl = attrs.upper ? mt(g.grad()) : g.grad();
    const Tensor inner = matmul(mt(l), gl);
    const Tensor halved = lower_part(where(diagonal_mask(inner), inner * 0.5, inner));
    g.set(0, symmetric_part(solved_right(l, solved(l, halved, false, true), false, false)));
  }
};

// --- qr ------------------------------------------------------------------------------------------

constexpr ArgInfo kQr[] = {{"q"}, {"r"}};

struct QrOp {
  using Attrs = QrAttrs;
  static constexpr Schema schema{
      .name = "qr",
      .inputs = kUnaryFloat,
      .outputs = kQr,
      .doc =
          "x = q @ r: orthonormal columns, and an upper triangle whose diagonal is not negative.",
      .saved_outputs = kFirst | kSecond,
      .batching = Batching::leading};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    require_matrices(in, 0);
    const Shape batch = leading(in[0].shape(), 2);
    const Dim m = from_back(in[0].shape(), 2), n = from_back(in[0].shape(), 1);
    const Dim k = attrs.complete ? m : min(m, n);
    const DType dtype = in[0].dtype();
    return {Type(dtype, with_axes(batch, {m, k})), Type(dtype, with_axes(batch, {k, n}))};
  }
  /// S. Walter and L. Lehmann, "Algorithmic differentiation of linear algebra functions with
  /// application in optimum experimental design", 2010; J. Townsend, "Differentiating the QR
  /// decomposition", 2018. For more columns than rows: the first ones have factors q and r of their
  /// own, the others are q times the rest of r.
  static void grad(Gradient& g, const Attrs& attrs) {
    const Dim m = from_back(g.input_shape(0), 2), n = from_back(g.input_shape(0), 1);
    const Tensor q = g.output(0), r = g.output(1), gr = g.grad(1);
    const bool wide = m < n;
    if (attrs.complete && n < m) {
      fail_gradient("the gradient of qr(" + type_string(q) + " @ " + type_string(r) +
                    "): the complete factors of a matrix with more rows than columns have none; "
                    "use the reduced ones");
    }
    if (!wide) {
      g.set(0, of_square(q, r, g.grad(0), gr));
      return;
    }
    const Tensor first = slice(r, -1, 0, m), rest = slice(r, -1, m, n);
    const Tensor gfirst = slice(gr, -1, 0, m), grest = slice(gr, -1, m, n);
    const Tensor y = matmul(q, rest), gy = matmul(q, grest);
    const Tensor gq = g.grad(0) + matmul(y, mt(grest));
    g.set(0, concat({of_square(q, first, gq, gfirst), gy}, -1));
  }

 private:
  static Tensor of_square(const Tensor& q, const Tensor& r, const Tensor& gq, const Tensor& gr) {
    const Tensor inner = matmul(r, mt(gr)) - matmul(mt(gq), q);
    const Tensor mirrored = lower_part(inner) + mt(lower_part(inner, -1));
    return solved_right(r, gq + matmul(q, mirrored), true, true);
  }
};

// --- svd -----------------------------------------------------------------------------------------

constexpr ArgInfo kSvd[] = {{"u"}, {"s"}, {"vh"}};

/// 1 / (b_j - a_i) off the diagonal and 0 on it, from the matrix of differences.
Tensor off_diagonal_inverse(const Tensor& differences) {
  const Tensor diagonal = diagonal_mask(differences);
  return where(diagonal, 0, 1 / where(diagonal, 1, differences));
}
Tensor antisymmetric(const Tensor& x) { return x - mt(x); }
Tensor as_diagonal(const Tensor& values) {
  const Tensor rows = unsqueeze(values, -1);
  return where(diagonal_mask(expand(rows, with_axes(sizes_of(values), {values.size(-1)}))), rows,
               0);
}

Types infer_singular_values(const InferIn& in) {
  require_matrices(in, 0);
  const Shape& x = in[0].shape();
  return {Type(in[0].dtype(), with_axes(leading(x, 2), {min(from_back(x, 2), from_back(x, 1))}))};
}

struct SvdOp {
  using Attrs = SvdAttrs;
  static constexpr Schema schema{
      .name = "svd",
      .inputs = kUnaryFloat,
      .outputs = kSvd,
      .doc =
          "x = u @ diag(s) @ vh: orthonormal columns and rows, and singular values from the "
          "largest down.",
      .saved_outputs = kFirst | kSecond | kThird,
      .checks = kFirst,
      .batching = Batching::leading};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    const Type s = infer_singular_values(in)[0];
    const Shape batch = leading(in[0].shape(), 2);
    const Dim m = from_back(in[0].shape(), 2), n = from_back(in[0].shape(), 1);
    const Dim k = s.shape().back(), ku = attrs.full_matrices ? m : k,
              kv = attrs.full_matrices ? n : k;
    return {Type(s.dtype(), with_axes(batch, {m, ku})), s,
            Type(s.dtype(), with_axes(batch, {kv, n}))};
  }
  /// J. Townsend, "Differentiating the singular value decomposition", 2016.
  static void grad(Gradient& g, const Attrs& attrs) {
    const Dim m = from_back(g.input_shape(0), 2), n = from_back(g.input_shape(0), 1);
    const bool with_u = g.has_grad(0), with_v = g.has_grad(2);
    const bool tall = n < m, wide = m < n;
    if (attrs.full_matrices && ((tall && with_u) || (wide && with_v))) {
      fail_gradient("the gradient of svd: " + std::string(tall ? "u" : "vh") +
                    " of a matrix that is not square has columns that the matrix does not "
                    "determine; use full_matrices = false");
    }
    const Tensor s = g.output(1);
    const Dim k = s.size(-1);
    const Tensor u = slice(g.output(0), -1, 0, k), vh = slice(g.output(2), -2, 0, k);
    if (!with_u && !with_v) {
      g.set(0, matmul(u * unsqueeze(g.grad(1), -2), vh));
      return;
    }
    const Tensor column = unsqueeze(s, -1), row = unsqueeze(s, -2);
    const Tensor f = off_diagonal_inverse((row - column) * (row + column));
    Tensor inner = as_diagonal(g.grad(1)), outside;
    if (with_u) {
      const Tensor gu = slice(g.grad(0), -1, 0, k), ugu = matmul(mt(u), gu);
      inner = inner + f * antisymmetric(ugu) * row;
      if (tall) outside = matmul((gu - matmul(u, ugu)) / row, vh);
    }
    if (with_v) {
      const Tensor gvh = slice(g.grad(2), -2, 0, k), vgv = matmul(vh, mt(gvh));
      inner = inner + column * f * antisymmetric(vgv);
      if (wide) {
        const Tensor part = matmul(u, (gvh - matmul(mt(vgv), vh)) / column);
        outside = outside.defined() ? outside + part : part;
      }
    }
    const Tensor inside = matmul(matmul(u, inner), vh);
    g.set(0, outside.defined() ? inside + outside : inside);
  }
};

struct Svdvals {
  using Attrs = NoAttrs;
  static constexpr Schema schema{.name = "svdvals",
                                 .inputs = kUnaryFloat,
                                 .outputs = kOut,
                                 .doc = "The singular values of matrices, from the largest down.",
                                 .saved_inputs = kFirst,
                                 .checks = kFirst,
                                 .batching = Batching::leading};
  static Types infer(const InferIn& in, const Attrs&) { return infer_singular_values(in); }
  static void grad(Gradient& g, const Attrs&) {
    const Svd factors = svd(g.input(0), false);
    g.set(0, matmul(factors.u * unsqueeze(g.grad(), -2), factors.vh));
  }
};

// --- eigh ----------------------------------------------------------------------------------------

constexpr ArgInfo kEigh[] = {{"w"}, {"v"}};

struct EighOp {
  using Attrs = NoAttrs;
  static constexpr Schema schema{
      .name = "eigh",
      .inputs = kUnaryFloat,
      .outputs = kEigh,
      .doc = "x = v @ diag(w) @ v^T for symmetric matrices: eigenvalues from the smallest up.",
      .saved_outputs = kFirst | kSecond,
      .checks = kFirst,
      .batching = Batching::leading};
  static Types infer(const InferIn& in, const Attrs&) {
    require_square(in, 0);
    const Shape& x = in[0].shape();
    return {Type(in[0].dtype(), leading(x, 1)), in[0]};
  }
  /// Where the vectors have no gradient: the bits of the rule below without their part.
  static Tensor of_values(const Tensor& v, const Tensor& grad) {
    return symmetric_part(matmul(v * unsqueeze(grad, -2), mt(v)));
  }
  /// M. Giles, 2008, section 3.1.
  static void grad(Gradient& g, const Attrs&) {
    const Tensor w = g.output(0), v = g.output(1);
    if (!g.has_grad(1)) {
      g.set(0, of_values(v, g.grad(0)));
      return;
    }
    const Tensor f = off_diagonal_inverse(unsqueeze(w, -2) - unsqueeze(w, -1));
    const Tensor inner = as_diagonal(g.grad(0)) + f * matmul(mt(v), g.grad(1));
    g.set(0, symmetric_part(matmul(matmul(v, inner), mt(v))));
  }
};

struct Eigvalsh {
  using Attrs = NoAttrs;
  static constexpr Schema schema{
      .name = "eigvalsh",
      .inputs = kUnaryFloat,
      .outputs = kOut,
      .doc = "The eigenvalues of symmetric matrices, from the smallest up.",
      .saved_inputs = kFirst,
      .checks = kFirst,
      .batching = Batching::leading};
  static Types infer(const InferIn& in, const Attrs&) {
    require_square(in, 0);
    return {Type(in[0].dtype(), leading(in[0].shape(), 1))};
  }
  static void grad(Gradient& g, const Attrs&) {
    g.set(0, EighOp::of_values(eigh(g.input(0)).v, g.grad()));
  }
};

// --- lu ------------------------------------------------------------------------------------------

constexpr ArgInfo kLu[] = {{"permutation", set_of(DType::i64)}, {"l"}, {"u"}};

struct LuOp {
  using Attrs = NoAttrs;
  static constexpr Schema schema{
      .name = "lu",
      .inputs = kUnaryFloat,
      .outputs = kLu,
      .doc =
          "The rows of x in the order of a permutation are l @ u: a unit lower and an upper "
          "triangle.",
      .saved_outputs = kFirst | kSecond | kThird,
      .batching = Batching::leading};
  static Types infer(const InferIn& in, const Attrs&) {
    require_matrices(in, 0);
    const Shape batch = leading(in[0].shape(), 2);
    const Dim m = from_back(in[0].shape(), 2), n = from_back(in[0].shape(), 1), k = min(m, n);
    const DType dtype = in[0].dtype();
    return {Type(DType::i64, with_axes(batch, {m})), Type(dtype, with_axes(batch, {m, k})),
            Type(dtype, with_axes(batch, {k, n}))};
  }
  /// Walter and Lehmann, 2010, for the square part; the rows below it are l2 = a2 u^-1, the columns
  /// beside it u2 = l^-1 a2.
  static void grad(Gradient& g, const Attrs&) {
    const Dim m = from_back(g.input_shape(0), 2), n = from_back(g.input_shape(0), 1), k = min(m, n);
    const Tensor l = slice(g.output(1), -2, 0, k), u = slice(g.output(2), -1, 0, k);
    Tensor gl = slice(g.grad(1), -2, 0, k), gu = slice(g.grad(2), -1, 0, k), beside;
    if (k < n) {
      const Tensor u2 = slice(g.output(2), -1, k, n);
      beside = solved(l, slice(g.grad(2), -1, k, n), false, true);
      gl = gl - matmul(beside, mt(u2));
    } else if (k < m) {
      const Tensor l2 = slice(g.output(1), -2, k, m);
      beside = solved_right(u, slice(g.grad(1), -2, k, m), true, true);
      gu = gu - matmul(mt(l2), beside);
    }
    const Tensor inner = lower_part(matmul(mt(l), gl), -1) + upper_part(matmul(gu, mt(u)));
    Tensor rows = solved_right(u, unit_solved(l, inner), true, true);
    if (beside.defined()) rows = concat({rows, beside}, k < n ? -1 : -2);
    // Row i of `rows` belongs to row permutation[i] of x.
    const Tensor index = expand(unsqueeze(g.output(0), -1), sizes_of(rows));
    g.set(0, scatter_add(zeros_like(rows), -2, index, rows));
  }

 private:
  /// l^-T b for the unit lower triangle l.
  static Tensor unit_solved(const Tensor& l, const Tensor& b) {
    return triangular_solve(l, b, false, true, true);
  }
};

// --- pinv ----------------------------------------------------------------------------------------

struct Pinv {
  using Attrs = PinvAttrs;
  static constexpr Schema schema{.name = "pinv",
                                 .inputs = kUnaryFloat,
                                 .outputs = kOut,
                                 .doc = "The pseudo-inverses of matrices.",
                                 .saved_inputs = kFirst,
                                 .saved_outputs = kFirst,
                                 .checks = kFirst,
                                 .batching = Batching::leading};
  static Types infer(const InferIn& in, const Attrs&) {
    require_matrices(in, 0);
    const Shape& x = in[0].shape();
    return {Type(in[0].dtype(), with_axes(leading(x, 2), {from_back(x, 1), from_back(x, 2)}))};
  }
  /// G. Golub and V. Pereyra, "The differentiation of pseudo-inverses and nonlinear least squares
  /// problems whose variables separate", 1973.
  static void grad(Gradient& g, const Attrs&) {
    const Tensor x = g.input(0), p = g.output(), turned = mt(p), gt = mt(g.grad());
    const Tensor inner = matmul(gt, p), outer = matmul(p, gt);
    // (I - x p) g^T p p^T and p^T p g^T (I - p x), without the identity.
    const Tensor left = matmul(inner - matmul(x, matmul(p, inner)), turned);
    const Tensor right = matmul(turned, outer - matmul(matmul(outer, p), x));
    g.set(0, left + right - matmul(matmul(turned, g.grad()), turned));
  }
};

// --- exp -----------------------------------------------------------------------------------------

struct MatrixExp {
  using Attrs = NoAttrs;
  static constexpr Schema schema{.name = "matrix_exp",
                                 .inputs = kUnaryFloat,
                                 .outputs = kOut,
                                 .doc = "The exponentials of square matrices.",
                                 .saved_inputs = kFirst,
                                 .batching = Batching::leading};
  static Types infer(const InferIn& in, const Attrs&) {
    require_square(in, 0);
    return {in[0]};
  }
  /// R. Mathias, "A chain rule for matrix functions and applications", 1996: the derivative in a
  /// direction is a block of the exponential of a matrix of twice the size.
  static void grad(Gradient& g, const Attrs&) {
    const Tensor turned = mt(g.input(0));
    const Dim n = from_back(g.input_shape(0), 1);
    const Tensor rows =
        concat({concat({turned, g.grad()}, -1), concat({zeros_like(turned), turned}, -1)}, -2);
    g.set(0, slice(slice(matrix_exp(rows), -2, 0, n), -1, n));
  }
};

}  // namespace

std::span<const OpInfo* const> decompositions_rows() {
  static constexpr const OpInfo* kRows[] = {
      &op_info<Cholesky>, &op_info<QrOp>, &op_info<SvdOp>, &op_info<Svdvals>,  &op_info<EighOp>,
      &op_info<Eigvalsh>, &op_info<LuOp>, &op_info<Pinv>,  &op_info<MatrixExp>};
  return kRows;
}

}  // namespace ops

Tensor cholesky(const Tensor& x, bool upper, Loc loc) {
  return apply<ops::Cholesky>({.upper = upper}, loc, x);
}
Qr qr(const Tensor& x, bool complete, Loc loc) {
  const Tensor* const inputs[] = {&x};
  std::vector<Tensor> parts = apply_multi<ops::QrOp>({.complete = complete}, loc, inputs, 2);
  return {parts[0], parts[1]};
}
Svd svd(const Tensor& x, bool full_matrices, Loc loc) {
  const Tensor* const inputs[] = {&x};
  std::vector<Tensor> parts =
      apply_multi<ops::SvdOp>({.full_matrices = full_matrices}, loc, inputs, 3);
  return {parts[0], parts[1], parts[2]};
}
Tensor svdvals(const Tensor& x, Loc loc) { return apply<ops::Svdvals>({}, loc, x); }
Eigh eigh(const Tensor& x, Loc loc) {
  const Tensor* const inputs[] = {&x};
  std::vector<Tensor> parts = apply_multi<ops::EighOp>({}, loc, inputs, 2);
  return {parts[0], parts[1]};
}
Tensor eigvalsh(const Tensor& x, Loc loc) { return apply<ops::Eigvalsh>({}, loc, x); }
Lu lu(const Tensor& x, Loc loc) {
  const Tensor* const inputs[] = {&x};
  std::vector<Tensor> parts = apply_multi<ops::LuOp>({}, loc, inputs, 3);
  return {parts[0], parts[1], parts[2]};
}
Tensor pinv(const Tensor& x, double rcond, Loc loc) {
  if (ops::is_complex(x)) {
    const LocScope scope(loc);
    return ops::complex_matrix(pinv(ops::real_matrix(x), rcond, loc));
  }
  return apply<ops::Pinv>({.rcond = rcond}, loc, x);
}
Tensor lstsq(const Tensor& a, const Tensor& b, double rcond, Loc loc) {
  const LocScope called(loc, "lstsq");
  return matmul(pinv(a, rcond, loc), b, loc);
}
Tensor matrix_rank(const Tensor& x, double rcond, Loc loc) {
  const Tensor s = svdvals(x, loc);
  const LocScope scope(loc);
  if (s.size(-1) == Dim(0)) return sum(s != 0, {-1});
  const Tensor largest = max(s, {-1}, true);
  if (rcond >= 0) return sum(s > largest * rcond, {-1});
  const Tensor bound = largest * ops::spacing_at_one(s.dtype());
  return sum(s > mul(bound, ops::size_arg(max(x.size(-1), x.size(-2)))), {-1});
}
Tensor matrix_exp(const Tensor& x, Loc loc) { return apply<ops::MatrixExp>({}, loc, x); }

}  // namespace dyad
