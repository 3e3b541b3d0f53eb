#include "dyad/core/tensor.h"

#include <cmath>

#include "dyad/base/error.h"
#include "dyad/core/element.h"
#include "dyad/core/evaluator.h"
#include "dyad/core/tensor_impl.h"

namespace dyad {
namespace {

const TensorImpl& require(const Ref<TensorImpl>& impl, const char* what, Loc loc = {}) {
  if (impl) return *impl;
  throw ValueError(std::string(what) +
                       " of an undefined tensor: a default-constructed Tensor holds nothing until "
                       "one is assigned to it",
                   loc.user());
}

/// The tensor's elements are about to be used as memory.
const TensorImpl& require_data(const Tensor& tensor, Loc loc) {
  if (!tensor.is_concrete() || !Evaluator::is_eager()) {
    Evaluator::current().host_access(tensor, loc.user());
  }
  return *tensor.impl();
}

/// item() and bool: exactly one element. A value of a graph has none to read, whatever its size:
/// the evaluator says so.
void require_one(const Tensor& tensor, const char* what, Loc loc) {
  const Dim count = tensor.impl()->shape.numel();
  if (count.is_symbolic() || count == Dim(1)) return;
  throw ShapeError(std::string(what) + "(" + type_string(tensor) +
                       "): needs exactly one element, not " + to_string(count) +
                       "; reduce it first, or read them all with to_vector()",
                   loc.user());
}

}  // namespace

DType Tensor::dtype() const { return require(impl_, "dtype()").dtype; }
const Shape& Tensor::shape(Loc loc) const {
  const TensorImpl& impl = require(impl_, "shape()", loc);
  if (Evaluator::is_eager() || impl.kind != TensorImpl::Kind::concrete) return impl.shape;
  Evaluator& evaluator = Evaluator::current();
  const Shape& shape = evaluator.shape(*this);
  for (const Dim size : shape) evaluator.note_asked(size, loc);
  return shape;
}
int Tensor::rank() const { return require(impl_, "rank()").shape.rank(); }

Dim Tensor::size(std::int64_t axis, Loc loc) const {
  const TensorImpl& impl = require(impl_, "size()", loc);
  const int at = normalize_axis(axis, impl.shape.rank(), "size", loc);
  if (Evaluator::is_eager() && impl.kind == TensorImpl::Kind::concrete) {
    return impl.shape[static_cast<std::size_t>(at)];
  }
  Evaluator& evaluator = Evaluator::current();
  const Dim size = evaluator.shape(*this)[static_cast<std::size_t>(at)];
  evaluator.note_asked(size, loc);
  return size;
}

Dim Tensor::numel(Loc loc) const {
  const TensorImpl& impl = require(impl_, "numel()", loc);
  if (Evaluator::is_eager()) return impl.shape.numel();
  Dim product = 1;
  for (int axis = 0; axis < impl.shape.rank(); ++axis) product *= size(axis, loc);
  return product;
}

Device Tensor::device() const {
  const TensorImpl& impl = require(impl_, "device()");
  return impl.storage ? impl.storage->device() : Device();
}

bool Tensor::is_concrete() const noexcept {
  return impl_ && impl_->kind == TensorImpl::Kind::concrete;
}
bool Tensor::is_symbolic() const noexcept {
  return impl_ && impl_->kind == TensorImpl::Kind::symbolic;
}
bool Tensor::tracks_grad() const noexcept { return impl_ && impl_->requires_grad; }

const Strides& Tensor::strides() const {
  require(impl_, "strides()");
  return require_data(*this, Loc()).strides;
}
bool Tensor::is_contiguous() const {
  require(impl_, "is_contiguous()");
  return require_data(*this, Loc()).contiguous;
}

void* Tensor::raw_data(Loc loc) const {
  require(impl_, "raw_data()", loc);
  return require_data(*this, loc).data;
}

void* Tensor::checked_data(DType dtype, Loc loc) const {
  if (const TensorImpl& impl = require(impl_, "data()", loc); impl.dtype != dtype) {
    throw DTypeError("data<" + std::string(name_of(dtype)) + ">() of " + type_string(*this) +
                         ": the type must be that of the elements; convert with to(" +
                         std::string(name_of(dtype)) + ") first",
                     loc.user());
  }
  return require_data(*this, loc).data;
}

double Tensor::item_double(Loc loc) const {
  const TensorImpl& impl = require(impl_, "item()", loc);
  require_one(*this, "item", loc);
  Evaluator& evaluator = Evaluator::current();
  if (is_floating(impl.dtype)) return evaluator.read_double(*this, loc.user());
  if (impl.dtype == DType::boolean) return evaluator.read_bool(*this, loc.user()) ? 1 : 0;
  return static_cast<double>(evaluator.read_int(*this, loc.user()));
}

std::int64_t Tensor::item_int(Loc loc) const {
  const TensorImpl& impl = require(impl_, "item()", loc);
  require_one(*this, "item", loc);
  Evaluator& evaluator = Evaluator::current();
  if (impl.dtype == DType::boolean) return evaluator.read_bool(*this, loc.user()) ? 1 : 0;
  if (!is_floating(impl.dtype)) return evaluator.read_int(*this, loc.user());
  const double value = evaluator.read_double(*this, loc.user());
  if (value >= -0x1p63 && value < 0x1p63) return static_cast<std::int64_t>(value);
  throw ValueError("item(" + type_string(*this) + "): the element " + std::to_string(value) +
                       " is no integer of 64 bits; read it as a double",
                   loc.user());
}

bool Tensor::item_bool(Loc loc) const {
  require(impl_, "item()", loc);
  require_one(*this, "item", loc);
  return Evaluator::current().read_bool(*this, loc.user());
}

Tensor::operator bool() const {
  require(impl_, "bool");
  require_one(*this, "bool", Loc());
  return Evaluator::current().read_bool(*this, Loc().user());
}

void Tensor::backward(const Tensor& grad, bool retain_graph, bool create_graph, Loc loc) const {
  require(impl_, "backward()", loc);
  Evaluator::current().backward({this, 1}, {&grad, 1}, {}, retain_graph, create_graph, loc.user());
}

namespace {

/// The type that holds each element of its kind exactly, so that a conversion from it is the
/// conversion from the element.
template <class T>
using Widest = std::conditional_t<
    is_complex_element<T>, std::complex<double>,
    std::conditional_t<std::is_floating_point_v<T> || is_packed_float<T>, double,
                       std::conditional_t<std::is_same_v<T, std::uint64_t>, T, std::int64_t>>>;

/// The elements in logical order.
template <class To, class From>
std::vector<To> elements_of(const TensorImpl& impl) {
  std::vector<To> values;
  values.reserve(static_cast<std::size_t>(impl.numel()));
  const auto* data = reinterpret_cast<const From*>(impl.data);
  for_each_offset(impl.shape, impl.strides, [&](std::int64_t offset) {
    values.push_back(convert_element<To>(data[offset]));
  });
  return values;
}

template <class To, class Wide>
std::vector<To> narrowed(const std::vector<Wide>& wide) {
  std::vector<To> values(wide.size());
  std::transform(wide.begin(), wide.end(), values.begin(), convert_element<To, Wide>);
  return values;
}

}  // namespace

template <Element T>
std::vector<T> Tensor::to_vector(Loc loc) const {
  require(impl_, "to_vector()", loc);
  const TensorImpl& impl = require_data(*this, loc);
  return visit_element(impl.dtype, [&]<class From>(std::type_identity<From>) {
    using Wide = Widest<From>;
    if constexpr (std::is_same_v<From, T> || std::is_same_v<Wide, T>) {
      return elements_of<T, From>(impl);
    } else {
      // A loop for each pair of types would be 400 of them.
      return narrowed<T>(elements_of<Wide, From>(impl));
    }
  });
}

template std::vector<double> Tensor::to_vector<double>(Loc) const;
template std::vector<float> Tensor::to_vector<float>(Loc) const;
template std::vector<Half> Tensor::to_vector<Half>(Loc) const;
template std::vector<BFloat16> Tensor::to_vector<BFloat16>(Loc) const;
template std::vector<long> Tensor::to_vector<long>(Loc) const;
template std::vector<long long> Tensor::to_vector<long long>(Loc) const;
template std::vector<std::int32_t> Tensor::to_vector<std::int32_t>(Loc) const;
template std::vector<std::int16_t> Tensor::to_vector<std::int16_t>(Loc) const;
template std::vector<std::int8_t> Tensor::to_vector<std::int8_t>(Loc) const;
template std::vector<unsigned long> Tensor::to_vector<unsigned long>(Loc) const;
template std::vector<unsigned long long> Tensor::to_vector<unsigned long long>(Loc) const;
template std::vector<std::uint32_t> Tensor::to_vector<std::uint32_t>(Loc) const;
template std::vector<std::uint16_t> Tensor::to_vector<std::uint16_t>(Loc) const;
template std::vector<std::uint8_t> Tensor::to_vector<std::uint8_t>(Loc) const;
template std::vector<std::complex<double>> Tensor::to_vector<std::complex<double>>(Loc) const;
template std::vector<std::complex<float>> Tensor::to_vector<std::complex<float>>(Loc) const;
template std::vector<bool> Tensor::to_vector<bool>(Loc) const;

Tensor Arg::number_tensor(Number number) {
  const DType dtype = number.dtype() == DType::u64 ? DType::i64 : number.dtype();
  Tensor made = make_empty(dtype, Shape());
  TensorImpl& impl = *made.impl();
  impl.is_number = true;
  if (dtype == DType::f64) {
    *reinterpret_cast<double*>(impl.data) = number.floating();
  } else if (dtype == DType::i64) {
    *reinterpret_cast<std::int64_t*>(impl.data) = number.integer();
  } else {
    *reinterpret_cast<bool*>(impl.data) = number.integer() != 0;
  }
  return made;
}

std::string type_string(DType dtype, const Shape& shape) {
  return std::string(name_of(dtype)) + to_string(shape);
}

std::string type_string(const Tensor& tensor) {
  return tensor.defined() ? type_string(tensor.dtype(), tensor.impl()->shape) : "undefined";
}

}  // namespace dyad
