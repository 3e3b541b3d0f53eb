#include "bench/ops.h"
#include "dyad/ops/ops.h"

namespace dyad::bench {
namespace {

using Tensors = std::vector<Tensor>;

/// The axis that a reduction works along: the name's last word.
Ints axes_of(std::string_view which) {
  if (which == "last") return {-1};
  if (which == "first") return {0};
  return {};
}

BenchedOp unary(std::string name, Tensor (*f)(const Tensor&)) {
  return {std::move(name), [f](const Tensors& in) -> Tensors { return {f(in[0])}; }};
}
BenchedOp binary(std::string name, Tensor (*f)(const Tensor&, const Tensor&)) {
  return {std::move(name), [f](const Tensors& in) -> Tensors { return {f(in[0], in[1])}; }};
}
BenchedOp ternary(std::string name, Tensor (*f)(const Tensor&, const Tensor&, const Tensor&)) {
  return {std::move(name), [f](const Tensors& in) -> Tensors { return {f(in[0], in[1], in[2])}; }};
}
BenchedOp along(const std::string& name, const std::string& which,
                Tensor (*f)(const Tensor&, const Ints&)) {
  return {name + " " + which,
          [f, axes = axes_of(which)](const Tensors& in) -> Tensors { return {f(in[0], axes)}; }};
}
BenchedOp resized(const std::string& mode) {
  return {"resize " + mode, [mode](const Tensors& in) -> Tensors {
            return {interpolate(in[0], {.scale_factor = {2.0}, .mode = mode})};
          }};
}

// A power of two: dividing by it and multiplying by its inverse, as PyTorch does, are one.
constexpr double kStep = 1.0 / 128;

/// u8 and i8 in, u8 out.
Tensor quantized_conv(const Tensor& x, const Tensor& weight) {
  const Tensor step = full({}, kStep), middle = full({}, 128, u8), zero = full({}, 0, i8);
  return qlinear_conv({x, step, middle}, {weight, step, zero}, 1.0, middle, {}, 1, 1);
}

// One line an operator.
// clang-format off
const std::vector<BenchedOp> kOps = {
    binary("add", [](const Tensor& a, const Tensor& b) { return a + b; }),
    binary("mul", [](const Tensor& a, const Tensor& b) { return a * b; }),
    binary("div", [](const Tensor& a, const Tensor& b) { return a / b; }),
    binary("pow", [](const Tensor& a, const Tensor& b) { return pow(a, b); }),
    unary("exp", [](const Tensor& x) { return exp(x); }),
    unary("log", [](const Tensor& x) { return log(x); }),
    unary("tanh", [](const Tensor& x) { return tanh(x); }),
    unary("sigmoid", [](const Tensor& x) { return sigmoid(x); }),
    unary("gelu", [](const Tensor& x) { return gelu(x); }),
    unary("erf", [](const Tensor& x) { return erf(x); }),
    unary("relu", [](const Tensor& x) { return relu(x); }),
    ternary("where", [](const Tensor& c, const Tensor& a, const Tensor& b) { return where(c, a, b); }),
    unary("clamp", [](const Tensor& x) { return clamp(x, -0.5, 0.5); }),
    unary("cast", [](const Tensor& x) { return to(x, f64); }),

    along("sum", "last", [](const Tensor& x, const Ints& axes) { return sum(x, axes); }),
    along("sum", "first", [](const Tensor& x, const Ints& axes) { return sum(x, axes); }),
    along("sum", "all", [](const Tensor& x, const Ints& axes) { return sum(x, axes); }),
    along("mean", "last", [](const Tensor& x, const Ints& axes) { return mean(x, axes); }),
    along("mean", "first", [](const Tensor& x, const Ints& axes) { return mean(x, axes); }),
    along("mean", "all", [](const Tensor& x, const Ints& axes) { return mean(x, axes); }),
    along("max", "last", [](const Tensor& x, const Ints& axes) { return max(x, axes); }),
    along("max", "first", [](const Tensor& x, const Ints& axes) { return max(x, axes); }),
    along("max", "all", [](const Tensor& x, const Ints& axes) { return max(x, axes); }),
    along("var", "last", [](const Tensor& x, const Ints& axes) { return var(x, axes); }),
    along("var", "first", [](const Tensor& x, const Ints& axes) { return var(x, axes); }),
    along("var", "all", [](const Tensor& x, const Ints& axes) { return var(x, axes); }),
    unary("argmax last", [](const Tensor& x) { return argmax(x, -1); }),
    unary("argmax first", [](const Tensor& x) { return argmax(x, 0); }),
    unary("argmax all", [](const Tensor& x) { return argmax(x); }),
    unary("cumsum", [](const Tensor& x) { return cumsum(x, -1); }),
    unary("softmax", [](const Tensor& x) { return softmax(x); }),
    unary("logsumexp", [](const Tensor& x) { return logsumexp(x, {-1}); }),

    unary("sort", [](const Tensor& x) { return sort(x).values; }),
    unary("topk", [](const Tensor& x) { return topk(x, 10).values; }),
    unary("transpose-copy", [](const Tensor& x) { return contiguous(transpose(x, 0, 1)); }),
    binary("cat", [](const Tensor& a, const Tensor& b) { return concat({a, b}, 1); }),
    binary("stack", [](const Tensor& a, const Tensor& b) { return stack({a, b}, 0); }),
    unary("slice", [](const Tensor& x) { return contiguous(slice(x, 1, 1, kEnd, 2)); }),
    binary("gather", [](const Tensor& x, const Tensor& i) { return gather(x, 1, i); }),
    ternary("scatter_add", [](const Tensor& x, const Tensor& i, const Tensor& y) { return scatter_add(x, 1, i, y); }),
    binary("index_select", [](const Tensor& x, const Tensor& i) { return index_select(x, 0, i); }),
    unary("pad", [](const Tensor& x) { return pad(x, {1, 1}, {1, 1}); }),
    unary("flip", [](const Tensor& x) { return contiguous(flip(x, {-1})); }),
    unary("one_hot", [](const Tensor& i) { return one_hot(i, 100, i64); }),

    binary("matmul", [](const Tensor& a, const Tensor& b) { return matmul(a, b); }),
    binary("matmul f64", [](const Tensor& a, const Tensor& b) { return matmul(a, b); }),
    binary("matmul int8", [](const Tensor& a, const Tensor& b) { return matmul_integer(a, b); }),
    binary("bmm", [](const Tensor& a, const Tensor& b) { return bmm(a, b); }),
    binary("einsum attention", [](const Tensor& q, const Tensor& k) { return einsum("bqhd,bkhd->bhqk", {q, k}); }),
    ternary("einsum chain", [](const Tensor& a, const Tensor& b, const Tensor& c) { return einsum("ij,jk,kl->il", {a, b, c}); }),
    ternary("linear", [](const Tensor& x, const Tensor& w, const Tensor& b) { return linear(x, w, b); }),

    binary("conv1d", [](const Tensor& x, const Tensor& w) { return conv1d(x, w, {}, 1, 1); }),
    binary("conv2d 3x3", [](const Tensor& x, const Tensor& w) { return conv2d(x, w, {}, 1, 1); }),
    binary("conv2d 1x1", [](const Tensor& x, const Tensor& w) { return conv2d(x, w); }),
    binary("conv2d strided", [](const Tensor& x, const Tensor& w) { return conv2d(x, w, {}, 2, 1); }),
    {"conv2d depthwise", [](const Tensors& in) -> Tensors { return {conv2d(in[0], in[1], {}, 1, 1, 1, in[1].size(0).number())}; }},
    binary("conv2d int8", [](const Tensor& x, const Tensor& w) { return quantized_conv(x, w); }),
    unary("quantize", [](const Tensor& x) { return quantize_linear(x, kStep, full({}, 128, u8)); }),
    unary("fake_quantize", [](const Tensor& x) { return fake_quantize(x, kStep, 128, 0, 255); }),
    binary("conv_transpose2d", [](const Tensor& x, const Tensor& w) { return conv_transpose2d(x, w, {}, 2); }),
    unary("max_pool", [](const Tensor& x) { return max_pool2d(x, 2); }),
    unary("avg_pool", [](const Tensor& x) { return avg_pool2d(x, 2); }),

    ternary("layer_norm", [](const Tensor& x, const Tensor& w, const Tensor& b) { return layer_norm(x, w, b); }),
    ternary("batch_norm", [](const Tensor& x, const Tensor& w, const Tensor& b) { return batch_norm_train(x, w, b)[0]; }),

    ternary("group_norm", [](const Tensor& x, const Tensor& w, const Tensor& b) { return group_norm(x, 4, w, b); }),
    binary("rms_norm", [](const Tensor& x, const Tensor& w) { return rms_norm(x, w); }),
    binary("embedding", [](const Tensor& w, const Tensor& i) { return embedding(i, w); }),
    binary("embedding_bag", [](const Tensor& w, const Tensor& i) { return embedding_bag(i, w, {}, {.mode = BagMode::sum}); }),
    {"lstm", [](const Tensors& in) -> Tensors { return {lstm(in[0], in[1], in[2], in[3], in[4]).y}; }},
    {"gru", [](const Tensors& in) -> Tensors { return {gru(in[0], in[1], in[2], in[3], in[4]).y}; }},
    ternary("attention", [](const Tensor& q, const Tensor& k, const Tensor& v) { return scaled_dot_product_attention(q, k, v); }),
    ternary("attention causal", [](const Tensor& q, const Tensor& k, const Tensor& v) { return scaled_dot_product_attention(q, k, v, {.is_causal = true}); }),
    {"attention masked", [](const Tensors& in) -> Tensors { return {scaled_dot_product_attention(in[0], in[1], in[2], {.mask = in[3]})}; }},
    binary("cross_entropy", [](const Tensor& x, const Tensor& y) { return cross_entropy(x, y); }),

    resized("nearest"),
    resized("bilinear"),
    resized("bicubic"),
    binary("grid_sample", [](const Tensor& x, const Tensor& g) { return grid_sample(x, g); }),
    binary("grid_sample rgb", [](const Tensor& x, const Tensor& g) { return grid_sample(x, g); }),
    {"ctc", [](const Tensors& in) -> Tensors { return {ctc_loss(log_softmax(in[0]), in[1], in[2], in[3])}; }},
    unary("fft", [](const Tensor& x) { return view_as_real(fft(view_as_complex(x))); }),
    unary("rfft", [](const Tensor& x) { return view_as_real(rfft(x)); }),
    binary("stft", [](const Tensor& x, const Tensor& w) { return stft(x, 400, {.hop_length = 160, .window = w, .return_complex = false}); }),

    unary("cholesky", [](const Tensor& x) { return cholesky(x); }),
    binary("solve", [](const Tensor& a, const Tensor& b) { return solve(a, b); }),
    unary("svdvals", [](const Tensor& x) { return svdvals(x); }),
    {"svd", [](const Tensors& in) -> Tensors { const Svd f = svd(in[0], false); return {f.s, f.u, f.vh}; }},
    unary("inverse", [](const Tensor& x) { return inverse(x); }),
    {"qr", [](const Tensors& in) -> Tensors { const Qr f = qr(in[0]); return {f.r, f.q}; }},
    {"eigh", [](const Tensors& in) -> Tensors { const Eigh f = eigh(in[0]); return {f.w, f.v}; }},
};
// clang-format on

}  // namespace

const std::vector<BenchedOp>& benched_ops() { return kOps; }

}  // namespace dyad::bench
