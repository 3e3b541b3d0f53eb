#include "dyad/core/free_runs.h"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <vector>

namespace dyad::detail {
namespace {

/// Eight pages of 64 bytes.
class FreeRunsOfPages : public ::testing::Test {
 protected:
  static constexpr std::size_t kPage = 64;
  [[nodiscard]] std::byte* at(std::size_t offset) noexcept { return memory_.data() + offset; }
  FreeRuns runs_;

 private:
  alignas(kPage) std::array<std::byte, 8 * kPage> memory_{};
};

TEST_F(FreeRunsOfPages, TheShortestThatIsLongEnough) {
  runs_.add({at(0), 100});
  runs_.add({at(200), 50});
  runs_.add({at(300), 60});
  EXPECT_EQ(runs_.take(55), at(300));
  EXPECT_EQ(runs_.take(55), at(0));
  EXPECT_EQ(runs_.take(45), at(55));  // what is left of the first
  EXPECT_EQ(runs_.take(50), at(200));
  EXPECT_EQ(runs_.take(6), nullptr);
  EXPECT_EQ(runs_.take(5), at(355));
  EXPECT_EQ(runs_.take(1), nullptr);
}

TEST_F(FreeRunsOfPages, NeighboursAreOne) {
  runs_.add({at(0), 10});
  runs_.add({at(20), 10});
  EXPECT_EQ(runs_.take(30), nullptr);
  runs_.add({at(10), 10});
  EXPECT_EQ(runs_.take(30), at(0));
  runs_.add({at(40), 10});
  runs_.add({at(30), 10});  // before another
  EXPECT_EQ(runs_.take(20), at(30));
}

TEST_F(FreeRunsOfPages, WholePagesAreTaken) {
  EXPECT_TRUE(runs_.take_pages(kPage).empty());
  runs_.add({at(10), 3 * kPage});             // two whole ones inside
  runs_.add({at(4 * kPage), kPage});          // one, exactly
  runs_.add({at(5 * kPage + 1), kPage + 1});  // none: of two a part each
  runs_.add({at(7 * kPage), kPage / 2});
  EXPECT_EQ(runs_.take_pages(kPage),
            (std::vector<FreeRun>{{at(kPage), 2 * kPage}, {at(4 * kPage), kPage}}));
  EXPECT_TRUE(runs_.take_pages(kPage).empty());
  EXPECT_EQ(runs_.take(kPage + 1), at(5 * kPage + 1));
  EXPECT_EQ(runs_.take(kPage - 10), at(10));  // before the pages
  EXPECT_EQ(runs_.take(10), at(3 * kPage));   // behind them
  EXPECT_EQ(runs_.take(kPage / 2), at(7 * kPage));
  EXPECT_EQ(runs_.take(1), nullptr);
}

}  // namespace
}  // namespace dyad::detail
