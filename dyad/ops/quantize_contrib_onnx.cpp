#include <string>
#include <utility>
#include <vector>

#include "dyad/ir/onnx_node.h"
#include "dyad/ops/activation.h"
#include "dyad/ops/arithmetic.h"
#include "dyad/ops/bits.h"
#include "dyad/ops/compare.h"
#include "dyad/ops/conv_support.h"
#include "dyad/ops/creation.h"
#include "dyad/ops/division.h"
#include "dyad/ops/elementary.h"
#include "dyad/ops/indexing.h"
#include "dyad/ops/linalg.h"
#include "dyad/ops/norm.h"
#include "dyad/ops/op_support.h"
#include "dyad/ops/pooling.h"
#include "dyad/ops/quantize.h"
#include "dyad/ops/quantize_support.h"
#include "dyad/ops/recurrent_onnx.h"
#include "dyad/ops/reduce.h"
#include "dyad/ops/registry.h"
#include "dyad/ops/views.h"

// What the operators mean that ONNX Runtime's quantisation tools write, which are no part of ONNX.

namespace dyad::ops {
namespace {

/// The numbers behind three inputs: values, scale and zero point.
Tensor numbers(OnnxNode& n, int first) {
  return dequantize_linear(n.input(first), n.input(first + 1), n.input(first + 2), {.axis = -1},
                           n.loc());
}

/// The first result as numbers of the dtype of input 0, by the scale and zero point of two inputs.
void quantized_output(OnnxNode& n, const Tensor& y, int scale) {
  const QuantizeArgs args{.dtype = n.input(0).dtype()};
  const Tensor zero_point = n.input(scale + 1);
  n.output(0, quantize_linear(y, n.input(scale), zero_point,
                              zero_point.defined() ? QuantizeArgs{} : args, n.loc()));
}

template <Tensor (*f)(const Arg&, const Arg&, Loc)>
void pointwise(OnnxNode& n) {
  quantized_output(n, f(numbers(n, 0), numbers(n, 3), n.loc()), 6);
}

void sigmoid_of(OnnxNode& n) { quantized_output(n, sigmoid(numbers(n, 0), n.loc()), 3); }

void leaky_relu_of(OnnxNode& n) {
  quantized_output(n, leaky_relu(numbers(n, 0), n.number("alpha", 0.01), n.loc()), 3);
}

/// f on images with their channels first, where the node may have them last.
template <class F>
void on_images(OnnxNode& n, F f) {
  const bool last = n.flag("channels_last");
  Tensor x = numbers(n, 0);
  Ints to_first{0, x.rank() - 1}, to_last{0};
  for (int i = 1; i + 1 < x.rank(); ++i) to_first.push_back(i);
  for (int i = 2; i < x.rank(); ++i) to_last.push_back(i);
  to_last.push_back(1);
  if (last) x = permute(x, to_first, n.loc());
  const Tensor y = f(x);
  quantized_output(n, last ? permute(y, to_last, n.loc()) : y, 3);
}

void global_average_pool(OnnxNode& n) {
  on_images(n, [&](const Tensor& x) { return global_avg_pool(x, n.loc()); });
}

void quantized_average_pool(OnnxNode& n) {
  using Pool = Tensor (*)(const Tensor&, const PerAxis&, const PerAxis&, const Padding&, bool, bool,
                          std::int64_t, const PerAxis&, Loc);
  constexpr Pool kPools[] = {avg_pool1d, avg_pool2d, avg_pool3d};
  on_images(n, [&](const Tensor& x) {
    const int axes = x.rank() - 2;
    if (axes < 1 || axes > 3) {
      n.fail("it has " + std::to_string(axes) + " spatial axes, not 1 to 3");
    }
    return kPools[axes - 1](x, n.integers("kernel_shape", {}), n.integers("strides", {1}),
                            padding_of(n), n.flag("ceil_mode"), n.flag("count_include_pad"), 0, 1,
                            n.loc());
  });
}

void concat_of(OnnxNode& n) {
  std::vector<Tensor> parts;
  for (int i = 2; i < n.input_count(); i += 3) parts.push_back(numbers(n, i));
  n.output(0, quantize_linear(concat(parts, n.integer("axis", 0), n.loc()), n.input(0), n.input(1),
                              {}, n.loc()));
}

/// Before version 13 the axes from `axis` on were one.
void softmax_of(OnnxNode& n) {
  const Tensor x = numbers(n, 0);
  if (n.integer("opset", 13) >= 13) {
    return quantized_output(n, softmax(x, n.integer("axis", -1), n.loc()), 3);
  }
  const Tensor flat = flatten(x, n.integer("axis", 1), -1, n.loc());
  quantized_output(n, reshape(softmax(flat, -1, n.loc()), sizes_of(x, n.loc()), n.loc()), 3);
}

void mean_of(OnnxNode& n) {
  quantized_output(
      n, mean(numbers(n, 0), n.integers("axes", {}), n.flag("keepdims", true), n.loc()), 3);
}

void quantized_choose(OnnxNode& n) {
  const Tensor y = where(n.input(0), numbers(n, 1), numbers(n, 4), n.loc());
  n.output(0, quantize_linear(y, n.input(7), n.input(8), {}, n.loc()));
}

/// a_scale for rows, as a column.
Tensor as_column(const Tensor& scale, Loc loc) {
  return scale.rank() == 1 ? unsqueeze(scale, 1, loc) : scale;
}

void gemm_of(OnnxNode& n) {
  const LocScope scope(n.loc());
  Tensor a = n.input(0), b = n.input(3);
  if (n.flag("transA")) a = transpose(a, 0, 1);
  if (n.flag("transB")) b = transpose(b, 0, 1);
  Tensor sums = matmul_integer(a, b, n.input(2), n.input(5));
  if (n.has(6)) sums = sums + n.input(6);
  const Tensor factor = n.input(1) * n.input(4) * n.number("alpha", 1);
  if (!n.has(7)) return n.output(0, sums * factor);
  n.output(0, requantize(sums, factor / n.input(7), n.input(8), n.loc()));
}

/// sums * factor, and a bias if there is one.
void scaled(OnnxNode& n, const Tensor& sums, const Tensor& factor, int bias) {
  const Tensor product = sums * factor;
  n.output(0, n.has(bias) ? product + n.input(bias) : product);
}

void product_as_floats(OnnxNode& n) {
  const LocScope scope(n.loc());
  const Tensor sums = matmul_integer(n.input(0), n.input(1), n.input(4), n.input(5));
  scaled(n, sums, as_column(n.input(2), n.loc()) * n.input(3), 6);
}

void dynamic_product(OnnxNode& n) {
  const LocScope scope(n.loc());
  const Quantized a = dynamic_quantize_linear(n.input(0));
  const Tensor sums = matmul_integer(a.values, n.input(1), a.zero_point, n.input(3));
  scaled(n, sums, a.scale * n.input(2), 4);
}

/// Weights [directions, in, 4 h] with scales for each direction, or for each of its columns.
Tensor lstm_weights(OnnxNode& n, int weight, int scale) {
  const Tensor w = n.input(weight);
  const auto beside = [&](const Tensor& t) {
    if (!t.defined() || t.rank() == 0) return t;
    return t.rank() == 1 ? reshape(t, {-1, 1, 1}, n.loc()) : unsqueeze(t, 1, n.loc());
  };
  const Tensor whole =
      dequantize_linear(w, beside(n.input(scale)), beside(n.input(scale + 1)), {}, n.loc());
  return transpose(whole, 1, 2, n.loc());
}

/// The input is quantised by its own range, as the weights are by theirs; what goes from step to
/// step is kept in full, where ONNX Runtime quantises it too.
void dynamic_lstm(OnnxNode& n) {
  const Quantized x = dynamic_quantize_linear(n.input(0), n.loc());
  read_lstm(n, dequantize_linear(x.values, x.scale, x.zero_point, {}, n.loc()),
            lstm_weights(n, 1, 8), lstm_weights(n, 2, 10));
}

/// Numbers of `bits` bits, packed into bytes along the last axis, the first in the lowest bits.
Tensor unpacked(const Tensor& bytes, std::int64_t bits) {
  if (bits == 8) return bytes;
  std::vector<Tensor> parts;
  for (std::int64_t at = 0; at < 8; at += bits) {
    parts.push_back(bitwise_and(bitwise_right_shift(bytes, at), (1 << bits) - 1));
  }
  return flatten(stack(parts, -1), -2, -1);
}

/// A [..., k] with a weight [n, blocks, bytes] of packed numbers, a scale (and a zero point) for
/// each block along k.
void matmul_by_blocks(OnnxNode& n) {
  const LocScope scope(n.loc());
  const std::int64_t bits = n.integer("bits", 4), block = n.integer("block_size", 32);
  const std::int64_t rows = n.integer("N", 0), columns = n.integer("K", 0);
  if (bits != 2 && bits != 4 && bits != 8) {
    n.fail("it has numbers of " + std::to_string(bits) + " bits, not 2, 4 or 8");
  }
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  const auto fits = [](std::int64_t size) { return size >= 1 && size <= kMost; };
  if (!fits(block) || !fits(rows) || !fits(columns)) {
    n.fail("block_size, N and K must be from 1 to " + std::to_string(kMost) + ", but are " +
           std::to_string(block) + ", " + std::to_string(rows) + " and " + std::to_string(columns));
  }
  const std::int64_t blocks = (columns + block - 1) / block;
  const Tensor a = n.input(0);
  const Tensor q =
      slice(reshape(to(unpacked(n.input(1), bits), f32), {rows, blocks * block}), 1, 0, columns);
  // Columns have the scales of their blocks, which are neighbours or as an input says.
  const Tensor block_of = n.has(4) ? slice(reshape(n.input(4), {-1}), 0, 0, columns)
                                   : floor_divide(arange(columns, i64), block);
  const auto by_column = [&](const Tensor& x) {
    return index_select(to(reshape(x, {rows, -1}), f32), 1, block_of);
  };
  Tensor zero_point = full({}, static_cast<double>(std::int64_t{1} << (bits - 1)), f32);
  if (n.has(3)) {
    const Tensor given = n.input(3);
    zero_point =
        by_column(is_floating(given.dtype()) ? given : unpacked(reshape(given, {rows, -1}), bits));
  }
  const Tensor weight = to((q - zero_point) * by_column(n.input(2)), a.dtype());
  const Tensor product = matmul(a, transpose(weight, 0, 1));
  n.output(0, n.has(5) ? product + n.input(5) : product);
}

}  // namespace

std::span<const OnnxRule> quantize_contrib_onnx_rules() {
  static constexpr OnnxRule kRules[] = {
      {"QuantizeLinear", 1, read_quantize_linear, kRuntimeDomain},
      {"DequantizeLinear", 1, read_dequantize_linear, kRuntimeDomain},
      {"QLinearAdd", 1, pointwise<add>, kRuntimeDomain},
      {"QLinearMul", 1, pointwise<mul>, kRuntimeDomain},
      {"QLinearSigmoid", 1, sigmoid_of, kRuntimeDomain},
      {"QLinearLeakyRelu", 1, leaky_relu_of, kRuntimeDomain},
      {"QLinearGlobalAveragePool", 1, global_average_pool, kRuntimeDomain},
      {"QLinearAveragePool", 1, quantized_average_pool, kRuntimeDomain},
      {"QLinearConcat", 1, concat_of, kRuntimeDomain},
      {"QLinearSoftmax", 1, softmax_of, kRuntimeDomain},
      {"QLinearReduceMean", 1, mean_of, kRuntimeDomain},
      {"QLinearWhere", 1, quantized_choose, kRuntimeDomain},
      {"QGemm", 1, gemm_of, kRuntimeDomain},
      {"MatMulIntegerToFloat", 1, product_as_floats, kRuntimeDomain},
      {"DynamicQuantizeMatMul", 1, dynamic_product, kRuntimeDomain},
      {"DynamicQuantizeLSTM", 1, dynamic_lstm, kRuntimeDomain},
      {"MatMulNBits", 1, matmul_by_blocks, kRuntimeDomain},
  };
  return kRules;
}

}  // namespace dyad::ops
