#include "rows.h"

// Products of vectors and matrices, factors and functions of matrices; Fourier transforms and
// complex numbers.

namespace dyad::testing {
namespace {

std::vector<Row> product_rows() {
  const Rule pair = floats(2, 2) + alike();
  const Rule batches = floats(3, 3) + alike();
  return {
      {DYAD_ROW(mm(x, transpose(y, 0, 1))), pair},
      {DYAD_ROW(bmm(x, transpose(y, 1, 2))), batches},
      {DYAD_ROW(mv(x, select(x, 0, 0))), numbers(2, 2)},
      {DYAD_ROW(matmul(x, y)), numbers(1, 1) + sized({0})},
      {DYAD_ROW(matmul(transpose(x, -1, -2), y)), numbers(2, 3) + alike()},
      {DYAD_ROW(dot(x, y)), numbers(1, 1) + alike()},
      {DYAD_ROW(vecdot(x, y, i)), numbers(1, 3) + alike() + axis()},
      {DYAD_ROW(inner(x, y)), numbers(0, 3) + alike()},
      {DYAD_ROW(addmm(z, x, transpose(y, 0, 1), a, b)),
       pair + beside() + real({0, 1, 0.5}) + real({1, -2})},
      {DYAD_ROW(baddbmm(sum(x), x, transpose(y, 1, 2), a, b)),
       batches + real({0, 1, 0.5}) + real({1, -2})},
      {DYAD_ROW(tensordot(x, y, {0}, {0})), floats(1, 3) + alike()},
      {DYAD_ROW(tensordot(x, y, {1, 0}, {1, 0})), floats(2, 3) + alike()},
      {DYAD_ROW(tensordot(x, transpose(y, 0, 1), 1)), floats(2, 2) + alike()},
      {DYAD_ROW(multi_dot({x, transpose(y, 0, 1)})), pair},
      {DYAD_ROW(kron(x, y)), floats(0, 2) + alike(0, 2)},
      {DYAD_ROW(matrix_power(matmul(x, transpose(x, -1, -2)), i)), floats(2, 3) + whole(0, 3)},
      {DYAD_ROW(matrix_power(positive(x), -2)), wide_floats(2, 3)},
      {DYAD_ROW(cdist(x, y)), floats(2, 3) + alike()},
      {DYAD_ROW(cdist(x, y, a)), floats(2, 3) + alike() + real({1, 3, 0})},
      {DYAD_ROW(pdist(x)), floats(2, 2)},
      {DYAD_ROW(pdist(x, 1)), floats(2, 2)},
      {DYAD_ROW(cov(x)), floats(1, 2)},
      {DYAD_ROW(cov(x, 0, {}, above_zero(select(x, 0, 0)))), floats(2, 2)},
      {DYAD_ROW(corrcoef(x)), floats(2, 2)},
      {DYAD_ROW(convolve(x, y)), floats(1, 1) + alike(1, 1)},
      {DYAD_ROW(convolve(x, y, "same")), floats(1, 1) + alike(1, 1)},
      {DYAD_ROW(correlate(x, y)), floats(1, 1) + alike(1, 1)},
      {DYAD_ROW(correlate(x, y, "full")), floats(1, 1) + alike(1, 1)},
      {DYAD_ROW(einsum("ij,ij->", {x, y})), pair},
      {DYAD_ROW(einsum("ii->i", {x})), numbers(2, 2)},
      {DYAD_ROW(einsum("...ij->...ji", {x})), numbers(2, 4)},
      {DYAD_ROW(einsum("ij,ik->ijk", {x, y})), pair},
      {DYAD_ROW(einsum("...i,...i->...", {x, y})), floats(1, 3) + beside()},
      {DYAD_ROW(bilinear(x, y, unsqueeze(matmul(transpose(x, 0, 1), y), 0))), pair},
      {DYAD_ROW(linear(x, x, select(x, -1, 0))), floats(2, 2)},
  };
}

std::vector<Row> matrix_rows() {
  const Rule matrix = wide_floats(2, 3);
  return {
      {DYAD_ROW(logdet(positive(x))), matrix},
      {DYAD_ROW(slogdet(positive(x))), matrix},
      {DYAD_ROW(det(matmul(transpose(x, -1, -2), x))), matrix},
      {DYAD_ROW(triangular_solve(positive(x), x, true)), matrix},
      {DYAD_ROW(triangular_solve(positive(x), x, false, true)), matrix},
      {DYAD_ROW(triangular_solve(positive(x), x, false, false, true)), matrix},
      {DYAD_ROW(cholesky(positive(x), true)), matrix},
      {DYAD_ROW(cholesky_solve(x, cholesky(positive(x)))), matrix},
      {DYAD_ROW(cholesky_inverse(cholesky(positive(x)))), matrix},
      {DYAD_ROW(solve(positive(x), select(x, -1, 0))), matrix},
      {DYAD_ROW(eigh(positive(x)).w), matrix},
      {DYAD_ROW(eigh(positive(x)).v), matrix},
      {DYAD_ROW(svd(positive(x), false).s), matrix},
      {DYAD_ROW(svd(positive(x), false).u), matrix},
      {DYAD_ROW(qr(positive(x), true).q), matrix},
      {DYAD_ROW(lu(positive(x))), matrix},
      {DYAD_ROW(lu_factor(positive(x)).factors), matrix},
      {DYAD_ROW(lu_solve(lu_factor(positive(x)), x)), matrix},
      {DYAD_ROW(pinv(positive(x))), matrix},
      {DYAD_ROW(pinv(x)), matrix},
      {DYAD_ROW(lstsq(positive(x), x)), matrix},
      {DYAD_ROW(matrix_rank(x)), matrix},
      {DYAD_ROW(matrix_exp(tanh(matmul(x, transpose(x, -1, -2))))), matrix},
      {DYAD_ROW(matrix_norm(x, "nuc")), matrix},
      {DYAD_ROW(matrix_norm(x, 2)), matrix},
      {DYAD_ROW(dyad::cond(positive(x))), matrix},
      {DYAD_ROW(dyad::cond(positive(x), 1)), matrix},
  };
}

std::vector<Row> transform_rows() {
  const Rule along = wide_floats(1, 3) + axis();
  return {
      {DYAD_ROW(fft(x, {}, i)), along},
      {DYAD_ROW(fft(x, 4, i, "ortho")), along},
      {DYAD_ROW(ifft(turned(x), {}, i)), along},
      {DYAD_ROW(rfft(x, 5, i, "forward")), along},
      {DYAD_ROW(irfft(turned(x), {}, i)), along},
      {DYAD_ROW(irfft(turned(x), 3, i, "ortho")), along},
      {DYAD_ROW(hfft(turned(x), {}, i)), along},
      {DYAD_ROW(ihfft(x, {}, i)), along},
      {DYAD_ROW(fft2(x)), wide_floats(2, 3)},
      {DYAD_ROW(ifft2(turned(x))), wide_floats(2, 3)},
      {DYAD_ROW(rfft2(x)), wide_floats(2, 3)},
      {DYAD_ROW(irfft2(turned(x))), wide_floats(2, 3)},
      {DYAD_ROW(fftn(x)), wide_floats(1, 3)},
      {DYAD_ROW(ifftn(turned(x), {}, {0})), wide_floats(1, 3)},
      {DYAD_ROW(rfftn(x)), wide_floats(1, 3)},
      {DYAD_ROW(irfftn(turned(x))), wide_floats(1, 3)},
      {DYAD_ROW(fft(x)), complexes(1, 3)},
      {DYAD_ROW(ifft(x, 3, 0)), complexes(1, 3)},
      {DYAD_ROW(stft(x, 4, {.hop_length = 2})), wide_floats(1, 2)},
      {DYAD_ROW(stft(
           x, 4, {.hop_length = 2, .window = hann_window(4, true, x.dtype()), .center = false})),
       wide_floats(1, 2)},
      {DYAD_ROW(istft(stft(x, 4, {.hop_length = 2}), 4, {.hop_length = 2})), wide_floats(1, 2)},
  };
}

std::vector<Row> shift_rows() {
  return {
      {DYAD_ROW(fftshift(x)), value()},
      {DYAD_ROW(fftshift(x, {i})), value(1) + axis()},
      {DYAD_ROW(ifftshift(x, {i})), value(1) + axis()},
  };
}

std::vector<Row> complex_rows() {
  return {
      {DYAD_ROW(complex(x, y)), floats() + beside(), 6},
      {DYAD_ROW(complex(x, tanh(x))), floats(), 6},
      {DYAD_ROW(polar(x, y)), floats() + beside(), 3},
      {DYAD_ROW(view_as_complex(stack({x, x * 0.5}, -1))), wide_floats(0, 3), 3},
      {DYAD_ROW(view_as_real(x)), complexes(), 4},
      {DYAD_ROW(real(x)), complexes(), 4},
      {DYAD_ROW(imag(x)), complexes(), 4},
      {DYAD_ROW(angle(x)), complexes(), 3},
      {DYAD_ROW(angle(x)), floats()},
      {DYAD_ROW(abs(x)), complexes(), 4},
      {DYAD_ROW(conj(x)), complexes(), 3},
      {DYAD_ROW(x + y), complexes() + beside(is_number), 3},
      {DYAD_ROW(x - y), complexes() + beside(is_number), 2},
      {DYAD_ROW(x * y), complexes() + beside(is_number), 3},
      {DYAD_ROW(x / y), complexes() + beside(is_number), 2},
      {DYAD_ROW(y / x), complexes() + beside(is_float), 2},
      {DYAD_ROW(x * conj(x)), complexes(), 2},
      {DYAD_ROW(x * a - b), complexes() + real({0.5, -2}) + real({1, 0.25}), 2},
      {DYAD_ROW(neg(x)), complexes()},
      {DYAD_ROW(exp(x)), complexes(), 2},
      {DYAD_ROW(log(x)), complexes(), 2},
      {DYAD_ROW(sum(x, axes)), complexes() + axes(), 2},
      {DYAD_ROW(mean(x, axes, true)), complexes() + axes(), 2},
      {DYAD_ROW(x == y), complexes() + alike()},
      {DYAD_ROW(x != y), complexes() + alike()},
      {DYAD_ROW(where(real(x) > 0, x, conj(x))), complexes(), 2},
      {DYAD_ROW(masked_fill(x, imag(x) > 0, a)), complexes() + real({0, 1})},
      {DYAD_ROW(vector_norm(x)), complexes()},
      {DYAD_ROW(concat({x, conj(x)}, i)), complexes(1, 3) + axis()},
  };
}

std::vector<Row> complex_product_rows() {
  return {
      {DYAD_ROW(matmul(x, conj(transpose(x, -1, -2)))), complexes(2, 3), 3},
      {DYAD_ROW(matmul(real(x), transpose(x, -1, -2))), complexes(2, 3)},
      {DYAD_ROW(vecdot(x, x)), complexes(1, 3)},
      {DYAD_ROW(einsum("ij,kj->ik", {x, x})), complexes(2, 2)},
      {DYAD_ROW(inverse(matmul(x, conj(transpose(x, -1, -2))) + eye(l, l) * 2)),
       complexes(2, 3) + size(-2)},
      {DYAD_ROW(solve(matmul(x, conj(transpose(x, -1, -2))) + eye(l, l) * 2, x)),
       complexes(2, 3) + size(-2)},
  };
}

}  // namespace

void add_wide_products(Instructions& list) {
  const Table library{.library = true};
  add_rows(list, product_rows(), library);
  add_rows(list, matrix_rows(), library);
  add_rows(list, transform_rows(), library);
  add_rows(list, complex_product_rows(), library);
  add_rows(list, complex_rows());
  add_rows(list, shift_rows());
}

}  // namespace dyad::testing
