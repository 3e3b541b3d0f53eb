#include "dyad/ops/attrs/indexing.h"

#include <gtest/gtest.h>

#include "dyad/base/error.h"
#include "dyad/runtime/cpu/copy.h"
#include "tests/runtime/support.h"

namespace dyad::testing {
namespace {

using Index = std::vector<std::int64_t>;

std::int64_t counted(std::int64_t index, std::int64_t size) {
  return index < 0 ? index + size : index;
}

class Indexing : public ::testing::TestWithParam<DType> {};

TEST_P(Indexing, Gather) {
  for (std::int64_t axis = 0; axis < 3; ++axis) {
    for (const DType index_type : {i64, i32}) {
      for (const Lie lie : {Lie::dense, Lie::reversed, Lie::spread}) {
        const ops::IndexAttrs attrs{axis};
        const Tensor x = random(GetParam(), {4, 5, 6}, 1, lie);
        const std::int64_t size = x.shape().numbers()[static_cast<std::size_t>(axis)];
        const Tensor index = random_indices(index_type, {3, 4, 5}, -size, size, 2);
        const Tensor y = run_kernel("gather", &attrs, {x, index}, GetParam(), {3, 4, 5});
        for_each_index(y.shape().numbers(), [&](auto at) {
          Index from(at.begin(), at.end());
          from[static_cast<std::size_t>(axis)] =
              counted(static_cast<std::int64_t>(value_at(index, at)), size);
          EXPECT_EQ(value_at(y, at), value_at(x, from));
        });
      }
    }
  }
}

TEST_P(Indexing, ScatterAdd) {
  if (GetParam() == boolean) GTEST_SKIP() << "bool has no addition";
  for (std::int64_t axis = 0; axis < 3; ++axis) {
    for (const Lie lie : {Lie::dense, Lie::reversed, Lie::spread}) {
      const ops::IndexAttrs attrs{axis};
      const Tensor x = random(GetParam(), {4, 5, 6}, 1, lie);
      const std::int64_t size = x.shape().numbers()[static_cast<std::size_t>(axis)];
      const Tensor index = random_indices(i64, {4, 3, 5}, -size, size, 2);
      const Tensor source = random(GetParam(), {4, 3, 5}, 3, lie);
      const Tensor y = run_kernel("scatter_add", &attrs, {x, index, source}, GetParam(), {4, 5, 6});
      const Tensor expected = make(f64, {4, 5, 6});
      for_each_index(x.shape().numbers(),
                     [&](auto at) { set_value(expected, at, value_at(x, at)); });
      for_each_index(index.shape().numbers(), [&](auto at) {
        Index to(at.begin(), at.end());
        to[static_cast<std::size_t>(axis)] =
            counted(static_cast<std::int64_t>(value_at(index, at)), size);
        set_value(expected, to, value_at(expected, to) + value_at(source, at));
      });
      EXPECT_EQ(values(y), values(expected));
    }
  }
}

TEST_P(Indexing, IndexSelect) {
  for (std::int64_t axis = 0; axis < 3; ++axis) {
    for (const Lie lie : {Lie::dense, Lie::reversed, Lie::spread}) {
      const ops::IndexAttrs attrs{axis};
      const Tensor x = random(GetParam(), {4, 5, 6}, 1, lie);
      const std::int64_t size = x.shape().numbers()[static_cast<std::size_t>(axis)];
      const Tensor index = random_indices(i32, {2, 3}, -size, size, 2);
      std::vector<std::int64_t> sizes{4, 5, 6};
      const auto place = sizes.begin() + axis;
      *place = 3;
      sizes.insert(place, 2);
      const Tensor y = run_kernel("index_select", &attrs, {x, index}, GetParam(),
                                  axis == 0   ? std::initializer_list<std::int64_t>{2, 3, 5, 6}
                                  : axis == 1 ? std::initializer_list<std::int64_t>{4, 2, 3, 6}
                                              : std::initializer_list<std::int64_t>{4, 5, 2, 3});
      for_each_index(y.shape().numbers(), [&](auto at) {
        Index from(at.begin(), at.end());
        const std::int64_t where[] = {at[static_cast<std::size_t>(axis)],
                                      at[static_cast<std::size_t>(axis) + 1]};
        from.erase(from.begin() + axis);
        from[static_cast<std::size_t>(axis)] =
            counted(static_cast<std::int64_t>(value_at(index, where)), size);
        EXPECT_EQ(value_at(y, at), value_at(x, from));
      });
    }
  }
}

TEST_P(Indexing, Concat) {
  for (std::int64_t axis = 0; axis < 3; ++axis) {
    for (const Lie lie : {Lie::dense, Lie::reversed, Lie::spread}) {
      const ops::AxisAttrs attrs{axis};
      const auto part = [&](std::int64_t along, unsigned seed) {
        return axis == 0   ? random(GetParam(), {along, 3, 4}, seed, lie)
               : axis == 1 ? random(GetParam(), {3, along, 4}, seed, lie)
                           : random(GetParam(), {3, 4, along}, seed, lie);
      };
      const std::vector<Tensor> parts{part(2, 1), part(0, 2), part(5, 3)};
      const Tensor y = run_kernel("concat", &attrs, parts, GetParam(),
                                  axis == 0   ? std::initializer_list<std::int64_t>{7, 3, 4}
                                  : axis == 1 ? std::initializer_list<std::int64_t>{3, 7, 4}
                                              : std::initializer_list<std::int64_t>{3, 4, 7});
      for_each_index(y.shape().numbers(), [&](auto at) {
        Index from(at.begin(), at.end());
        std::int64_t& along = from[static_cast<std::size_t>(axis)];
        const Tensor& source = along < 2 ? parts[0] : parts[2];
        if (along >= 2) along -= 2;
        EXPECT_EQ(value_at(y, at), value_at(source, from));
      });
    }
  }
}

TEST_P(Indexing, PadAndCrop) {
  const double value = GetParam() == boolean ? 1 : 2;
  const ops::PadAttrs attrs{Shape{1, -1, 0}, Shape{2, 0, -3}, value};
  for (const Lie lie : {Lie::dense, Lie::reversed}) {
    const Tensor x = random(GetParam(), {3, 4, 5}, 1, lie);
    const Tensor y = run_kernel("pad", &attrs, {x}, GetParam(), {6, 3, 2});
    for_each_index(y.shape().numbers(), [&](auto at) {
      const std::int64_t from[] = {at[0] - 1, at[1] + 1, at[2]};
      EXPECT_EQ(value_at(y, at), from[0] >= 0 && from[0] < 3 ? value_at(x, from) : value);
    });
  }
}

TEST_P(Indexing, CopyOfAnyLayout) {
  for (const Lie from : {Lie::dense, Lie::reversed, Lie::spread}) {
    for (const Lie to : {Lie::dense, Lie::reversed, Lie::spread}) {
      const Tensor x = random(GetParam(), {37, 5, 40}, 1, from),
                   y = make(GetParam(), {37, 5, 40}, to);
      runtime::copy_tensor(x, y);
      EXPECT_TRUE(same_bits(x, y));
    }
  }
  const Tensor row = random(GetParam(), {1, 40}, 1), wide = make(GetParam(), {3, 7, 40});
  runtime::copy_tensor(row, wide);
  for_each_index(wide.shape().numbers(), [&](auto at) {
    const std::int64_t from[] = {0, at[2]};
    EXPECT_EQ(value_at(wide, at), value_at(row, from));
  });
}

TEST_P(Indexing, FullAndArange) {
  const ops::FullAttrs full{Shape{3, 70}, GetParam() == boolean ? 1.0 : 2.0, GetParam()};
  EXPECT_EQ(values(run_kernel("full", &full, {}, GetParam(), {3, 70})),
            std::vector<double>(210, full.value));
  if (GetParam() == boolean) return;
  const ops::ArangeAttrs arange{5, 3, 2, GetParam()};
  EXPECT_EQ(values(run_kernel("arange", &arange, {}, GetParam(), {5})),
            (std::vector<double>{3, 5, 7, 9, 11}));
}

INSTANTIATE_TEST_SUITE_P(DTypes, Indexing,
                         ::testing::Values(f64, f32, f16, bf16, i64, i32, i16, i8, u8, boolean),
                         [](const auto& info) { return std::string(name_of(info.param)); });

TEST(Creation, SizesBecomeScalars) {
  const ops::SizeAttrs attrs{Dim(7)};
  EXPECT_EQ(values(run_kernel("size_tensor", &attrs, {}, i64, {})), std::vector<double>{7});
}

TEST(IndexErrors, NameOperatorIndexAndSize) {
  const ops::IndexAttrs attrs{1};
  const Tensor x = random(f32, {2, 3}, 1);
  const Tensor index = random_indices(i64, {2, 2}, 0, 3, 2);
  const std::int64_t at[] = {1, 0};
  for (const std::int64_t bad : {3, -4}) {
    set_value(index, at, static_cast<double>(bad));
    for (const char* name : {"gather", "scatter_add", "index_select"}) {
      const bool scatter = name == std::string("scatter_add"),
                 select = name == std::string("index_select");
      std::vector<Tensor> inputs{x, index};
      if (scatter) inputs.push_back(random(f32, {2, 2}, 3));
      try {
        select ? run_kernel(name, &attrs, inputs, f32, {2, 2, 2})
               : run_kernel(name, &attrs, inputs, f32, {2, scatter ? 3 : 2});
        FAIL() << "nothing was thrown";
      } catch (const IndexError& error) {
        EXPECT_EQ(error.message(),
                  std::string(name) + "(f32[2, 3], i64[2, 2]" + (scatter ? ", f32[2, 2]" : "") +
                      "): index " + std::to_string(bad) +
                      " at [1, 0] is out of range for axis 1 of size 3; allowed are -3 to 2");
      }
    }
  }
}

TEST(IndexErrors, NegativeOnesCountFromTheEndOnlyWhereTheyMay) {
  const ops::IndexAttrs attrs{.axis = 0, .from_end = false};
  const Tensor index = random_indices(i64, {2}, 0, 3, 1);
  set_value(index, Index{1}, -1);
  try {
    (void)run_kernel("index_select", &attrs, {random(f32, {3}, 1), index}, f32, {2});
    FAIL() << "nothing was thrown";
  } catch (const IndexError& error) {
    EXPECT_EQ(error.message(),
              "index_select(f32[3], i64[2]): index -1 at [1] is out of range for axis 0 of size 3; "
              "allowed are 0 to 2");
  }
}

TEST(IndexErrors, NothingIsAllowedOnAnEmptyAxis) {
  const ops::IndexAttrs attrs{0};
  EXPECT_THROW(run_kernel("index_select", &attrs,
                          {make(f32, {0, 3}), random_indices(i64, {2}, 0, 1, 1)}, f32, {2, 3}),
               IndexError);
  EXPECT_TRUE(
      values(run_kernel("index_select", &attrs, {make(f32, {0, 3}), make(i64, {0})}, f32, {0, 3}))
          .empty());
}

TEST(ScatterAdd, SumsDoNotDependOnThreads) {
  const ops::IndexAttrs attrs{0};
  const Tensor x = make(f32, {10, 300}), index = random_indices(i64, {2000, 1}, 0, 10, 1),
               source = make(f32, {2000, 300});
  const Tensor wide = make_view(index, Shape{2000, 300}, {1, 0}, 0);
  unsigned i = 0;
  for (const Tensor& t : {x, source}) {
    for_each_index(t.shape().numbers(), [&](auto at) {
      ++i;
      set_value(t, at, i * 2654435761u % 1000 * 1e-3 + 1e-7 * i);
    });
  }
  Tensor results[2];
  for (const int threads : {1, 2}) {
    const Threads scope(threads);
    results[threads - 1] = run_kernel("scatter_add", &attrs, {x, wide, source}, f32, {10, 300});
  }
  EXPECT_TRUE(same_bits(results[0], results[1]));
}

TEST(Scatter, RowsAreJoinedAsTheirElementsAre) {
  const ops::IndexAttrs attrs{0};
  const Tensor line = random_indices(i64, {200, 1, 1}, -37, 37, 1),
               rows = make_view(line, Shape{200, 5, 16}, {1, 0, 0}, 0),
               elements = make(i64, {200, 5, 16});
  runtime::copy_tensor(rows, elements);
  const Tensor zero = make_view(make(f32, {1}), Shape{37, 5, 16}, {0, 0, 0}, 0);
  for (const Tensor& x :
       {random(f32, {37, 5, 16}, 2), random(f32, {37, 5, 16}, 2, Lie::spread), zero}) {
    for (const Lie lie : {Lie::dense, Lie::spread}) {
      const Tensor source = random(f32, {200, 5, 16}, 3, lie);
      for (const char* name :
           {"scatter", "scatter_add", "scatter_mul", "scatter_max", "scatter_min"}) {
        EXPECT_EQ(values(run_kernel(name, &attrs, {x, rows, source}, f32, {37, 5, 16})),
                  values(run_kernel(name, &attrs, {x, elements, source}, f32, {37, 5, 16})))
            << name;
      }
    }
  }
}

TEST(ScatterAdd, HalfPrecisionIsRoundedOnce) {
  // 2048 + 1 + 1 in f16 steps of 2: one by one the ones would be lost.
  const ops::IndexAttrs attrs{0};
  const Tensor x = make(f16, {1}), index = random_indices(i64, {2}, 0, 1, 1),
               source = make(f16, {2});
  set_value(x, Index{0}, 2048);
  for (const std::int64_t i : {0, 1}) set_value(source, Index{i}, 1);
  EXPECT_EQ(values(run_kernel("scatter_add", &attrs, {x, index, source}, f16, {1})),
            std::vector<double>{2050});
}

}  // namespace
}  // namespace dyad::testing
