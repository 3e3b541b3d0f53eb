#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checker.h"
#include "dyad/base/error.h"
#include "dyad/exec/control_flow.h"
#include "dyad/ops/ops.h"
#include "tests/shared/message_of.h"

// Branches of the host on data become If; control flow is written in every opset.

namespace dyad::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// Both ways of every branch, at two sizes of the open axis, in opsets from 17 on.
template <class F>
void expect_right(const F& function, std::initializer_list<double> lows) {
  const std::initializer_list<onnx::Input> inputs{{"x", f32, {"n", 3}}};
  const onnx::detail::Function flat = [&](std::span<const Tensor> t) {
    return exec::pack::flatten(function(t[0]));
  };
  std::vector<ModelFile> files;
  for (int opset = 17; opset <= 23; ++opset) {
    files.push_back({.path = temporary("m" + std::to_string(opset) + ".onnx"), .cases = {}});
    onnx::save(files.back().path, function, inputs, {.opset = opset});
    for (const std::int64_t n : {2, 5}) {
      for (const double low : lows) {
        files.back().cases.push_back(
            eager_case({inputs.begin(), 1}, {{"n", n}}, flat, low, low + 1));
      }
    }
  }
  const auto reports = check(files);
  SKIP_WITHOUT(reports);
  for (std::size_t i = 0; i < files.size(); ++i) {
    EXPECT_EQ((*reports)[i]["error"], "") << "opset " << 17 + i;
  }
}

TEST(Branches, Nested) {
  const auto model = [](const Tensor& x) {
    Tensor y = x * 2;
    if (mean(x) > 0) {
      y = tanh(y);
      if (max(x) > 1.5) y = y + 3;
    } else if (min(x) < -1.5) {
      y = y - 3;
    }
    return mean(y) > 0.5 ? y * 10 : -y;
  };
  expect_right(model, {-2.0, -0.9, 0.0, 1.0});
}

TEST(Branches, ResultsOfDifferentShapes) {
  const auto model = [](const Tensor& x) {
    Tensor rows = sum(x, {0}), all = x;
    if (sum(x) > 0) {
      rows = max(x, {0});
      all = x * x + rows;
    }
    return std::tuple(all, rows, sum(all) + rows[1], all > rows);
  };
  expect_right(model, {-2.0, 1.0});
}

/// Sizes go through branches: each way gives the same ones, computed in another way.
TEST(Branches, OpenAxes) {
  const auto model = [](const Tensor& x) {
    Tensor y = concat({x, x}, 0);
    if (mean(x) > 0) y = reshape(stack({x, x * 2}, 1), {x.size(0) * 2, 3});
    return std::pair(y, zeros({y.size(0)}) + sum(y, {1}));
  };
  expect_right(model, {-2.0, 1.0});
}

TEST(Branches, ControlFlowInEveryOpset) {
  const auto model = [](const Tensor& x) {
    const Tensor grown = while_loop([](const Tensor& y) { return sum(y) < 30; },
                                    [](const Tensor& y) { return y * 1.5 + 1; }, abs(x));
    const auto [last, rows] = scan(
        [](const Tensor& c, const Tensor& row) {
          const Tensor next = cond(sum(row) > 0, [&] { return c + row; }, [&] { return c - row; });
          return std::pair(next, next * row);
        },
        zeros({3}), x);
    return std::tuple(grown, last, rows);
  };
  expect_right(model, {-0.5, 0.2});
}

TEST(BranchErrors, NumbersReadOnTheHost) {
  const int line = __LINE__ + 2;
  const auto reading = [](const Tensor& x) {
    const double scale = sum(x).item();
    return x * (scale + 1);
  };
  EXPECT_THAT(message_of<GraphError>(
                  [&] { onnx::save(temporary("m.onnx"), reading, {{"x", f32, {"n"}}}); }),
              AllOf(HasSubstr("item"), HasSubstr("branches_test.cpp:" + std::to_string(line))));
}

TEST(BranchErrors, LoopsOfTheHost) {
  const int line = __LINE__ + 3;
  const auto looping = [](const Tensor& x) {
    Tensor y = x;
    while (sum(y) > 1) y = y * 0.5;
    return y;
  };
  EXPECT_THAT(message_of<GraphError>(
                  [&] { onnx::save(temporary("m.onnx"), looping, {{"x", f32, {"n"}}}); }),
              AllOf(HasSubstr("branches on values in more than 64 ways"), HasSubstr("while_loop"),
                    HasSubstr("branches_test.cpp:" + std::to_string(line))));
}

}  // namespace
}  // namespace dyad::testing
