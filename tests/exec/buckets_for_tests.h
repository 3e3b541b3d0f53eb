#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "dyad/core/create.h"
#include "dyad/exec/compile.h"
#include "dyad/ops/ops.h"

namespace dyad::exec {

/// Two buckets for axes of the arguments.
inline CompileOptions padding(const std::vector<ArgumentAxis>& axes) {
  CompileOptions options{.recheck = false, .background = Background::never};
  for (const ArgumentAxis& axis : axes) options.buckets.push_back({axis, {8, 16}});
  return options;
}

inline void expect_close(const Tensor& got, const Tensor& want, const std::string& what,
                         double tolerance = 1e-5) {
  ASSERT_EQ(to_string(got.shape()), to_string(want.shape())) << what;
  EXPECT_EQ(got.dtype(), want.dtype()) << what;
  const std::vector<double> a = got.detach().to(DType::f64).to_vector<double>(),
                            b = want.detach().to(DType::f64).to_vector<double>();
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(b[i]) ? std::isnan(a[i]) : a[i] == b[i]) continue;
    EXPECT_NEAR(a[i], b[i], tolerance * (1 + std::abs(b[i]))) << what << ", element " << i;
  }
}

}  // namespace dyad::exec
