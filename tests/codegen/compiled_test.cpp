#include <gtest/gtest.h>

#include <mutex>
#include <random>
#include <set>
#include <thread>

#include "dyad/codegen/interpreter.h"
#include "dyad/codegen/kernel_provider.h"
#include "support.h"

namespace dyad::codegen {
namespace {

std::shared_ptr<const CompiledKernel> compiled(const KernelRecipe& recipe) {
  return KernelProvider::instance().get(recipe);
}

/// Runs a unary function of T over inputs by both ways and counts results that differ in a bit.
template <class T, class F>
std::size_t compare_unary(const std::vector<T>& x, F&& f) {
  ScalarProgram p;
  p.output(f(p.input(dtype_of<T>)));
  const KernelRecipe recipe = pointwise_recipe("unary", std::move(p), {dtype_of<T>}, {dtype_of<T>});
  Iteration it(Sizes{static_cast<std::int64_t>(x.size())});
  it.add(Sizes{1});
  it.add(Sizes{1});
  std::vector<T> a(x.size()), b(x.size());
  const auto n = static_cast<std::int64_t>(x.size());
  void* data[] = {const_cast<T*>(x.data()), a.data()};
  (*compiled(recipe))(it.args(data), 0, n);
  data[1] = b.data();
  (*interpret(recipe))(it.args(data), 0, n);
  return different_bits(a, b);
}

using Function = Scalar (*)(Scalar);
struct Named {
  const char* name;
  Function function;
};

class SameBits : public testing::TestWithParam<Named> {};

TEST_P(SameBits, AsTheInterpreter) {
  std::size_t count = 100'003;
#ifdef DYAD_PLAIN_LOOPS
  count = 1003;
#endif
  const auto f = GetParam().function;
  EXPECT_EQ(compare_unary(random_values<float>(count, 5, -20, 20), f), 0u);
  EXPECT_EQ(compare_unary(edge_values<float>(count, 6), f), 0u);
  EXPECT_EQ(compare_unary(random_values<double>(count / 4, 7, -20, 20), f), 0u);
  EXPECT_EQ(compare_unary(edge_values<double>(count / 4, 8), f), 0u);
}

Scalar gelu(Scalar x) { return 0.5 * x * (1.0 + erf(x * 0.7071067811865476)); }

INSTANTIATE_TEST_SUITE_P(
    All, SameBits,
    testing::Values(
        Named{"exp", [](Scalar x) { return exp(x); }},
        Named{"exp2", [](Scalar x) { return exp2(x); }},
        Named{"expm1", [](Scalar x) { return expm1(x); }},
        Named{"log", [](Scalar x) { return log(x); }},
        Named{"log1p", [](Scalar x) { return log1p(x); }},
        Named{"tanh", [](Scalar x) { return tanh(x); }},
        Named{"sigmoid", [](Scalar x) { return sigmoid(x); }},
        Named{"erf", [](Scalar x) { return erf(x); }}, Named{"gelu", gelu},
        Named{"sin", [](Scalar x) { return sin(x); }},
        Named{"cos", [](Scalar x) { return cos(x); }},
        Named{"tan", [](Scalar x) { return tan(x); }},
        Named{"pow", [](Scalar x) { return pow(x, x + 1.5); }},
        Named{"rsqrt", [](Scalar x) { return rsqrt(x); }},
        Named{"rounding",
              [](Scalar x) { return floor(x) + ceil(x * 0.7) + trunc(x * 1.3) + rint(x * 0.1); }},
        Named{"ldexp",
              [](Scalar x) {
                return ldexp(select(x != x, x, copysign(x.like(1.3), x)),
                             rint(min(x.like(250.0), max(x.like(-250.0), x * 13.0))));
              }},
        Named{"wide_ldexp",
              [](Scalar x) {
                const Scalar wide = convert(x, ScalarType::f64);
                return convert(ldexp(wide.like(0.7), rint(min(wide.like(99.0),
                                                              max(wide.like(-160.0), wide * 7.0)))),
                               x.type()) +
                       x;
              }},
        Named{"through_half", [](Scalar x) { return convert(cast(x, f16), x.type()); }},
        Named{"through_bfloat", [](Scalar x) { return convert(cast(x, bf16), x.type()); }},
        Named{"through_i64",
              [](Scalar x) { return convert(convert(x, ScalarType::i64), x.type()); }},
        Named{"through_i32",
              [](Scalar x) { return convert(convert(x, ScalarType::i32), x.type()); }},
        Named{"minmax",
              [](Scalar x) {
                return min(max(x, -1.0), x * 0.5) + maximum(x, 0.0) * minimum(x, 1.0);
              }},
        Named{"zero_by_zero",
              [](Scalar x) {
                const Scalar whole = convert(x, ScalarType::i64);
                const Scalar zero = convert(whole - whole, x.type());
                return select(x < 0.5, zero / zero + 0.0 / zero, x.like(0.0));
              }},
        Named{"compare", [](Scalar x) { return select((x < 0.5) != (x * x >= 1.0), x, -x); }}),
    [](const auto& info) { return std::string(info.param.name); });

/// Runs a program of x with stores past the caches into outputs that begin `shift` elements after
/// an aligned place, and compares with the interpreter.
template <class T, class F>
void expect_streams(F&& f, std::size_t outputs) {
  ScalarProgram p;
  for (const Scalar y : f(p.input(dtype_of<T>))) p.output(y);
  const KernelRecipe recipe =
      pointwise_recipe("streams", std::move(p), {dtype_of<T>}, std::vector(outputs, dtype_of<T>));
  for (const std::int64_t n : {0, 1, 15, 16, 33, 200}) {
    for (std::int64_t shift = 0; shift < 18; ++shift) {
      const std::vector<T> x = random_values<T>(static_cast<std::size_t>(n), 3);
      Iteration it(Sizes{n});
      for (std::size_t i = 0; i <= outputs; ++i) it.add(Sizes{1});
      const auto size = static_cast<std::size_t>(n + shift + 64);
      std::vector<std::vector<T>> a(outputs, std::vector<T>(size)), b = a;
      std::vector<void*> into_a{const_cast<T*>(x.data())}, into_b = into_a;
      for (std::size_t o = 0; o < outputs; ++o) {
        into_a.push_back(a[o].data() + shift);
        into_b.push_back(b[o].data() + shift);
      }
      DyadKernelArgs args = it.args(into_a.data());
      args.flags = DYAD_KERNEL_STREAM;
      (*compiled(recipe))(args, 0, n);
      (*interpret(recipe))(it.args(into_b.data()), 0, n);
      for (std::size_t o = 0; o < outputs; ++o) {
        EXPECT_EQ(different_bits(a[o], b[o]), 0u) << n << " elements, from " << shift;
      }
    }
  }
}

TEST(SameBits, LongProgramsOfFewElements) {
  // Such programs compute on several registers side by side, more of them the longer they are.
  const Function one = [](Scalar x) {
    return 0.5 * x * (1.0 + tanh(0.8 * (x + 0.04 * x * x * x)));
  };
  const Function four = [](Scalar x) { return tanh(1.5 * tanh(x * tanh(x + tanh(2.0 * x)))); };
  const std::vector<float> x = random_values<float>(1100, 5, -3, 3);
  for (const std::ptrdiff_t n : {1, 15, 16, 17, 63, 64, 65, 127, 128, 129, 255, 257, 1024, 1100}) {
    const std::vector<float> few(x.begin(), x.begin() + n);
    const std::vector<double> wide(few.begin(), few.end());
    for (const Function f : {one, four}) {
      EXPECT_EQ(compare_unary(few, f), 0u) << n;
      EXPECT_EQ(compare_unary(wide, f), 0u) << n;
    }
  }
}

TEST(SameBits, StoresPastTheCaches) {
  using Results = std::vector<Scalar>;
  const auto small = [](Scalar x) { return Results{x * 2.0}; };
  const auto large = [](Scalar x) { return Results{gelu(x)}; };
  const auto several = [](Scalar x) { return Results{gelu(x), x * 3.0}; };
  expect_streams<float>(small, 1);
  expect_streams<float>(large, 1);
  expect_streams<float>(several, 2);
  expect_streams<double>(small, 1);
  expect_streams<double>(large, 1);
  expect_streams<double>(several, 2);
}

TEST(SameBits, Integers) {
  const auto check = [&]<class T>(T) {
    const auto f = [](Scalar x) {
      const Scalar y = (x >> 3) ^ (x << 5);
      return x / y + (x % (y & 255)) * 3 - floor_div(y, x) + floor_mod(x, y) + abs(x) + min(x, y) +
             shift_right_logical(x, 7) + ~y;
    };
    EXPECT_EQ(compare_unary(edge_values<T>(50'003), f), 0u);
  };
  check(std::int32_t{});
  check(std::int64_t{});
}

TEST(SameBits, RandomNumbers) {
  for (ScalarType type : {ScalarType::f32, ScalarType::f64}) {
    ScalarProgram p;
    const Scalar counter = p.input(i64);
    p.output(uniform(p.param(0, ScalarType::i64), counter, type));
    p.output(normal(p.param(0, ScalarType::i64), counter, type));
    const DType out = scalar::dtype_of_type(type);
    KernelRecipe recipe = pointwise_recipe("random", std::move(p), {i64}, {out, out});
    recipe.inputs[0].index = true;
    constexpr std::int64_t n = 10'007;
    std::vector<char> bits[2];
    const auto run = [&](const CompiledKernel& kernel, int which) {
      bits[which].resize(2 * n * size_of(out));
      Iteration it(Sizes{n});
      for (int i = 0; i < 3; ++i) it.add(Sizes{1});
      const std::uint64_t key = 0x123456789abcdef;
      void* data[] = {reinterpret_cast<void*>(std::intptr_t{1} << 40), bits[which].data(),
                      bits[which].data() + n * size_of(out)};
      kernel(it.args(data, &key), 0, n);
    };
    run(*compiled(recipe), 0);
    run(*interpret(recipe), 1);
    EXPECT_EQ(bits[0], bits[1]);
  }
}

TEST(Compiled, ComesFromTheCompilerOrItsCache) {
#ifdef DYAD_PLAIN_LOOPS
  GTEST_SKIP() << "this build interprets";
#endif
  ScalarProgram p;
  p.output(p.input(f32) * 3.25f);
  const KernelOrigin origin =
      compiled(pointwise_recipe("scaled", std::move(p), {f32}, {f32}))->origin();
  EXPECT_TRUE(origin == KernelOrigin::llvm || origin == KernelOrigin::disk);
}

TEST(Compiled, SeveralThreadsShareTheWork) {
  constexpr int kKernels = 12;
  constexpr std::int64_t n = 203;
  // In no cache on the disk, so it is compiled.
  const double unique = std::random_device()();
  std::vector<KernelRecipe> recipes;
  for (int i = 0; i < kKernels; ++i) {
    ScalarProgram p;
    const Scalar x = p.input(f32);
    p.output(exp(x * (0.5 + i)) + unique);
    recipes.push_back(pointwise_recipe("shared_out", std::move(p), {f32}, {f32}));
  }
  std::vector<const KernelRecipe*> all;
  for (const KernelRecipe& r : recipes) all.push_back(&r);
  std::set<std::thread::id> threads;
  std::mutex mutex;
  const CompileTeam team{3, [&](int count, const std::function<void(int)>& job) {
                           std::vector<std::thread> members;
                           for (int i = 0; i < count; ++i) {
                             members.emplace_back([&, i] {
                               {
                                 const std::lock_guard lock(mutex);
                                 threads.insert(std::this_thread::get_id());
                               }
                               job(i);
                             });
                           }
                           for (std::thread& member : members) member.join();
                         }};
  [[maybe_unused]] const std::size_t before = KernelProvider::instance().statistics().compiled;
  const auto kernels = KernelProvider::instance().get(all, team);
#ifndef DYAD_PLAIN_LOOPS
  EXPECT_EQ(threads.size(), 3u);
  EXPECT_EQ(KernelProvider::instance().statistics().compiled, before + kKernels);
#endif
  const std::vector<float> x = random_values<float>(n);
  Iteration it(Sizes{n});
  it.add(Sizes{1});
  it.add(Sizes{1});
  for (int i = 0; i < kKernels; ++i) {
    std::vector<float> out[2] = {std::vector<float>(n), std::vector<float>(n)};
    void* data[] = {const_cast<float*>(x.data()), out[0].data()};
    (*kernels[static_cast<std::size_t>(i)])(it.args(data), 0, n);
    data[1] = out[1].data();
    (*interpret(recipes[static_cast<std::size_t>(i)]))(it.args(data), 0, n);
    EXPECT_EQ(different_bits(out[0], out[1]), 0u) << i;
  }
}

/// Every dtype to every other, with every access of input and output, in ranges that start and end
/// anywhere.
TEST(SameBits, CastsOfEveryDtypeAndAccess) {
  const DType dtypes[] = {f64, f32, f16, bf16, i64, i32, i16, i8, u8, boolean};
  constexpr std::int64_t n = 203;
  std::vector<KernelRecipe> recipes;
  for (DType from : dtypes) {
    for (DType to : dtypes) {
      for (Access in : {Access::contiguous, Access::broadcast, Access::strided}) {
        for (Access out : {Access::contiguous, Access::strided}) {
          const bool plain = in == Access::contiguous && out == Access::contiguous;
          if (!plain && from != to) continue;
          ScalarProgram p;
          p.output(cast(p.input(from), to));
          KernelRecipe& r =
              recipes.emplace_back(pointwise_recipe("cast", std::move(p), {from}, {to}));
          r.inputs[0].access = in;
          r.outputs[0].access = out;
        }
      }
    }
  }
  std::vector<const KernelRecipe*> all;
  for (const KernelRecipe& r : recipes) all.push_back(&r);
  const auto kernels = KernelProvider::instance().get(all);
  for (std::size_t i = 0; i < recipes.size(); ++i) {
    const KernelRecipe& r = recipes[i];
    const auto bytes = edge_values<std::uint8_t>(3 * n * 8, 3);
    auto x = bytes;
    if (r.inputs[0].dtype == f32)
      std::memcpy(x.data(), edge_values<float>(3 * n).data(), 3 * n * 4);
    if (r.inputs[0].dtype == f64)
      std::memcpy(x.data(), edge_values<double>(3 * n).data(), 3 * n * 8);
    const auto stride = [](Access a) {
      return a == Access::contiguous ? 1 : a == Access::broadcast ? 0 : 3;
    };
    Iteration it(Sizes{n});
    it.add(Sizes{stride(r.inputs[0].access)});
    it.add(Sizes{stride(r.outputs[0].access)});
    std::vector<std::uint8_t> out[2];
    const auto run = [&](const CompiledKernel& kernel, std::vector<std::uint8_t>& to) {
      to.assign(3 * n * 8, 0xAB);
      void* data[] = {x.data(), to.data()};
      kernel(it.args(data), 0, 5);
      kernel(it.args(data), 5, 150);
      kernel(it.args(data), 150, n);
    };
    run(*kernels[i], out[0]);
    run(*interpret(r), out[1]);
    if (r.outputs[0].dtype == f32 || r.outputs[0].dtype == f64 || is_floating(r.outputs[0].dtype)) {
      // NaN payloads are not defined, so those may differ.
      const std::size_t size = size_of(r.outputs[0].dtype);
      for (std::int64_t e = 0; e < n; ++e) {
        const auto at = static_cast<std::size_t>(e * stride(r.outputs[0].access)) * size;
        const auto value = [&](const std::vector<std::uint8_t>& v) {
          double wide = 0;
          if (size == 8) std::memcpy(&wide, &v[at], 8);
          float f = 0;
          Half h{};
          if (size == 4) std::memcpy(&f, &v[at], 4), wide = f;
          if (size == 2) std::memcpy(&h, &v[at], 2);
          if (r.outputs[0].dtype == f16) wide = to_float(h);
          if (r.outputs[0].dtype == bf16) wide = to_float(BFloat16{h.bits});
          return wide;
        };
        if (std::isnan(value(out[0])) && std::isnan(value(out[1])))
          std::memcpy(&out[0][at], &out[1][at], size);
      }
    }
    EXPECT_EQ(out[0], out[1]) << r.text();
  }
}

/// Reductions of every dtype, in rows and columns, contiguous and not.
TEST(SameBits, Reductions) {
  for (DType t : {f64, f32, f16, bf16, i64, i32, i16, i8, u8, boolean}) {
    const bool floating = is_floating(t);
    ReductionBuilder b(t, {floating ? t : i64, i64});
    const ScalarType sum = b.sum_type();
    const Scalar x = convert(b.element(), sum);
    b.accumulate(sum, 0, x);
    b.accumulate(sum, floating ? Scalar(-INFINITY) : Scalar(INT64_MIN), x);
    b.accumulate(ScalarType::i64, INT64_MAX, b.index());
    b.combine([](const Scalars& a, const Scalars& v) -> Scalars {
      const Scalar better = (v[1] > a[1]) | ((v[1] == a[1]) & (v[2] < a[2]));
      return {a[0] + v[0], select(better, v[1], a[1]), select(better, v[2], a[2])};
    });
    b.finish([](const Scalars& a, Scalar count) -> Scalars {
      return {a[0] * convert(count, a[0].type()), a[2]};
    });
    const ReductionProgram program = b.build();
    struct Case {
      Sizes sizes, strides;
      int reduced;
    };
    for (const Case& c :
         {Case{{5, 4099}, {4099, 1}, 1}, Case{{5, 37}, {111, 3}, 1}, Case{{300, 70}, {1, 300}, 1},
          Case{{3, 70}, {2, 7}, 1}, Case{{70, 21, 13}, {1, 70 * 13, 70}, 2},
          Case{{3, 21, 13}, {1000, 20, 1}, 2}, Case{{6, 50}, {0, 1}, 1},
          Case{{6, 50}, {1, 0}, 1}}) {
      Iteration it(c.sizes, c.reduced);
      it.add(c.strides);
      it.add_index();
      Sizes out(c.sizes.size());
      out[0] = 1;
      it.add(out);
      it.add(out);
      it.collapse();
      KernelRecipe recipe = reduction_recipe("reduce", program, {t}, {floating ? t : i64, i64});
      it.specialize(recipe);
      const auto bytes = random_values<float>(100'000);
      std::vector<std::uint8_t> x(100'000 * 8);
      for (std::size_t i = 0; i < bytes.size(); ++i) {
        const float v = bytes[i];
        switch (t) {
          case DType::f64:
            reinterpret_cast<double*>(x.data())[i] = v;
            break;
          case DType::f32:
            reinterpret_cast<float*>(x.data())[i] = v;
            break;
          case DType::f16:
            reinterpret_cast<Half*>(x.data())[i] = to_half(v);
            break;
          case DType::bf16:
            reinterpret_cast<BFloat16*>(x.data())[i] = to_bfloat16(v);
            break;
          default:
            std::memcpy(&x[i * size_of(t)], &v, std::min<std::size_t>(4, size_of(t)));
        }
      }
      const std::size_t outputs = static_cast<std::size_t>(c.sizes[0]);
      std::vector<std::uint64_t> sums[2], places[2];
      const auto run = [&](const CompiledKernel& kernel, int which) {
        sums[which].assign(outputs, 0);
        places[which].assign(outputs, 0);
        void* data[] = {x.data(), nullptr, sums[which].data(), places[which].data()};
        kernel(it.args(data), 0, kernel.units(it.args(data)));
      };
      run(*compiled(recipe), 0);
      run(*interpret(recipe), 1);
      EXPECT_EQ(sums[0], sums[1]) << recipe.text();
      EXPECT_EQ(places[0], places[1]) << recipe.text();
    }
  }
}

}  // namespace
}  // namespace dyad::codegen
