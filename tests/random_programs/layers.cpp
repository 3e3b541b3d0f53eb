#include "dyad/exec/autocast.h"
#include "dyad/ops/ops.h"
#include "instructions.h"

// Layers, transforms and decompositions, operators of the library with rules of their own;
// autocast; bits. Programs from kFirstLayered on have it.

namespace dyad::testing {
namespace {

using F = const Frame&;
using Tensors = std::vector<Tensor>;

/// x @ x^T + 1 on the diagonal of an x that is not large, which has all decompositions.
Tensor positive(const Tensor& x, Dim rows) {
  const Tensor small = tanh(x);
  return matmul(small, transpose(small, -1, -2)) + eye(rows, rows, 0, x.dtype());
}
constexpr const char* kPositive =
    "matmul(tanh($0), transpose(tanh($0), -1, -2)) + eye(#0, #0, 0, $0.dtype())";

/// Number 0: the size of the last axis but one of a matrix, input 0.
bool matrix(Draft& d) {
  if (!d.input(with_rank(2, 3, is_f32_or_f64))) return false;
  d.size(0, d.example(0).rank() - 2);
  return true;
}

/// Weights of a recurrent layer over input 0, of which number 0 is the last size.
Tensor weight_in(F f, std::int64_t rows) { return expand(mean(f[0], {0, 1}), {rows, f.size(0)}); }
Tensor weight_state(F f, std::int64_t rows) { return full({rows, 2}, 0.25, f[0].dtype()); }

}  // namespace

void add_layers(Instructions& list) {
  const auto some = [&](std::string name, std::string text, int weight, auto call,
                        std::function<bool(Draft&)> draft, int outputs = 1) {
    list.push_back({std::move(name), std::move(text), weight,
                    [call](F f) -> Tensors { return call(f); }, std::move(draft), outputs,
                    Form::call, /*library=*/true});
  };
  const auto recurrent = [&](const std::string& name, std::int64_t rows, auto call) {
    const std::string count = std::to_string(rows);
    some(
        name,
        name + "($0, expand(mean($0, {0, 1}), {" + count + ", #0}), full({" + count +
            ", 2}, 0.25, $0.dtype())).y",
        1,
        [call, rows](F f) {
          return Tensors{call(f[0], weight_in(f, rows), weight_state(f, rows))};
        },
        [](Draft& d) {
          if (!d.input(with_rank(3, 3, is_f32_or_f64))) return false;
          d.size(0, 2);
          return true;
        });
  };
  using T = const Tensor&;
  recurrent("rnn", 2, [](T x, T in, T state) { return rnn(x, in, state).y; });
  recurrent("gru", 6, [](T x, T in, T state) { return gru(x, in, state).y; });
  recurrent("lstm", 8, [](T x, T in, T state) { return lstm(x, in, state).y; });
  some(
      "group_norm", "group_norm($0, #0)", 1,
      [](F f) { return Tensors{group_norm(f[0], f.whole(0))}; },
      [](Draft& d) {
        d.whole(1, 2);
        return d.input(with_rank(2, 4, is_float));
      });
  some(
      "instance_norm", "instance_norm($0)", 1, [](F f) { return Tensors{instance_norm(f[0])}; },
      [](Draft& d) { return d.input(with_rank(3, 4, is_float)); });
  const auto of_channels = [](Draft& d) {
    if (!d.input(with_rank(2, 4, is_f32_or_f64))) return false;
    const std::int64_t channels = d.example(0).shape().numbers()[1];
    return d.input(with_rank(1, 1, [=, dtype = d.example(0).dtype()](const Tensor& w) {
      return w.dtype() == dtype && w.numel() == channels;
    }));
  };
  some(
      "batch_norm_train", "batch_norm_train($0, $1, $1)", 2,
      [](F f) {
        const auto [y, average, variance] = batch_norm_train(f[0], f[1], f[1]);
        return Tensors{y, average, variance};
      },
      of_channels, 3);
  some(
      "batch_norm", "batch_norm($0, $1, $1, $1, square($1))", 1,
      [](F f) { return Tensors{batch_norm(f[0], f[1], f[1], f[1], square(f[1]))}; }, of_channels);
  some(
      "conv2d", "conv2d($0, $1)", 1, [](F f) { return Tensors{conv2d(f[0], f[1])}; },
      [](Draft& d) {
        return d.input(with_rank(4, 4, is_float)) && d.input(with_rank(4, 4, is_float));
      });
  some(
      "conv_transpose1d", "conv_transpose1d($0, $1)", 1,
      [](F f) { return Tensors{conv_transpose1d(f[0], f[1])}; },
      [](Draft& d) {
        return d.input(with_rank(3, 3, is_float)) && d.input(with_rank(3, 3, is_float));
      });
  const auto along = [](Draft& d) { return d.input(with_rank(1, 3, is_f32_or_f64)) && d.axis(); };
  some(
      "rfft", "view_as_real(rfft($0, {}, #0))", 1,
      [](F f) { return Tensors{view_as_real(rfft(f[0], {}, f.whole(0)))}; }, along);
  some(
      "irfft", "irfft(rfft($0, {}, #0) * 0.5, {}, #0)", 1,
      [](F f) { return Tensors{irfft(rfft(f[0], {}, f.whole(0)) * 0.5, {}, f.whole(0))}; }, along);
  some(
      "fft", "real(fft($0, {}, #0))", 1,
      [](F f) { return Tensors{real(fft(f[0], {}, f.whole(0)))}; }, along);
  const auto of_positive = [&](const std::string& name, auto call) {
    some(
        name, name + "(" + kPositive + ")", 1,
        [call](F f) { return Tensors{call(positive(f[0], f.size(0)))}; }, matrix);
  };
  of_positive("cholesky", [](T x) { return cholesky(x); });
  of_positive("inverse", [](T x) { return inverse(x); });
  of_positive("det", [](T x) { return det(x); });
  of_positive("eigvalsh", [](T x) { return eigvalsh(x); });
  some(
      "solve", std::string("solve(") + kPositive + ", $0)", 1,
      [](F f) { return Tensors{solve(positive(f[0], f.size(0)), f[0])}; }, matrix);
  some(
      "qr", std::string("qr(") + kPositive + ").r", 1,
      [](F f) { return Tensors{qr(positive(f[0], f.size(0))).r}; }, matrix);
  some("svdvals", "svdvals($0)", 1, [](F f) { return Tensors{svdvals(f[0])}; }, matrix);
  const auto in_bf16 = [&](const std::string& name, const std::string& text, auto call,
                           std::function<bool(Draft&)> draft) {
    some(
        name, "[&] { const Autocast scope(bf16); return " + text + "; }()", 2,
        [call](F f) {
          const Autocast scope(bf16);
          return Tensors{call(f)};
        },
        std::move(draft));
  };
  in_bf16(
      "autocast_matmul", "matmul($0, transpose($1, -1, -2)) * $0",
      [](F f) { return matmul(f[0], transpose(f[1], -1, -2)) * f[0]; },
      [](Draft& d) {
        return d.input(with_rank(2, 3, is_f32_or_f64)) && d.input(same_type(d.example(0)));
      });
  in_bf16(
      "autocast_mean", "mean(softmax($0 * $1, -1), {0})",
      [](F f) { return mean(softmax(f[0] * f[1], -1), {0}); },
      [](Draft& d) {
        return d.input(with_rank(1, 3, is_float)) && d.input(same_type(d.example(0)));
      });

  const auto bits = [&](const std::string& name, auto call, const Draft::Fits& fits) {
    list.push_back({name, name + "($0, $1)", 1, [call](F f) { return Tensors{call(f[0], f[1])}; },
                    [fits](Draft& d) {
                      return d.input(fits) && d.input(broadcasts_with(d.example(0), fits));
                    }});
  };
  const auto is_integral = [](const Tensor& x) { return !is_float(x); };
  bits("bitwise_and", [](T a, T b) { return bitwise_and(a, b); }, is_integral);
  bits("bitwise_or", [](T a, T b) { return bitwise_or(a, b); }, is_integral);
  bits("bitwise_xor", [](T a, T b) { return bitwise_xor(a, b); }, is_integral);
  bits("bitwise_left_shift", [](T a, T b) { return bitwise_left_shift(a, b); }, is_whole);
  bits("bitwise_right_shift", [](T a, T b) { return bitwise_right_shift(a, b); }, is_whole);
  bits("logical_and", [](T a, T b) { return logical_and(a, b); }, any_value);
  bits("logical_xor", [](T a, T b) { return logical_xor(a, b); }, any_value);
  list.push_back({"logical_not", "logical_not($0)", 1,
                  [](F f) { return Tensors{logical_not(f[0])}; },
                  [](Draft& d) { return d.input(any_value); }});
  list.push_back({"bitwise_not", "bitwise_not($0)", 1,
                  [](F f) { return Tensors{bitwise_not(f[0])}; },
                  [=](Draft& d) { return d.input(is_integral); }});
}

}  // namespace dyad::testing
