#include "dyad/ops/ops.h"
#include "instructions.h"

// Products of matrices, windows, losses.

namespace dyad::testing {
namespace {

using F = const Frame&;

/// Values that can stand to the right of input `i` in a product of matrices.
Draft::Fits right_of(const Tensor& a, int low, int high) {
  const auto sizes = a.shape().numbers();
  return [inner = sizes.back(), dtype = a.dtype(), low, high](const Tensor& b) {
    const auto of = b.shape().numbers();
    return b.dtype() == dtype && b.rank() >= low && b.rank() <= high && of[of.size() - 2] == inner;
  };
}

}  // namespace

void add_products(Instructions& list) {
  const auto one = [&](std::string name, std::string text, int weight, auto call,
                       std::function<bool(Draft&)> draft) {
    list.push_back({std::move(name), std::move(text), weight,
                    [call](F f) { return std::vector<Tensor>{call(f)}; }, std::move(draft), 1,
                    Form::call, /*library=*/true});
  };
  one(
      "matmul", "matmul($0, $1)", 8, [](F f) { return matmul(f[0], f[1]); },
      [](Draft& d) {
        return d.input(with_rank(1, 3, is_number)) && d.input(right_of(d.example(0), 2, 3));
      });
  one(
      "matmul_transposed", "matmul($0, transpose($1, -1, -2))", 6,
      [](F f) { return matmul(f[0], transpose(f[1], -1, -2)); },
      [](Draft& d) {
        return d.input(with_rank(2, 3, is_number)) && d.input(same_type(d.example(0)));
      });
  one(
      "linear", "linear($0, $1)", 4, [](F f) { return linear(f[0], f[1]); },
      [](Draft& d) {
        if (!d.input(with_rank(1, 3, is_float))) return false;
        const std::int64_t inner = d.example(0).shape().numbers().back();
        return d.input(with_rank(2, 2, [=, dtype = d.example(0).dtype()](const Tensor& w) {
          return w.dtype() == dtype && w.shape().numbers()[1] == inner;
        }));
      });
  one(
      "outer", "outer($0, $1)", 2, [](F f) { return outer(f[0], f[1]); },
      [](Draft& d) { return d.input(with_rank(1, 1)) && d.input(with_rank(1, 1)); });
  one(
      "einsum", "einsum(\"ij,kj->ik\", {$*})", 2, [](F f) { return einsum("ij,kj->ik", f.all()); },
      [](Draft& d) {
        return d.input(with_rank(2, 2, is_float)) && d.input(same_type(d.example(0)));
      });
  one(
      "einsum_sum", "einsum(\"bij,bjk->ki\", {$*})", 1,
      [](F f) { return einsum("bij,bjk->ki", f.all()); },
      [](Draft& d) {
        return d.input(with_rank(3, 3, is_float)) && d.input(right_of(d.example(0), 3, 3));
      });
  one(
      "conv1d", "conv1d($0, $1, {}, #0, #1)", 3,
      [](F f) { return conv1d(f[0], f[1], {}, f.whole(0), f.whole(1)); },
      [](Draft& d) {
        d.whole(1, 2);
        d.whole(0, 1);
        return d.input(with_rank(3, 3, is_float)) && d.input(with_rank(3, 3, is_float));
      });
  one(
      "max_pool1d", "max_pool1d($0, #0)", 1, [](F f) { return max_pool1d(f[0], f.whole(0)); },
      [](Draft& d) {
        d.whole(1, 2);
        return d.input(with_rank(3, 3, is_float));
      });
  one(
      "avg_pool1d", "avg_pool1d($0, #0)", 1, [](F f) { return avg_pool1d(f[0], f.whole(0)); },
      [](Draft& d) {
        d.whole(1, 2);
        return d.input(with_rank(3, 3, is_float));
      });
  one(
      "cross_entropy", "cross_entropy($0, argmax($1, 1))", 3,
      [](F f) { return cross_entropy(f[0], argmax(f[1], 1)); },
      [](Draft& d) {
        return d.input(with_rank(2, 2, is_float)) && d.input(same_type(d.example(0)));
      });
  one(
      "mse_loss", "mse_loss($0, $1)", 2, [](F f) { return mse_loss(f[0], f[1]); },
      [](Draft& d) {
        return d.input(with_rank(0, 4, is_float)) && d.input(same_type(d.example(0)));
      });
  one(
      "attention", "scaled_dot_product_attention($0, $1, $2)", 1,
      [](F f) { return scaled_dot_product_attention(f[0], f[1], f[2]); },
      [](Draft& d) {
        return d.input(with_rank(3, 4, is_float)) && d.input(same_type(d.example(0))) &&
               d.input(same_type(d.example(0)));
      });
}

}  // namespace dyad::testing
