#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "dyad/core/generator.h"
#include "dyad/ops/ops.h"
#include "dyad/runtime/threads.h"

// Large composites run block by block along axis 0: the same bits as in one piece.

namespace dyad {
namespace {

using Function = std::function<Tensor(const Tensor&)>;

class RowBlocks : public ::testing::Test {
 protected:
  RowBlocks() { manual_seed(5); }
  ~RowBlocks() override { set_num_threads(threads_); }

  /// Few rows at a time are too small for blocks.
  static std::vector<float> by_hand(const Function& f, const Tensor& x, std::int64_t rows) {
    std::vector<float> all;
    for (std::int64_t at = 0; at < x.size(0).number(); at += rows) {
      const auto part = f(slice(x, 0, at, at + rows)).to_vector<float>();
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }

 private:
  int threads_ = get_num_threads();
};

TEST_F(RowBlocks, GiveTheBitsOfRowsAlone) {
  const Tensor x = normal({1027, 515});
  const Function functions[] = {
      [](const Tensor& y) { return normalize(y, 2, -1); },
      [](const Tensor& y) { return normalize(y, 1, 1); },
      [](const Tensor& y) { return mean_variance_normalization(y, {1}); },
  };
  for (const int threads : {1, 2}) {
    set_num_threads(threads);
    for (const Function& f : functions) {
      EXPECT_EQ(f(x).to_vector<float>(), by_hand(f, x, 13));
    }
  }
}

TEST_F(RowBlocks, TakeInputsOfAnyStrides) {
  const Tensor x = normal({600, 900});
  const Tensor turned = transpose(x, 0, 1);
  EXPECT_EQ(normalize(turned, 2, -1).to_vector<float>(),
            normalize(contiguous(turned), 2, -1).to_vector<float>());
  const Tensor one = expand(slice(x, 0, 0, 1), {600, 900});
  EXPECT_EQ(normalize(one, 2, -1).to_vector<float>(),
            normalize(contiguous(one), 2, -1).to_vector<float>());
}

TEST_F(RowBlocks, LeaveAnAxisThatIsWorkedOnWhole) {
  const Tensor x = normal({1024, 512});
  const Tensor wanted = transpose(normalize(contiguous(transpose(x, 0, 1)), 2, -1), 0, 1);
  EXPECT_EQ(normalize(x, 2, 0).to_vector<float>(), wanted.to_vector<float>());
  EXPECT_EQ(normalize(x, 2, -2).to_vector<float>(), wanted.to_vector<float>());
}

}  // namespace
}  // namespace dyad
