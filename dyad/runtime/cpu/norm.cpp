#include "dyad/ops/attrs/norm.h"

#include <cmath>
#include <vector>

#include "dyad/core/tensor_impl.h"
#include "dyad/runtime/cpu/copy.h"
#include "dyad/runtime/cpu/element.h"
#include "dyad/runtime/cpu/kernels.h"
#include "dyad/runtime/cpu/norm_rows.h"
#include "dyad/runtime/cpu/rows.h"
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
  /// Where to compute n results that end() stores at `to`.
  A* begin(T* to, std::int64_t n) {
    if constexpr (is_half<T>) {
      buffer_.resize(static_cast<std::size_t>(n));
      return buffer_.data();
    } else {
      return to;
    }
  }
  void end(T* to, std::int64_t n) {
    if constexpr (is_half<T>) {
      for (std::int64_t i = 0; i < n; ++i) to[i] = store<T>(buffer_[static_cast<std::size_t>(i)]);
    }
  }

 private:
  std::vector<A> buffer_;
};

template <class A>
struct Statistics {
  Statistics(const Rows& rows, const A* x)
      : mean(rows.centered
                 ? static_cast<A>(sum_row(x, rows.length) / static_cast<double>(rows.length))
                 : A{}),
        rstd(static_cast<A>(
            1 / std::sqrt(sum_squares(x, mean, rows.length) / static_cast<double>(rows.length) +
                          rows.eps))) {}
  A mean, rstd;
};

Tensor dense(const Tensor& t) { return t.defined() ? contiguous_copy(t) : Tensor(); }

void normalize(const Rows& rows, const Tensor& x_in, const Tensor& weight_in, const Tensor& bias_in,
               const Tensor& out) {
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
                   Wide<T> in, made;
                   for (std::int64_t row = lo; row < hi; ++row) {
                     const A* from =
                         in.read(elements_of<const T>(x) + row * rows.length, rows.length);
                     T* target = to + row * rows.length;
                     A* y = made.begin(target, rows.length);
                     const Statistics<A> s(rows, from);
                     const std::int64_t first = row % rows.period * rows.runs();
                     if (rows.span == 1 && weight) {
                       scale_each(from, s.mean, s.rstd, weight + first,
                                  bias ? bias + first : nullptr, y, rows.length);
                     } else {
                       for (std::int64_t run = 0; run < rows.runs(); ++run) {
                         const A scale = weight ? s.rstd * weight[first + run] : s.rstd;
                         scale_row(from + run * rows.span, s.mean, scale,
                                   bias ? bias[first + run] : A{}, y + run * rows.span, rows.span);
                       }
                     }
                     made.end(target, rows.length);
                   }
                 });
  });
}

/// With h = grad * weight and normal = (x - mean) * rstd the gradient of x is
/// rstd * (h - mean(h) - normal * mean(h * normal)). Those of the parameters are summed up for each
/// block of rows, then over the blocks, whose number does not depend on threads.
void normalize_backward(const Rows& rows, const Tensor& grad_in, const Tensor& x_in,
                        const Tensor& weight_in, const Tensor& x_grad, const Tensor& weight_grad,
                        const Tensor& bias_grad) {
  constexpr std::int64_t kBlocks = 32;
  const Tensor grads = dense(grad_in), x = dense(x_in), weights = dense(weight_in);
  const std::int64_t parameters = rows.parameters();
  with_floating(x.dtype(), [&]<class T>(T) {
    using A = Accumulator<T>;
    Wide<T> wide_weights;
    const A* weight =
        weights.defined() ? wide_weights.read(elements_of<const T>(weights), parameters) : nullptr;
    T* to = reinterpret_cast<T*>(x_grad.impl()->data);
    const std::int64_t block = (rows.count + kBlocks - 1) / kBlocks;
    const std::int64_t blocks = block == 0 ? 0 : (rows.count + block - 1) / block;
    std::vector<A> sums(static_cast<std::size_t>(2 * blocks * parameters));
    Cost cost = rows.cost(5, sizeof(T));
    cost.bytes *= static_cast<double>(block);
    cost.flops *= 2 * static_cast<double>(block);
    const auto do_row = [&](std::int64_t row, A* sum, Wide<T>& in, Wide<T>& in_grad, Wide<T>& made,
                            std::vector<A>& product) {
      const A* from = in.read(elements_of<const T>(x) + row * rows.length, rows.length);
      const A* grad = in_grad.read(elements_of<const T>(grads) + row * rows.length, rows.length);
      T* target = to + row * rows.length;
      A* y = made.begin(target, rows.length);
      const Statistics<A> s(rows, from);
      const std::int64_t first = row % rows.period * rows.runs();
      const double n = static_cast<double>(rows.length);
      double sum_h = 0, sum_hx = 0;  // of h, and of h * (x - mean)
      if (rows.span == 1) {
        add_parameter_grads(grad, from, s.mean, s.rstd, sum + first, sum + parameters + first,
                            rows.length);
        const A* h = grad;
        if (weight) {
          product.resize(static_cast<std::size_t>(rows.length));
          multiply(grad, weight + first, product.data(), rows.length);
          h = product.data();
        }
        sum_h = rows.centered ? sum_row(h, rows.length) : 0;
        sum_hx = sum_products(h, from, s.mean, rows.length);
        const double r = s.rstd;
        input_grad(h, from, s.mean, s.rstd, static_cast<A>(r * sum_h / n),
                   static_cast<A>(r * r * r * sum_hx / n), y, rows.length);
      } else {
        for (std::int64_t run = 0; run < rows.runs(); ++run) {
          const std::int64_t at = run * rows.span;
          const double g = sum_row(grad + at, rows.span);
          const double gx = sum_products(grad + at, from + at, s.mean, rows.span);
          const double w = weight ? static_cast<double>(weight[first + run]) : 1;
          sum[first + run] += static_cast<A>(gx * static_cast<double>(s.rstd));
          sum[parameters + first + run] += static_cast<A>(g);
          sum_h += w * g;
          sum_hx += w * gx;
        }
        const double r = s.rstd;
        for (std::int64_t run = 0; run < rows.runs(); ++run) {
          const std::int64_t at = run * rows.span;
          input_grad(grad + at, from + at, s.mean, weight ? s.rstd * weight[first + run] : s.rstd,
                     static_cast<A>(r * sum_h / n), static_cast<A>(r * r * r * sum_hx / n), y + at,
                     rows.span);
        }
      }
      made.end(target, rows.length);
    };
    if (rows.length > 0) {
      parallel_for(0, blocks, grain_for(cost, blocks), [&](std::int64_t lo, std::int64_t hi) {
        Wide<T> in, in_grad, made;
        std::vector<A> product;
        for (std::int64_t b = lo; b < hi; ++b) {
          for (std::int64_t row = b * block; row < std::min(rows.count, (b + 1) * block); ++row) {
            do_row(row, sums.data() + 2 * b * parameters, in, in_grad, made, product);
          }
        }
      });
    }
    const auto total = [&](const Tensor& result, std::int64_t offset) {
      if (!result.defined() || result.impl()->numel() == 0) return;
      T* into = reinterpret_cast<T*>(result.impl()->data);
      for (std::int64_t p = 0; p < parameters; ++p) {
        A sum = 0;
        for (std::int64_t b = 0; b < blocks; ++b) {
          sum += sums[static_cast<std::size_t>(2 * b * parameters + offset + p)];
        }
        into[p] = store<T>(sum);
      }
    };
    total(weight_grad, 0);
    total(bias_grad, parameters);
  });
}

void layer_norm(const OpCall& call) {
  const auto in = call.inputs;
  normalize(last_axes(call, in[0], in[1], true), in[0], in[1], in.size() > 2 ? in[2] : Tensor(),
            call.outputs[0]);
}

void layer_norm_backward(const OpCall& call) {
  const auto in = call.inputs;
  normalize_backward(last_axes(call, in[1], in[2], true), in[0], in[1], in[2], call.outputs[0],
                     call.outputs[1], call.outputs[2]);
}

void rms_norm(const OpCall& call) {
  const auto in = call.inputs;
  normalize(last_axes(call, in[0], in[1], false), in[0], in[1], {}, call.outputs[0]);
}

void rms_norm_backward(const OpCall& call) {
  const auto in = call.inputs;
  normalize_backward(last_axes(call, in[1], in[2], false), in[0], in[1], in[2], call.outputs[0],
                     call.outputs[1], {});
}

void group_norm(const OpCall& call) {
  const auto in = call.inputs;
  normalize(groups_of(call, in[0]), in[0], in.size() > 1 ? in[1] : Tensor(),
            in.size() > 2 ? in[2] : Tensor(), call.outputs[0]);
}

void group_norm_backward(const OpCall& call) {
  const auto in = call.inputs;
  normalize_backward(groups_of(call, in[1]), in[0], in[1], in.size() > 2 ? in[2] : Tensor(),
                     call.outputs[0], call.outputs[1], call.outputs[2]);
}

}  // namespace

std::span<const NamedKernel> norm_kernels() {
  static constexpr NamedKernel kernels[] = {
      {"layer_norm", {layer_norm}}, {"layer_norm_backward", {layer_norm_backward}},
      {"rms_norm", {rms_norm}},     {"rms_norm_backward", {rms_norm_backward}},
      {"group_norm", {group_norm}}, {"group_norm_backward", {group_norm_backward}},
  };
  return kernels;
}

}  // namespace dyad::runtime::cpu
