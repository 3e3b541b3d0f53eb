#include "dyad/ops/index.h"

#include <algorithm>
#include <functional>

#include "dyad/base/error.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/ops/arithmetic.h"
#include "dyad/ops/compare.h"
#include "dyad/ops/creation.h"
#include "dyad/ops/cumulative.h"
#include "dyad/ops/elementary.h"
#include "dyad/ops/indexing.h"
#include "dyad/ops/op_support.h"
#include "dyad/ops/registry.h"
#include "dyad/ops/scatter.h"
#include "dyad/ops/shapes.h"
#include "dyad/ops/views.h"

namespace dyad {
namespace ops {
namespace {

struct NonZero {
  using Attrs = NoAttrs;
  static constexpr Schema schema{
      .name = "nonzero",
      .inputs = kUnary,
      .outputs = kIndexOut,
      .doc = "The places [count, rank] of the elements that are not 0, in row-major order.",
      .samples = {.differentiable = false}};
  static Types infer(const InferIn& in, const Attrs&) {
    return {Type(DType::i64, {unknown_size(), in[0].rank()})};
  }
  static void to_onnx(OnnxEmitter& e, const Attrs&) {
    const std::string places = e.node("NonZero", {e.input(0)});
    e.output(0, e.node("Transpose", {places}, {{"perm", std::vector<std::int64_t>{1, 0}}}));
  }
};

/// x[indices...] taken apart: views one after the other, then the axes that tensors index.
class Indexing {
 public:
  Indexing(const Tensor& x, Indices indices, std::string_view name, Loc loc)
      : x_(x), name_(name), loc_(loc), values_{x} {
    std::vector<Index> all = with_ellipsis(expand_masks(indices));
    bool tensors = false;
    for (const Index& index : all) tensors = tensors || index.get<Tensor>() != nullptr;
    int place = 0;
    for (const Index& index : all) take(index, tensors, place++);
  }

  [[nodiscard]] Tensor get() const {
    const Tensor& x = values_.back();
    if (axes_.empty()) return x;
    const auto [flat, at] = flattened(x);
    return index_select(flat, at, places(x), loc_);
  }

  [[nodiscard]] Tensor put(const Tensor& value, bool accumulate) const {
    Tensor made = axes_.empty() ? put_whole(value, accumulate) : put_at(value, accumulate);
    for (std::size_t i = undo_.size(); i-- > 0;) made = undo_[i](values_[i], made);
    return made;
  }

 private:
  template <class E>
  [[noreturn]] void fail(const std::string& rule) const {
    throw E(std::string(name_) + "(" + type_string(x_) + "): " + rule, loc_.user());
  }

  /// A mask without axes, which names no axis of x.
  [[nodiscard]] static bool is_scalar_mask(const Index& index) {
    const Tensor* const tensor = index.get<Tensor>();
    return tensor != nullptr && tensor->dtype() == DType::boolean && tensor->rank() == 0;
  }
  /// Each mask with axes as the indices of where it is true.
  [[nodiscard]] std::vector<Index> expand_masks(Indices indices) const {
    std::vector<Index> made;
    for (const Index& index : indices) {
      const Tensor* const tensor = index.get<Tensor>();
      if (tensor == nullptr) {
        made.push_back(index);
        continue;
      }
      const DType dtype = tensor->dtype();
      if (is_scalar_mask(index)) {
        made.push_back(index);
      } else if (dtype == DType::boolean) {
        const Tensor at = nonzero(*tensor, loc_);
        for (int i = 0; i < tensor->rank(); ++i) {
          made.emplace_back(select(at, 1, i, loc_));
          mask_sizes_.emplace_back(made.size() - 1, tensor->size(i, loc_));
        }
      } else if (contains(kIndex, dtype)) {
        made.push_back(index);
      } else {
        fail<DTypeError>("indices must be i64, i32 or a bool mask, but one is " +
                         type_string(*tensor));
      }
    }
    return made;
  }

  /// The indices with an ellipsis written out, so that every axis of x is named.
  [[nodiscard]] std::vector<Index> with_ellipsis(const std::vector<Index>& indices) const {
    int named = 0, open = 0;
    for (const Index& index : indices) {
      if (index.get<Ellipsis>()) {
        ++open;
      } else if (!index.get<NewAxis>() && !is_scalar_mask(index)) {
        ++named;
      }
    }
    if (open > 1)
      fail<ValueError>("an ellipsis may stand once, but there are " + std::to_string(open));
    if (named > x_.rank()) {
      fail<IndexError>(std::to_string(named) + " indices for " + std::to_string(x_.rank()) +
                       " axes");
    }
    std::vector<Index> made;
    const auto whole = [&] {
      for (int i = named; i < x_.rank(); ++i) made.emplace_back(Slice{});
    };
    for (std::size_t i = 0; i < indices.size(); ++i) {
      if (indices[i].get<Ellipsis>()) {
        whole();
        // One that stands for no axis keeps tensors apart all the same, as in NumPy.
        if (named == x_.rank()) made.push_back(indices[i]);
        continue;
      }
      for (auto& [at, size] : mask_sizes_) {
        if (at == i) check_mask_.emplace_back(made.size(), size);
      }
      made.push_back(indices[i]);
    }
    if (open == 0) whole();
    return made;
  }

  void push(Tensor next, std::function<Tensor(const Tensor&, const Tensor&)> undo) {
    values_.push_back(std::move(next));
    undo_.push_back(std::move(undo));
  }

  void take(const Index& index, bool beside_tensors, int place) {
    const Tensor& x = values_.back();
    const std::int64_t axis = axis_;
    const Loc loc = loc_;
    if (index.get<NewAxis>()) {
      push(unsqueeze(x, axis, loc),
           [axis, loc](const Tensor&, const Tensor& v) { return squeeze(v, axis, loc); });
      ++axis_;
    } else if (const Slice* const s = index.get<Slice>()) {
      ++axis_;
      if (!s->begin && !s->end && s->step == 1) return;
      const bool up = s->step > 0;
      const Dim begin = s->begin.value_or(Dim(up ? 0 : kEnd));
      const Dim end = s->end.value_or(Dim(up ? kEnd : kStart));
      const std::int64_t step = s->step;
      push(slice(x, axis, begin, end, step, loc), [=](const Tensor& old, const Tensor& v) {
        return slice_scatter(old, v, axis, begin, end, step, loc);
      });
    } else if (const Dim* const number = index.get<Dim>()) {
      const Dim at = *number;
      if (beside_tensors) {
        // A number counts as a tensor when it is decided where the tensors' axes go, so it keeps an
        // axis until they are put there.
        note(place);
        push(unsqueeze(select(x, axis, at, loc), axis, loc),
             [=](const Tensor& old, const Tensor& v) {
               return select_scatter(old, squeeze(v, axis, loc), axis, at, loc);
             });
        axes_.push_back(axis_++);
        tensors_.push_back(zeros_index());
        return;
      }
      push(select(x, axis, at, loc), [=](const Tensor& old, const Tensor& v) {
        return select_scatter(old, v, axis, at, loc);
      });
    } else if (is_scalar_mask(index)) {
      note(place);
      push(unsqueeze(x, axis, loc),
           [axis, loc](const Tensor&, const Tensor& v) { return squeeze(v, axis, loc); });
      axes_.push_back(axis_++);
      tensors_.push_back(select(nonzero(unsqueeze(*index.get<Tensor>(), 0, loc), loc), 1, 0, loc));
    } else if (const Tensor* const tensor = index.get<Tensor>()) {
      for (const auto& [at, size] : check_mask_) {
        if (static_cast<int>(at) == place && !(size == x.size(axis, loc))) {
          fail<ShapeError>("a mask has size " + size_text(size) + " where axis " +
                           std::to_string(axis) + " has " + size_text(x.size(axis, loc)));
        }
      }
      note(place);
      axes_.push_back(axis_++);
      tensors_.push_back(*tensor);
    }
  }

  /// Tensors stand next to one another unless something else is between them.
  void note(int place) {
    if (last_place_ >= 0 && place != last_place_ + 1) apart_ = true;
    last_place_ = place;
  }
  [[nodiscard]] static Tensor zeros_index() { return full({}, 0, DType::i64); }

  /// The indexed axes first when they are apart, in their places otherwise.
  [[nodiscard]] Ints order() const {
    Ints axes;
    if (!apart_) return axes;
    for (const std::int64_t axis : axes_) axes.push_back(axis);
    for (int i = 0; i < values_.back().rank(); ++i) {
      if (std::find(axes_.begin(), axes_.end(), i) == axes_.end()) axes.push_back(i);
    }
    return axes;
  }

  /// x with the indexed axes as one, and which one that is.
  [[nodiscard]] std::pair<Tensor, std::int64_t> flattened(const Tensor& x) const {
    const Ints axes = order();
    const Tensor y = axes.empty() ? x : permute(x, axes, loc_);
    const std::int64_t first = axes.empty() ? axes_[0] : 0;
    if (axes_.size() == 1) return {y, first};
    return {flatten(y, first, first + static_cast<std::int64_t>(axes_.size()) - 1, loc_), first};
  }

  [[nodiscard]] Tensor places(const Tensor& x) const {
    if (axes_.size() == 1) return tensors_[0];
    Shape sizes;
    for (const std::int64_t axis : axes_) sizes.push_back(x.size(axis, loc_));
    return ravel_multi_index(tensors_, sizes, loc_);
  }

  [[nodiscard]] Tensor converted(const Tensor& value, const Shape& shape) const {
    return expand(as_dtype(value, x_.dtype(), loc_), shape, loc_);
  }

  [[nodiscard]] Tensor put_whole(const Tensor& value, bool accumulate) const {
    const Tensor& x = values_.back();
    const Tensor v = converted(value, sizes_of(x, loc_));
    return accumulate ? x + v : v;
  }

  [[nodiscard]] Tensor put_at(const Tensor& value, bool accumulate) const {
    const Tensor& x = values_.back();
    const auto [flat, at] = flattened(x);
    const Tensor line = places(x);
    const Shape sizes = sizes_of(flat, loc_);
    const Shape picked = sizes_of(line, loc_);
    Shape shape(sizes.begin(), sizes.begin() + at), joined = sizes;
    for (const Dim d : picked) shape.push_back(d);
    for (std::size_t i = static_cast<std::size_t>(at) + 1; i < sizes.size(); ++i) {
      shape.push_back(sizes[i]);
    }
    joined[static_cast<std::size_t>(at)] = picked.numel();
    const Tensor v = reshape(converted(value, shape), joined, loc_);
    const Tensor vector = reshape(line, {picked.numel()}, loc_);
    const Tensor made =
        accumulate ? index_add(flat, at, vector, v, loc_) : index_copy(flat, at, vector, v, loc_);
    const Ints axes = order();
    Shape apart;
    for (int i = 0; i < x.rank(); ++i) {
      apart.push_back(x.size(axes.empty() ? i : axes[static_cast<std::size_t>(i)], loc_));
    }
    Tensor split = axes_.size() == 1 ? made : reshape(made, apart, loc_);
    if (axes.empty()) return split;
    Ints back(axes.size(), 0);
    for (std::size_t i = 0; i < axes.size(); ++i) {
      back[static_cast<std::size_t>(axes[i])] = static_cast<std::int64_t>(i);
    }
    return permute(split, back, loc_);
  }

  const Tensor& x_;
  std::string_view name_;
  Loc loc_;
  mutable std::vector<std::pair<std::size_t, Dim>> mask_sizes_, check_mask_;
  std::vector<Tensor> values_;  ///< x, then each view of the one before
  std::vector<std::function<Tensor(const Tensor& old, const Tensor& view)>> undo_;
  std::int64_t axis_ = 0;
  std::vector<std::int64_t> axes_;  ///< of the last view, indexed by tensors
  std::vector<Tensor> tensors_;
  int last_place_ = -1;
  bool apart_ = false;
};

/// x with row i of v in the i-th place where the mask, over the first axes of x, is true: without
/// the number of these places.
Tensor put_by_mask(const Tensor& x, const Tensor& mask, const Tensor& v, bool accumulate) {
  const Shape sizes = sizes_of(x);
  Shape rows{v.size(0)}, low(static_cast<std::size_t>(v.rank()), Dim(0)), high = low;
  for (int i = mask.rank(); i < x.rank(); ++i) rows.push_back(sizes[static_cast<std::size_t>(i)]);
  low[0] = 1;
  const Tensor flat = reshape(mask, {-1});
  // The others take a row that is added in front.
  const Tensor number = where(flat, cumsum(flat, 0), 0);
  const Tensor taken = index_select(pad(expand(to(v, x.dtype()), rows), low, high), 0, number);
  Tensor whole = mask;
  while (whole.rank() < x.rank()) whole = unsqueeze(whole, -1);
  const Tensor put = reshape(taken, sizes);
  return where(whole, accumulate ? x + put : put, x);
}

/// `call`: the function with its arguments, of which the mask is not bool.
[[noreturn]] void fail_mask(const std::string& call, Loc loc) {
  throw DTypeError(call + ": mask must be bool; compare it, as in mask != 0", loc.user());
}

}  // namespace

std::span<const OpInfo* const> index_rows() {
  static constexpr const OpInfo* kRows[] = {&op_info<NonZero>};
  return kRows;
}

}  // namespace ops

Tensor index(const Tensor& x, Indices indices, Loc loc) {
  const LocScope called(loc, "index");
  return ops::Indexing(x, indices, "index", loc).get();
}
Tensor index(const Tensor& x, std::initializer_list<Index> indices, Loc loc) {
  return index(x, Indices(indices.begin(), indices.size()), loc);
}
Tensor index_put(const Tensor& x, Indices indices, const Arg& value, bool accumulate, Loc loc) {
  const LocScope called(loc, "index_put");
  const Tensor* const mask = indices.size() == 1 ? indices[0].get<Tensor>() : nullptr;
  const Tensor& v = value.tensor();
  if (mask && mask->dtype() == boolean && mask->rank() == x.rank() && v.rank() == 0) {
    // One element for all places needs no list of these.
    const Tensor one = ops::as_dtype(value, x.dtype(), loc);
    return where(*mask, accumulate ? x + one : one, x, loc);
  }
  if (mask && mask->dtype() == boolean && mask->rank() > 0 && v.rank() > 0 &&
      v.rank() == x.rank() - mask->rank() + 1 && !v.size(0, loc).same_as(1) &&
      (x.is_symbolic() || mask->is_symbolic() || v.is_symbolic())) {
    // How many places there are, only a run will tell.
    return ops::put_by_mask(x, *mask, v, accumulate);
  }
  return ops::Indexing(x, indices, "index_put", loc).put(v, accumulate);
}
Tensor index_put(const Tensor& x, std::initializer_list<Index> indices, const Arg& value,
                 bool accumulate, Loc loc) {
  return index_put(x, Indices(indices.begin(), indices.size()), value, accumulate, loc);
}

Tensor nonzero(const Tensor& x, Loc loc) { return apply<ops::NonZero>({}, loc, x); }

std::vector<Tensor> where(const Tensor& condition, Loc loc) {
  const LocScope called(loc, "where");
  return unbind(nonzero(atleast_1d(condition, loc), loc), 1, loc);
}
Tensor masked_select(const Tensor& x, const Tensor& mask, Loc loc) {
  if (mask.dtype() != boolean)
    ops::fail_mask("masked_select(" + type_string(x) + ", mask: " + type_string(mask) + ")", loc);
  const LocScope scope(loc);
  Shape shape;
  if (!broadcast(ops::sizes_of(x, loc), ops::sizes_of(mask, loc), shape)) {
    throw ShapeError("masked_select(" + type_string(x) + ", mask: " + type_string(mask) +
                         "): the shapes do not broadcast",
                     loc.user());
  }
  const Tensor places = select(nonzero(reshape(expand(mask, shape), {-1})), 1, 0);
  return index_select(reshape(expand(x, shape), {-1}), 0, places);
}
Tensor masked_fill(const Tensor& x, const Tensor& mask, const Arg& value, Loc loc) {
  const LocScope scope(loc);
  return where(expand(mask, ops::sizes_of(x, loc), loc), ops::as_dtype(value, x.dtype(), loc), x,
               loc);
}
Tensor masked_scatter(const Tensor& x, const Tensor& mask, const Tensor& source, Loc loc) {
  if (mask.dtype() != boolean) {
    ops::fail_mask("masked_scatter(" + type_string(x) + ", mask: " + type_string(mask) +
                       ", source: " + type_string(source) + ")",
                   loc);
  }
  const LocScope scope(loc);
  const Shape shape = ops::sizes_of(x, loc);
  const Tensor whole = expand(mask, shape, loc), flat = reshape(whole, {-1});
  // The n-th true one takes the n-th element; the others look at one that is added in front.
  const Tensor number = where(flat, cumsum(flat, 0), 0);
  const Tensor taken = ops::index_select_from_front(pad(reshape(source, {-1}), {1}, {0}), 0, number,
                                                    "masked_scatter");
  return where(whole, reshape(taken, shape), x);
}
Tensor compress(const Tensor& condition, const Tensor& x, std::optional<std::int64_t> axis,
                Loc loc) {
  const LocScope scope(loc);
  if (condition.rank() != 1 || condition.dtype() != boolean) {
    throw ShapeError("compress(condition: " + type_string(condition) + ", " + type_string(x) +
                         "): the condition must be a bool vector",
                     loc.user());
  }
  const Dim most = axis ? x.size(normalize_axis(*axis, x.rank(), "compress", loc), loc)
                        : ops::sizes_of(x, loc).numel();
  const Dim length = condition.size(0, loc);
  if (ops::is_below(most, length)) {
    throw ShapeError("compress(condition: " + type_string(condition) + ", " + type_string(x) +
                         "): condition has " + to_string(ops::size_now(length)) +
                         " elements, but " +
                         (axis ? "axis " + std::to_string(*axis) + " of x has size " : "x has ") +
                         to_string(ops::size_now(most)),
                     loc.user());
  }
  const Tensor places = select(nonzero(condition), 1, 0);
  return axis ? ops::index_select_from_front(x, *axis, places)
              : ops::index_select_from_front(reshape(x, {-1}), 0, places);
}

}  // namespace dyad
