#include <gtest/gtest.h>

#include "bad_calls.h"
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

TEST(Errors, OfNormalisationsNameTheRule) {
  expect_errors(bad_norm_calls(), "norms_functions_test.cpp");
}

}  // namespace
}  // namespace dyad::testing
