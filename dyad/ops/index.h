#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "dyad/core/tensor.h"

namespace dyad {

/// begin:end:step of an axis, as in Python: bounds that are left out reach to the ends.
struct Slice {
  std::optional<Dim> begin = {};
  std::optional<Dim> end = {};
  std::int64_t step = 1;
};

/// A new axis of size 1.
struct NewAxis {};
inline constexpr NewAxis newaxis;
/// As many whole axes as are left.
struct Ellipsis {};
inline constexpr Ellipsis ellipsis;

/// What stands between the commas of NumPy's x[...]: a number (its axis vanishes), a Slice,
/// newaxis, ellipsis, a tensor of indices (i64 or i32), or a mask (a bool tensor, over as many axes
/// as it has; a scalar is one over a new axis of size 1).
class Index {
 public:
  template <std::integral T>
    requires(!std::is_same_v<T, bool>)
  Index(T number) noexcept(noexcept(Dim(number))) : what_(Dim(number)) {}
  Index(Dim number) : what_(number) {}
  Index(Slice slice) : what_(slice) {}
  Index(NewAxis axis) noexcept : what_(axis) {}
  Index(Ellipsis rest) noexcept : what_(rest) {}
  Index(Tensor places) : what_(std::move(places)) {}

  template <class T>
  [[nodiscard]] const T* get() const noexcept {
    return std::get_if<T>(&what_);
  }

 private:
  std::variant<Dim, Slice, NewAxis, Ellipsis, Tensor> what_;
};
using Indices = std::span<const Index>;

/// x[indices...] as NumPy reads it: `index(x, {Slice{1}, 0, ellipsis, rows})`. Without tensors it
/// is a view. Tensors broadcast to one shape, which stands in the place of their axes when these
/// are next to one another, otherwise in front (numbers beside tensors count as tensors). A mask
/// stands for the places where it is true, in row-major order: how many, only its elements tell.
/// Axes that are not named stay whole. IndexError for too many indices and for places out of range,
/// DTypeError for tensors that are no indices, ShapeError for a mask of other sizes than x has.
[[nodiscard]] Tensor index(const Tensor& x, Indices indices,
                           Loc loc = std::source_location::current());
[[nodiscard]] Tensor index(const Tensor& x, std::initializer_list<Index> indices,
                           Loc loc = std::source_location::current());
/// A copy of x with `value` (broadcast, converted) in the place of index(x, indices), or added
/// there with `accumulate`: places named several times then count as often; otherwise the last one
/// stays. A mask takes as many values as it has places (ShapeError); in a static graph, which does
/// not know how many these are, values beyond them are passed over, and too few are an IndexError.
[[nodiscard]] Tensor index_put(const Tensor& x, Indices indices, const Arg& value,
                               bool accumulate = false, Loc loc = std::source_location::current());
[[nodiscard]] Tensor index_put(const Tensor& x, std::initializer_list<Index> indices,
                               const Arg& value, bool accumulate = false,
                               Loc loc = std::source_location::current());

/// The places of the elements that are not 0, in row-major order: i64 [count, rank of x]. How many,
/// only the elements tell.
[[nodiscard]] Tensor nonzero(const Tensor& x, Loc loc = std::source_location::current());
/// The same an axis at a time: vectors i64 [count] of places along each axis of `condition`, which
/// index() takes; of a scalar one vector, as if it had an axis of size 1.
[[nodiscard]] std::vector<Tensor> where(const Tensor& condition,
                                        Loc loc = std::source_location::current());
/// A vector of the elements of x where mask, which is bool (DTypeError), is true; the two
/// broadcast.
[[nodiscard]] Tensor masked_select(const Tensor& x, const Tensor& mask,
                                   Loc loc = std::source_location::current());
/// x with `value` where mask (bool) is true; the mask broadcasts to x.
[[nodiscard]] Tensor masked_fill(const Tensor& x, const Tensor& mask, const Arg& value,
                                 Loc loc = std::source_location::current());
/// x with the elements of source, in row-major order, where mask is true; the mask broadcasts to x.
/// IndexError when source has too few.
[[nodiscard]] Tensor masked_scatter(const Tensor& x, const Tensor& mask, const Tensor& source,
                                    Loc loc = std::source_location::current());
/// The slices of x along the axis for which condition (a bool vector, which may be shorter) is
/// true; without an axis: elements in row-major order. ShapeError for a condition that is longer.
[[nodiscard]] Tensor compress(const Tensor& condition, const Tensor& x,
                              std::optional<std::int64_t> axis = {},
                              Loc loc = std::source_location::current());

}  // namespace dyad
