#include "dyad/ops/ops.h"
#include "instructions.h"

// Functions of the library that are no layers: elementary ones, activations, losses, reductions and
// views that programs take less often. Programs from kFirstLayered on have them.

namespace dyad::testing {
namespace {

using F = const Frame&;
using T = const Tensor&;
using Tensors = std::vector<Tensor>;

/// Adds instructions of one shape each.
class Functions {
 public:
  explicit Functions(Instructions& list) : list_(list) {}

  void unary(const std::string& name, auto call, const Draft::Fits& fits = is_float) {
    add(
        name, name + "($0)", [call](F f) { return call(f[0]); },
        [fits](Draft& d) { return d.input(fits); });
  }
  void binary(const std::string& name, auto call, const Draft::Fits& fits = is_float) {
    add(
        name, name + "($0, $1)", [call](F f) { return call(f[0], f[1]); },
        [fits](Draft& d) { return d.input(fits) && d.input(broadcasts_with(d.example(0), fits)); });
  }
  /// Of two tensors of one type.
  void alike(const std::string& name, auto call, const Draft::Fits& fits = is_float) {
    add(
        name, name + "($0, $1)", [call](F f) { return call(f[0], f[1]); },
        [fits](Draft& d) { return d.input(fits) && d.input(same_type(d.example(0))); });
  }
  /// Along an axis, number 0. `result`: what is taken of what the call gives.
  void along(const std::string& name, auto call, const Draft::Fits& fits = is_float,
             const std::string& result = "") {
    add(
        name, name + "($0, #0)" + result, [call](F f) { return call(f[0], f.whole(0)); },
        [fits](Draft& d) { return d.input(with_rank(1, 4, fits)) && d.axis(); });
  }
  /// Over some axes, all numbers.
  void over(const std::string& name, auto call, const Draft::Fits& fits = is_float) {
    add(
        name, name + "($0, {#*})", [call](F f) { return call(f[0], f.wholes()); },
        [fits](Draft& d) { return d.input(fits) && d.axes(); });
  }
  void add(std::string name, std::string text, auto call, std::function<bool(Draft&)> draft) {
    list_.push_back({std::move(name), std::move(text), 1, [call](F f) { return Tensors{call(f)}; },
                     std::move(draft)});
  }

 private:
  Instructions& list_;
};

void add_elementary(Functions& some) {
  some.unary("sqrt", [](T x) { return sqrt(x); });
  some.unary("rsqrt", [](T x) { return rsqrt(x); });
  some.unary("cbrt", [](T x) { return cbrt(x); });
  some.unary("reciprocal", [](T x) { return reciprocal(x); });
  some.unary("log", [](T x) { return log(x); });
  some.unary("log2", [](T x) { return log2(x); });
  some.unary("log10", [](T x) { return log10(x); });
  some.unary("log1p", [](T x) { return log1p(x); });
  some.unary("exp2", [](T x) { return exp2(x); });
  some.unary("expm1", [](T x) { return expm1(x); });
  some.unary("sin", [](T x) { return sin(x); });
  some.unary("cos", [](T x) { return cos(x); });
  some.unary("tan", [](T x) { return tan(x); });
  some.unary("asin", [](T x) { return asin(x); });
  some.unary("acos", [](T x) { return acos(x); });
  some.unary("atan", [](T x) { return atan(x); });
  some.unary("sinh", [](T x) { return sinh(x); });
  some.unary("cosh", [](T x) { return cosh(x); });
  some.unary("asinh", [](T x) { return asinh(x); });
  some.unary("acosh", [](T x) { return acosh(x); });
  some.unary("atanh", [](T x) { return atanh(x); });
  some.unary("sinc", [](T x) { return sinc(x); });
  some.unary("erf", [](T x) { return erf(x); });
  some.unary("erfc", [](T x) { return erfc(x); });
  some.unary("erfinv", [](T x) { return erfinv(x); });
  some.unary("lgamma", [](T x) { return lgamma(x); });
  some.unary("digamma", [](T x) { return digamma(x); });
  some.unary("i0", [](T x) { return i0(x); });
  some.unary("abs", [](T x) { return abs(x); }, is_number);
  some.unary("neg", [](T x) { return neg(x); }, is_number);
  some.unary("sign", [](T x) { return sign(x); }, is_number);
  some.unary("ceil", [](T x) { return ceil(x); }, is_number);
  some.unary("trunc", [](T x) { return trunc(x); }, is_number);
  some.unary("frac", [](T x) { return frac(x); });
  some.unary("nan_to_num", [](T x) { return nan_to_num(x); });
  some.unary("isfinite", [](T x) { return isfinite(x); }, any_value);
  some.unary("isnan", [](T x) { return isnan(x); }, any_value);
  some.unary("signbit", [](T x) { return signbit(x); }, is_number);
  some.binary("minimum", [](T a, T b) { return minimum(a, b); }, is_number);
  some.binary("maximum", [](T a, T b) { return maximum(a, b); }, is_number);
  some.binary("fmin", [](T a, T b) { return fmin(a, b); });
  some.binary("fmax", [](T a, T b) { return fmax(a, b); });
  some.binary("fmod", [](T a, T b) { return fmod(a, b); }, is_number);
  some.binary("remainder", [](T a, T b) { return remainder(a, b); }, is_number);
  some.binary("floor_divide", [](T a, T b) { return floor_divide(a, b); }, is_number);
  some.binary("atan2", [](T a, T b) { return atan2(a, b); });
  some.binary("hypot", [](T a, T b) { return hypot(a, b); });
  some.binary("copysign", [](T a, T b) { return copysign(a, b); });
  some.binary("logaddexp", [](T a, T b) { return logaddexp(a, b); });
  some.binary("xlogy", [](T a, T b) { return xlogy(a, b); });
  some.binary("heaviside", [](T a, T b) { return heaviside(a, b); });
  some.binary("pow", [](T a, T b) { return pow(a, b); }, is_number);
  some.binary("gcd", [](T a, T b) { return gcd(a, b); }, is_whole);
  some.binary("lcm", [](T a, T b) { return lcm(a, b); }, is_whole);
}

void add_activations(Functions& some) {
  some.unary("leaky_relu", [](T x) { return leaky_relu(x); });
  some.unary("elu", [](T x) { return elu(x); });
  some.unary("celu", [](T x) { return celu(x); });
  some.unary("selu", [](T x) { return selu(x); });
  some.unary("mish", [](T x) { return mish(x); });
  some.unary("relu6", [](T x) { return relu6(x); });
  some.unary("hardtanh", [](T x) { return hardtanh(x); });
  some.unary("hardsigmoid", [](T x) { return hardsigmoid(x); });
  some.unary("hardswish", [](T x) { return hardswish(x); });
  some.unary("hardshrink", [](T x) { return hardshrink(x); });
  some.unary("softshrink", [](T x) { return softshrink(x); });
  some.unary("tanhshrink", [](T x) { return tanhshrink(x); });
  some.unary("softsign", [](T x) { return softsign(x); });
  some.unary("logsigmoid", [](T x) { return logsigmoid(x); });
  some.along("softmin", [](T x, std::int64_t axis) { return softmin(x, axis); });
  some.along("glu", [](T x, std::int64_t axis) { return glu(x, axis); });
  some.along("swiglu", [](T x, std::int64_t axis) { return swiglu(x, axis); });
  some.alike("l1_loss", [](T a, T b) { return l1_loss(a, b); });
  some.alike("smooth_l1_loss", [](T a, T b) { return smooth_l1_loss(a, b); });
  some.alike("huber_loss", [](T a, T b) { return huber_loss(a, b); });
  some.alike("kl_div", [](T a, T b) { return kl_div(a, b); });
  some.alike("soft_margin_loss", [](T a, T b) { return soft_margin_loss(a, b); });
  some.alike("binary_cross_entropy_with_logits",
             [](T a, T b) { return binary_cross_entropy_with_logits(a, b); });
}

void add_reductions_and_views(Functions& some) {
  some.over("sum_square", [](T x, const Ints& axes) { return sum_square(x, axes); });
  some.over("nanmean", [](T x, const Ints& axes) { return nanmean(x, axes); });
  some.over("nanmax", [](T x, const Ints& axes) { return nanmax(x, axes); });
  some.over("amin", [](T x, const Ints& axes) { return amin(x, axes); }, is_number);
  some.along(
      "median", [](T x, std::int64_t axis) { return median(x, axis).values; }, is_number,
      ".values");
  some.along(
      "cummin", [](T x, std::int64_t axis) { return cummin(x, axis).values; }, is_number,
      ".values");
  some.add(
      "quantile", "quantile($0, 0.5, #0)", [](F f) { return quantile(f[0], 0.5, f.whole(0)); },
      [](Draft& d) { return d.input(with_rank(1, 3, is_float)) && d.axis(); });
  some.add(
      "diff", "diff($0, 1, #0)", [](F f) { return diff(f[0], 1, f.whole(0)); },
      [](Draft& d) { return d.input(with_rank(1, 3, is_number)) && d.axis(); });
  some.add(
      "linear_scan", "linear_scan($0, $1, #0)",
      [](F f) { return linear_scan(f[0], f[1], f.whole(0)); },
      [](Draft& d) {
        return d.input(with_rank(1, 3, is_float)) && d.input(same_type(d.example(0))) && d.axis();
      });
  some.unary("triu", [](T x) { return triu(x); }, with_rank(2, 4));
  some.unary("trace", [](T x) { return trace(x); }, with_rank(2, 3, is_number));
  some.unary("diag_embed", [](T x) { return diag_embed(x); }, with_rank(1, 2));
  some.unary("rot90", [](T x) { return rot90(x); }, with_rank(2, 4));
  some.unary("fliplr", [](T x) { return fliplr(x); }, with_rank(2, 4));
  some.add(
      "movedim", "movedim($0, #0, 0)", [](F f) { return movedim(f[0], f.whole(0), 0); },
      [](Draft& d) { return d.input(with_rank(2, 4)) && d.axis(); });
  some.add(
      "unbind", "stack(unbind($0, #0))", [](F f) { return stack(unbind(f[0], f.whole(0))); },
      [](Draft& d) { return d.input(with_rank(2, 3)) && d.axis(); });
  some.add(
      "unfold", "unfold($0, #0, #1, 1)",
      [](F f) { return unfold(f[0], f.whole(0), f.whole(1), 1); },
      [](Draft& d) {
        if (!d.input(with_rank(1, 3)) || !d.axis()) return false;
        d.whole(1, 3);
        return true;
      });
  some.alike("outer", [](T a, T b) { return outer(a, b); }, with_rank(1, 1, is_float));
  some.alike("kron", [](T a, T b) { return kron(a, b); }, with_rank(1, 2, is_float));
  some.alike("cross", [](T a, T b) { return cross(a, b); }, with_rank(1, 3, is_float));
  some.alike(
      "cosine_similarity", [](T a, T b) { return cosine_similarity(a, b); },
      with_rank(2, 3, is_float));
}

/// Elements that go to places along the axis that number 0 names.
void add_scatters(Functions& some) {
  for (const char* reduction : {"sum", "prod", "amax", "amin", "mean"}) {
    some.add(
        std::string("scatter_") + reduction,
        std::string("scatter_reduce($0, #0, ") + kPlaces + ", $2, \"" + reduction + "\")",
        [=](F f) { return scatter_reduce(f[0], f.whole(0), places(f), f[2], reduction); },
        [](Draft& d) { return parts_draft(d, -1, is_number); });
  }
}

}  // namespace

void add_functions(Instructions& list) {
  Functions some(list);
  add_elementary(some);
  add_activations(some);
  add_reductions_and_views(some);
  add_scatters(some);
}

}  // namespace dyad::testing
