#include "dyad/data/data_loader.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <numeric>
#include <set>
#include <stdexcept>
#include <thread>

#include "dyad/core/generator.h"
#include "dyad/core/tensor_impl.h"
#include "tests/data/files.h"
#include "tests/shared/message_of.h"

namespace dyad::data {
namespace {

using dyad::testing::message_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// f32[n, 2] with rows (i, 10 * i), and i64[n] with i.
std::pair<Tensor, Tensor> numbered(std::int64_t n) {
  Tensor x = make_empty(f32, {Dim(n), 2});
  Tensor y = make_empty(i64, {Dim(n)});
  for (std::int64_t i = 0; i < n; ++i) {
    x.data<float>()[2 * i] = static_cast<float>(i);
    x.data<float>()[2 * i + 1] = static_cast<float>(10 * i);
    y.data<std::int64_t>()[i] = i;
  }
  return {x, y};
}

std::vector<std::int64_t> labels_of(const Tensor& y) {
  return {y.data<std::int64_t>(), y.data<std::int64_t>() + y.shape()[0].number()};
}

/// The labels of each batch of one epoch.
template <class Loader>
std::vector<std::vector<std::int64_t>> epoch_of(Loader& loader) {
  std::vector<std::vector<std::int64_t>> batches;
  for (auto [x, y] : loader) {
    batches.push_back(labels_of(y));
    for (std::size_t i = 0; i < batches.back().size(); ++i) {
      EXPECT_EQ(x.template data<float>()[2 * i + 1], static_cast<float>(10 * batches.back()[i]));
    }
  }
  return batches;
}

TEST(DataLoader, GivesBatchesInOrder) {
  const auto [x, y] = numbered(5);
  DataLoader loader(TensorDataset(x, y), {.batch_size = 2});
  EXPECT_EQ(loader.size(), 3);
  EXPECT_THAT(epoch_of(loader), ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3), ElementsAre(4)));
}

TEST(DataLoader, DropsAShortLastBatch) {
  const auto [x, y] = numbered(5);
  DataLoader loader(TensorDataset(x, y), {.batch_size = 2, .drop_last = true});
  EXPECT_EQ(loader.size(), 2);
  EXPECT_THAT(epoch_of(loader), ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3)));
}

TEST(DataLoader, ShufflesBySeedAndEpoch) {
  const auto [x, y] = numbered(40);
  const auto loader = [&](std::uint64_t seed) {
    return DataLoader(TensorDataset(x, y), {.batch_size = 40, .shuffle = true, .seed = seed});
  };
  auto a = loader(1), again = loader(1), b = loader(2);
  const auto first = epoch_of(a)[0], second = epoch_of(a)[0];
  EXPECT_EQ(epoch_of(again)[0], first);
  EXPECT_EQ(epoch_of(again)[0], second);
  EXPECT_NE(first, second);
  EXPECT_NE(epoch_of(b)[0], first);
  auto sorted = first;
  std::sort(sorted.begin(), sorted.end());
  EXPECT_EQ(sorted, labels_of(y));
}

TEST(DataLoader, ShuffleIsTheSameOnEveryMachine) {
  // From another program: splitmix64, mt19937_64, Lemire's bounded numbers, Fisher and Yates.
  EXPECT_THAT(epoch_order(8, true, 7, 0), ElementsAre(5, 4, 2, 1, 7, 3, 0, 6));
}

TEST(DataLoader, ShuffleIsEven) {
  // Where element 0 of 4 goes in 4,000 epochs: 1,000 times to each place, give or take 5 sigma.
  std::vector<int> places(4);
  for (std::int64_t epoch = 0; epoch < 4000; ++epoch) {
    const auto order = epoch_order(4, true, 3, epoch);
    ++places[static_cast<std::size_t>(std::find(order.begin(), order.end(), 0) - order.begin())];
  }
  for (const int count : places) EXPECT_NEAR(count, 1000, 137);
}

TEST(DataLoader, WorkersDoNotChangeTheBatches) {
  const auto [x, y] = numbered(101);
  std::vector<std::vector<std::vector<std::int64_t>>> epochs;
  for (const int workers : {0, 1, 4}) {
    DataLoader loader(TensorDataset(x, y), {.batch_size = 7, .shuffle = true, .workers = workers});
    epoch_of(loader);
    epochs.push_back(epoch_of(loader));
  }
  EXPECT_EQ(epochs[0], epochs[1]);
  EXPECT_EQ(epochs[0], epochs[2]);
}

TEST(DataLoader, GoesOnFromASavedPosition) {
  const auto [x, y] = numbered(50);
  const LoaderOptions options{.batch_size = 8, .shuffle = true, .seed = 5, .workers = 2};
  DataLoader straight(TensorDataset(x, y), options);
  std::vector<std::vector<std::int64_t>> expected = epoch_of(straight);
  for (const auto& batch : epoch_of(straight)) expected.push_back(batch);

  for (std::size_t cut = 0; cut <= expected.size(); ++cut) {
    DataLoader first(TensorDataset(x, y), options);
    std::vector<std::vector<std::int64_t>> seen;
    while (seen.size() < cut) {
      for (auto [images, labels] : first) {
        seen.push_back(labels_of(labels));
        if (seen.size() == cut) break;
      }
    }
    LoaderOptions other = options;
    other.seed = 99;  // the position brings the seed
    DataLoader second(TensorDataset(x, y), other);
    second.set_position(first.position());
    while (seen.size() < expected.size()) {
      for (auto [images, labels] : second) seen.push_back(labels_of(labels));
    }
    EXPECT_EQ(seen, expected) << "cut after " << cut;
  }
}

TEST(DataLoader, ALoopLeftEarlyLeavesItsEpoch) {
  const auto [x, y] = numbered(6);
  DataLoader loader(TensorDataset(x, y), {.batch_size = 2});
  for (auto [images, labels] : loader) break;
  EXPECT_EQ(loader.position().epoch, 0);
  EXPECT_EQ(loader.position().batch, 1);
  EXPECT_EQ(epoch_of(loader).size(), 3u);
  EXPECT_EQ(loader.position().epoch, 1);
}

struct Squares {
  std::int64_t size() const { return 6; }
  std::array<Tensor, 1> get(std::int64_t i) const {
    if (i == 4) throw std::runtime_error("sample 4 cannot be read");
    Tensor x = make_empty(i64, {});
    *x.data<std::int64_t>() = i * i;
    return {x};
  }
};

TEST(DataLoader, StacksSamplesAndRethrowsWhereTheBatchWouldCome) {
  for (const int workers : {0, 1, 3}) {
    DataLoader loader(Squares(), {.batch_size = 2, .workers = workers});
    std::vector<std::vector<std::int64_t>> seen;
    const std::string message = message_of<std::runtime_error>([&] {
      for (auto [x] : loader) seen.push_back(labels_of(x));
    });
    EXPECT_EQ(message, "sample 4 cannot be read");
    EXPECT_THAT(seen, ElementsAre(ElementsAre(0, 1), ElementsAre(4, 9)));
  }
}

struct Ragged {
  std::int64_t size() const { return 3; }
  std::array<Tensor, 1> get(std::int64_t i) const { return {make_empty(f32, {Dim(i + 1)})}; }
};

TEST(DataLoader, GoesOnBehindABatchThatThrew) {
  for (const int workers : {0, 1, 3}) {
    DataLoader loader(Squares(), {.batch_size = 1, .workers = workers});
    std::vector<std::int64_t> first, at;
    int thrown = 0;
    for (auto batch = loader.begin(); batch != loader.end();) {
      first.push_back(labels_of((*batch)[0])[0]);
      at.push_back(loader.position().batch);
      for (bool again = true; again;) {
        try {
          ++batch;
          again = false;
        } catch (const std::runtime_error&) {
          ++thrown;
        }
      }
    }
    EXPECT_EQ(thrown, 1) << workers;
    EXPECT_THAT(first, ElementsAre(0, 1, 4, 9, 25)) << workers;
    EXPECT_THAT(at, ElementsAre(1, 2, 3, 4, 6)) << workers;
  }
}

/// Waits for the longer the earlier the sample, so that workers overtake each other.
struct Noisy {
  [[nodiscard]] std::int64_t size() const { return 12; }
  [[nodiscard]] std::array<Tensor, 1> get(std::int64_t i) const {
    std::this_thread::sleep_for(std::chrono::milliseconds(i % 4 == 0 ? 4 : 0));
    const RandomKey key = default_generator().next_key(1);
    Tensor word = make_empty(i64, {});
    word.data<std::int64_t>()[0] = static_cast<std::int64_t>(random_words(key, 0)[0]);
    return {word};
  }
};

TEST(DataLoader, RandomNumbersOfADatasetDependOnThePositionAlone) {
  const auto words = [](int workers, std::int64_t first_epoch, std::int64_t first_batch) {
    DataLoader loader(Noisy(), {.batch_size = 2, .seed = 7, .workers = workers});
    loader.set_position({.seed = 7, .epoch = first_epoch, .batch = first_batch});
    std::vector<std::int64_t> drawn;
    for (std::int64_t epoch = first_epoch; epoch < 2; ++epoch) {
      for (auto [x] : loader) std::ranges::copy(labels_of(x), std::back_inserter(drawn));
    }
    return drawn;
  };
  const RandomKey before = default_generator().state();
  const std::vector<std::int64_t> all = words(0, 0, 0);
  EXPECT_EQ(std::set(all.begin(), all.end()).size(), 24u);
  EXPECT_EQ(words(1, 0, 0), all);
  EXPECT_EQ(words(4, 0, 0), all);
  EXPECT_EQ(words(3, 1, 2), std::vector(all.begin() + 16, all.end()));
  EXPECT_EQ(default_generator().state(), before);
}

TEST(DataLoader, SamplesOfDifferentShapesAreAnError) {
  DataLoader loader(Ragged(), {.batch_size = 3});
  EXPECT_THAT(message_of<ShapeError>([&] { (void)loader.begin(); }),
              HasSubstr("sample 0 is f32[1], sample 1 is f32[2]; pad them"));
}

TEST(DataLoader, BadOptionsAreErrors) {
  const auto [x, y] = numbered(3);
  const auto error = [&](const LoaderOptions& options) {
    return message_of<ValueError>([&] { DataLoader loader(TensorDataset(x, y), options); });
  };
  EXPECT_THAT(error({.batch_size = 0}), HasSubstr("batch_size must be at least 1, found 0"));
  EXPECT_THAT(error({.workers = -1}), HasSubstr("workers must be 0 to 256, found -1"));
  EXPECT_THAT(error({.prefetch = 0}), HasSubstr("prefetch must be at least 1, found 0"));
  DataLoader loader(TensorDataset(x, y), {});
  EXPECT_THAT(message_of<ValueError>([&] { loader.set_position({.batch = 4}); }),
              HasSubstr("epoch 0, batch 4 is outside of a loader with 3 batches"));
}

TEST(DataLoader, TensorsOfDifferentLengthsAreAnError) {
  const auto [x, y] = numbered(3);
  const Tensor z = numbered(4).second;
  EXPECT_THAT(message_of<ShapeError>([&, x = x] { TensorDataset dataset(x, z); }),
              HasSubstr("tensor 0 is f32[3, 2], tensor 1 is i64[4]"));
}

TEST(DataLoader, AnEmptyDatasetHasNoBatches) {
  const auto [x, y] = numbered(0);
  DataLoader loader(TensorDataset(x, y), {.batch_size = 4});
  EXPECT_EQ(loader.size(), 0);
  EXPECT_TRUE(epoch_of(loader).empty());
}

}  // namespace
}  // namespace dyad::data
