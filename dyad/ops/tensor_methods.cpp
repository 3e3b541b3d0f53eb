#include "dyad/base/error.h"
#include "dyad/core/tensor.h"
#include "dyad/ops/activation.h"
#include "dyad/ops/arithmetic.h"
#include "dyad/ops/assemble.h"
#include "dyad/ops/compare.h"
#include "dyad/ops/complex.h"
#include "dyad/ops/creation.h"
#include "dyad/ops/cumulative.h"
#include "dyad/ops/diagonal.h"
#include "dyad/ops/division.h"
#include "dyad/ops/elementary.h"
#include "dyad/ops/index.h"
#include "dyad/ops/indexing.h"
#include "dyad/ops/linalg.h"
#include "dyad/ops/norm.h"
#include "dyad/ops/products.h"
#include "dyad/ops/rearrange.h"
#include "dyad/ops/reduce.h"
#include "dyad/ops/scatter.h"
#include "dyad/ops/shapes.h"
#include "dyad/ops/solve.h"
#include "dyad/ops/sort.h"
#include "dyad/ops/special.h"
#include "dyad/ops/statistics.h"
#include "dyad/ops/trigonometry.h"
#include "dyad/ops/views.h"

namespace dyad {

Arg::Arg(Dim size, Loc loc) : Arg(size_tensor(size, loc), loc) {}

Tensor Tensor::to(DType dtype, Loc loc) const { return dyad::to(*this, dtype, loc); }
Tensor Tensor::contiguous(Loc loc) const { return dyad::contiguous(*this, loc); }
Tensor Tensor::detach(Loc loc) const { return dyad::detach(*this, loc); }
Tensor Tensor::clone(Loc loc) const { return dyad::clone(*this, loc); }
Tensor Tensor::reshape(Sizes shape, Loc loc) const {
  return dyad::reshape(*this, std::move(shape), loc);
}
Tensor Tensor::view(Sizes shape, Loc loc) const {
  return dyad::reshape(*this, std::move(shape), loc);
}
Tensor Tensor::ravel(Loc loc) const { return dyad::ravel(*this, loc); }
Tensor Tensor::unflatten(std::int64_t axis, const Sizes& sizes, Loc loc) const {
  return dyad::unflatten(*this, axis, sizes, loc);
}
Tensor Tensor::transpose(std::int64_t a, std::int64_t b, Loc loc) const {
  return dyad::transpose(*this, a, b, loc);
}
Tensor Tensor::permute(Ints axes, Loc loc) const {
  return dyad::permute(*this, std::move(axes), loc);
}
Tensor Tensor::t(Loc loc) const {
  if (rank() != 2) {
    throw ShapeError("t(" + type_string(*this) +
                         "): a matrix is needed, which has 2 axes; transpose() takes any two",
                     loc.user());
  }
  return dyad::transpose(*this, 0, 1, loc);
}
Tensor Tensor::flatten(std::int64_t first, std::int64_t last, Loc loc) const {
  return dyad::flatten(*this, first, last, loc);
}
Tensor Tensor::squeeze(std::int64_t axis, Loc loc) const { return dyad::squeeze(*this, axis, loc); }
Tensor Tensor::squeeze(Loc loc) const { return dyad::squeeze(*this, loc); }
Tensor Tensor::unsqueeze(std::int64_t axis, Loc loc) const {
  return dyad::unsqueeze(*this, axis, loc);
}
Tensor Tensor::expand(Sizes shape, Loc loc) const {
  return dyad::expand(*this, std::move(shape), loc);
}
Tensor Tensor::expand_as(const Tensor& other, Loc loc) const {
  return dyad::expand_as(*this, other, loc);
}
Tensor Tensor::select(std::int64_t axis, Dim index, Loc loc) const {
  return dyad::select(*this, axis, index, loc);
}
Tensor Tensor::slice(std::int64_t axis, Dim begin, Dim end, std::int64_t step, Loc loc) const {
  return dyad::slice(*this, axis, begin, end, step, loc);
}
Tensor Tensor::narrow(std::int64_t axis, Dim start, Dim length, Loc loc) const {
  return dyad::narrow(*this, axis, start, length, loc);
}
Tensor Tensor::unfold(std::int64_t axis, std::int64_t size, std::int64_t step, Loc loc) const {
  return dyad::unfold(*this, axis, size, step, loc);
}
Tensor Tensor::operator[](Dim index) const { return dyad::select(*this, 0, index, Loc()); }
Tensor Tensor::operator[](const Slice& slice) const { return dyad::index(*this, {slice}, Loc()); }
Tensor Tensor::operator[](const Tensor& places) const {
  return dyad::index(*this, {places}, Loc());
}
Tensor Tensor::index(std::initializer_list<Index> indices, Loc loc) const {
  return dyad::index(*this, indices, loc);
}
Tensor Tensor::index_put(std::initializer_list<Index> indices, const Arg& value, bool accumulate,
                         Loc loc) const {
  return dyad::index_put(*this, indices, value, accumulate, loc);
}
Tensor Tensor::index(std::span<const Index> indices, Loc loc) const {
  return dyad::index(*this, indices, loc);
}
Tensor Tensor::index_put(std::span<const Index> indices, const Arg& value, bool accumulate,
                         Loc loc) const {
  return dyad::index_put(*this, indices, value, accumulate, loc);
}
Tensor Tensor::sum(Ints axes, bool keepdim, Loc loc) const {
  return dyad::sum(*this, std::move(axes), keepdim, loc);
}
Tensor Tensor::mean(Ints axes, bool keepdim, Loc loc) const {
  return dyad::mean(*this, std::move(axes), keepdim, loc);
}
Tensor Tensor::max(Ints axes, bool keepdim, Loc loc) const {
  return dyad::max(*this, std::move(axes), keepdim, loc);
}
Tensor Tensor::min(Ints axes, bool keepdim, Loc loc) const {
  return dyad::min(*this, std::move(axes), keepdim, loc);
}
Tensor Tensor::argmax(std::int64_t axis, bool keepdim, Loc loc) const {
  return dyad::argmax(*this, axis, keepdim, false, loc);
}
Tensor Tensor::prod(Ints axes, bool keepdim, Loc loc) const {
  return dyad::prod(*this, std::move(axes), keepdim, loc);
}
Tensor Tensor::any(Ints axes, bool keepdim, Loc loc) const {
  return dyad::any(*this, std::move(axes), keepdim, loc);
}
Tensor Tensor::all(Ints axes, bool keepdim, Loc loc) const {
  return dyad::all(*this, std::move(axes), keepdim, loc);
}
Tensor Tensor::logsumexp(Ints axes, bool keepdim, Loc loc) const {
  return dyad::logsumexp(*this, std::move(axes), keepdim, loc);
}
Tensor Tensor::var(Ints axes, std::int64_t correction, bool keepdim, Loc loc) const {
  return dyad::var(*this, std::move(axes), correction, keepdim, loc);
}
Tensor Tensor::std(Ints axes, std::int64_t correction, bool keepdim, Loc loc) const {
  return dyad::std(*this, std::move(axes), correction, keepdim, loc);
}
Tensor Tensor::norm(double p, Ints axes, bool keepdim, Loc loc) const {
  return dyad::norm(*this, p, std::move(axes), keepdim, loc);
}
Tensor Tensor::argmin(std::int64_t axis, bool keepdim, Loc loc) const {
  return dyad::argmin(*this, axis, keepdim, false, loc);
}
Tensor Tensor::argmax(Loc loc) const { return dyad::argmax(*this, loc); }
Tensor Tensor::argmin(Loc loc) const { return dyad::argmin(*this, loc); }
Tensor Tensor::amax(Ints axes, bool keepdim, Loc loc) const {
  return dyad::amax(*this, std::move(axes), keepdim, loc);
}
Tensor Tensor::amin(Ints axes, bool keepdim, Loc loc) const {
  return dyad::amin(*this, std::move(axes), keepdim, loc);
}
Tensor Tensor::count_nonzero(const Ints& axes, bool keepdim, Loc loc) const {
  return dyad::count_nonzero(*this, axes, keepdim, loc);
}
ValuesAndIndices Tensor::median(std::int64_t axis, bool keepdim, Loc loc) const {
  return dyad::median(*this, axis, keepdim, loc);
}
Tensor Tensor::median(Loc loc) const { return dyad::median(*this, loc); }
Tensor Tensor::quantile(double q, std::int64_t axis, bool keepdim, std::string_view interpolation,
                        Loc loc) const {
  return dyad::quantile(*this, q, axis, keepdim, interpolation, loc);
}
Tensor Tensor::quantile(double q, Loc loc) const { return dyad::quantile(*this, q, loc); }
Tensor Tensor::softmax(std::int64_t axis, Loc loc) const { return dyad::softmax(*this, axis, loc); }
Tensor Tensor::log_softmax(std::int64_t axis, Loc loc) const {
  return dyad::log_softmax(*this, axis, loc);
}
Tensor Tensor::cumsum(std::int64_t axis, Loc loc) const {
  return dyad::cumsum(*this, axis, false, false, loc);
}
Tensor Tensor::cumprod(std::int64_t axis, Loc loc) const {
  return dyad::cumprod(*this, axis, false, false, loc);
}
Tensor Tensor::logcumsumexp(std::int64_t axis, Loc loc) const {
  return dyad::logcumsumexp(*this, axis, false, loc);
}
ValuesAndIndices Tensor::cummax(std::int64_t axis, Loc loc) const {
  return dyad::cummax(*this, axis, loc);
}
ValuesAndIndices Tensor::cummin(std::int64_t axis, Loc loc) const {
  return dyad::cummin(*this, axis, loc);
}
ValuesAndIndices Tensor::sort(std::int64_t axis, bool descending, Loc loc) const {
  return dyad::sort(*this, axis, descending, loc);
}
Tensor Tensor::argsort(std::int64_t axis, bool descending, Loc loc) const {
  return dyad::argsort(*this, axis, descending, loc);
}
ValuesAndIndices Tensor::topk(Dim k, std::int64_t axis, bool largest, Loc loc) const {
  return dyad::topk(*this, k, axis, largest, true, loc);
}
ValuesAndIndices Tensor::kthvalue(Dim k, std::int64_t axis, bool keepdim, Loc loc) const {
  return dyad::kthvalue(*this, k, axis, keepdim, loc);
}
Unique Tensor::unique(bool sorted, std::optional<std::int64_t> axis, Loc loc) const {
  return dyad::unique(*this, sorted, axis, loc);
}

Tensor Tensor::neg(Loc loc) const { return dyad::neg(*this, loc); }
Tensor Tensor::abs(Loc loc) const { return dyad::abs(*this, loc); }
Tensor Tensor::square(Loc loc) const { return dyad::square(*this, loc); }
Tensor Tensor::sqrt(Loc loc) const { return dyad::sqrt(*this, loc); }
Tensor Tensor::rsqrt(Loc loc) const { return dyad::rsqrt(*this, loc); }
Tensor Tensor::reciprocal(Loc loc) const { return dyad::reciprocal(*this, loc); }
Tensor Tensor::exp(Loc loc) const { return dyad::exp(*this, loc); }
Tensor Tensor::expm1(Loc loc) const { return dyad::expm1(*this, loc); }
Tensor Tensor::exp2(Loc loc) const { return dyad::exp2(*this, loc); }
Tensor Tensor::log(Loc loc) const { return dyad::log(*this, loc); }
Tensor Tensor::log1p(Loc loc) const { return dyad::log1p(*this, loc); }
Tensor Tensor::log2(Loc loc) const { return dyad::log2(*this, loc); }
Tensor Tensor::log10(Loc loc) const { return dyad::log10(*this, loc); }
Tensor Tensor::sin(Loc loc) const { return dyad::sin(*this, loc); }
Tensor Tensor::cos(Loc loc) const { return dyad::cos(*this, loc); }
Tensor Tensor::tan(Loc loc) const { return dyad::tan(*this, loc); }
Tensor Tensor::asin(Loc loc) const { return dyad::asin(*this, loc); }
Tensor Tensor::acos(Loc loc) const { return dyad::acos(*this, loc); }
Tensor Tensor::atan(Loc loc) const { return dyad::atan(*this, loc); }
Tensor Tensor::tanh(Loc loc) const { return dyad::tanh(*this, loc); }
Tensor Tensor::sinh(Loc loc) const { return dyad::sinh(*this, loc); }
Tensor Tensor::cosh(Loc loc) const { return dyad::cosh(*this, loc); }
Tensor Tensor::sigmoid(Loc loc) const { return dyad::sigmoid(*this, loc); }
Tensor Tensor::relu(Loc loc) const { return dyad::relu(*this, loc); }
Tensor Tensor::erf(Loc loc) const { return dyad::erf(*this, loc); }
Tensor Tensor::erfinv(Loc loc) const { return dyad::erfinv(*this, loc); }
Tensor Tensor::lgamma(Loc loc) const { return dyad::lgamma(*this, loc); }
Tensor Tensor::floor(Loc loc) const { return dyad::floor(*this, loc); }
Tensor Tensor::ceil(Loc loc) const { return dyad::ceil(*this, loc); }
Tensor Tensor::round(Loc loc) const { return dyad::round(*this, loc); }
Tensor Tensor::trunc(Loc loc) const { return dyad::trunc(*this, loc); }
Tensor Tensor::frac(Loc loc) const { return dyad::frac(*this, loc); }
Tensor Tensor::sign(Loc loc) const { return dyad::sign(*this, loc); }
Tensor Tensor::isnan(Loc loc) const { return dyad::isnan(*this, loc); }
Tensor Tensor::isinf(Loc loc) const { return dyad::isinf(*this, true, true, loc); }
Tensor Tensor::isfinite(Loc loc) const { return dyad::isfinite(*this, loc); }
Tensor Tensor::logical_not(Loc loc) const { return dyad::logical_not(*this, loc); }
Tensor Tensor::real(Loc loc) const { return dyad::real(*this, loc); }
Tensor Tensor::imag(Loc loc) const { return dyad::imag(*this, loc); }
Tensor Tensor::conj(Loc loc) const { return dyad::conj(*this, loc); }
Tensor Tensor::angle(Loc loc) const { return dyad::angle(*this, loc); }
Tensor Tensor::nonzero(Loc loc) const { return dyad::nonzero(*this, loc); }
Tensor Tensor::add(const Arg& other, Loc loc) const { return dyad::add(*this, other, loc); }
Tensor Tensor::sub(const Arg& other, Loc loc) const { return dyad::sub(*this, other, loc); }
Tensor Tensor::mul(const Arg& other, Loc loc) const { return dyad::mul(*this, other, loc); }
Tensor Tensor::div(const Arg& other, Loc loc) const { return dyad::div(*this, other, loc); }
Tensor Tensor::maximum(const Arg& other, Loc loc) const { return dyad::maximum(*this, other, loc); }
Tensor Tensor::minimum(const Arg& other, Loc loc) const { return dyad::minimum(*this, other, loc); }
Tensor Tensor::fmod(const Arg& other, Loc loc) const { return dyad::fmod(*this, other, loc); }
Tensor Tensor::remainder(const Arg& other, Loc loc) const {
  return dyad::remainder(*this, other, loc);
}
Tensor Tensor::atan2(const Arg& other, Loc loc) const { return dyad::atan2(*this, other, loc); }
Tensor Tensor::lerp(const Arg& end, const Arg& weight, Loc loc) const {
  return dyad::lerp(*this, end, weight, loc);
}
Tensor Tensor::pow(const Arg& exponent, Loc loc) const { return dyad::pow(*this, exponent, loc); }
Tensor Tensor::clamp(const Tensor& low, const Tensor& high, Loc loc) const {
  return dyad::clamp(*this, low, high, loc);
}
Tensor Tensor::clamp(Number low, Number high, Loc loc) const {
  return dyad::clamp(*this, low, high, loc);
}
Tensor Tensor::masked_fill(const Tensor& mask, const Arg& value, Loc loc) const {
  return dyad::masked_fill(*this, mask, value, loc);
}
Tensor Tensor::masked_select(const Tensor& mask, Loc loc) const {
  return dyad::masked_select(*this, mask, loc);
}
Tensor Tensor::masked_scatter(const Tensor& mask, const Tensor& source, Loc loc) const {
  return dyad::masked_scatter(*this, mask, source, loc);
}
Tensor Tensor::matmul(const Tensor& other, Loc loc) const {
  return dyad::matmul(*this, other, loc);
}
Tensor Tensor::mm(const Tensor& other, Loc loc) const { return dyad::mm(*this, other, loc); }
Tensor Tensor::bmm(const Tensor& other, Loc loc) const { return dyad::bmm(*this, other, loc); }
Tensor Tensor::dot(const Tensor& other, Loc loc) const { return dyad::dot(*this, other, loc); }
Tensor Tensor::outer(const Tensor& other, Loc loc) const { return dyad::outer(*this, other, loc); }
Tensor Tensor::det(Loc loc) const { return dyad::det(*this, loc); }
Tensor Tensor::inverse(Loc loc) const { return dyad::inverse(*this, loc); }

Tensor Tensor::gather(std::int64_t axis, const Tensor& index, Loc loc) const {
  return dyad::gather(*this, axis, index, loc);
}
Tensor Tensor::index_select(std::int64_t axis, const Tensor& index, Loc loc) const {
  return dyad::index_select(*this, axis, index, loc);
}
Tensor Tensor::scatter(std::int64_t axis, const Tensor& index, const Arg& source, Loc loc) const {
  return dyad::scatter(*this, axis, index, source, loc);
}
Tensor Tensor::scatter_add(std::int64_t axis, const Tensor& index, const Tensor& source,
                           Loc loc) const {
  return dyad::scatter_add(*this, axis, index, source, loc);
}
Tensor Tensor::scatter_reduce(std::int64_t axis, const Tensor& index, const Tensor& source,
                              std::string_view reduction, bool include_self, Loc loc) const {
  return dyad::scatter_reduce(*this, axis, index, source, reduction, include_self, loc);
}
Tensor Tensor::index_add(std::int64_t axis, const Tensor& index, const Tensor& source,
                         Loc loc) const {
  return dyad::index_add(*this, axis, index, source, loc);
}
Tensor Tensor::index_copy(std::int64_t axis, const Tensor& index, const Tensor& source,
                          Loc loc) const {
  return dyad::index_copy(*this, axis, index, source, loc);
}
Tensor Tensor::index_fill(std::int64_t axis, const Tensor& index, const Arg& value, Loc loc) const {
  return dyad::index_fill(*this, axis, index, value, loc);
}
Tensor Tensor::take(const Tensor& index, Loc loc) const { return dyad::take(*this, index, loc); }
std::vector<Tensor> Tensor::chunk(std::int64_t count, std::int64_t axis, Loc loc) const {
  return dyad::chunk(*this, count, axis, loc);
}
std::vector<Tensor> Tensor::split(std::int64_t size, std::int64_t axis, Loc loc) const {
  return dyad::split(*this, size, axis, loc);
}
std::vector<Tensor> Tensor::split(const Shape& sizes, std::int64_t axis, Loc loc) const {
  return dyad::split(*this, sizes, axis, loc);
}
std::vector<Tensor> Tensor::unbind(std::int64_t axis, Loc loc) const {
  return dyad::unbind(*this, axis, loc);
}
Tensor Tensor::flip(const Ints& axes, Loc loc) const { return dyad::flip(*this, axes, loc); }
Tensor Tensor::roll(const Ints& shifts, const Ints& axes, Loc loc) const {
  return dyad::roll(*this, shifts, axes, loc);
}
Tensor Tensor::tile(const Sizes& counts, Loc loc) const { return dyad::tile(*this, counts, loc); }
Tensor Tensor::repeat(const Sizes& counts, Loc loc) const {
  return dyad::repeat(*this, counts, loc);
}
Tensor Tensor::repeat_interleave(std::int64_t count, std::int64_t axis, Loc loc) const {
  return dyad::repeat_interleave(*this, count, axis, loc);
}
Tensor Tensor::repeat_interleave(const Tensor& counts, std::int64_t axis, Loc loc) const {
  return dyad::repeat_interleave(*this, counts, axis, loc);
}
Tensor Tensor::tril(std::int64_t k, Loc loc) const { return dyad::tril(*this, k, loc); }
Tensor Tensor::triu(std::int64_t k, Loc loc) const { return dyad::triu(*this, k, loc); }
Tensor Tensor::diagonal(std::int64_t offset, std::int64_t axis1, std::int64_t axis2,
                        Loc loc) const {
  return dyad::diagonal(*this, offset, axis1, axis2, loc);
}
Tensor Tensor::diag(std::int64_t k, Loc loc) const { return dyad::diag(*this, k, loc); }
Tensor Tensor::trace(std::int64_t offset, std::int64_t axis1, std::int64_t axis2, Loc loc) const {
  return dyad::trace(*this, offset, axis1, axis2, loc);
}
Tensor Tensor::swapaxes(std::int64_t a, std::int64_t b, Loc loc) const {
  return dyad::swapaxes(*this, a, b, loc);
}
Tensor Tensor::movedim(std::int64_t from, std::int64_t to, Loc loc) const {
  return dyad::movedim(*this, from, to, loc);
}
Tensor Tensor::broadcast_to(Sizes shape, Loc loc) const {
  return dyad::broadcast_to(*this, std::move(shape), loc);
}

}  // namespace dyad
