#include "dyad/runtime/cpu/scatter.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "dyad/ops/attrs/indexing.h"
#include "dyad/runtime/cpu/copy.h"
#include "dyad/runtime/cpu/index_checks.h"
#include "dyad/runtime/cpu/kernels.h"
#include "dyad/runtime/layout.h"

namespace dyad::runtime::cpu {
namespace {

/// Where the elements go.
struct Target {
  std::size_t axis;
  std::int64_t least;  ///< index that is allowed
};
/// Copies x, and tells the target.
Target begin(const OpCall& call) {
  const auto& attrs = call.attrs_as<ops::IndexAttrs>();
  const Tensor& x = call.inputs[0];
  const int rank = x.rank();
  const auto axis = static_cast<std::size_t>(attrs.axis < 0 ? attrs.axis + rank : attrs.axis);
  copy_tensor(x, call.outputs[0]);
  return {axis, attrs.from_end ? -x.impl()->shape[axis].number() : 0};
}

void scatter(const OpCall& call) {
  const auto [axis, least] = begin(call);
  if (call.inputs[1].impl()->numel() == 0) return;
  with_word(call.inputs[0].dtype(), [&]<class Word>(Word) {
    join_at<Word>(call, reinterpret_cast<Word*>(call.outputs[0].impl()->data), axis, least,
                  [](Word& to, Word from) { to = from; });
  });
}

/// `join` on accumulators: half precision is rounded once, at the end.
template <class Join>
void scatter_wide(const OpCall& call, Join join) {
  const auto [axis, least] = begin(call);
  if (call.inputs[1].impl()->numel() == 0) return;
  const TensorImpl& out = *call.outputs[0].impl();
  with_addend(out.dtype, [&]<class T>(T) {
    T* elements = reinterpret_cast<T*>(out.data);
    if constexpr (is_half<T>) {
      const std::int64_t n = out.numel();
      std::vector<float> wide(static_cast<std::size_t>(n));
      std::transform(elements, elements + n, wide.begin(), load<T>);
      join_at<T>(call, wide.data(), axis, least,
                 [&](float& to, T from) { to = join(to, load(from)); });
      std::transform(wide.begin(), wide.end(), elements, store<T>);
    } else {
      join_at<T>(call, elements, axis, least,
                 [&](T& to, T from) { to = store<T>(join(load(to), load(from))); });
    }
  });
}

void scatter_add(const OpCall& call) {
  scatter_wide(call, [](auto a, auto b) { return a + b; });
}
void scatter_mul(const OpCall& call) {
  scatter_wide(call, [](auto a, auto b) { return a * b; });
}

template <bool kLargest>
void scatter_extreme(const OpCall& call) {
  const auto [axis, least] = begin(call);
  if (call.inputs[1].impl()->numel() == 0) return;
  const TensorImpl& out = *call.outputs[0].impl();
  with_element(out.dtype, [&]<class T>(T) {
    join_at<T>(call, reinterpret_cast<T*>(out.data), axis, least, [](T& to, T from) {
      const auto old = comparable(to), now = comparable(from);
      // A NaN stays, and comes in.
      if (!(old != old) && ((kLargest ? now > old : now < old) || now != now)) to = from;
    });
  });
}

/// Bytes a block of places takes is small beside what reading the indices costs.
void ravel_multi_index(const OpCall& call) {
  const auto sizes = call.attrs_as<ops::RavelAttrs>().shape.numbers();
  const TensorImpl& out = *call.outputs[0].impl();
  for (std::size_t k = 0; k < call.inputs.size(); ++k) {
    check_indices(call, call.inputs[k], k, -sizes[k], sizes[k]);
  }
  auto* const to = reinterpret_cast<std::int64_t*>(out.data);
  const auto shape = out.shape.numbers();
  const std::size_t outer = shape.empty() ? 0 : shape.size() - 1;
  const std::int64_t columns = shape.empty() ? 1 : shape.back(), rows = product(shape.first(outer));
  for (std::size_t k = 0; k < call.inputs.size(); ++k) {
    const TensorImpl& t = *call.inputs[k].impl();
    const Strides wide = broadcast_strides(t.shape.numbers(), t.strides, shape);
    const std::array<Ints, 1> strides{Ints(std::span(wide.data(), outer))};
    const std::int64_t step = shape.empty() ? 0 : wide[outer], size = sizes[k];
    with_index(t.dtype, [&]<class I>(I) {
      const auto* const from = reinterpret_cast<const I*>(t.data);
      const double bytes = static_cast<double>(columns) * (sizeof(I) + 16);
      parallel_for(0, rows, grain_for({.bytes = bytes}, rows),
                   [&](std::int64_t lo, std::int64_t hi) {
                     RowWalk<1> walk(shape.first(outer), strides, lo);
                     for (std::int64_t row = lo; row < hi; ++row, walk.next()) {
                       const I* const at = from + walk[0];
                       std::int64_t* const line = to + row * columns;
                       for (std::int64_t j = 0; j < columns; ++j) {
                         const std::int64_t i = at[j * step];
                         line[j] = (k == 0 ? 0 : line[j] * size) + (i < 0 ? i + size : i);
                       }
                     }
                   });
    });
  }
}

}  // namespace

std::span<const NamedKernel> scatter_kernels() {
  static constexpr NamedKernel kernels[] = {
      {"scatter", {scatter}},
      {"scatter_add", {scatter_add}},
      {"scatter_mul", {scatter_mul}},
      {"scatter_max", {scatter_extreme<true>}},
      {"scatter_min", {scatter_extreme<false>}},
      {"ravel_multi_index", {ravel_multi_index}},
  };
  return kernels;
}

}  // namespace dyad::runtime::cpu
