#include <gtest/gtest.h>

#include "bad_calls.h"
#include "dyad/autograd/gradients.h"
#include "function_cases.h"

namespace dyad::testing {
namespace {

const FunctionCases kNormCases{
    {"instance_norm",
     [](const json&, const Tensors& in) -> Tensors {
       return {instance_norm(in[0], in[1], in[2])};
     }},
    {"mean_variance_normalization_of_channels",
     [](const json&, const Tensors& in) -> Tensors {
       return {mean_variance_normalization(in[0])};
     }},
};

const std::vector<BadCall>& bad_norm_calls() {
  static const std::vector<BadCall> calls{
      {Kind::shape,
       "layer_norm(x: f32[2, 3], weight: f32[4], bias: none): weight must have the last sizes of "
       "x, but axis 1 of x is 3 where weight has 4",
       CALL(layer_norm(F(2, 3), F(4)))},
      {Kind::shape,
       "rms_norm(x: f32[2, 3], weight: f32[]): weight must have from 1 to 2 axes, but has 0",
       CALL(rms_norm(F(2, 3), F()))},
      {Kind::shape,
       "group_norm(x: f32[2, 3, 4], weight: none, bias: none, groups = 2): the 3 channels of x "
       "(axis 1) do not divide into groups = 2",
       CALL(group_norm(F(2, 3, 4), 2))},
      {Kind::value, "group_norm: groups = 0 must be 1 or more", CALL(group_norm(F(2, 3, 4), 0))},
      {Kind::shape,
       "group_norm(x: f32[2, 3, 4], weight: f32[4], bias: none, groups = 0): weight must be [3], "
       "the channels of x (axis 1), but is [4]",
       CALL(instance_norm(F(2, 3, 4), F(4)))},
      {Kind::index, "normalize(x: f32[2]): axis 1 is out of range for 1 axes (-1 to 0)",
       CALL(normalize(F(2)))},
      {Kind::value, "normalize(x: f32[2, 3], p = 0.0): p must be above 0",
       CALL(normalize(F(2, 3), 0))},
      {Kind::value, "local_response_norm(x: f32[2, 3, 4], size = 0): size must be 1 or more",
       CALL(local_response_norm(F(2, 3, 4), 0))},
      {Kind::index,
       "mean_variance_normalization(x: f32[2, 3], axes = [2]): axis 2 is out of range for 2 axes "
       "(-2 to 1)",
       CALL(mean_variance_normalization(F(2, 3), {2}))},
  };
  return calls;
}

TEST(LayerNorm, IsExactWhereTheMeanIsLargeBesideTheDeviation) {
  const Tensor x = reshape(arange(80, f32), {2, 40}) * 0.125 + 4096, weight = ones({40});
  const Tensor exact = layer_norm(to(x, f64), to(weight, f64));
  EXPECT_LT(max(abs(to(layer_norm(x, weight), f64) - exact)).item<double>(), 1e-6);
  EXPECT_LT(max(abs(to(group_norm(unsqueeze(x, 2), 1), f64) - unsqueeze(exact, 2))).item<double>(),
            1e-6);
}

/// layer_norm of rows and the gradient of x where that of the result is `gradient`.
std::vector<Tensor> both_ways(const Tensor& rows, const Tensor& gradient) {
  const Tensor x = rows.detach().requires_grad(), weight = arange(rows.size(1)).to(rows.dtype());
  const Tensor y = layer_norm(x, weight, cos(weight));
  return {y, grad({&y, 1}, {&x, 1}, {.weights = {gradient}})[0]};
}

// Rows do not depend on others. A result of 17 MB is stored past the caches, its halves are not;
// of rows of 1021 elements few begin where a vector may.
TEST(LayerNorm, OfManyRowsHasTheBitsOfFew) {
  for (const DType dtype : {f32, f64}) {
    const std::int64_t rows = dtype == f32 ? 4200 : 2100, half = rows / 2;
    const Tensor x = uniform({rows, 1021}).to(dtype), gradient = uniform({rows, 1021}).to(dtype);
    const std::vector<Tensor> all = both_ways(x, gradient);
    for (const std::int64_t first : {std::int64_t{0}, half}) {
      const auto part = [&](const Tensor& t) { return t.slice(0, first, first + half); };
      const std::vector<Tensor> few = both_ways(part(x), part(gradient));
      for (std::size_t i = 0; i < few.size(); ++i)
        EXPECT_TRUE(dyad::all(part(all[i]) == few[i]).item<bool>())
            << name_of(dtype) << ", result " << i;
    }
  }
}

// Runs of 51 elements, of which few begin where a vector may, go past the caches row by row.
TEST(GroupNorm, OfManyRowsHasTheBitsOfFew) {
  const Tensor x = uniform({4200, 20, 51}), weight = arange(20).to(f32), bias = cos(weight);
  const auto norm = [&](const Tensor& rows) { return group_norm(rows, 1, weight, bias); };
  const Tensor all = norm(x);
  for (const std::int64_t first : {0, 2100}) {
    const auto part = [&](const Tensor& t) { return t.slice(0, first, first + 2100); };
    EXPECT_TRUE(dyad::all(part(all) == norm(part(x))).item<bool>()) << first;
  }
}

TEST(Errors, OfNormalisationsNameTheRule) {
  expect_errors(bad_norm_calls(), "norms_functions_test.cpp");
}

}  // namespace
}  // namespace dyad::testing
