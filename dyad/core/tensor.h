#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <iosfwd>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "dyad/base/intrusive_ptr.h"
#include "dyad/core/dtype.h"
#include "dyad/core/number.h"
#include "dyad/core/shape.h"
#include "dyad/core/storage.h"

namespace dyad {

struct TensorImpl;
class Arg;
class Tensor;
class Index;
struct Slice;
struct Unique;
struct ValuesAndIndices;

/// An end beyond every size, for slices to the last element.
inline constexpr std::int64_t kEnd = (std::int64_t{1} << 62) - 1;
/// A bound before every element, for slices that step backwards to the first one:
/// slice(x, 0, kEnd, kStart, -1) is x[::-1].
inline constexpr std::int64_t kStart = -kEnd;

/// What Arg takes: a tensor, a host number or a size.
template <class T>
concept Operand = std::is_arithmetic_v<T> || std::is_same_v<T, Dim> || std::is_same_v<T, Tensor>;
/// Two operands that are not both tensors nor both host numbers.
template <class A, class B>
concept MixedOperands =
    Operand<A> && Operand<B> && !(std::is_arithmetic_v<A> && std::is_arithmetic_v<B>) &&
    !(std::is_same_v<A, Tensor> && std::is_same_v<B, Tensor>);

template <>
struct RefCounting<TensorImpl> {
  static void retain(const TensorImpl* impl) noexcept;
  static void release(const TensorImpl* impl) noexcept;
};

/// The one handle that model code uses: a multi-dimensional array (concrete), a value of a graph
/// (symbolic) or a recorded computation (deferred). Copies share; one pointer wide. Every operator
/// takes and returns it, so code that uses it runs in every mode. Methods that are operators do
/// what the function of the same name does.
class Tensor {
 public:
  /// No tensor: `defined()` is false; an operator given one throws ValueError.
  Tensor() noexcept = default;
  explicit Tensor(Ref<TensorImpl> impl) noexcept : impl_(std::move(impl)) {}
  Tensor(const Tensor&) noexcept = default;
  Tensor(Tensor&&) noexcept = default;
  ~Tensor() = default;
  /// A name gets another tensor. Not for results of calls: `x[0] = y` would change nothing and does
  /// not compile; `x[0].copy_(y)` writes to x.
  Tensor& operator=(const Tensor&) & noexcept = default;
  Tensor& operator=(Tensor&&) & noexcept = default;

  [[nodiscard]] bool defined() const noexcept { return static_cast<bool>(impl_); }
  [[nodiscard]] DType dtype() const;
  /// The sizes. While a function is recorded they are symbols where it serves others, too; the
  /// reference then holds until the call returns.
  [[nodiscard]] const Shape& shape(Loc loc = std::source_location::current()) const;
  [[nodiscard]] int rank() const;
  /// The size along `axis` (negative from the end). While a function is recorded it carries symbol
  /// and value.
  [[nodiscard]] Dim size(std::int64_t axis, Loc loc = std::source_location::current()) const;
  [[nodiscard]] Dim numel(Loc loc = std::source_location::current()) const;
  [[nodiscard]] Device device() const;

  /// True when the tensor has data now.
  [[nodiscard]] bool is_concrete() const noexcept;
  /// True for a value of a graph.
  [[nodiscard]] bool is_symbolic() const noexcept;
  [[nodiscard]] const Strides& strides() const;
  [[nodiscard]] bool is_contiguous() const;

  /// First element of a concrete tensor; T must be its dtype (DTypeError) and a symbolic tensor is
  /// a GraphError. For elements in order use a contiguous tensor.
  template <Element T>
  [[nodiscard]] T* data(Loc loc = std::source_location::current()) const {
    return static_cast<T*>(checked_data(dtype_of<T>, loc));
  }
  [[nodiscard]] void* raw_data(Loc loc = std::source_location::current()) const;

  /// The only element, converted (to an integer by truncation, ValueError when it does not fit; to
  /// bool by comparing with 0); ShapeError when there are more. A host read: recorded as a
  /// decision point, a GraphError where no data exists.
  template <class T = double>
    requires std::is_arithmetic_v<T>
  [[nodiscard]] T item(Loc loc = std::source_location::current()) const {
    if constexpr (std::is_same_v<T, bool>) {
      return item_bool(loc);
    } else if constexpr (std::is_floating_point_v<T>) {
      return static_cast<T>(item_double(loc));
    } else {
      return static_cast<T>(item_int(loc));
    }
  }
  /// `if (mean(x) > 0.5f)`: the truth of the only element, read as item() does.
  explicit operator bool() const;
  /// All elements in logical order, converted to T.
  template <Element T>
  [[nodiscard]] std::vector<T> to_vector(Loc loc = std::source_location::current()) const;

  // Gradients.
  /// Marks this leaf as one to differentiate by (or no longer); floating dtypes only. Returns
  /// itself.
  Tensor& requires_grad(bool on = true, Loc loc = std::source_location::current());
  /// True for a marked leaf and for whatever was computed from one while recording gradients.
  [[nodiscard]] bool tracks_grad() const noexcept;
  [[nodiscard]] bool is_leaf() const noexcept;
  /// The gradient that backward() accumulated, undefined before.
  [[nodiscard]] Tensor grad() const;
  void set_grad(Tensor grad) const;
  void zero_grad() const { set_grad(Tensor()); }
  /// Accumulates into the leaves' grad() the derivative of this tensor, weighted by `grad` (1 for a
  /// scalar). retain_graph keeps saved tensors for another call; create_graph records the backward
  /// pass itself.
  void backward(const Tensor& grad = {}, bool retain_graph = false, bool create_graph = false,
                Loc loc = std::source_location::current()) const;
  /// The same data, apart from the graph of gradients.
  [[nodiscard]] Tensor detach(Loc loc = std::source_location::current()) const;
  /// Calls `hook` with the gradient of this tensor when it is known; a returned tensor replaces it.
  /// What the hook computes is differentiable where the pass has create_graph, as all gradients
  /// are.
  void register_hook(std::function<Tensor(const Tensor&)> hook,
                     Loc loc = std::source_location::current()) const;

  // In place; the new value has this tensor's shape and dtype in every mode.
  /// Overwrites the elements with those of `value` (broadcast, converted).
  Tensor& copy_(const Arg& value, Loc loc = std::source_location::current());
  Tensor& fill_(Number value, Loc loc = std::source_location::current());
  Tensor& zero_(Loc loc = std::source_location::current());
  Tensor& add_(const Arg& value, Loc loc = std::source_location::current());
  Tensor& sub_(const Arg& value, Loc loc = std::source_location::current());
  Tensor& mul_(const Arg& value, Loc loc = std::source_location::current());
  Tensor& div_(const Arg& value, Loc loc = std::source_location::current());
  // The others write what the method of the name without the last _ gives.
  Tensor& abs_(Loc loc = std::source_location::current());
  Tensor& neg_(Loc loc = std::source_location::current());
  Tensor& square_(Loc loc = std::source_location::current());
  Tensor& sqrt_(Loc loc = std::source_location::current());
  Tensor& rsqrt_(Loc loc = std::source_location::current());
  Tensor& reciprocal_(Loc loc = std::source_location::current());
  Tensor& exp_(Loc loc = std::source_location::current());
  Tensor& log_(Loc loc = std::source_location::current());
  Tensor& sin_(Loc loc = std::source_location::current());
  Tensor& cos_(Loc loc = std::source_location::current());
  Tensor& tanh_(Loc loc = std::source_location::current());
  Tensor& sigmoid_(Loc loc = std::source_location::current());
  Tensor& relu_(Loc loc = std::source_location::current());
  Tensor& floor_(Loc loc = std::source_location::current());
  Tensor& ceil_(Loc loc = std::source_location::current());
  Tensor& round_(Loc loc = std::source_location::current());
  Tensor& trunc_(Loc loc = std::source_location::current());
  Tensor& pow_(const Arg& exponent, Loc loc = std::source_location::current());
  Tensor& remainder_(const Arg& divisor, Loc loc = std::source_location::current());
  Tensor& lerp_(const Arg& end, const Arg& weight, Loc loc = std::source_location::current());
  Tensor& clamp_(Number low, Number high = std::numeric_limits<double>::infinity(),
                 Loc loc = std::source_location::current());
  Tensor& clamp_(const Tensor& low, const Tensor& high, Loc loc = std::source_location::current());
  template <class Low, class High>
    requires MixedOperands<Low, High>
  Tensor& clamp_(const Low& low, const High& high, Loc loc = std::source_location::current());
  Tensor& addcmul_(const Tensor& a, const Tensor& b, double value = 1,
                   Loc loc = std::source_location::current());
  Tensor& addcdiv_(const Tensor& a, const Tensor& b, double value = 1,
                   Loc loc = std::source_location::current());
  Tensor& tril_(std::int64_t k = 0, Loc loc = std::source_location::current());
  Tensor& triu_(std::int64_t k = 0, Loc loc = std::source_location::current());
  Tensor& masked_fill_(const Tensor& mask, const Arg& value,
                       Loc loc = std::source_location::current());
  Tensor& masked_scatter_(const Tensor& mask, const Tensor& source,
                          Loc loc = std::source_location::current());
  Tensor& scatter_(std::int64_t axis, const Tensor& index, const Arg& source,
                   Loc loc = std::source_location::current());
  Tensor& scatter_add_(std::int64_t axis, const Tensor& index, const Tensor& source,
                       Loc loc = std::source_location::current());
  Tensor& index_add_(std::int64_t axis, const Tensor& index, const Tensor& source,
                     Loc loc = std::source_location::current());
  Tensor& index_copy_(std::int64_t axis, const Tensor& index, const Tensor& source,
                      Loc loc = std::source_location::current());
  Tensor& index_fill_(std::int64_t axis, const Tensor& index, const Arg& value,
                      Loc loc = std::source_location::current());
  Tensor& index_put_(std::initializer_list<Index> indices, const Arg& value,
                     bool accumulate = false, Loc loc = std::source_location::current());
  Tensor& index_put_(std::span<const Index> indices, const Arg& value, bool accumulate = false,
                     Loc loc = std::source_location::current());
  /// Random numbers of the default generator; a floating tensor (DTypeError).
  Tensor& uniform_(double low = 0, double high = 1, Loc loc = std::source_location::current());
  Tensor& normal_(double mean = 0, double std = 1, Loc loc = std::source_location::current());

  // Operators as methods (defined beside their functions).
  [[nodiscard]] Tensor to(DType dtype, Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor contiguous(Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor clone(Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor reshape(Sizes shape, Loc loc = std::source_location::current()) const;
  /// reshape() by its PyTorch name.
  [[nodiscard]] Tensor view(Sizes shape, Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor ravel(Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor unflatten(std::int64_t axis, const Sizes& sizes,
                                 Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor transpose(std::int64_t a, std::int64_t b,
                                 Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor permute(Ints axes, Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor t(Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor flatten(std::int64_t first = 0, std::int64_t last = -1,
                               Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor squeeze(std::int64_t axis, Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor squeeze(Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor unsqueeze(std::int64_t axis,
                                 Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor expand(Sizes shape, Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor expand_as(const Tensor& other,
                                 Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor select(std::int64_t axis, Dim index,
                              Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor slice(std::int64_t axis, Dim begin, Dim end = kEnd, std::int64_t step = 1,
                             Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor narrow(std::int64_t axis, Dim start, Dim length,
                              Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor unfold(std::int64_t axis, std::int64_t size, std::int64_t step,
                              Loc loc = std::source_location::current()) const;
  /// The i-th element along the first axis.
  [[nodiscard]] Tensor operator[](Dim index) const;
  /// What the slice takes of the first axis: x[{2, 5}] is NumPy's x[2:5].
  [[nodiscard]] Tensor operator[](const Slice& slice) const;
  /// The slices along the first axis that a tensor of indices names, or the elements where a mask
  /// is true: index(x, {places}).
  [[nodiscard]] Tensor operator[](const Tensor& places) const;
  [[nodiscard]] Tensor index(std::initializer_list<Index> indices,
                             Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor index(std::span<const Index> indices,
                             Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor index_put(std::initializer_list<Index> indices, const Arg& value,
                                 bool accumulate = false,
                                 Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor index_put(std::span<const Index> indices, const Arg& value,
                                 bool accumulate = false,
                                 Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor sum(Ints axes = {}, bool keepdim = false,
                           Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor mean(Ints axes = {}, bool keepdim = false,
                            Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor max(Ints axes = {}, bool keepdim = false,
                           Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor min(Ints axes = {}, bool keepdim = false,
                           Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor argmax(std::int64_t axis, bool keepdim = false,
                              Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor prod(Ints axes = {}, bool keepdim = false,
                            Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor any(Ints axes = {}, bool keepdim = false,
                           Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor all(Ints axes = {}, bool keepdim = false,
                           Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor logsumexp(Ints axes = {}, bool keepdim = false,
                                 Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor var(Ints axes = {}, std::int64_t correction = 1, bool keepdim = false,
                           Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor std(Ints axes = {}, std::int64_t correction = 1, bool keepdim = false,
                           Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor norm(double p = 2, Ints axes = {}, bool keepdim = false,
                            Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor argmin(std::int64_t axis, bool keepdim = false,
                              Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor argmax(Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor argmin(Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor amax(Ints axes = {}, bool keepdim = false,
                            Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor amin(Ints axes = {}, bool keepdim = false,
                            Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor count_nonzero(const Ints& axes = {}, bool keepdim = false,
                                     Loc loc = std::source_location::current()) const;
  [[nodiscard]] ValuesAndIndices median(std::int64_t axis, bool keepdim = false,
                                        Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor median(Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor quantile(double q, std::int64_t axis, bool keepdim = false,
                                std::string_view interpolation = "linear",
                                Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor quantile(double q, Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor softmax(std::int64_t axis = -1,
                               Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor log_softmax(std::int64_t axis = -1,
                                   Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor cumsum(std::int64_t axis, Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor cumprod(std::int64_t axis, Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor logcumsumexp(std::int64_t axis,
                                    Loc loc = std::source_location::current()) const;
  [[nodiscard]] ValuesAndIndices cummax(std::int64_t axis,
                                        Loc loc = std::source_location::current()) const;
  [[nodiscard]] ValuesAndIndices cummin(std::int64_t axis,
                                        Loc loc = std::source_location::current()) const;
  [[nodiscard]] ValuesAndIndices sort(std::int64_t axis = -1, bool descending = false,
                                      Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor argsort(std::int64_t axis = -1, bool descending = false,
                               Loc loc = std::source_location::current()) const;
  [[nodiscard]] ValuesAndIndices topk(Dim k, std::int64_t axis = -1, bool largest = true,
                                      Loc loc = std::source_location::current()) const;
  [[nodiscard]] ValuesAndIndices kthvalue(Dim k, std::int64_t axis = -1, bool keepdim = false,
                                          Loc loc = std::source_location::current()) const;
  [[nodiscard]] Unique unique(bool sorted = true, std::optional<std::int64_t> axis = {},
                              Loc loc = std::source_location::current()) const;

  [[nodiscard]] Tensor neg(Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor abs(Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor square(Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor sqrt(Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor rsqrt(Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor reciprocal(Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor exp(Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor expm1(Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor exp2(Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor log(Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor log1p(Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor log2(Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor log10(Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor sin(Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor cos(Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor tan(Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor asin(Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor acos(Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor atan(Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor tanh(Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor sinh(Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor cosh(Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor sigmoid(Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor relu(Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor erf(Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor erfinv(Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor lgamma(Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor floor(Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor ceil(Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor round(Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor trunc(Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor frac(Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor sign(Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor isnan(Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor isinf(Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor isfinite(Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor logical_not(Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor real(Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor imag(Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor conj(Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor angle(Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor nonzero(Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor add(const Arg& other, Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor sub(const Arg& other, Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor mul(const Arg& other, Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor div(const Arg& other, Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor maximum(const Arg& other, Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor minimum(const Arg& other, Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor fmod(const Arg& other, Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor remainder(const Arg& other, Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor atan2(const Arg& other, Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor lerp(const Arg& end, const Arg& weight,
                            Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor pow(const Arg& exponent, Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor clamp(Number low, Number high = std::numeric_limits<double>::infinity(),
                             Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor clamp(const Tensor& low, const Tensor& high,
                             Loc loc = std::source_location::current()) const;
  template <class Low, class High>
    requires MixedOperands<Low, High>
  [[nodiscard]] Tensor clamp(const Low& low, const High& high,
                             Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor masked_fill(const Tensor& mask, const Arg& value,
                                   Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor masked_select(const Tensor& mask,
                                     Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor masked_scatter(const Tensor& mask, const Tensor& source,
                                      Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor matmul(const Tensor& other, Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor mm(const Tensor& other, Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor bmm(const Tensor& other, Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor dot(const Tensor& other, Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor outer(const Tensor& other, Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor det(Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor inverse(Loc loc = std::source_location::current()) const;

  [[nodiscard]] Tensor gather(std::int64_t axis, const Tensor& index,
                              Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor index_select(std::int64_t axis, const Tensor& index,
                                    Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor scatter(std::int64_t axis, const Tensor& index, const Arg& source,
                               Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor scatter_add(std::int64_t axis, const Tensor& index, const Tensor& source,
                                   Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor scatter_reduce(std::int64_t axis, const Tensor& index, const Tensor& source,
                                      std::string_view reduction, bool include_self = true,
                                      Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor index_add(std::int64_t axis, const Tensor& index, const Tensor& source,
                                 Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor index_copy(std::int64_t axis, const Tensor& index, const Tensor& source,
                                  Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor index_fill(std::int64_t axis, const Tensor& index, const Arg& value,
                                  Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor take(const Tensor& index, Loc loc = std::source_location::current()) const;
  [[nodiscard]] std::vector<Tensor> chunk(std::int64_t count, std::int64_t axis = 0,
                                          Loc loc = std::source_location::current()) const;
  [[nodiscard]] std::vector<Tensor> split(const Shape& sizes, std::int64_t axis = 0,
                                          Loc loc = std::source_location::current()) const;
  [[nodiscard]] std::vector<Tensor> split(std::int64_t size, std::int64_t axis = 0,
                                          Loc loc = std::source_location::current()) const;
  [[nodiscard]] std::vector<Tensor> unbind(std::int64_t axis = 0,
                                           Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor flip(const Ints& axes = {}, Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor roll(const Ints& shifts, const Ints& axes = {},
                            Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor tile(const Sizes& counts, Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor repeat(const Sizes& counts, Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor repeat_interleave(std::int64_t count, std::int64_t axis,
                                         Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor repeat_interleave(const Tensor& counts, std::int64_t axis,
                                         Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor tril(std::int64_t k = 0, Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor triu(std::int64_t k = 0, Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor diagonal(std::int64_t offset = 0, std::int64_t axis1 = 0,
                                std::int64_t axis2 = 1,
                                Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor diag(std::int64_t k = 0, Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor trace(std::int64_t offset = 0, std::int64_t axis1 = 0,
                             std::int64_t axis2 = 1,
                             Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor swapaxes(std::int64_t a, std::int64_t b,
                                Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor movedim(std::int64_t from, std::int64_t to,
                               Loc loc = std::source_location::current()) const;
  [[nodiscard]] Tensor broadcast_to(Sizes shape, Loc loc = std::source_location::current()) const;

  /// Another handle of the same object.
  [[nodiscard]] bool is_same(const Tensor& other) const noexcept { return impl_ == other.impl_; }
  [[nodiscard]] TensorImpl* impl() const noexcept { return impl_.get(); }

 private:
  [[nodiscard]] void* checked_data(DType dtype, Loc loc) const;
  [[nodiscard]] double item_double(Loc loc) const;
  [[nodiscard]] std::int64_t item_int(Loc loc) const;
  [[nodiscard]] bool item_bool(Loc loc) const;
  Ref<TensorImpl> impl_;
};

/// An operand of an overloaded operator or a function that also takes numbers: a tensor, a host
/// number or a size, with the place where it was written. A number takes the dtype of the tensor
/// that it meets; until then it is a scalar marked as a number, kept in f64, i64 or bool so that no
/// digit is lost. A named tensor is referred to, not held: it must outlive the Arg, which is meant
/// to be a parameter.
class Arg {
 public:
  Arg(const Tensor& tensor, Loc loc = std::source_location::current()) noexcept
      : named_(&tensor), loc_(loc) {}
  Arg(Tensor&& tensor, Loc loc = std::source_location::current()) noexcept
      : held_(std::move(tensor)), loc_(loc) {}
  template <class T>
    requires std::is_arithmetic_v<T>
  Arg(T number, Loc loc = std::source_location::current())
      : Arg(number_tensor(Number(number)), loc) {}
  /// A size, as an i64 scalar: `sum(x) / x.size(0)` stays right where the size varies.
  Arg(Dim size, Loc loc = std::source_location::current());

  [[nodiscard]] const Tensor& tensor() const noexcept { return named_ ? *named_ : held_; }
  [[nodiscard]] Loc loc() const noexcept { return loc_; }

 private:
  static Tensor number_tensor(Number number);

  const Tensor* named_ = nullptr;
  Tensor held_;
  Loc loc_;
};

template <class Low, class High>
  requires MixedOperands<Low, High>
Tensor Tensor::clamp(const Low& low, const High& high, Loc loc) const {
  return clamp(Arg(low, loc).tensor(), Arg(high, loc).tensor(), loc);
}
template <class Low, class High>
  requires MixedOperands<Low, High>
Tensor& Tensor::clamp_(const Low& low, const High& high, Loc loc) {
  return clamp_(Arg(low, loc).tensor(), Arg(high, loc).tensor(), loc);
}

/// Prints as NumPy prints arrays (bf16 by the rules for f16); a symbolic tensor prints its name and
/// type.
std::ostream& operator<<(std::ostream& out, const Tensor& tensor);
[[nodiscard]] std::string to_string(const Tensor& tensor);
/// `f32[3, 4]`: how messages describe a tensor.
[[nodiscard]] std::string type_string(const Tensor& tensor);
[[nodiscard]] std::string type_string(DType dtype, const Shape& shape);

}  // namespace dyad
