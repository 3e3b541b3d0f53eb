#include "dyad/ops/attrs/norm.h"

#include <cmath>
#include <vector>

#include "dyad/core/tensor_impl.h"
#include "dyad/runtime/caches.h"
#include "dyad/runtime/cpu/copy.h"
#include "dyad/runtime/cpu/element.h"
#include "dyad/runtime/cpu/kernels.h"
#include "dyad/runtime/cpu/norm_rows.h"
#include "dyad/runtime/cpu/rows.h"
#include "dyad/runtime/cpu/stream.h"
#include "dyad/runtime/cpu/tensor_data.h"
#include "dyad/runtime/threads.h"

namespace dyad::runtime::cpu {
namespace {

/// x as rows that are normalised each by itself. Runs of `span` elements of a row share a weight;
/// rows have the weights of a tensor of `period` rows in turn.
struct Rows {
  std::int64_t count = 1, length = 1, span = 1, period = 1;
  bool centered = true;
  double eps = 0;

  [[nodiscard]] std::int64_t runs() const noexcept {
    return length / std::max<std::int64_t>(span, 1);
  }
  [[nodiscard]] std::int64_t parameters() const noexcept { return period * runs(); }
  [[nodiscard]] Cost cost(double passes, std::size_t element) const noexcept {
    const double n = static_cast<double>(length);
    return {.bytes = passes * n * static_cast<double>(element), .flops = 4 * n};
  }
};

Rows last_axes(const OpCall& call, const Tensor& x, const Tensor& weight, bool centered) {
  const auto sizes = sizes_of(x);
  const std::size_t lead = sizes.size() - sizes_of(weight).size();
  return {.count = product(sizes.first(lead)),
          .length = product(sizes.subspan(lead)),
          .centered = centered,
          .eps = call.attrs_as<ops::EpsAttrs>().eps};
}

Rows groups_of(const OpCall& call, const Tensor& x) {
  const auto& a = call.attrs_as<ops::GroupNormAttrs>();
  const auto sizes = sizes_of(x);
  const std::int64_t groups = a.groups == 0 ? sizes[1] : a.groups;
  const std::int64_t span = product(sizes.subspan(2));
  return {.count = sizes[0] * groups,
          .length = groups == 0 ? 0 : sizes[1] / groups * span,
          .span = span,
          .period = groups,
          .eps = a.eps};
}

/// Elements as numbers to compute with: themselves, or in a buffer when they are half precision.
template <class T>
class Wide {
  using A = Accumulator<T>;

 public:
  const A* read(const T* from, std::int64_t n) {
    if constexpr (is_half<T>) {
      buffer_.resize(static_cast<std::size_t>(n));
      for (std::int64_t i = 0; i < n; ++i) buffer_[static_cast<std::size_t>(i)] = load(from[i]);
      return buffer_.data();
    } else {
      return from;
    }
  }

 private:
  std::vector<A> buffer_;
};

/// Where a thread computes some elements of a result at a time: where they belong, or in a buffer
/// when they are half precision, or short runs that go past the caches together.
template <class T>
class Made {
  using A = Accumulator<T>;

 public:
  Made(bool streams, bool in_runs)
      : streams_(streams && !is_half<T>), buffers_(is_half<T> || (streams_ && in_runs)) {}
  ~Made() {
    if (streams_) fence_streams();
  }
  Made(const Made&) = delete;
  Made& operator=(const Made&) = delete;

  /// Where to compute n results that end() stores at `to`.
  A* begin(T* to, std::int64_t n) {
    if constexpr (!is_half<T>) {
      if (!buffers_) return to;
    }
    buffer_.resize(static_cast<std::size_t>(n));
    return buffer_.data();
  }
  /// Whether they are to be stored past the caches there.
  [[nodiscard]] bool past_caches() const noexcept { return streams_ && !buffers_; }
  void end(T* to, std::int64_t n) {
    if constexpr (is_half<T>) {
      for (std::int64_t i = 0; i < n; ++i) to[i] = store<T>(buffer_[static_cast<std::size_t>(i)]);
    } else if (buffers_) {
      stream(buffer_.data(), to, n);
    }
  }

 private:
  bool streams_, buffers_;
  std::vector<A> buffer_;
};

/// Whether a pass over so many arrays of the result's size, with the result, is through more than
/// the caches hold before anything reads that again, as the caller may know. Rows pass through the
/// first cache.
bool streams(const Rows& rows, const Tensor& result, std::int64_t arrays, bool past_caches) {
  constexpr std::int64_t kLongest = 2048;
  if (past_caches) return rows.length <= kLongest;
  const std::size_t bytes =
      static_cast<std::size_t>(arrays * result.impl()->numel()) * size_of(result.dtype());
  return rows.length <= kLongest && bytes > kPastCachesBytes;
}

/// Of rows so short some are worked on step by step, as what one's numbers wait for is made for
/// others meanwhile: so few that they are still in the first cache at the next step.
constexpr std::int64_t kShortRow = 512, kMostRows = 4;

/// What loops over a row fetch of `rows` for later: nothing where these are read through buffers.
template <class T, class A>
Fetched<A> fetched(const Rows& rows, const A* next, bool from_memory) {
  if (is_half<T> || rows.length > 4096) return {};
  return {next, from_memory && rows.length > kShortRow};
}

template <class A>
struct Statistics {
  Statistics() = default;
  /// Fetches the row `next` on the way.
  Statistics(const Rows& rows, const A* x, Fetched<A> next)
      : mean(rows.centered
                 ? static_cast<A>(sum_row(x, rows.length) / static_cast<double>(rows.length))
                 : A{}),
        rstd(static_cast<A>(1 / std::sqrt(sum_squares(x, mean, rows.length, next) /
                                              static_cast<double>(rows.length) +
                                          rows.eps))) {}
  A mean{}, rstd{};
};

Tensor dense(const Tensor& t) { return t.defined() ? contiguous_copy(t) : Tensor(); }

void normalize(const Rows& rows, const Tensor& x_in, const Tensor& weight_in, const Tensor& bias_in,
               const Tensor& out, bool past_caches) {
  if (out.impl()->numel() == 0) return;
  const Tensor x = dense(x_in), weights = dense(weight_in), biases = dense(bias_in);
  with_floating(x.dtype(), [&]<class T>(T) {
    using A = Accumulator<T>;
    Wide<T> wide_weights, wide_biases;
    const A* weight = weights.defined()
                          ? wide_weights.read(elements_of<const T>(weights), rows.parameters())
                          : nullptr;
    const A* bias = biases.defined()
                        ? wide_biases.read(elements_of<const T>(biases), rows.parameters())
                        : nullptr;
    T* to = reinterpret_cast<T*>(out.impl()->data);
    parallel_for(0, rows.count, grain_for(rows.cost(3, sizeof(T)), rows.count),
                 [&](std::int64_t lo, std::int64_t hi) {
                   Wide<T> in;
                   const bool far = streams(rows, out, 2, past_caches);
                   Made<T> made(far, rows.span > 1);
                   const std::int64_t most = rows.length <= kShortRow ? kMostRows : 1;
                   for (std::int64_t row = lo; row < hi; row += most) {
                     const std::int64_t count = std::min(most, hi - row), length = rows.length;
                     const A* from =
                         in.read(elements_of<const T>(x) + row * length, count * length);
                     Statistics<A> s[kMostRows];
                     for (std::int64_t i = 0; i < count; ++i) {
                       const A* next = row + count + i < hi ? from + (count + i) * length : nullptr;
                       s[i] = {rows, from + i * length, fetched<T>(rows, next, far)};
                     }
                     A* y = made.begin(to + row * length, count * length);
                     for (std::int64_t i = 0; i < count; ++i, from += length, y += length) {
                       const std::int64_t first = (row + i) % rows.period * rows.runs();
                       if (rows.span == 1 && weight) {
                         scale_each(from, s[i].mean, s[i].rstd, weight + first,
                                    bias ? bias + first : nullptr, y, length, made.past_caches());
                         continue;
                       }
                       for (std::int64_t run = 0; run < rows.runs(); ++run) {
                         const A scale = weight ? s[i].rstd * weight[first + run] : s[i].rstd;
                         scale_row(from + run * rows.span, s[i].mean, scale,
                                   bias ? bias[first + run] : A{}, y + run * rows.span, rows.span);
                       }
                     }
                     made.end(to + row * length, count * length);
                   }
                 });
  });
}

/// The gradient of a row whose runs of elements share a weight; adds what comes to these.
template <class A>
void by_runs(const Rows& rows, const A* grad, const A* weight, const A* x, A mean, A rstd,
             A* weight_sums, A* bias_sums, A* out) {
  WeightedSums h;
  for (std::int64_t run = 0; run < rows.runs(); ++run) {
    const std::int64_t at = run * rows.span;
    const double g = sum_row(grad + at, rows.span);
    const double gx = sum_products(grad + at, x + at, mean, rows.span);
    const double w = weight ? static_cast<double>(weight[run]) : 1;
    weight_sums[run] += static_cast<A>(gx * static_cast<double>(rstd));
    bias_sums[run] += static_cast<A>(g);
    h.of_h += w * g;
    h.along_x += w * gx;
  }
  const double r = rstd, n = static_cast<double>(rows.length);
  for (std::int64_t run = 0; run < rows.runs(); ++run) {
    const std::int64_t at = run * rows.span;
    input_grad(grad + at, nullptr, x + at, mean, weight ? rstd * weight[run] : rstd,
               static_cast<A>(r * h.of_h / n), static_cast<A>(r * r * r * h.along_x / n), out + at,
               rows.span, false);
  }
}

/// Rows whose sums are made one after the other: their number does not depend on threads.
std::int64_t rows_of_part(const Rows& rows) noexcept {
  constexpr std::int64_t kParts = 32;
  return std::max<std::int64_t>(1, (rows.count + kParts - 1) / kParts);
}

/// What a gradient's kernel is called with.
struct Backward {
  Rows rows;
  Tensor grad, x, weight, x_grad, weight_grad, bias_grad;
  bool past_caches = false;
};

/// With h = grad * weight and normal = (x - mean) * rstd the gradient of x is
/// rstd * (h - mean(h) - normal * mean(h * normal)). Those of the parameters are sums over rows.
template <class T>
class BackwardRows {
 public:
  using A = Accumulator<T>;

  explicit BackwardRows(const Backward& call)
      : rows_(call.rows),
        grads_(dense(call.grad)),
        x_(dense(call.x)),
        weights_(dense(call.weight)),
        weight_(weights_.defined()
                    ? wide_weights_.read(elements_of<const T>(weights_), rows_.parameters())
                    : nullptr),
        to_(reinterpret_cast<T*>(call.x_grad.impl()->data)),
        streams_(streams(rows_, call.x_grad, 3, call.past_caches)) {}

  /// The gradient of the rows from `begin` to `end`. `sums` gets what comes to the weights, and
  /// behind that to the biases.
  void add(std::int64_t begin, std::int64_t end, A* sums) const {
    if (rows_.length == 0) return;
    const std::int64_t most = rows_.period > 1 || rows_.span > 1 ? 1
                              : rows_.length <= kShortRow        ? kMostRows
                              : rows_.length <= 4 * kShortRow    ? 2
                                                                 : 1;
    Buffers buffers(streams_, rows_.span > 1);
    for (std::int64_t row = begin; row < end; row += most) {
      add_rows(row, std::min(most, end - row), sums, buffers);
    }
  }

 private:
  struct Buffers {
    Buffers(bool streams, bool in_runs) : made(streams, in_runs) {}
    Wide<T> x, grad;
    Made<T> made;
  };

  void add_rows(std::int64_t row, std::int64_t count, A* sums, Buffers& buffers) const {
    const std::int64_t length = rows_.length, begin = row * length;
    const A* const x = buffers.x.read(elements_of<const T>(x_) + begin, count * length);
    const A* const grad = buffers.grad.read(elements_of<const T>(grads_) + begin, count * length);
    A* const out = buffers.made.begin(to_ + begin, count * length);
    const auto next_of = [&](const A* these, std::int64_t i) {
      const bool is_there = row + count + i < rows_.count;
      return fetched<T>(rows_, is_there ? these + (count + i) * length : nullptr, streams_);
    };
    Statistics<A> s[kMostRows];
    for (std::int64_t i = 0; i < count; ++i) s[i] = {rows_, x + i * length, next_of(grad, i)};
    const std::int64_t first = row % rows_.period * rows_.runs();
    const A* const weight = weight_ ? weight_ + first : nullptr;
    A *const weight_sums = sums + first, *const bias_sums = weight_sums + rows_.parameters();
    if (rows_.span == 1) {
      WeightedSums h[kMostRows];
      for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t at = i * length;
        h[i] = row_grads(grad + at, weight, x + at, s[i].mean, s[i].rstd, length, next_of(x, i),
                         weight_sums, bias_sums);
      }
      const auto n = static_cast<double>(length);
      for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t at = i * length;
        const double r = s[i].rstd;
        input_grad(grad + at, weight, x + at, s[i].mean, s[i].rstd,
                   rows_.centered ? static_cast<A>(r * h[i].of_h / n) : A{},
                   static_cast<A>(r * r * r * h[i].along_x / n), out + at, length,
                   buffers.made.past_caches());
      }
    } else {
      by_runs(rows_, grad, weight, x, s[0].mean, s[0].rstd, weight_sums, bias_sums, out);
    }
    buffers.made.end(to_ + begin, count * length);
  }

  Rows rows_;
  Tensor grads_, x_, weights_;
  Wide<T> wide_weights_;
  const A* weight_;
  T* to_;
  bool streams_;
};

/// Stores the sums of `count` parts as the gradients of weights and biases.
template <class T>
void store_totals(const Backward& call, Accumulator<T>* sums, std::int64_t count) {
  const std::int64_t parameters = call.rows.parameters();
  for (std::int64_t part = 1; part < count; ++part) {
    const Accumulator<T>* const more = sums + 2 * part * parameters;
    for (std::int64_t p = 0; p < 2 * parameters; ++p) sums[p] += more[p];
  }
  const auto total = [&](const Tensor& result, std::int64_t offset) {
    if (!result.defined() || result.impl()->numel() == 0) return;
    T* into = reinterpret_cast<T*>(result.impl()->data);
    for (std::int64_t p = 0; p < parameters; ++p) {
      into[p] = count == 0 ? T{} : store<T>(sums[offset + p]);
    }
  };
  total(call.weight_grad, 0);
  total(call.bias_grad, parameters);
}

void normalize_backward(const Backward& call) {
  const Rows& rows = call.rows;
  with_floating(call.x.dtype(), [&]<class T>(T) {
    const BackwardRows<T> backward(call);
    const std::int64_t part = rows_of_part(rows), parts = (rows.count + part - 1) / part;
    const std::int64_t numbers = 2 * rows.parameters();
    std::vector<Accumulator<T>> sums(static_cast<std::size_t>(parts * numbers));
    Cost cost = rows.cost(5, sizeof(T));
    cost.bytes *= static_cast<double>(part);
    cost.flops *= 2 * static_cast<double>(part);
    parallel_for(0, parts, grain_for(cost, parts), [&](std::int64_t lo, std::int64_t hi) {
      for (std::int64_t p = lo; p < hi; ++p) {
        backward.add(p * part, std::min(rows.count, (p + 1) * part), sums.data() + p * numbers);
      }
    });
    store_totals<T>(call, sums.data(), parts);
  });
}

Backward last_axes_backward(const OpCall& call, bool centered) {
  const auto in = call.inputs;
  const auto out = call.outputs;
  return {.rows = last_axes(call, in[1], in[2], centered),
          .grad = in[0],
          .x = in[1],
          .weight = in[2],
          .x_grad = out[0],
          .weight_grad = out[1],
          .bias_grad = out.size() > 2 ? out[2] : Tensor(),
          .past_caches = call.past_caches};
}

template <bool kCentered>
RowSums::Parts parts_of(const OpCall& whole) {
  const Rows rows = last_axes(whole, whole.inputs[1], whole.inputs[2], kCentered);
  RowSums::Parts parts{.rows = rows_of_part(rows)};
  with_floating(whole.inputs[1].dtype(), [&]<class T>(T) {
    parts.bytes = static_cast<std::size_t>(2 * rows.parameters()) * sizeof(Accumulator<T>);
  });
  return parts;
}
template <bool kCentered>
void add_some(const OpCall& some, std::byte* sums) {
  const Backward call = last_axes_backward(some, kCentered);
  with_floating(call.x.dtype(), [&]<class T>(T) {
    BackwardRows<T>(call).add(0, call.rows.count, reinterpret_cast<Accumulator<T>*>(sums));
  });
}
template <bool kCentered>
void store_all(const OpCall& whole, std::byte* sums, std::int64_t count) {
  const Backward call = last_axes_backward(whole, kCentered);
  with_floating(call.x.dtype(), [&]<class T>(T) {
    store_totals<T>(call, reinterpret_cast<Accumulator<T>*>(sums), count);
  });
}
template <bool kCentered>
constexpr RowSums kRowSums{parts_of<kCentered>, add_some<kCentered>, store_all<kCentered>};

void layer_norm(const OpCall& call) {
  const auto in = call.inputs;
  normalize(last_axes(call, in[0], in[1], true), in[0], in[1], in.size() > 2 ? in[2] : Tensor(),
            call.outputs[0], call.past_caches);
}

void layer_norm_backward(const OpCall& call) { normalize_backward(last_axes_backward(call, true)); }

void rms_norm(const OpCall& call) {
  const auto in = call.inputs;
  normalize(last_axes(call, in[0], in[1], false), in[0], in[1], {}, call.outputs[0],
            call.past_caches);
}

void rms_norm_backward(const OpCall& call) { normalize_backward(last_axes_backward(call, false)); }

void group_norm(const OpCall& call) {
  const auto in = call.inputs;
  normalize(groups_of(call, in[0]), in[0], in.size() > 1 ? in[1] : Tensor(),
            in.size() > 2 ? in[2] : Tensor(), call.outputs[0], call.past_caches);
}

void group_norm_backward(const OpCall& call) {
  const auto in = call.inputs;
  normalize_backward({.rows = groups_of(call, in[1]),
                      .grad = in[0],
                      .x = in[1],
                      .weight = in.size() > 2 ? in[2] : Tensor(),
                      .x_grad = call.outputs[0],
                      .weight_grad = call.outputs[1],
                      .bias_grad = call.outputs[2]});
}

}  // namespace

std::span<const NamedKernel> norm_kernels() {
  static constexpr auto kernel = [](auto run, const RowSums* sums = nullptr) {
    return OpKernel{.run = run, .cannot_fail = true, .row_sums = sums, .streams = true};
  };
  static constexpr NamedKernel kernels[] = {
      {"layer_norm", kernel(layer_norm)},
      {"layer_norm_backward", kernel(layer_norm_backward, &kRowSums<true>)},
      {"rms_norm", kernel(rms_norm)},
      {"rms_norm_backward", kernel(rms_norm_backward, &kRowSums<false>)},
      {"group_norm", kernel(group_norm)},
      {"group_norm_backward", kernel(group_norm_backward)},
  };
  return kernels;
}

}  // namespace dyad::runtime::cpu
