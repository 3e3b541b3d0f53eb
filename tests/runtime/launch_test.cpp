#include "dyad/runtime/launch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "dyad/codegen/program_builder.h"
#include "dyad/ops/registry.h"
#include "dyad/runtime/threads.h"
#include "tests/runtime/support.h"

namespace dyad::testing {
namespace {

using codegen::ProgramBuilder;

constexpr NoAttrs kNone;

const OpInfo& row(std::string_view name) {
  ops::register_builtin_ops();
  const OpInfo* op = find_op(name);
  if (op == nullptr) throw std::runtime_error("no operator named " + std::string(name));
  return *op;
}

Types types_of(const OpInfo& op, const std::vector<Tensor>& inputs, const void* attrs) {
  Types types;
  for (const Tensor& input : inputs) types.push_back(type_of(input));
  return infer_types(op, types, attrs, Loc());
}

/// Attributes with the members that `edit` sets by name.
class Edit : public AttrVisitor {
 public:
  Edit(std::string_view name, std::function<void(void*)> set) : name_(name), set_(std::move(set)) {}
  void visit(std::string_view n, bool& v) override { edit(n, &v); }
  void visit(std::string_view n, std::int64_t& v) override { edit(n, &v); }
  void visit(std::string_view n, double& v) override { edit(n, &v); }
  void visit(std::string_view n, std::string& v) override { edit(n, &v); }
  void visit(std::string_view n, DType& v) override { edit(n, &v); }
  void visit(std::string_view n, Dim& v) override { edit(n, &v); }
  void visit(std::string_view n, Ints& v) override { edit(n, &v); }
  void visit(std::string_view n, Shape& v) override { edit(n, &v); }
  void visit(std::string_view n, Tensor& v) override { edit(n, &v); }

 private:
  void edit(std::string_view n, void* v) {
    if (n == name_) set_(v);
  }
  std::string_view name_;
  std::function<void(void*)> set_;
};

template <class T>
Ref<Attrs> attrs_with(const OpInfo& op, std::string_view name, T value) {
  return Attrs::edited(*op.attrs, nullptr, [&](void* data) {
    Edit edit(name, [&](void* member) { *static_cast<T*>(member) = value; });
    op.attrs->visit(data, edit);
  });
}

Ref<Attrs> default_attrs(const OpInfo& op) {
  return Attrs::edited(*op.attrs, nullptr, [](void*) {});
}

Tensor pointwise(std::string_view name, const std::vector<Tensor>& inputs,
                 const void* attrs = nullptr) {
  const OpInfo& op = row(name);
  const Ref<Attrs> none = default_attrs(op);
  if (attrs == nullptr) attrs = none->data();
  std::vector<const Tensor*> refs;
  for (const Tensor& input : inputs) refs.push_back(&input);
  Tensor out;
  runtime::run_pointwise(op, attrs, refs, types_of(op, inputs, attrs), {&out, 1});
  return out;
}

bool quickly(std::string_view name, const std::vector<Tensor>& inputs, Tensor& out,
             const void* attrs = nullptr) {
  const OpInfo& op = row(name);
  const Ref<Attrs> none = default_attrs(op);
  std::vector<const Tensor*> refs;
  for (const Tensor& input : inputs) refs.push_back(&input);
  out = Tensor();
  return runtime::try_run_pointwise(op, attrs ? attrs : none->data(), refs, out);
}

Tensor reduce(std::string_view name, const Tensor& x, Ints axes, bool keepdim = false) {
  const OpInfo& op = row(name);
  const Ref<Attrs> attrs = Attrs::edited(*op.attrs, nullptr, [&](void* data) {
    Edit all("axes", [&](void* member) { *static_cast<Ints*>(member) = axes; });
    Edit one("axis", [&](void* member) { *static_cast<std::int64_t*>(member) = axes[0]; });
    Edit keep("keepdim", [&](void* member) { *static_cast<bool*>(member) = keepdim; });
    for (Edit* edit : {&all, &one, &keep}) op.attrs->visit(data, *edit);
  });
  Tensor out;
  runtime::run_reduction(op, attrs->data(), x, types_of(op, {x}, attrs->data()), {&out, 1});
  return out;
}

/// The index into `t` that broadcasts to `index`.
std::vector<std::int64_t> within(const Tensor& t, std::span<const std::int64_t> index) {
  std::vector<std::int64_t> result(index.end() - t.rank(), index.end());
  for (std::size_t i = 0; i < result.size(); ++i) {
    if (t.shape().numbers()[i] == 1) result[i] = 0;
  }
  return result;
}

TEST(Pointwise, EveryLayoutAndDType) {
  for (const DType dtype : {f64, f32, f16, bf16, i64, i32, i16, i8}) {
    for (const Lie lie : {Lie::dense, Lie::reversed, Lie::spread}) {
      for (const Lie other : {Lie::dense, Lie::reversed, Lie::spread}) {
        const Tensor a = random(dtype, {3, 5, 20}, 1, lie), b = random(dtype, {3, 5, 20}, 2, other);
        const Tensor sum = pointwise("add", {a, b}), product = pointwise("mul", {a, b});
        for_each_index(sum.shape().numbers(), [&](auto i) {
          ASSERT_EQ(value_at(sum, i), rounded(value_at(a, i) + value_at(b, i), dtype));
          ASSERT_EQ(value_at(product, i), rounded(value_at(a, i) * value_at(b, i), dtype));
        });
      }
    }
  }
}

TEST(Pointwise, InputsBroadcastAndPromote) {
  const Tensor a = random(f32, {4, 1, 6}, 1), b = random(i64, {5, 1}, 2),
               c = random(boolean, {6}, 3);
  const Tensor y = pointwise("where", {c, a, b});
  EXPECT_EQ(y.dtype(), f32);
  EXPECT_TRUE(y.shape().same_as(Shape{4, 5, 6}));
  for_each_index(y.shape().numbers(), [&](auto i) {
    const Tensor& from = value_at(c, within(c, i)) != 0 ? a : b;
    EXPECT_EQ(value_at(y, i), value_at(from, within(from, i)));
  });
  const Tensor quotient = pointwise("div", {random(i32, {3}, 1), random(i32, {1}, 7)});
  EXPECT_EQ(quotient.dtype(), f32);
}

TEST(Pointwise, ResultsFollowTheLayoutOfInputs) {
  const Tensor x = random(f32, {2, 3, 4, 5}, 1, Lie::channels_last);
  const Tensor bias = random(f32, {3, 1, 1}, 2);
  EXPECT_EQ(pointwise("add", {x, bias}).strides(), x.strides());
  EXPECT_EQ(pointwise("add", {bias, x}).strides(), x.strides());
  EXPECT_EQ(pointwise("neg", {random(f32, {3, 4}, 1, Lie::reversed)}).strides(), (Strides{1, 3}));
  EXPECT_EQ(pointwise("neg", {random(f32, {3, 4}, 1, Lie::spread)}).strides(), (Strides{4, 1}));
  const Tensor copy = pointwise("clone", {x});
  EXPECT_TRUE(copy.is_contiguous());
  EXPECT_TRUE(same_bits(copy, x));
}

TEST(Pointwise, EmptyScalarAndManyAxes) {
  EXPECT_TRUE(values(pointwise("add", {make(f32, {0, 3}), random(f32, {3}, 1)})).empty());
  EXPECT_EQ(values(pointwise("add", {random(f32, {}, 1), random(f32, {}, 1)})),
            std::vector<double>{2 * value_at(random(f32, {}, 1), {})});
  // More axes than a kernel takes, none of which can be joined.
  const Tensor wide = random(f32, {2, 2, 2, 2, 2, 2, 2, 2, 2, 2}, 1, Lie::spread);
  const Tensor other = random(f32, {2, 2, 2, 2, 2, 2, 2, 2, 2, 2}, 2, Lie::reversed);
  const Tensor sum = pointwise("add", {wide, other});
  for_each_index(sum.shape().numbers(), [&](auto i) {
    ASSERT_EQ(value_at(sum, i), value_at(wide, i) + value_at(other, i));
  });
}

TEST(Pointwise, SeenCallsRunQuicklyWithTheSameBits) {
  const Tensor a = random(f32, {3, 7}, 1), b = random(f32, {3, 7}, 2), number = random(f32, {}, 3);
  Tensor fast;
  const Tensor slow = pointwise("mul", {a, b});
  ASSERT_TRUE(quickly("mul", {a, b}, fast));
  EXPECT_TRUE(same_bits(fast, slow));
  const Tensor scaled = pointwise("mul", {a, number});
  ASSERT_TRUE(quickly("mul", {a, number}, fast));
  EXPECT_TRUE(same_bits(fast, scaled));
  const Tensor row_scaled = pointwise("mul", {number, a});
  ASSERT_TRUE(quickly("mul", {number, a}, fast));
  EXPECT_TRUE(same_bits(fast, row_scaled));
  // Results of another dtype than the inputs'.
  const Tensor less = pointwise("lt", {a, b});
  ASSERT_TRUE(quickly("lt", {a, b}, fast));
  EXPECT_EQ(fast.dtype(), boolean);
  EXPECT_TRUE(same_bits(fast, less));
  // Another dtype, an axis that repeats, gaps, no elements: not known, or not quick.
  EXPECT_FALSE(quickly("mul", {random(u8, {3}, 1), random(u8, {3}, 2)}, fast));
  EXPECT_FALSE(quickly("mul", {a, random(f32, {7}, 1)}, fast));
  EXPECT_FALSE(quickly("mul", {random(f32, {3, 7}, 1, Lie::spread), b}, fast));
  EXPECT_FALSE(quickly("mul", {make(f32, {0}), make(f32, {0})}, fast));
  EXPECT_FALSE(quickly("mul", {random(f32, {1, 1}, 1), random(f32, {5}, 1)}, fast));
  EXPECT_FALSE(quickly("mul", {Tensor(), b}, fast));
}

TEST(Pointwise, LargeSeenCallsUseTheTeam) {
  const Tensor a = make(f32, {300000}), b = random(f32, {}, 2);
  for_each_index(a.shape().numbers(),
                 [&](auto i) { set_value(a, i, static_cast<double>(i[0]) / 8); });
  const Tensor slow = pointwise("add", {a, b});
  Tensor fast;
  ASSERT_TRUE(quickly("add", {a, b}, fast));
  EXPECT_TRUE(same_bits(fast, slow));
}

TEST(Pointwise, AttributesChooseTheKernel) {
  const Tensor x = random(f32, {10}, 1);
  const OpInfo& op = row("cast");
  const Ref<Attrs> to_i32 = attrs_with(op, "dtype", i32), to_f16 = attrs_with(op, "dtype", f16);
  Tensor out;
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(pointwise("cast", {x}, to_i32->data()).dtype(), i32);
    EXPECT_EQ(pointwise("cast", {x}, to_f16->data()).dtype(), f16);
    ASSERT_TRUE(quickly("cast", {x}, out, to_f16->data()));
    EXPECT_EQ(out.dtype(), f16);
    if (quickly("cast", {x}, out, to_i32->data())) {
      EXPECT_EQ(out.dtype(), i32);
    }
  }
}

TEST(Pointwise, BitsDoNotDependOnThreads) {
  const Tensor x = make(f32, {1000, 100});
  int i = 0;
  for_each_index(x.shape().numbers(), [&](auto at) { set_value(x, at, std::sin(++i) * 5); });
  Tensor results[2];
  for (const int threads : {1, 2}) {
    const Threads scope(threads);
    results[threads - 1] = pointwise("tanh", {x});
  }
  EXPECT_TRUE(same_bits(results[0], results[1]));
  for_each_index(x.shape().numbers(), [&](auto at) {
    EXPECT_NEAR(value_at(results[0], at), std::tanh(value_at(x, at)), 1e-6);
  });
}

// --- reductions ----------------------------------------------------------------------------------

TEST(Reduction, EveryLayoutAndChoiceOfAxes) {
  for (const DType dtype : {f64, f32, bf16, i32, u8}) {
    for (const Lie lie : {Lie::dense, Lie::reversed, Lie::spread}) {
      const Tensor x = random(dtype, {3, 4, 5, 6}, 1, lie);
      for (unsigned mask = 0; mask < 16; ++mask) {
        Ints axes;
        for (std::int64_t axis = 0; axis < 4; ++axis) {
          if (mask >> axis & 1) axes.push_back(axis);
        }
        if (axes.empty()) axes = {0, 1, 2, 3};
        for (const bool keepdim : {false, true}) {
          const Tensor total = reduce("sum", x, axes, keepdim),
                       largest = reduce("max", x, axes, keepdim);
          // Sums of multiples of 1/8 are exact in f32.
          const Tensor expected = reduce("sum", x, axes, true),
                       bound = reduce("max", x, axes, true);
          const Tensor sums = make_empty(f64, expected.shape()),
                       maxima = make_empty(f64, expected.shape());
          for_each_index(sums.shape().numbers(), [&](auto i) {
            set_value(sums, i, 0);
            set_value(maxima, i, -1e9);
          });
          for_each_index(x.shape().numbers(), [&](auto i) {
            const auto at = within(sums, i);
            set_value(sums, at, value_at(sums, at) + value_at(x, i));
            set_value(maxima, at, std::max(value_at(maxima, at), value_at(x, i)));
          });
          std::vector<double> exact = values(sums);
          for (double& v : exact) v = rounded(v, total.dtype());
          EXPECT_EQ(values(total), exact) << name_of(dtype) << " mask " << mask;
          EXPECT_EQ(values(largest), values(maxima)) << name_of(dtype) << " mask " << mask;
          EXPECT_EQ(total.rank(), keepdim ? 4 : 4 - static_cast<int>(axes.size()));
        }
      }
    }
  }
}

/// The sum in the order that reductions promise: 16 lanes in chunks of 4096, joined as a tree, and
/// chunk results by the same rule.
float ordered_sum(std::vector<float> elements) {
  for (;;) {
    std::vector<float> results;
    for (std::size_t first = 0; first < std::max<std::size_t>(1, elements.size()); first += 4096) {
      float lanes[16] = {};
      for (std::size_t r = first; r < std::min(elements.size(), first + 4096); ++r)
        lanes[(r - first) % 16] += elements[r];
      for (int half = 8; half > 0; half /= 2) {
        for (int l = 0; l < half; ++l) lanes[l] += lanes[l + half];
      }
      results.push_back(lanes[0]);
    }
    if (results.size() == 1) return results[0];
    elements = results;
  }
}

TEST(Reduction, OrderIsThatOfTheElementsWhateverTheLayoutAndThreads) {
  for (const std::int64_t rows : {3, 1000, 70000}) {
    const auto fill = [](const Tensor& t) {
      int i = 0;
      for_each_index(t.shape().numbers(), [&](auto at) { set_value(t, at, std::sin(++i) * 1e3); });
      return t;
    };
    const Tensor dense = fill(make(f32, {rows, 2})),
                 turned = fill(make(f32, {rows, 2}, Lie::reversed));
    std::vector<float> all, columns[2];
    for_each_index(dense.shape().numbers(), [&](auto at) {
      const auto v = static_cast<float>(value_at(dense, at));
      all.push_back(v);
      columns[at[1]].push_back(v);
    });
    for (const int threads : {1, 2}) {
      const Threads scope(threads);
      for (const Tensor& x : {dense, turned}) {
        EXPECT_EQ(values(reduce("sum", x, {0, 1})), std::vector<double>{ordered_sum(all)});
        EXPECT_EQ(values(reduce("sum", x, {0})),
                  (std::vector<double>{ordered_sum(columns[0]), ordered_sum(columns[1])}));
      }
    }
  }
}

TEST(Reduction, IndicesOfTheLargest) {
  for (const Lie lie : {Lie::dense, Lie::reversed}) {
    const Tensor x = random(f32, {7, 40, 3}, 5, lie);
    for (std::int64_t axis = 0; axis < 3; ++axis) {
      for (int round = 0; round < 2; ++round) {  // the second finds the kernel in the cache
        const Tensor at = reduce("argmax", x, {axis}, true);
        ASSERT_EQ(at.dtype(), i64);
        for_each_index(at.shape().numbers(), [&](auto i) {
          std::vector<std::int64_t> best(i.begin(), i.end()), probe = best;
          for (std::int64_t k = 0; k < x.shape().numbers()[static_cast<std::size_t>(axis)]; ++k) {
            probe[static_cast<std::size_t>(axis)] = k;
            if (value_at(x, probe) > value_at(x, best)) best = probe;
          }
          EXPECT_EQ(value_at(at, i), static_cast<double>(best[static_cast<std::size_t>(axis)]));
        });
      }
    }
  }
}

TEST(Reduction, OfNothing) {
  EXPECT_EQ(values(reduce("sum", make(f32, {0, 3}), {0})), std::vector<double>(3, 0.0));
  EXPECT_TRUE(std::isnan(values(reduce("mean", make(f32, {0}), {0}))[0]));
  EXPECT_TRUE(values(reduce("sum", make(f32, {0, 3}), {1})).empty());
  EXPECT_EQ(values(reduce("sum", random(f32, {1, 4}, 1), {0})), values(random(f32, {4}, 1)));
}

// --- copies --------------------------------------------------------------------------------------

TEST(RunCopy, ConvertsBroadcastsAndReadsBeforeItWrites) {
  const Tensor target = make(i32, {2, 3}), value = random(f32, {3}, 1);
  runtime::run_copy(target, value);
  for_each_index(target.shape().numbers(), [&](auto i) {
    EXPECT_EQ(value_at(target, i), std::trunc(value_at(value, within(value, i))));
  });
  const Tensor x = make(f32, {6});
  for_each_index(x.shape().numbers(), [&](auto i) { set_value(x, i, static_cast<double>(i[0])); });
  runtime::run_copy(make_view(x, Shape{5}, {1}, 1), make_view(x, Shape{5}, {1}, 0));
  EXPECT_EQ(values(x), (std::vector<double>{0, 0, 1, 2, 3, 4}));
}

// --- prepared kernels ----------------------------------------------------------------------------

TEST(KernelLaunch, FusedOperatorsGiveTheBitsOfOneByOne) {
  for (const DType dtype : {f32, bf16, f16}) {
    const Tensor a = random(dtype, {6, 1, 50}, 1), b = random(dtype, {6, 4, 50}, 2, Lie::reversed);
    const Tensor c = random(dtype, {50}, 3);
    const Tensor product = pointwise("mul", {a, b}), sum = pointwise("add", {product, c});
    const Tensor expected = pointwise("tanh", {sum});

    ProgramBuilder builder;
    const int ia = builder.input(dtype), ib = builder.input(dtype), ic = builder.input(dtype);
    const int ab[] = {ia, ib};
    const int p = builder.apply(row("mul"), &kNone, ab, dtype);
    const int pc[] = {p, ic};
    const int s = builder.apply(row("add"), &kNone, pc, dtype);
    const int t = builder.apply(row("tanh"), &kNone, {&s, 1}, dtype);
    builder.output(t);
    builder.output(s);
    const std::int64_t space[] = {6, 4, 50};
    const Tensor y = make(dtype, {6, 4, 50}), z = make(dtype, {6, 4, 50});
    using runtime::LaunchOperand;
    const std::vector<LaunchOperand> inputs{
        LaunchOperand::of(a, space), LaunchOperand::of(b, space), LaunchOperand::of(c, space)};
    const std::vector<LaunchOperand> outputs{LaunchOperand::of(y, space),
                                             LaunchOperand::of(z, space)};
    auto launch = runtime::KernelLaunch::pointwise("fused", builder.take(), space, inputs, outputs);
    launch.run();
    EXPECT_TRUE(same_bits(y, expected));
    EXPECT_TRUE(same_bits(z, sum));
    // Elsewhere, with the same kernel.
    const Tensor elsewhere = make(dtype, {6, 4, 50});
    auto moved = std::move(launch);
    *moved.address(3) = elsewhere.raw_data();
    moved.run();
    EXPECT_TRUE(same_bits(elsewhere, expected));
  }
}

TEST(KernelLaunch, ReductionOfAFusedProgram) {
  const Tensor x = make(f32, {300, 40});
  int i = 0;
  for_each_index(x.shape().numbers(), [&](auto at) { set_value(x, at, std::cos(++i)); });
  for (const std::int64_t axis : {0, 1}) {
    const Tensor expected = reduce("sum", pointwise("exp", {x}), {axis});
    ProgramBuilder builder;
    const int in = builder.input(f32);
    builder.output(builder.apply(row("exp"), &kNone, {&in, 1}, f32));
    const OpInfo& sum = row("sum");
    const Ref<Attrs> attrs = attrs_with(sum, "axes", Ints{axis});
    const ReductionProgram fused = codegen::with_prologue(
        codegen::reduction_of(sum, attrs->data(), f32, std::array{f32}), builder.take());
    const std::int64_t space[] = {300, 40};
    const Tensor y = make_empty(f32, expected.shape());
    runtime::LaunchOperand out{
        .dtype = f32, .data = y.raw_data(), .strides = axis == 0 ? Strides{0, 1} : Strides{1, 0}};
    auto launch = runtime::KernelLaunch::reduction(
        "exp_sum", fused, space, {&axis, 1}, std::vector{runtime::LaunchOperand::of(x, space)},
        {&out, 1});
    launch.run();
    EXPECT_TRUE(same_bits(y, expected));
  }
}

TEST(KernelLaunch, ArgmaxOfAFusedProgramCountsReducedElements) {
  const Tensor x = random(f32, {9, 31}, 4);
  const Tensor expected = reduce("argmax", pointwise("neg", {x}), {1});
  ProgramBuilder builder;
  const int in = builder.input(f32);
  builder.output(builder.apply(row("neg"), &kNone, {&in, 1}, f32));
  const OpInfo& argmax = row("argmax");
  const Ref<Attrs> attrs = attrs_with(argmax, "axis", std::int64_t{1});
  const ReductionProgram fused = codegen::with_prologue(
      codegen::reduction_of(argmax, attrs->data(), f32, std::array{i64}), builder.take());
  const std::int64_t space[] = {9, 31}, axis = 1;
  const Tensor y = make_empty(i64, expected.shape());
  runtime::LaunchOperand out{.dtype = i64, .data = y.raw_data(), .strides = {1, 0}};
  runtime::KernelLaunch::reduction("neg_argmax", fused, space, {&axis, 1},
                                   std::vector{runtime::LaunchOperand::of(x, space)}, {&out, 1})
      .run();
  EXPECT_TRUE(same_bits(y, expected));
}

TEST(LaunchGroup, ThreadsShareOutAllLaunches) {
  std::vector<runtime::KernelLaunch> launches;
  std::vector<Tensor> read, made, expected;
  const auto add = [&](std::initializer_list<std::int64_t> sizes, Lie lie = Lie::dense) {
    const Tensor x = random(f32, sizes, static_cast<unsigned>(made.size()), lie);
    read.push_back(x);
    expected.push_back(pointwise("exp", {x}));
    made.push_back(make(f32, sizes));
    ProgramBuilder builder;
    const int in = builder.input(f32);
    builder.output(builder.apply(row("exp"), &kNone, {&in, 1}, f32));
    const std::vector<std::int64_t> space(sizes);
    const auto input = runtime::LaunchOperand::of(x, space),
               output = runtime::LaunchOperand::of(made.back(), space);
    launches.push_back(
        runtime::KernelLaunch::pointwise("exp", builder.take(), space, {&input, 1}, {&output, 1}));
  };
  // Far more work than is worth two threads, in some; three elements in others; none; and one with
  // more axes than a kernel takes.
  add({3});
  add({200000});
  add({1});
  add({0});
  add({17});
  add({64, 5000});
  add({100001});
  add({2, 3, 2, 3, 2, 3, 2, 3, 2, 3}, Lie::reversed);
  add({16});
  std::vector<runtime::KernelLaunch*> all;
  for (runtime::KernelLaunch& launch : launches) all.push_back(&launch);
  runtime::LaunchGroup group(all);
  for (const int threads : {1, 2, 3}) {
    const ThreadScope scope(threads);
    for (const Tensor& y : made)
      std::fill_n(static_cast<float*>(y.raw_data()), y.numel().number(), 0.0F);
    group.run();
    for (std::size_t i = 0; i < made.size(); ++i)
      EXPECT_TRUE(same_bits(made[i], expected[i])) << i << " on " << threads;
  }
}

TEST(KernelLaunch, IndexOperandsCountPlaces) {
  ScalarProgram program;
  const Scalar place = program.input(ScalarType::i64);
  program.output(place * std::int64_t{2});
  const std::int64_t space[] = {3, 4};
  const Tensor y = make(i64, {3, 4});
  runtime::LaunchOperand in{.dtype = i64, .strides = {10, 1}, .index = true, .origin = 100};
  runtime::KernelLaunch::pointwise("count", program, space, {&in, 1},
                                   std::vector{runtime::LaunchOperand::of(y, space)})
      .run();
  for_each_index(y.shape().numbers(), [&](auto i) {
    EXPECT_EQ(value_at(y, i), static_cast<double>(2 * (100 + 10 * i[0] + i[1])));
  });
}

TEST(KernelLaunch, SlotsAreReadAtEachRun) {
  ScalarProgram program;
  const Scalar x = program.input(ScalarType::f32);
  program.output(x * program.param(0, ScalarType::f32));
  const std::int64_t space[] = {5};
  const Tensor a = random(f32, {5}, 1), y = make(f32, {5});
  auto launch = runtime::KernelLaunch::pointwise("scale", program, space,
                                                 std::vector{runtime::LaunchOperand::of(a, space)},
                                                 std::vector{runtime::LaunchOperand::of(y, space)});
  for (const float factor : {2.0f, -0.5f}) {
    launch.slots()[0] = std::bit_cast<std::uint32_t>(factor);
    launch.run();
    for_each_index(y.shape().numbers(),
                   [&](auto i) { EXPECT_EQ(value_at(y, i), value_at(a, i) * factor); });
  }
}

TEST(Kernels, EveryOpaqueRowHasOne) {
  ops::register_builtin_ops();
  for (const OpInfo* op : all_ops()) {
    if (op->kind == BodyKind::opaque) {
      EXPECT_NE(runtime::find_kernel(*op), nullptr) << op->name;
    }
  }
}

TEST(Launch, KernelsAskedForTogetherAreThoseAskedForAlone) {
  const Tensor x = random(f32, {33, 17}, 1), y = random(f32, {33, 17}, 2);
  const std::array<std::int64_t, 2> space{33, 17};
  const auto space_of = [&](const Tensor& t) { return runtime::LaunchOperand::of(t, space); };
  const auto run = [&](runtime::KernelBatch* batch) {
    std::vector<Tensor> results;
    std::vector<runtime::KernelLaunch> launches;
    for (const std::string_view name : {"add", "mul", "sub"}) {
      ProgramBuilder builder;
      const std::array<int, 2> in{builder.input(f32), builder.input(f32)};
      builder.output(builder.apply(row(name), nullptr, in, f32));
      results.push_back(make_empty(f32, {33, 17}));
      const std::array operands{space_of(x), space_of(y)};
      const runtime::LaunchOperand out = space_of(results.back());
      launches.push_back(runtime::KernelLaunch::pointwise(std::string(name), builder.take(), space,
                                                          operands, {&out, 1}, batch));
    }
    if (batch) batch->finish();
    for (runtime::KernelLaunch& launch : launches) launch.run();
    return results;
  };
  runtime::KernelBatch batch;
  const std::vector<Tensor> together = run(&batch), alone = run(nullptr);
  for (std::size_t i = 0; i < alone.size(); ++i) EXPECT_TRUE(same_bits(together[i], alone[i]));
}

}  // namespace
}  // namespace dyad::testing
