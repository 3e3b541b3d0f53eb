#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "altered_program.h"
#include "dyad/core/create.h"
#include "dyad/core/storage.h"
#include "dyad/exec/control_flow.h"
#include "dyad/io/program.h"
#include "dyad/io/safetensors.h"
#include "dyad/nn/nn.h"
#include "dyad/ops/ops.h"
#include "dyad/optim/optim.h"
#include "tests/data/files.h"
#include "tests/shared/message_of.h"
#include "values_of.h"

// Programs of functions that were called with larger sizes run at sizes of 0 and 1.

namespace dyad::io {
namespace {

using dyad::testing::message_of;
using dyad::testing::TempFile;
using ::testing::AllOf;
using ::testing::HasSubstr;

Tensor rows(std::int64_t n, int call) {
  manual_seed(static_cast<std::uint64_t>(100 * call + n));
  return randn({n, 1, 6, 6});
}

/// What `fn` was recorded as, called with these numbers of rows, and read back.
template <class F>
Program saved(const F& fn, const TempFile& file, const std::vector<std::int64_t>& sizes) {
  const auto fast = compile(fn, {.varying = {{0, 0}}});
  for (const std::int64_t n : sizes) static_cast<void>(fast(rows(n, 0)));
  save(file.path(), fast);
  return load(file.path());
}

TEST(ProgramSizes, AServedModelTakesOneImageAndNone) {
  const TempFile file("serve.dyad");
  manual_seed(2);
  const nn::Sequential net{nn::Conv2d(1, 4, 3, {.padding = 1}), nn::BatchNorm2d(4), nn::ReLU(),
                           nn::Flatten(), nn::Linear(144, 3)};
  nn::eval(net);
  const auto serve = [&](const Tensor& x) { return softmax(net(x), 1); };
  const Program program = saved(serve, file, {8});
  int call = 0;
  for (const std::int64_t n : {8, 1, 0, 3, 1, 1, 0, 8}) {
    const Tensor x = rows(n, ++call), got = program(x)[0], want = serve(x);
    EXPECT_EQ(to_string(got.shape()), to_string(want.shape()));
    EXPECT_EQ(bits_of(got), bits_of(want)) << n;
  }
}

TEST(ProgramSizes, ATrainingStepTakesOneImageAndNone) {
  const TempFile file("step.dyad"), later("later.dyad");
  struct Training {
    nn::Sequential net = (manual_seed(5), nn::Sequential{nn::Flatten(), nn::Linear(36, 16),
                                                         nn::ReLU(), nn::Linear(16, 3)});
    optim::Adam optimizer{nn::parameters(net), {.lr = 0.02}};
    Tensor operator()(const Tensor& x, const Tensor& y) {
      optimizer.zero_grad();
      Tensor loss = cross_entropy(net(x), y);
      loss.backward();
      optimizer.step();
      return loss.detach();
    }
  };
  const auto labels = [](std::int64_t n, int call) {
    manual_seed(static_cast<std::uint64_t>(call));
    return randint(0, 3, {n});
  };
  Training eager, trained;
  const auto step = compile([&](const Tensor& x, const Tensor& y) { return trained(x, y); },
                            {.varying = {{0, 0}, {1, 0}}});
  for (int call = 0; call < 3; ++call) {
    static_cast<void>(eager(rows(8, call), labels(8, call)));
    static_cast<void>(step(rows(8, call), labels(8, call)));
  }
  TensorDict state;
  state.add_all("", nn::state_dict(trained.net));
  state.add_all("optimizer.", trained.optimizer.state_dict());
  save(file.path(), step, {.inputs = {"x", "y"}, .outputs = {"loss"}, .state = state});
  Program program = load(file.path());
  int call = 3;
  for (const std::int64_t n : {1, 8, 1, 5, 1, 0, 1}) {
    const Tensor x = rows(n, call), y = labels(n, call);
    EXPECT_EQ(bits_of(program(x, y)[0]), bits_of(eager(x, y))) << "call " << call;
    for (const auto& [name, tensor] : nn::state_dict(eager.net))
      EXPECT_EQ(bits_of(program.state().at(name)), bits_of(tensor)) << name << ", call " << call;
    if (++call == 6) {  // what was read is written and read again
      save(later.path(), program);
      program = load(later.path());
    }
  }
}

/// What the function asked of a size holds for the program, too.
TEST(ProgramSizes, GuardsSayWhichAreServed) {
  const TempFile file("guards.dyad"), both("both.dyad");
  const auto fn = [](const Tensor& x) { return x.size(0) == 1 ? x * 2.0f : x + 1.0f; };
  const Program program = saved(fn, file, {8});
  EXPECT_EQ(bits_of(program(rows(0, 1))[0]), bits_of(fn(rows(0, 1))));
  EXPECT_THAT(
      message_of<GraphError>([&] { program(rows(1, 1)); }),
      HasSubstr("has no recording for this call: guard s0 != 1 failed: s0, axis 0 of argument 0, "
                "was 8, is 1"));
  const Program with_one = saved(fn, both, {8, 1});
  for (const std::int64_t n : {1, 4, 0})
    EXPECT_EQ(bits_of(with_one(rows(n, 1))[0]), bits_of(fn(rows(n, 1)))) << n;
}

/// Of one row a reshape gives a view, of several a copy: what is written in place shows elsewhere.
TEST(ProgramSizes, WritesThroughAHiddenLayoutNeedACallOfThatSize) {
  const TempFile file("views.dyad"), compared("compared.dyad");
  const auto fn = [](const Tensor& x) {
    Tensor whole = x * 1.0f;
    Tensor part = reshape(transpose(flatten(whole, 1), 0, 1), {-1});
    part.fill_(5.0f);
    return std::tuple(sum(whole), sum(part));
  };
  const Program program = saved(fn, file, {8});
  const auto expect_same = [&](const Program& of, std::int64_t n) {
    const auto [whole, part] = fn(rows(n, 2));
    const std::vector<Tensor> got = of(rows(n, 2));
    EXPECT_EQ(bits_of(got[0]), bits_of(whole)) << n;
    EXPECT_EQ(bits_of(got[1]), bits_of(part)) << n;
  };
  expect_same(program, 5);
  EXPECT_THAT(
      message_of<GraphError>([&] { program(rows(1, 2)); }),
      HasSubstr("with s0 = 1 a write in place may reach other tensors than at larger sizes"));
  const Program with_one = saved(fn, compared, {8, 1, 1, 1});
  for (const std::int64_t n : {1, 6}) expect_same(with_one, n);
}

TEST(ProgramBuckets, CallsAreStillPadded) {
  const TempFile file("padded.dyad"), again("again.dyad");
  manual_seed(3);
  const nn::Linear layer(36, 16);
  const auto serve = [&](const Tensor& x) {
    const Tensor y = layer(flatten(x, 1));
    return std::tuple(softmax(y, 0), mean(y));
  };
  const auto fast =
      compile(serve, {.buckets = {{{0, 0}, {8, 4096}}}, .recheck = false, .name = "serve"});
  static_cast<void>(fast(rows(5, 0)));
  save(file.path(), fast);
  save(again.path(), load(file.path()));
  for (const std::string& path : {file.path(), again.path()}) {
    const Program program = load(path);
    for (const std::int64_t n : {5, 8, 9, 1, 100, 5000, 7}) {
      const Tensor x = rows(n, 1);
      reset_peak_memory();
      const std::size_t before = memory_stats().in_use;
      const std::vector<Tensor> got = program(x);
      const std::size_t taken = memory_stats().peak - before;
      // What 4096 rows of 16 numbers take, or none at all that 9 rows need.
      const bool is_padded = taken > std::size_t{4096} * 16 * 4;
      EXPECT_EQ(is_padded, n > 8) << n << " rows take " << taken;
      const auto [want, average] = serve(x);
      EXPECT_TRUE(allclose(got[0], want)) << n;
      EXPECT_TRUE(allclose(got[1], average)) << n;
      const auto [as_before, mean_before] = fast(x);
      EXPECT_EQ(bits_of(got[0]), bits_of(as_before)) << n;
      EXPECT_EQ(bits_of(got[1]), bits_of(mean_before)) << n;
    }
  }
}

TEST(ProgramBuckets, WhatCannotHaveBeenSavedIsRefused) {
  const TempFile file("buckets.dyad"), altered("altered.dyad");
  const auto fast = compile([](const Tensor& x) { return x * 2.0f; },
                            {.buckets = {{{0, -1}, {4, 8}}}, .name = "f"});
  static_cast<void>(fast(ones({2, 3})));
  save(file.path(), fast);
  const Safetensors whole = read_safetensors(file.path());
  const auto with = [&](const std::string& was, const std::string& now) {
    return message_when_altered(whole, altered.path(), was, now);
  };
  for (const std::string sizes : {"[8,4]", "[1,4]", "[4,4]", "[]", "[-4]"}) {
    EXPECT_THAT(with(R"("sizes":[4,8])", R"("sizes":)" + sizes),
                HasSubstr("expected sizes of 2 or more, the smallest first"))
        << sizes;
  }
  for (const std::string axis : {"2", "-3"}) {
    EXPECT_THAT(with(R"("axis":-1)", R"("axis":)" + axis),
                HasSubstr("expected an argument with the axis that is padded"));
  }
  EXPECT_THAT(with(R"("argument":0)", R"("argument":1)"),
              HasSubstr("expected an argument with the axis that is padded"));
  EXPECT_THAT(with(R"("argument":0)", R"("argument":-1)"),
              HasSubstr("expected the position of an argument"));
  EXPECT_THAT(with(R"("sizes":[3])", R"("sizes":[-3])"), HasSubstr("expected a size"));
}

/// What was compared before the program was saved is in the file.
TEST(ProgramSizes, ComparedSizesAreSaved) {
  const TempFile file("same.dyad");
  const auto fn = [](const Tensor& x) {
    Tensor kept = x * 2.0f;
    Tensor part = reshape(kept, {-1});
    part.add_(1.0f);
    return kept + 1.0f;
  };
  const Program program = saved(fn, file, {8, 4, 1, 0});
  for (const std::int64_t n : {8, 1, 0})
    EXPECT_EQ(bits_of(program(rows(n, 3))[0]), bits_of(fn(rows(n, 3)))) << n;
}

TEST(ProgramSizes, TheLargestOfNothingIsEagersError) {
  const TempFile file("max.dyad");
  const auto fn = [](const Tensor& x) { return max(x, {0}); };
  const Program program = saved(fn, file, {8});
  EXPECT_EQ(bits_of(program(rows(1, 1))[0]), bits_of(fn(rows(1, 1))));
  const std::string eager = message_of<ShapeError>([&] { static_cast<void>(fn(rows(0, 1))); });
  const std::string what = eager.substr(0, eager.find('\n'));
  EXPECT_THAT(message_of<ShapeError>([&] { program(rows(0, 1)); }), ::testing::StartsWith(what));
}

/// What goes back through a loop slices by sizes of which only the recording knows that they are no
/// less than 0.
TEST(ProgramSizes, AStepThatGoesBackThroughALoop) {
  const TempFile file("loop.dyad");
  const auto with = [](Tensor w) {
    return [w](const Tensor& x) mutable {
      w.zero_grad();
      const auto step = [&](const Tensor& h, const Tensor& v) {
        Tensor next = tanh(h * w + v);
        return std::pair(next, next);
      };
      const Tensor loss = sum(scan(step, zeros({3}), x).first);
      loss.backward();
      return std::pair(loss, w.grad() * 1);
    };
  };
  const auto sequence = [](std::int64_t n) {
    manual_seed(static_cast<std::uint64_t>(n));
    return randn({n, 3});
  };
  const auto fast = compile(with(ones({3}).requires_grad()));
  for (const std::int64_t n : {15, 16, 17}) static_cast<void>(fast(sequence(n)));
  save(file.path(), fast);
  const Program program = load(file.path());
  auto eager = with(ones({3}).requires_grad());
  for (const std::int64_t n : {3, 9, 40}) {
    const auto [loss, grad] = eager(sequence(n));
    const std::vector<Tensor> got = program(sequence(n));
    EXPECT_EQ(bits_of(got[0]), bits_of(loss)) << n;
    EXPECT_EQ(bits_of(got[1]), bits_of(grad)) << n;
  }
}

TEST(ProgramSizes, AStepThatGoesBackThroughALoopUntilDataSay) {
  const TempFile file("while.dyad");
  const auto with = [](Tensor w) {
    return [w](const Tensor& x, const Tensor& count) mutable {
      w.zero_grad();
      const Tensor loss = sum(while_loop([&](const Tensor& i, const Tensor&) { return i < count; },
                                         [&](const Tensor& i, const Tensor& h) {
                                           return std::pair(i + 1, tanh(h * w + x));
                                         },
                                         std::pair(zeros({}, i64), x))
                                  .second);
      loss.backward();
      return std::pair(loss, w.grad() * 1);
    };
  };
  const auto inputs = [](int n) {
    manual_seed(static_cast<std::uint64_t>(n));
    return std::pair(randn({3}), full({}, n, i64));
  };
  const auto fast = compile(with(ones({3}).requires_grad()));
  for (const int n : {5, 6, 7}) static_cast<void>(std::apply(fast, inputs(n)));
  save(file.path(), fast);
  const Program program = load(file.path());
  auto eager = with(ones({3}).requires_grad());
  for (const int n : {3, 9, 40}) {
    const auto [x, count] = inputs(n);
    const auto [loss, grad] = eager(x, count);
    const std::vector<Tensor> got = program(x, count);
    EXPECT_EQ(bits_of(got[0]), bits_of(loss)) << n;
    EXPECT_EQ(bits_of(got[1]), bits_of(grad)) << n;
  }
}

TEST(ProgramSizes, WhatAGraphTakesForGrantedIsSaved) {
  const TempFile file("assumes.dyad");
  Graph graph;
  graph.define([] {
    const Tensor x = placeholder("x", f32, {"n", 2});
    assume("n", 2, 512);
    return x.size(0) <= 512 ? tanh(x) : x;
  });
  save(file.path(), graph);
  const Program program = load(file.path());
  const Tensor x = ones({512, 2});
  EXPECT_EQ(bits_of(program(x)[0]), bits_of(tanh(x)));
  EXPECT_THAT(
      message_of<ValueError>([&] { static_cast<void>(program(ones({513, 2}))); }),
      AllOf(HasSubstr("the size n is 513, but the graph assumes that it is from 2 to 512\n"),
            HasSubstr("declared at program_sizes_test.cpp:")));
}

}  // namespace
}  // namespace dyad::io
