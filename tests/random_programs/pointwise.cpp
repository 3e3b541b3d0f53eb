#include "dyad/ops/ops.h"
#include "instructions.h"

// Operators that work element by element.

namespace dyad::testing {
namespace {

bool two(Draft& d, const Draft::Fits& fits = any_value) {
  return d.input(fits) && d.input(broadcasts_with(d.example(0), fits));
}

const std::vector<double> kNumbers{0.5, 2, -1, 0.1, 3, 0, -0.25, 1e-3};

}  // namespace

void add_pointwise(Instructions& list) {
  using F = const Frame&;
  const auto binary = [&](std::string name, std::string text, auto call, int weight,
                          const Draft::Fits& fits = any_value) {
    list.push_back({std::move(name), std::move(text), weight,
                    [call](F f) { return std::vector{call(f[0], f[1])}; },
                    [fits](Draft& d) { return two(d, fits); }});
  };
  const auto with_number = [&](std::string name, std::string text, auto call, int weight) {
    list.push_back({std::move(name), std::move(text), weight,
                    [call](F f) { return std::vector{call(f[0], f.real(0))}; },
                    [](Draft& d) {
                      d.real(kNumbers);
                      return d.input(is_number);
                    }});
  };
  const auto unary = [&](std::string name, auto call, int weight,
                         const Draft::Fits& fits = any_value) {
    std::string text = name + "($0)";
    list.push_back({std::move(name), std::move(text), weight,
                    [call](F f) { return std::vector{call(f[0])}; },
                    [fits](Draft& d) { return d.input(fits); }});
  };
  binary("plus", "$0 + $1", [](const Tensor& a, const Tensor& b) { return a + b; }, 12);
  binary("minus", "$0 - $1", [](const Tensor& a, const Tensor& b) { return a - b; }, 6, is_number);
  binary("times", "$0 * $1", [](const Tensor& a, const Tensor& b) { return a * b; }, 12);
  binary("over", "$0 / $1", [](const Tensor& a, const Tensor& b) { return a / b; }, 4);
  binary("less", "$0 < $1", [](const Tensor& a, const Tensor& b) { return a < b; }, 3);
  binary("equals", "$0 == $1", [](const Tensor& a, const Tensor& b) { return a == b; }, 2);
  with_number("plus_number", "$0 + %0", [](const Tensor& a, double b) { return a + b; }, 5);
  with_number("times_number", "$0 * %0", [](const Tensor& a, double b) { return a * b; }, 5);
  with_number("number_minus", "%0 - $0", [](const Tensor& a, double b) { return b - a; }, 3);
  with_number("number_over", "%0 / $0", [](const Tensor& a, double b) { return b / a; }, 2);
  with_number("above_number", "$0 > %0", [](const Tensor& a, double b) { return a > b; }, 4);
  with_number("power", "pow($0, %0)", [](const Tensor& a, double b) { return pow(a, b); }, 2);
  with_number(
      "at_least", "maximum($0, %0)", [](const Tensor& a, double b) { return maximum(a, b); }, 2);
  unary("exp", [](const Tensor& x) { return exp(x); }, 4);
  unary("tanh", [](const Tensor& x) { return tanh(x); }, 5);
  unary("sigmoid", [](const Tensor& x) { return sigmoid(x); }, 4);
  unary("relu", [](const Tensor& x) { return relu(x); }, 4, is_number);
  unary("gelu", [](const Tensor& x) { return gelu(x); }, 2, is_float);
  unary("silu", [](const Tensor& x) { return silu(x); }, 2, is_float);
  unary("square", [](const Tensor& x) { return square(x); }, 3, is_number);
  unary("floor", [](const Tensor& x) { return floor(x); }, 2, is_number);
  unary("round", [](const Tensor& x) { return round(x); }, 1, is_number);
  list.push_back({"clamp", "clamp($0, %0, %1)", 2,
                  [](F f) { return std::vector{clamp(f[0], f.real(0), f.real(1))}; },
                  [](Draft& d) {
                    d.real({-1, 0, 0.25});
                    d.real({0.25, 1, 2});
                    return d.input(is_number);
                  }});
  list.push_back({"softplus", "softplus($0, %0)", 1,
                  [](F f) { return std::vector{softplus(f[0], f.real(0))}; },
                  [](Draft& d) {
                    d.real({1, 0.5, 3});
                    return d.input(is_float);
                  }});
  list.push_back({"where", "where($0, $1, $2)", 5,
                  [](F f) { return std::vector{where(f[0], f[1], f[2])}; },
                  [](Draft& d) {
                    return d.input(is_bool) && d.input(broadcasts_with(d.example(0))) &&
                           d.input(broadcasts_with(d.example(1)));
                  }});
  list.push_back({"to", "to($0, @)", 5,
                  [](F f) { return std::vector{to(f[0], f.statement().dtype)}; },
                  [](Draft& d) {
                    d.statement().dtype = d.numbers.pick(std::vector{
                        f32, f32, f64, f16, bf16, i64, i64, i32, i16, i8, u8, u16, boolean});
                    return d.input(any_value);
                  }});
  list.push_back({"lerp", "lerp($0, $1, %0)", 1,
                  [](F f) { return std::vector{lerp(f[0], f[1], f.real(0))}; },
                  [](Draft& d) {
                    d.real({0.25, 0.5, 0.9});
                    return two(d, is_float);
                  }});
  list.push_back({"addcmul", "addcmul($0, $1, $2, %0)", 1,
                  [](F f) { return std::vector{addcmul(f[0], f[1], f[2], f.real(0))}; },
                  [](Draft& d) {
                    d.real(kNumbers);
                    return two(d, is_float) && d.input(broadcasts_with(d.example(0), is_float));
                  }});
}

}  // namespace dyad::testing
