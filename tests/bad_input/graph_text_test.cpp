// Text forms of graphs, damaged in every place: each is refused by a GraphError, or is a graph that
// runs or fails with a typed error.

#include <gtest/gtest.h>

#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

#include "dyad/autograd/gradients.h"
#include "dyad/base/error.h"
#include "dyad/exec/graph.h"
#include "dyad/exec/session.h"
#include "dyad/ir/graph.h"
#include "dyad/ops/ops.h"
#include "tests/bad_input/allocations.h"
#include "tests/bad_input/damage.h"

namespace dyad {
namespace {

// Each graph runs once, so kernels are interpreted, from the first one of the program on. They give
// the same bits.
[[maybe_unused]] const bool kInterpreted =
    setenv("DYAD_KERNELS", "interpreter", /*overwrite=*/0) == 0;

struct Counts {
  int refused = 0, failed = 0, ran = 0;
};

/// Reads and runs graphs; anything but a graph, a GraphError of the reader or an error of the run
/// is a failure of the test.
class DamagedGraphText : public ::testing::Test {
 protected:
  void read_and_run(const std::string& text, const std::string& damage, const Tensor& x) {
    if (HasFailure()) return;
    SCOPED_TRACE(damage + "\n" + text);
    try {
      const testing::LargestAllocation largest;
      Graph graph;
      try {
        graph = Graph::parse(text);
        graph.verify();
      } catch (const GraphError&) {
        ++counts_.refused;
        return;
      }
      EXPECT_LE(largest.bytes(), 4u << 20);
      try {
        (void)Session(graph).run(graph.outputs(), {{"x", x}});
        ++counts_.ran;
      } catch (const Error&) {
        ++counts_.failed;
      }
    } catch (const std::exception& error) {
      ADD_FAILURE() << "another error: " << error.what();
    }
  }

  Counts counts_;
};

TEST_F(DamagedGraphText, EveryByte) {
  const std::string whole = R"(graph {
  %x = placeholder : f32[batch, 4] @train.cpp:3
  %w = variable : f32[4, 3]
  %0 = matmul(%x, %w) : f32[batch, 3] @train.cpp:5
  %1 = constant [1.0, -0.5, 2.5] : f32[1, 3]
  %2 = add(%0, %1) : f32[batch, 3] @"my file.cpp":6
  %3 = sum(%2) {axes = [1], keepdim = false} : f32[batch]
  %4 = constant #a : i64[2]
  %5 = gather(%3, %4) {axis = 0} : f32[2]
  return %3, %5
}
data {
  #a = "AAAAAAAAAAABAAAAAAAAAA=="
}
)";
  const Tensor x = ones({2, 4});
  read_and_run(whole, "none", x);
  ASSERT_EQ(counts_.ran, 1);
  testing::for_each_damage(whole, [&](const std::string& damaged, const std::string& damage) {
    read_and_run(damaged, damage, x);
  });
  EXPECT_GT(counts_.refused, 1000);
  EXPECT_GT(counts_.failed, 10);
  EXPECT_GT(counts_.ran, 100);
}

/// What runs on x[batch, 4, 5, 5]: operators with attributes of every kind, and their gradients.
using Program = std::vector<Tensor> (*)(const Tensor& x);

std::vector<Tensor> convolve(const Tensor& x) {
  const Tensor w = variable("w", full({4, 2, 3, 3}, 0.5));
  return gradients(conv2d(x, w, {}, 2, 1, 1, 2).sum(), {x, w});
}
std::vector<Tensor> pool(const Tensor& x) {
  const Tensor pooled = concat({max_pool2d(x, 2, 1, 1), avg_pool2d(x, 2, 1, 1)}, 1);
  return gradients(square(pooled).sum(), {x});
}
std::vector<Tensor> view(const Tensor& x) {
  const Tensor flat = reshape(slice(x, 1, 0, 4, 3), {2, -1});
  const Tensor y = expand(unsqueeze(pad(flat, {0, 1}, {1, 0}, 2), 1), {3, 2, -1});
  return {permute(y, {2, 0, 1}), select(y, 1, 1), squeeze(slice(y, 1, 0, 1), 1)};
}
std::vector<Tensor> use_indices(const Tensor& x) {
  const Tensor i = variable("i", full({2, 3}, 1, i64));
  const Tensor rows = reshape(slice(x, 1, 0, 1), {-1, 5});
  const Tensor taken = gather(rows, 1, i) + index_select(rows, 0, select(i, 0, 1)).sum();
  const Tensor added = scatter_add(rows, 0, i, taken) + embedding(i, rows).sum();
  return gradients(square(added).sum() + cross_entropy(rows, arange(rows.size(0)) * 0), {x});
}
std::vector<Tensor> reduce(const Tensor& x) {
  const Tensor y = layer_norm(softmax(x, 1), ones({5})) + uniform({5});
  const Tensor z = max(y, {1}, true) + var(y, {0, 2}, 1, true) + prod(y, {3}, true);
  std::vector<Tensor> all = gradients(z.sum(), {x});
  all.push_back(argmax(x, 1, true));
  return all;
}

TEST_F(DamagedGraphText, EveryNumber) {
  const Tensor x = ones({2, 4, 5, 5});
  for (const Program program : {convolve, pool, view, use_indices, reduce}) {
    Graph graph;
    (void)graph.define([&] { return program(placeholder("x", f32, {"batch", 4, 5, 5})); });
    const std::string whole = to_string(*graph.impl(), {.lines = false});
    const int before = counts_.ran;
    read_and_run(whole, "none", x);
    ASSERT_EQ(counts_.ran, before + 1);
    // None that would be allowed and take all the memory of the machine.
    constexpr const char* kNumbers[] = {
        "-9223372036854775808", "-1", "0", "7", "1099511627776", "4611686018427387903",
        "9223372036854775807"};
    testing::for_each_number(whole, kNumbers,
                             [&](const std::string& damaged, const std::string& damage) {
                               read_and_run(damaged, damage, x);
                             });
  }
  EXPECT_GT(counts_.refused, 1000);
  EXPECT_GT(counts_.failed, 10);
  EXPECT_GT(counts_.ran, 100);
}

}  // namespace
}  // namespace dyad
