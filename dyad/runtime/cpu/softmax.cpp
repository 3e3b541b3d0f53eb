#include <algorithm>
#include <type_traits>
#include <vector>

#include "dyad/core/tensor_impl.h"
#include "dyad/ops/attrs/indexing.h"
#include "dyad/runtime/cpu/dense_lines.h"
#include "dyad/runtime/cpu/element.h"
#include "dyad/runtime/cpu/kernels.h"
#include "dyad/runtime/cpu/softmax_rows.h"
#include "dyad/runtime/layout.h"
#include "dyad/runtime/threads.h"

namespace dyad::runtime::cpu {
namespace {

/// Some lines next to one another: element k of line i is at first + k * along + i * across.
struct Bundle {
  std::int64_t first, length, width, along, across;
};

/// A bundle's elements as columns to compute with, side by side.
template <class T>
class SoftmaxColumns {
  using A = Accumulator<T>;

 public:
  A* read(const T* from, const Bundle& b) {
    columns_.resize(static_cast<std::size_t>(b.length * b.width));
    for (std::int64_t k = 0; k < b.length; ++k) {
      for (std::int64_t i = 0; i < b.width; ++i) {
        columns_[static_cast<std::size_t>(k * b.width + i)] =
            load(from[b.first + k * b.along + i * b.across]);
      }
    }
    return columns_.data();
  }
  void write(T* to, const Bundle& b) const {
    for (std::int64_t k = 0; k < b.length; ++k) {
      for (std::int64_t i = 0; i < b.width; ++i) {
        to[b.first + k * b.along + i * b.across] =
            store<T>(columns_[static_cast<std::size_t>(k * b.width + i)]);
      }
    }
  }

 private:
  std::vector<A> columns_;
};

/// Calls `body(bundle)` for all lines along the axis of dense tensors that lie as `lines` and have
/// `length` elements along it.
template <class Body>
void for_bundles(const DenseLines& lines, std::int64_t length, double bytes, Body body) {
  const std::int64_t inner = lines.inner, outer = lines.outer;
  // Lines along the innermost axis stand one behind the other, others side by side.
  const std::int64_t rows = inner == 1 ? 1 : outer, lines_of_row = inner == 1 ? outer : inner;
  const std::int64_t bundles = (lines_of_row + kSoftmaxColumns - 1) / kSoftmaxColumns;
  const double elements = static_cast<double>(length * std::min(lines_of_row, kSoftmaxColumns));
  parallel_for(0, rows * bundles,
               grain_for({.bytes = elements * bytes, .flops = 25 * elements}, rows * bundles),
               [&](std::int64_t lo, std::int64_t hi) {
                 for (std::int64_t unit = lo; unit < hi; ++unit) {
                   const std::int64_t row = unit / bundles;
                   const std::int64_t line = unit % bundles * kSoftmaxColumns;
                   body(Bundle{.first = inner == 1 ? line * length : row * length * inner + line,
                               .length = length,
                               .width = std::min(kSoftmaxColumns, lines_of_row - line),
                               .along = inner,
                               .across = inner == 1 ? length : 1});
                 }
               });
}

/// Shorter rows are worked on side by side, as columns.
constexpr std::int64_t kShortRow = 24;
static_assert(kShortRow >= kSoftmaxRow);

std::size_t softmax_axis(const OpCall& call) {
  const std::int64_t axis = call.attrs_as<ops::AxisAttrs>().axis;
  return static_cast<std::size_t>(from_front(axis, call.outputs[0].impl()->shape.rank()));
}

/// `row(inputs, out, n, rows)` and `block(inputs, out, n, step, width)` for the lines of one or
/// two inputs and the output along the axis of the call; both take A*.
template <std::size_t N, class Row, class Block>
void run(const OpCall& call, Row row, Block block) {
  const Tensor& out = call.outputs[0];
  if (out.impl()->numel() == 0) return;
  const std::size_t axis = softmax_axis(call);
  const std::int64_t length = out.impl()->shape[axis].number();
  std::vector<DenseLines> lines;
  for (std::size_t i = 0; i < N; ++i) lines.push_back(dense_lines(call.inputs[i], out, axis));
  with_floating(out.dtype(), [&]<class T>(T) {
    using A = Accumulator<T>;
    const T* from[N];
    for (std::size_t i = 0; i < N; ++i) {
      from[i] = reinterpret_cast<const T*>(lines[i].x.impl()->data);
    }
    T* to = reinterpret_cast<T*>(out.impl()->data);
    for_bundles(lines[0], length, (N + 1) * sizeof(T), [&](const Bundle& b) {
      const bool rows = b.along == 1 && length >= kShortRow;
      const A* at[N];
      if constexpr (std::is_same_v<T, A>) {
        if (rows || b.across == 1) {
          for (std::size_t i = 0; i < N; ++i) at[i] = from[i] + b.first;
          rows ? row(at, to + b.first, length, b.width)
               : block(at, to + b.first, length, b.along, b.width);
          return;
        }
      }
      SoftmaxColumns<T> columns[N];
      A* result = nullptr;
      for (std::int64_t line = 0; line < (rows ? b.width : 1); ++line) {
        Bundle part = b;
        if (rows) part.first += line * b.across;
        if (rows) part.width = 1;
        for (std::size_t i = 0; i < N; ++i) at[i] = result = columns[i].read(from[i], part);
        rows ? row(at, result, length, 1) : block(at, result, length, b.width, b.width);
        columns[N - 1].write(to, part);
      }
    });
  });
}

template <bool kLogarithm>
void softmax(const OpCall& call) {
  run<1>(
      call,
      [](auto x, auto out, std::int64_t n, std::int64_t rows) {
        softmax_rows(x[0], out, n, rows, kLogarithm);
      },
      [](auto x, auto out, std::int64_t n, std::int64_t step, std::int64_t width) {
        softmax_columns(x[0], out, n, step, width, kLogarithm);
      });
}

template <bool kLogarithm>
void softmax_backward(const OpCall& call) {
  run<2>(
      call,
      [](auto x, auto out, std::int64_t n, std::int64_t rows) {
        softmax_rows_grad(x[0], x[1], out, n, rows, kLogarithm);
      },
      [](auto x, auto out, std::int64_t n, std::int64_t step, std::int64_t width) {
        softmax_columns_grad(x[0], x[1], out, n, step, width, kLogarithm);
      });
}

Strides as_pointwise(const OpInfo&, const void*, std::span<const Tensor> inputs, const Shape& shape,
                     int) {
  return pointwise_layout(inputs, shape);
}

}  // namespace

std::span<const NamedKernel> softmax_kernels() {
  static constexpr auto kernel = [](auto run) {
    return OpKernel{.run = run, .layout = as_pointwise, .cannot_fail = true};
  };
  static constexpr NamedKernel kernels[] = {
      {"softmax", kernel(softmax<false>)},
      {"log_softmax", kernel(softmax<true>)},
      {"softmax_backward", kernel(softmax_backward<false>)},
      {"log_softmax_backward", kernel(softmax_backward<true>)},
  };
  return kernels;
}

}  // namespace dyad::runtime::cpu
