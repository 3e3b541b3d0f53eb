// Tensors are written to files and joined to batches by functions that are recorded, at sizes that
// vary, as by any others: the host then has numbers.

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "dyad/core/create.h"
#include "dyad/data/dataset.h"
#include "dyad/data/packed.h"
#include "dyad/exec/compile.h"
#include "dyad/io/npy.h"
#include "dyad/io/safetensors.h"
#include "dyad/ops/ops.h"

namespace dyad::io {
namespace {

void expect_that_of_eager(const std::function<Tensor(const Tensor&)>& fn) {
  const auto fast = compile(fn, {.recheck = false});
  for (const std::int64_t rows : {3, 5, 6}) {
    const Tensor x = reshape(arange(rows * 4), {rows, 4}).to(f32);
    EXPECT_EQ(fast(x).to_vector<float>(), fn(x).to_vector<float>()) << rows;
  }
}

TEST(RecordedCalls, WriteFiles) {
  const std::string folder = ::testing::TempDir();
  expect_that_of_eager([&](const Tensor& x) {
    save_npy(folder + "recorded.npy", x.t());
    return x * 2;
  });
  expect_that_of_eager([&](const Tensor& x) {
    save_safetensors(folder + "recorded.safetensors", {{"x", x.t()}});
    return x * 2;
  });
}

TEST(RecordedCalls, MakeBatchesOfWhatTheyComputed) {
  expect_that_of_eager([](const Tensor& x) { return data::packed(x.t()) * 2; });
  expect_that_of_eager([](const Tensor& x) {
    const std::vector<Tensor> samples = {x, tanh(x)};
    return data::stack_samples(samples) * 2;
  });
  expect_that_of_eager([](const Tensor& x) {
    const std::vector<std::int64_t> rows = {2, 0};
    return data::take_rows(x.t(), rows) * 2;
  });
}

}  // namespace
}  // namespace dyad::io
