#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <thread>
#include <vector>

#include "dyad/ops/attrs/linalg.h"
#include "dyad/runtime/cpu/gemm.h"
#include "dyad/runtime/cpu/gemm_plan.h"
#include "dyad/runtime/cpu/openblas_kernels.h"
#include "tests/runtime/support.h"

namespace dyad::testing {
namespace {

using ops::MatmulAttrs;

/// The product of the last two axes in f64, for operands of one rank.
double reference(const Tensor& a, const Tensor& b, std::span<const std::int64_t> index,
                 const MatmulAttrs& attrs) {
  const std::size_t rank = index.size();
  std::vector<std::int64_t> ia(index.begin(), index.end()), ib(index.begin(), index.end());
  for (std::size_t i = 0; i + 2 < rank; ++i) {
    if (a.shape().numbers()[i] == 1) ia[i] = 0;
    if (b.shape().numbers()[i] == 1) ib[i] = 0;
  }
  const std::int64_t k = a.shape().numbers()[attrs.transpose_a ? rank - 2 : rank - 1];
  double sum = 0;
  for (std::int64_t i = 0; i < k; ++i) {
    ia[rank - 2] = attrs.transpose_a ? i : index[rank - 2];
    ia[rank - 1] = attrs.transpose_a ? index[rank - 2] : i;
    ib[rank - 2] = attrs.transpose_b ? index[rank - 1] : i;
    ib[rank - 1] = attrs.transpose_b ? i : index[rank - 1];
    sum += value_at(a, ia) * value_at(b, ib);
  }
  return sum;
}

void check(const Tensor& a, const Tensor& b, const MatmulAttrs& attrs,
           std::initializer_list<std::int64_t> sizes) {
  const Tensor c = run_kernel("matmul", &attrs, {a, b}, a.dtype(), sizes);
  for_each_index(c.shape().numbers(), [&](auto index) {
    // Elements are multiples of 1/8: sums of products are exact in f32, so only the last rounding
    // of half precision counts, and any order gives the same.
    EXPECT_EQ(value_at(c, index), rounded(reference(a, b, index, attrs), a.dtype()));
  });
}

struct Sizes {
  std::int64_t m, n, k;
};

TEST(Matmul, EverySizeClassAndTransposition) {
  for (const Sizes s : {Sizes{1, 1, 1},
                        {1, 40, 33},
                        {5, 7, 3},
                        {16, 33, 20},
                        {64, 48, 32},
                        {130, 20, 17},
                        {33, 1, 50}}) {
    for (const bool ta : {false, true}) {
      for (const bool tb : {false, true}) {
        const auto a = ta ? random(f32, {s.k, s.m}, 1) : random(f32, {s.m, s.k}, 1);
        const auto b = tb ? random(f32, {s.n, s.k}, 2) : random(f32, {s.k, s.n}, 2);
        check(a, b, {ta, tb}, {s.m, s.n});
      }
    }
  }
}

TEST(Matmul, RowsAPowerOfTwoApart) {
  // Without AVX-512 these go to another library than their neighbours.
  for (const Sizes s : {Sizes{40, 1024, 256}, {72, 512, 260}, {256, 48, 264}}) {
    for (const bool ta : {false, true}) {
      const auto a = ta ? random(f32, {s.k, s.m}, 1) : random(f32, {s.m, s.k}, 1);
      check(a, random(f32, {s.k, s.n}, 2), {ta, false}, {s.m, s.n});
    }
  }
}

TEST(Matmul, EveryDType) {
  for (const DType dtype : {f64, f32, f16, bf16, i64, i32, i16, i8, u8}) {
    check(random(dtype, {9, 20}, 3), random(dtype, {20, 40}, 4), {}, {9, 40});
    check(random(dtype, {9, 20}, 3), random(dtype, {40, 20}, 4), {.transpose_b = true}, {9, 40});
  }
}

/// The library may be told to do without what the CPU has. A process of its own is.
TEST(MatmulDeathTest, BFloat16WhereTheLibraryIsToDoWithoutItsUnits) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  // NOLINTBEGIN(concurrency-mt-unsafe): the process has one thread.
  const auto there = [] {
    setenv("ONEDNN_MAX_CPU_ISA", "AVX2", 1);
    setenv("DNNL_MAX_CPU_ISA", "AVX2", 1);
    check(random(bf16, {40, 64}, 3), random(bf16, {64, 40}, 4), {}, {40, 40});
    std::exit(::testing::Test::HasFailure() ? 1 : 0);
  };
  // NOLINTEND(concurrency-mt-unsafe)
  EXPECT_EXIT(there(), ::testing::ExitedWithCode(0), "");
}

TEST(Matmul, IntegersWrap) {
  const Tensor a = make(i8, {1, 2}), b = make(i8, {2, 1});
  for_each_index(a.shape().numbers(), [&](auto index) { set_value(a, index, 100); });
  for_each_index(b.shape().numbers(), [&](auto index) { set_value(b, index, 3); });
  const MatmulAttrs attrs;
  const Tensor c = run_kernel("matmul", &attrs, {a, b}, i8, {1, 1});
  EXPECT_EQ(values(c), std::vector<double>{600 - 512});
}

TEST(Matmul, AnyStrides) {
  for (const DType dtype : {f32, f64, bf16}) {
    for (const Lie lie : {Lie::dense, Lie::reversed, Lie::spread}) {
      for (const Lie other : {Lie::dense, Lie::reversed, Lie::spread}) {
        check(random(dtype, {12, 30}, 5, lie), random(dtype, {30, 21}, 6, other), {}, {12, 21});
        check(random(dtype, {2, 3, 5, 8}, 7, lie), random(dtype, {2, 3, 8, 6}, 8, other), {},
              {2, 3, 5, 6});
      }
    }
  }
}

TEST(Matmul, BatchesBroadcast) {
  for (const DType dtype : {f32, i32}) {
    check(random(dtype, {4, 5, 8}, 1), random(dtype, {1, 8, 6}, 2), {}, {4, 5, 6});
    check(random(dtype, {1, 5, 8}, 1), random(dtype, {4, 8, 6}, 2), {}, {4, 5, 6});
    check(random(dtype, {3, 1, 5, 8}, 1), random(dtype, {1, 4, 8, 6}, 2), {}, {3, 4, 5, 6});
    check(random(dtype, {3, 2, 1, 8}, 1), random(dtype, {1, 1, 8, 6}, 2), {}, {3, 2, 1, 6});
  }
}

TEST(Matmul, BatchOfOneSideOnly) {
  // A rank-2 operand is shared by the whole batch.
  const Tensor a = random(f32, {3, 4, 5, 8}, 1), b = random(f32, {8, 6}, 2);
  const MatmulAttrs attrs;
  const Tensor c = run_kernel("matmul", &attrs, {a, b}, f32, {3, 4, 5, 6});
  const Tensor wide = make_view(b, Shape{1, 1, 8, 6}, {0, 0, 6, 1}, 0);
  for_each_index(c.shape().numbers(), [&](auto index) {
    EXPECT_EQ(value_at(c, index), reference(a, wide, index, attrs));
  });
}

TEST(Matmul, EmptySizes) {
  const MatmulAttrs attrs;
  EXPECT_EQ(
      values(run_kernel("matmul", &attrs, {make(f32, {0, 3}), make(f32, {3, 2})}, f32, {0, 2}))
          .size(),
      0u);
  EXPECT_EQ(
      values(run_kernel("matmul", &attrs, {make(f32, {2, 0}), make(f32, {0, 3})}, f32, {2, 3})),
      std::vector<double>(6, 0.0));
  EXPECT_EQ(values(run_kernel("matmul", &attrs, {make(f64, {0, 2, 4}), make(f64, {1, 4, 3})}, f64,
                              {0, 2, 3}))
                .size(),
            0u);
}

TEST(Matmul, SameBitsRunToRunAndAtEachThreadCount) {
  const Tensor a = waves(f32, {130, 300}, 0), b = waves(f32, {300, 140}, 39000);
  const MatmulAttrs attrs;
  for (const int threads : {1, 2}) {
    const Threads scope(threads);
    const Tensor first = run_kernel("matmul", &attrs, {a, b}, f32, {130, 140});
    for (int round = 0; round < 3; ++round) {
      EXPECT_TRUE(same_bits(first, run_kernel("matmul", &attrs, {a, b}, f32, {130, 140})));
    }
    for_each_index(first.shape().numbers(), [&](auto index) {
      EXPECT_NEAR(value_at(first, index), reference(a, b, index, attrs), 1e-4);
    });
  }
}

TEST(Matmul, LoopsAgreeWithThePlannedProduct) {
  const Tensor a = random(f32, {37, 19}, 1), b = random(f32, {19, 70}, 2);
  const Tensor planned = make(f32, {37, 70}), loops = make(f32, {37, 70});
  runtime::cpu::Gemm g;
  g.m = 37;
  g.n = 70;
  g.k = 19;
  g.a_row = 19;
  g.a_column = 1;
  g.b_row = 70;
  g.b_column = 1;
  g.c_row = 70;
  const Tensor bias = random(f32, {70}, 3);
  runtime::cpu::gemm(g, a.raw_data(), b.raw_data(), bias.raw_data(), planned.raw_data());
  runtime::cpu::gemm_loops(g, a.raw_data(), b.raw_data(), bias.raw_data(), loops.raw_data());
  EXPECT_TRUE(same_bits(planned, loops));
  runtime::cpu::gemm_loops(g, a.raw_data(), b.raw_data(), nullptr, loops.raw_data(), true);
  for_each_index(loops.shape().numbers(), [&](auto index) {
    const std::int64_t column = index[1];
    EXPECT_EQ(value_at(loops, index), 2 * value_at(planned, index) - value_at(bias, {&column, 1}));
  });
}

/// The results for each of these numbers of rows, of a thread that has made no product before.
std::vector<Tensor> on_a_fresh_thread(const std::vector<std::int64_t>& rows, int threads,
                                      const std::function<Tensor(std::int64_t)>& product) {
  std::vector<Tensor> results;
  std::thread([&] {
    const Threads scope(threads);
    for (const std::int64_t m : rows) results.push_back(product(m));
  }).join();
  return results;
}

TEST(Matmul, RowsThatKeepChangingHaveTheBitsOfAPrimitiveOfTheirOwn) {
  // Each comes often enough to be put together of pieces and to get its own.
  constexpr std::array<std::int64_t, 10> kNumbers{100, 17, 31, 33, 64, 77, 129, 300, 45, 520};
  std::vector<std::int64_t> rows;
  for (int time = 1; time <= 6; ++time) rows.insert(rows.end(), kNumbers.begin(), kNumbers.end());
  for (const DType dtype : {f32, bf16}) {
    for (const Sizes s : {Sizes{520, 130, 1500}, {520, 300, 64}, {520, 10, 700}}) {
      const Tensor a = waves(dtype, {s.m, s.k}, 0), bias = waves(dtype, {s.n}, 7);
      for (const bool by_columns : {true, false}) {
        const Tensor b = waves(dtype, {s.k, s.n}, 1 << 20);  // or its transpose, n rows of k
        const auto product = [&](std::int64_t m) {
          runtime::cpu::Gemm g{.dtype = dtype, .m = m, .n = s.n, .k = s.k};
          g.a_row = s.k;
          g.a_column = 1;
          g.b_row = by_columns ? 1 : s.n;
          g.b_column = by_columns ? s.k : 1;
          g.c_row = s.n;
          const Tensor c = make(dtype, {m, s.n});
          runtime::cpu::gemm(g, a.raw_data(), b.raw_data(), m % 2 == 0 ? nullptr : bias.raw_data(),
                             c.raw_data());
          return c;
        };
        for (const int threads : {1, 2}) {
          const std::vector<Tensor> changing = on_a_fresh_thread(rows, threads, product);
          for (std::size_t i = 0; i < rows.size(); ++i) {
            const Tensor alone = i < kNumbers.size()
                                     ? on_a_fresh_thread({rows[i]}, threads, product)[0]
                                     : changing[i % kNumbers.size()];
            EXPECT_TRUE(same_bits(changing[i], alone))
                << rows[i] << " rows of " << s.k << " and " << s.n << " columns, " << threads
                << " threads, time " << i / kNumbers.size() + 1;
          }
        }
      }
    }
  }
}

TEST(Linear, WithAndWithoutBias) {
  const NoAttrs attrs;
  for (const DType dtype : {f64, f32, f16, bf16}) {
    for (const Lie lie : {Lie::dense, Lie::reversed, Lie::spread}) {
      for (const std::int64_t rows : {1, 3, 40}) {
        const Tensor x = random(dtype, {2, rows, 24}, 1, lie), w = random(dtype, {18, 24}, 2, lie);
        const Tensor bias = random(dtype, {18}, 3, lie);
        for (const bool with_bias : {false, true}) {
          const Tensor y = run_kernel("linear", &attrs, {x, w, with_bias ? bias : Tensor()}, dtype,
                                      {2, rows, 18});
          for_each_index(y.shape().numbers(), [&](auto index) {
            double sum = 0;
            for (std::int64_t k = 0; k < 24; ++k) {
              const std::int64_t ix[] = {index[0], index[1], k}, iw[] = {index[2], k};
              sum += value_at(x, ix) * value_at(w, iw);
            }
            if (with_bias) sum += value_at(bias, {&index[2], 1});
            EXPECT_EQ(value_at(y, index), rounded(sum, dtype));
          });
        }
      }
    }
  }
}

TEST(Linear, VectorAndEmptyInputs) {
  const NoAttrs attrs;
  const Tensor w = random(f32, {4, 3}, 1), bias = random(f32, {4}, 2);
  const Tensor y = run_kernel("linear", &attrs, {random(f32, {3}, 3), w, bias}, f32, {4});
  EXPECT_EQ(values(y).size(), 4u);
  EXPECT_EQ(values(run_kernel("linear", &attrs, {make(f32, {0, 3}), w, bias}, f32, {0, 4})).size(),
            0u);
  // No input features: the bias alone.
  EXPECT_EQ(values(run_kernel("linear", &attrs, {make(f32, {1, 0}), make(f32, {4, 0}), bias}, f32,
                              {1, 4})),
            values(bias));
}

TEST(GemmPlan, IsAFunctionOfTheProblem) {
  using runtime::cpu::GemmPlan;
  runtime::cpu::Gemm g;
  g.m = 4;
  g.n = g.k = 8;
  g.a_row = g.k;
  g.a_column = 1;
  g.b_row = g.n;
  g.b_column = 1;
  g.c_row = g.n;
  EXPECT_EQ(runtime::cpu::plan_gemm(g, 2).threads, 1) << "too little work for a team";
  g.dtype = i32;
  EXPECT_EQ(runtime::cpu::plan_gemm(g, 2).method, GemmPlan::Method::loops);
}

TEST(GemmPlan, ThreadsMakeColumnsOfAWeightsGradient) {
  // A has 40 rows of 1024, so its transpose and B's 1100 columns are shared out in two parts.
  runtime::cpu::Gemm g;
  g.m = 40;
  g.n = 1100;
  g.k = 1024;
  g.a_row = 1;
  g.a_column = 40;
  g.b_row = 2048;
  g.b_column = 1;
  g.c_row = g.n;
  const runtime::cpu::GemmPlan plan = runtime::cpu::plan_gemm(g, 2);
  if (plan.method != runtime::cpu::GemmPlan::Method::product) GTEST_SKIP() << "another library's";
  EXPECT_TRUE(plan.by_columns);
  EXPECT_FALSE(runtime::cpu::plan_gemm(g, 1).by_columns);
  const Tensor a = random(f32, {1024, 40}, 1), b = random(f32, {1024, 2048}, 2);
  const Tensor bias = random(f32, {1100}, 3);
  const Tensor made = make(f32, {40, 1100}), loops = make(f32, {40, 1100});
  const Threads scope(2);
  runtime::cpu::gemm(g, a.raw_data(), b.raw_data(), bias.raw_data(), made.raw_data());
  runtime::cpu::gemm_loops(g, a.raw_data(), b.raw_data(), bias.raw_data(), loops.raw_data());
  EXPECT_TRUE(same_bits(made, loops));  // of whole numbers
}

TEST(Matmul, BatchesThatLieBackwards) {
  const auto flipped = [](const Tensor& t) {
    const TensorImpl& impl = *t.impl();
    Strides strides = impl.strides;
    strides[0] = -strides[0];
    return make_view(t, impl.shape, strides, (impl.shape[0].number() - 1) * impl.strides[0]);
  };
  for (const Sizes s : {Sizes{1, 1, 1}, {4, 3, 2}, {33, 48, 20}}) {
    const Tensor a = random(f32, {3, s.m, s.k}, 1), b = random(f32, {3, s.k, s.n}, 2);
    check(flipped(a), b, {}, {3, s.m, s.n});
    check(a, flipped(b), {}, {3, s.m, s.n});
    check(flipped(a), flipped(b), {}, {3, s.m, s.n});
  }
}

/// As windows over a tensor do, which the library does not take.
TEST(Matmul, BatchesWithElementsInCommon) {
  for (const DType dtype : {f32, f64, bf16}) {
    // Nine windows of three rows of four, by columns: each begins one row after the one before.
    const Tensor rows = random(dtype, {11, 4}, 1);
    const Tensor windows = make_view(rows, {9, 4, 3}, {4, 1, 4}, 0);
    const Tensor b = random(dtype, {9, 3, 5}, 2), a = random(dtype, {9, 6, 4}, 3);
    check(windows, b, {}, {9, 4, 5});
    check(a, windows, {}, {9, 6, 3});
    check(windows, windows, {.transpose_b = true}, {9, 4, 4});
    // Apart, one within the other: heads side by side in each row.
    const Tensor heads = make_view(random(dtype, {5, 8}, 4), {2, 5, 4}, {4, 8, 1}, 0);
    check(heads, heads, {.transpose_b = true}, {2, 5, 5});
  }
}

#if defined(__x86_64__) && defined(__GNUC__)
TEST(OpenBlas, RunsKernelsWithTheCpusVectors) {
  // A CPU that it does not know it takes for one without AVX.
  if (std::getenv("OPENBLAS_CORETYPE") != nullptr) GTEST_SKIP() << "chosen by OPENBLAS_CORETYPE";
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) GTEST_SKIP();
  EXPECT_NE(runtime::cpu::openblas_kernels(), "Prescott");
  EXPECT_EQ(std::getenv("OPENBLAS_CORETYPE"), nullptr);
}
#endif

}  // namespace
}  // namespace dyad::testing
