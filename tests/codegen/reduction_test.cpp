#include <gtest/gtest.h>

#include <functional>

#include "dyad/codegen/interpreter.h"
#include "dyad/codegen/kernel_provider.h"
#include "support.h"

namespace dyad::codegen {
namespace {

/// The order of a reduction as docs/design/kernels.md states it, for one float accumulator.
float reference(std::vector<float> x, float init,
                const std::function<float(float, float)>& combine) {
  for (bool first = true; first || x.size() > 1; first = false) {
    std::vector<float> results;
    for (std::size_t begin = 0; begin == 0 || begin < x.size(); begin += 4096) {
      float lanes[16];
      std::fill_n(lanes, 16, init);
      for (std::size_t r = begin; r < std::min(x.size(), begin + 4096); ++r) {
        lanes[r % 16] = combine(lanes[r % 16], x[r]);
      }
      for (int half : {8, 4, 2, 1}) {
        for (int l = 0; l < half; ++l) lanes[l] = combine(lanes[l], lanes[l + half]);
      }
      results.push_back(lanes[0]);
    }
    x = std::move(results);
  }
  return x.at(0);
}

ReductionProgram mean_of_squares() {
  ReductionBuilder b(f32, {f32});
  b.accumulate(0, b.element() * b.element());
  b.combine([](const Scalars& a, const Scalars& x) -> Scalars { return {a[0] + x[0]}; });
  b.finish([](const Scalars& a, Scalar count) -> Scalars {
    return {a[0] / convert(count, ScalarType::f32)};
  });
  return b.build();
}

struct ReductionLayout {
  const char* name;
  Sizes kept, reduced;  // sizes
  Sizes strides;        // of the input, kept dims first
};

class Reduction : public testing::TestWithParam<ReductionLayout> {};

/// Runs a mean of squares over an input, in one piece, in steps, or in partials; gives one float an
/// output.
std::vector<float> run(const ReductionLayout& l, const std::vector<float>& x, int how) {
  Sizes sizes = l.kept, out_strides = row_major(l.kept);
  sizes.insert(sizes.end(), l.reduced.begin(), l.reduced.end());
  out_strides.resize(sizes.size(), 0);
  Iteration it(sizes, static_cast<int>(l.reduced.size()));
  it.add(l.strides);
  it.add(out_strides);
  it.collapse();
  KernelRecipe recipe = reduction_recipe("mean_of_squares", mean_of_squares(), {f32}, {f32});
  it.specialize(recipe);
  const auto held = KernelProvider::instance().get(recipe);
  const CompiledKernel& kernel = *held;
  std::int64_t outputs = 1;
  for (std::int64_t s : l.kept) outputs *= s;
  std::vector<float> out(outputs, -99);
  void* data[] = {const_cast<float*>(x.data()), out.data()};
  KernelArgs args = it.args(data);
  EXPECT_EQ(kernel.units(args), outputs);
  if (how == 0) {
    kernel(args, 0, outputs);
  } else if (how == 1) {
    for (std::int64_t o = 0; o < outputs; o += 3) kernel(args, o, std::min(outputs, o + 3));
  } else {
    std::vector<char> scratch(kernel.scratch_bytes(args) + 64);
    args.scratch = scratch.data() + (-reinterpret_cast<std::uintptr_t>(scratch.data()) & 63);
    const std::int64_t partials = kernel.partials(args);
    for (std::int64_t p = (partials - 1) / 5 * 5; p >= 0; p -= 5)
      kernel.partial(args, p, std::min(partials, p + 5));
    kernel.combine(args, 0, outputs / 2);
    kernel.combine(args, outputs / 2, outputs);
  }
  return out;
}

TEST_P(Reduction, OrderDependsOnTheElementsNumberAlone) {
  const ReductionLayout& l = GetParam();
  std::int64_t last = 0, count = 1;
  for (std::size_t d = 0; d < l.strides.size(); ++d) {
    const std::int64_t size = d < l.kept.size() ? l.kept[d] : l.reduced[d - l.kept.size()];
    last += (size - 1) * l.strides[d];
    if (d >= l.kept.size()) count *= size;
  }
  const auto x = random_values<float>(last + 1);
  std::vector<float> expected;
  const Sizes inner(l.strides.begin() + static_cast<std::ptrdiff_t>(l.kept.size()),
                    l.strides.end());
  for_each_place(l.kept, [&](const Sizes& at) {
    std::vector<float> elements;
    for_each_place(l.reduced, [&](const Sizes& r) {
      const float v = x[offset(at, l.strides) + offset(r, inner)];
      elements.push_back(v * v);
    });
    expected.push_back(reference(elements, 0, [](float a, float b) { return a + b; }) /
                       static_cast<float>(count));
  });
  EXPECT_EQ(run(l, x, 0), expected);
  EXPECT_EQ(run(l, x, 1), expected);
  EXPECT_EQ(run(l, x, 2), expected);
}

INSTANTIATE_TEST_SUITE_P(
    All, Reduction,
    testing::Values(ReductionLayout{"rows", {7}, {100}, {100, 1}},
                    ReductionLayout{"long_rows", {3}, {20000}, {20000, 1}},
                    ReductionLayout{"short_rows", {700}, {5}, {5, 1}},
                    ReductionLayout{"columns", {37}, {50}, {1, 37}},
                    ReductionLayout{"many_columns", {600}, {33}, {1, 600}},
                    ReductionLayout{"long_columns", {10}, {9000}, {1, 10}},
                    ReductionLayout{"wide_columns", {1500}, {40}, {1, 1500}},
                    ReductionLayout{"columns_with_gaps", {10}, {500}, {1, 12}},
                    ReductionLayout{"all", {}, {12345}, {1}},
                    ReductionLayout{"more_than_the_caches_hold", {}, {700001}, {1}},
                    ReductionLayout{"all_of_a_matrix_with_gaps", {}, {70, 90}, {100, 1}},
                    ReductionLayout{"one_element", {}, {}, {}},
                    ReductionLayout{"rows_of_one", {50}, {1}, {1, 1}},
                    ReductionLayout{"channels_of_nchw", {6}, {4, 7, 9}, {63, 378, 9, 1}},
                    ReductionLayout{"channels_of_nhwc", {6}, {4, 63}, {1, 378, 6}},
                    ReductionLayout{"middle", {5, 8}, {300}, {2400, 1, 8}},
                    ReductionLayout{"outer_and_inner", {8}, {5, 300}, {300, 2400, 1}},
                    ReductionLayout{"strided_rows", {5}, {77}, {231, 3}},
                    ReductionLayout{"transposed_kept", {4, 6}, {20}, {20, 80, 1}},
                    ReductionLayout{"repeated", {4}, {5000}, {1, 0}}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(ReductionKernel, ThirdLevelOfChunks) {
  // More than 4096 chunks; the input repeats so that it needs little memory.
  const ReductionLayout l{"huge", {}, {4097 * 4096 / 64 + 1, 64}, {0, 1}};
  const auto x = random_values<float>(64);
  std::vector<float> elements;
  elements.reserve(l.reduced[0] * 64);
  for (std::int64_t i = 0; i < l.reduced[0] * 64; ++i) elements.push_back(x[i % 64] * x[i % 64]);
  const float expected = reference(elements, 0, [](float a, float b) { return a + b; }) /
                         static_cast<float>(elements.size());
  EXPECT_EQ(run(l, x, 0), std::vector<float>{expected});
}

TEST(ReductionKernel, ArgmaxTakesTheFirstOfEquals) {
  ReductionBuilder b(f32, {i64, f32});
  b.accumulate(-INFINITY, b.element());
  b.accumulate(ScalarType::i64, INT64_MAX, b.index());
  b.combine([](const Scalars& a, const Scalars& x) -> Scalars {
    const Scalar better = (x[0] > a[0]) | ((x[0] == a[0]) & (x[1] < a[1]));
    return {select(better, x[0], a[0]), select(better, x[1], a[1])};
  });
  b.finish([](const Scalars& a, Scalar) -> Scalars { return {a[1], a[0]}; });
  const ReductionProgram program = b.build();
  struct Case {
    std::int64_t rows, n;
    bool across;
  };
  for (const auto& [rows, n, across] :
       {Case{11, 9001, false}, {11, 9001, true}, {1, 600001, false}}) {
    auto x = random_values<float>(rows * n);
    for (float& v : x) v = std::round(v * 50);
    Iteration it(Sizes{rows, n}, 1);
    it.add(across ? Sizes{1, rows} : Sizes{n, 1});
    it.add_index();
    it.add(Sizes{1, 0});
    it.add(Sizes{1, 0});
    it.collapse();
    KernelRecipe recipe = reduction_recipe("argmax", program, {f32}, {i64, f32});
    it.specialize(recipe);
    EXPECT_EQ(recipe.kind, across ? KernelKind::reduce_columns : KernelKind::reduce_rows);
    std::vector<std::int64_t> at(rows);
    std::vector<float> value(rows);
    void* data[] = {x.data(), nullptr, at.data(), value.data()};
    (*KernelProvider::instance().get(recipe))(it.args(data), 0, rows);
    for (std::int64_t row = 0; row < rows; ++row) {
      std::int64_t best = 0;
      const std::int64_t first = across ? row : row * n, step = across ? rows : 1;
      const auto element = [&](std::int64_t r) { return x[first + r * step]; };
      for (std::int64_t r = 1; r < n; ++r) {
        if (element(r) > element(best)) best = r;
      }
      EXPECT_EQ(at[row], best);
      EXPECT_EQ(value[row], element(best));
    }
  }
}

TEST(ReductionKernel, OfNothingGivesTheInitialValue) {
  const ReductionLayout l{"empty", {3}, {0}, {1, 1}};
  Iteration it(Sizes{3, 0}, 1);
  it.add(Sizes{0, 1});
  it.add(Sizes{1, 0});
  it.collapse();
  ReductionBuilder b(i32, {i64});
  b.accumulate(b.sum_type(), 0, convert(b.element(), b.sum_type()));
  b.combine([](const Scalars& a, const Scalars& x) -> Scalars { return {a[0] + x[0]}; });
  b.finish([](const Scalars& a, Scalar count) -> Scalars { return {a[0] + count}; });
  KernelRecipe recipe = reduction_recipe("sum", b.build(), {i32}, {i64});
  it.specialize(recipe);
  std::int64_t out[3] = {7, 7, 7};
  void* data[] = {nullptr, out};
  (*KernelProvider::instance().get(recipe))(it.args(data), 0, 3);
  EXPECT_EQ(std::vector<std::int64_t>(out, out + 3), (std::vector<std::int64_t>{0, 0, 0}));
}

TEST(ReductionKernel, SmallIntegersSumInI64) {
  ReductionBuilder b(u8, {i64});
  b.accumulate(b.sum_type(), 0, convert(b.element(), b.sum_type()));
  b.combine([](const Scalars& a, const Scalars& x) -> Scalars { return {a[0] + x[0]}; });
  b.finish([](const Scalars& a, Scalar) -> Scalars { return {a[0]}; });
  KernelRecipe recipe = reduction_recipe("sum", b.build(), {u8}, {i64});
  const std::vector<std::uint8_t> x(10000, 255);
  Iteration it(Sizes{10000}, 1);
  it.add(Sizes{1});
  it.add(Sizes{0});
  it.specialize(recipe);
  std::int64_t sum = 0;
  void* data[] = {const_cast<std::uint8_t*>(x.data()), &sum};
  (*KernelProvider::instance().get(recipe))(it.args(data), 0, 1);
  EXPECT_EQ(sum, 2550000);
}

}  // namespace
}  // namespace dyad::codegen
