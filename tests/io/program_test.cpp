#include "dyad/io/program.h"

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "altered_program.h"
#include "dyad/autograd/grad_mode.h"
#include "dyad/autograd/gradients.h"
#include "dyad/base/finally.h"
#include "dyad/core/create.h"
#include "dyad/core/storage.h"
#include "dyad/exec/autocast.h"
#include "dyad/exec/control_flow.h"
#include "dyad/exec/custom_gradient.h"
#include "dyad/nn/nn.h"
#include "dyad/ops/ops.h"
#include "dyad/optim/optim.h"
#include "tests/data/files.h"
#include "tests/shared/message_of.h"
#include "values_of.h"

namespace dyad::io {
namespace {

using dyad::testing::expect_every_truncation_fails;
using dyad::testing::message_of;
using dyad::testing::TempFile;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct DropoutNet {
  nn::Linear in{6, 16};
  nn::Dropout dropout{0.4};
  nn::Linear out{16, 3};

  Tensor operator()(const Tensor& x) const { return out(dropout(relu(in(x)))); }
};

/// Step i's batch: a function of i alone, which takes nothing from the generator.
std::pair<Tensor, Tensor> batch(int i, int rows = 8) {
  std::vector<float> x;
  std::vector<std::int64_t> y;
  for (int row = 0; row < rows; ++row) {
    for (int column = 0; column < 6; ++column)
      x.push_back(static_cast<float>((i * 31 + row * 7 + column * 13) % 17) / 17.0f - 0.5f);
    y.push_back((i + row) % 3);
  }
  return {tensor(x).reshape({rows, 6}), tensor(y)};
}

TensorDict state_of(const DropoutNet& net, const optim::Optimizer& optimizer) {
  TensorDict state;
  state.add_all("", nn::state_dict(net));
  state.add_all("optimizer.", optimizer.state_dict());
  return state;
}

struct Training {
  DropoutNet net = (manual_seed(5), DropoutNet());
  optim::Adam optimizer{nn::parameters(net), {.lr = 0.02}};
  CompiledFunction<std::function<Tensor(Tensor, Tensor)>> step =
      compile(std::function<Tensor(Tensor, Tensor)>([this](const Tensor& x, const Tensor& y) {
        optimizer.zero_grad();
        Tensor loss = cross_entropy(net(x), y);
        loss.backward();
        optimizer.step();
        return loss;
      }));

  std::vector<std::uint32_t> train(int from, int to) {
    std::vector<std::uint32_t> losses;
    for (int i = from; i < to; ++i) {
      const auto [x, y] = batch(i);
      losses.push_back(bits_of(step(x, y))[0]);
    }
    return losses;
  }
  void save_to(const std::string& path) const {
    save(path, step,
         {.inputs = {"x", "y"}, .outputs = {"loss"}, .state = state_of(net, optimizer)});
  }
};

std::vector<std::uint32_t> go_on(const Program& program, int from, int to) {
  std::vector<std::uint32_t> losses;
  for (int i = from; i < to; ++i) {
    const auto [x, y] = batch(i);
    losses.push_back(bits_of(program.run({{"x", x}, {"y", y}}).at("loss"))[0]);
  }
  return losses;
}

TEST(ProgramFunction, SeedsAtEveryCallAndGivesViewsOfItsArguments) {
  const TempFile file("seeds.dyad");
  const auto f = [](Tensor x) {
    Tensor before = rand({2});
    manual_seed(5);
    return std::tuple{before, x[0] + rand({2}), x[1]};
  };
  const Tensor x = tensor({{1.0f, 2.0f}, {3.0f, 4.0f}});
  {
    const auto c = compile(f);
    static_cast<void>(c(x));
    manual_seed(8);
    save(file.path(), c);
  }
  const Program program = load(file.path());
  manual_seed(8);
  for (int i = 0; i < 3; ++i) {
    const auto [before, noisy, row] = f(x);
    const std::vector<Tensor> got = program(x);
    EXPECT_EQ(bits_of(got[0]), bits_of(before)) << i;
    EXPECT_EQ(bits_of(got[1]), bits_of(noisy)) << i;
    EXPECT_EQ(bits_of(got[2]), bits_of(row)) << i;
  }
}

TEST(ProgramGraph, RunsByPositionAndByNameWithoutItsSource) {
  const TempFile file("graph.dyad");
  Tensor expected;
  const Tensor x = tensor({{1.0f, 2.0f}, {3.0f, 4.0f}, {5.0f, 6.0f}});
  {
    Graph g;
    const auto [y, total] = g.define([&] {
      const Tensor in = placeholder("x", f32, {"batch", 2});
      const Tensor w = variable("w", tensor({{1.0f, -1.0f}, {0.5f, 2.0f}}));
      const Tensor y = tanh(matmul(in, w));
      return std::pair{y, sum(y)};
    });
    expected = Session(g).run({y}, {{"x", x}})[0];
    save(file.path(), g, {.outputs = {"y", "total"}, .notes = {{"epoch", "3"}}});
  }
  const Program program = load(file.path());
  ASSERT_EQ(program.inputs().size(), 1u);
  EXPECT_EQ(program.inputs()[0].name, "x");
  EXPECT_EQ(to_string(program.inputs()[0].type), "f32[batch, 2]");
  EXPECT_EQ(program.outputs()[1].name, "total");
  EXPECT_EQ(program.notes().at("epoch"), "3");
  EXPECT_EQ(bits_of(program(x)[0]), bits_of(expected));
  const TensorDict named = program.run({{"x", x.slice(0, 0, 2)}});
  EXPECT_EQ(bits_of(named.at("y")), bits_of(expected.slice(0, 0, 2)));
  EXPECT_EQ(named.at("total").rank(), 0);
  EXPECT_THAT(program.to_string(), HasSubstr("@program_test.cpp:"));
}

TEST(ProgramGraph, VariablesAreStateThatRunsWrite) {
  const TempFile file("counter.dyad"), again("again.dyad");
  Graph g;
  g.define([&] {
    const Tensor count = variable("count", tensor(0.0f));
    return assign(count, count + placeholder("by", f32, {}));
  });
  save(file.path(), g);
  const Program program = load(file.path());
  EXPECT_EQ(program(2.0f)[0].item<float>(), 2.0f);
  EXPECT_EQ(program(3.0f)[0].item<float>(), 5.0f);
  EXPECT_EQ(program.state().at("count").item<float>(), 5.0f);
  save(again.path(), program);
  EXPECT_EQ(load(again.path())(1.0f)[0].item<float>(), 6.0f);
  EXPECT_EQ(load(file.path())(1.0f)[0].item<float>(), 1.0f) << "the first file changed";
}

TEST(ProgramGraph, ControlFlow) {
  const TempFile file("loop.dyad");
  Graph g;
  const Tensor y = g.define([] {
    return while_loop([](const Tensor& v) { return sum(v) < 1000.0f; },
                      [](const Tensor& v) { return v * 2.0f; }, placeholder("x", f32, {32}));
  });
  const Tensor x = full({32}, 0.25f);
  const Tensor expected = Session(g).run({y}, {{"x", x}})[0];
  save(file.path(), g);
  EXPECT_EQ(bits_of(load(file.path())(x)[0]), bits_of(expected));
}

TEST(ProgramFunction, LargeConstantsAreTensorsOfTheFile) {
  const TempFile file("table.dyad");
  const auto add = compile([](const Tensor& x) {
    return x + tensor({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18}).to(f32);
  });
  const Tensor x = full({18}, 0.25f);
  const Tensor expected = add(x);
  save(file.path(), add);
  EXPECT_EQ(load_safetensors(file.path()).size(), 1u);
  for (const bool map : {true, false}) {
    EXPECT_EQ(bits_of(load(file.path(), {.map = map})(x)[0]), bits_of(expected));
  }
}

TEST(ProgramGraph, RandomNumbersGoOnInAStreamOfTheirOwn) {
  const TempFile file("random.dyad");
  Graph g;
  const Tensor y = g.define([&] { return uniform({4}) + placeholder("x", f32, {4}); });
  manual_seed(11);
  Session session(g);
  const Tensor x = zeros({4});
  session.run({y}, {{"x", x}});
  save(file.path(), g);
  const Tensor second = session.run({y}, {{"x", x}})[0];
  const Tensor third = session.run({y}, {{"x", x}})[0];
  manual_seed(99);
  const RandomKey before = default_generator().state();
  const Program program = load(file.path());
  EXPECT_EQ(bits_of(program(x)[0]), bits_of(second));
  static_cast<void>(uniform({100}));
  EXPECT_EQ(bits_of(program(x)[0]), bits_of(third));
  manual_seed(99);
  EXPECT_EQ(default_generator().state(), before);
}

TEST(ProgramFunction, SharesRecordingsSizesAndBranches) {
  const TempFile file("branch.dyad");
  const DropoutNet net;
  nn::eval(net);
  const auto serve = compile([&](const Tensor& x) {
    const Tensor y = net(x);
    if (mean(x) > 0.0f) return softmax(y, 1);
    return y * 2.0f;
  });
  const auto input = [](int rows, float value) { return full({rows, 6}, value); };
  std::vector<std::pair<Tensor, std::vector<std::uint32_t>>> seen;
  for (const int rows : {4, 5, 9, 6}) {
    for (const float value : {0.5f, -0.5f}) {
      const Tensor x = input(rows, value);
      seen.emplace_back(x, bits_of(serve(x)));
    }
  }
  save(file.path(), serve, {.inputs = {"image"}, .state = nn::state_dict(net)});
  const Program program = load(file.path());
  EXPECT_EQ(to_string(program.inputs()[0].type), "f32[s0, 6]");
  EXPECT_TRUE(program.state().contains("in.weight"));
  for (const auto& [x, bits] : seen) EXPECT_EQ(bits_of(program(x)[0]), bits);
  EXPECT_EQ(bits_of(program(input(77, 0.25f))[0]), bits_of(serve(input(77, 0.25f))));
  EXPECT_THAT(message_of<GraphError>([&] { program(ones({3, 6}, i64)); }),
              HasSubstr("'function' has no recording for this call: argument 0 was f32[s0, 6], is "
                        "i64[3, 6]; call the function so before it is saved"));
}

TEST(ProgramConcurrent, ThreadsCallOneProgramAtATime) {
  const TempFile file("shared.dyad");
  DropoutNet net;
  const auto noisy = compile([&](const Tensor& x) { return net(x); });
  const Tensor x = full({4, 6}, 0.5);
  for (int i = 0; i < 3; ++i) static_cast<void>(noisy(x));
  save(file.path(), noisy, {.state = nn::state_dict(net)});
  constexpr int kCalls = 20, kThreads = 4;
  // What the calls give one after another, in any order.
  std::multiset<std::vector<std::uint32_t>> want, found;
  const Program alone = load(file.path());
  for (int i = 0; i < kCalls * kThreads; ++i) want.insert(bits_of(alone(x)[0]));
  const Program program = load(file.path());
  std::mutex mutex;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kCalls; ++i) {
        const auto bits = bits_of(program(x)[0]);
        const std::lock_guard lock(mutex);
        found.insert(bits);
      }
    });
  }
  const TempFile meanwhile("meanwhile.dyad");
  for (int i = 0; i < 3; ++i) save(meanwhile.path(), program);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(found, want);
  EXPECT_EQ(program.generator().state(), alone.generator().state());
}

TEST(ProgramErrors, AFunctionIsNotSavedByItselfWhileItIsRecorded) {
  const TempFile file("inside.dyad");
  const std::function<void()>* inside = nullptr;
  const auto f = compile(
      [&](const Tensor& x) {
        (*inside)();
        return x + 1.0f;
      },
      {.recheck = false, .name = "self"});
  const std::function<void()> saves = [&] { save(file.path(), f); };
  inside = &saves;
  EXPECT_THAT(message_of<GraphError>([&] { static_cast<void>(f(ones({2}))); }),
              HasSubstr("self: saving from inside the function while it is recorded"));
}

TEST(ProgramConcurrent, StepsAreInTheFileWholeOrNotAtAll) {
  const TempFile file("running.dyad");
  Tensor w = zeros({1 << 18}), moments = zeros({1 << 18});
  const auto step = compile([&](const Tensor& x) {
    const NoGrad guard;
    w.add_(x);
    moments.add_(x);
    return x * 2.0f;
  });
  const Tensor x = ones({1});
  for (int i = 0; i < 3; ++i) static_cast<void>(step(x));
  std::atomic<bool> ends = false;
  std::thread trains([&] {
    while (!ends) static_cast<void>(step(x));
  });
  const Finally over([&] {
    ends = true;
    trains.join();
  });
  for (int i = 0; i < 10; ++i) {
    save(file.path(), step, {.state = {{"w", w}, {"moments", moments}}});
    const Program saved = load(file.path());
    EXPECT_EQ(values_of<float>(saved.state().at("w")),
              values_of<float>(saved.state().at("moments")));
  }
}

TEST(ProgramFunction, LoopsRunAsManyStepsAsTheDataAsk) {
  const TempFile file("loops.dyad");
  const Tensor w = full({3}, 0.75);
  const auto search = compile([&](const Tensor& x, const Tensor& limit) {
    const Tensor grown = while_loop([&](const Tensor& v) { return sum(v) < limit; },
                                    [&](const Tensor& v) { return v * 1.5f + w; }, x);
    return scan([](const Tensor& c, const Tensor& v) { return std::pair(c + v, c * v); }, zeros({}),
                grown)
        .second;
  });
  const auto limit = [](double of) { return full({}, of); };
  const Tensor x = ones({3});
  for (const double of : {20.0, 50.0, 0.0}) static_cast<void>(search(x, limit(of)));
  save(file.path(), search);
  const Program program = load(file.path());
  for (const double of : {9.0, 1000.0, 0.0, 35.0})
    EXPECT_EQ(bits_of(program(x, limit(of))[0]), bits_of(search(x, limit(of)))) << of;
}

TEST(ProgramFunction, AReadThatTookNoSuchValueIsAnErrorThatNamesTheLine) {
  const TempFile file("read.dyad");
  const auto power = compile([](const Tensor& x) {
    Tensor y = x;
    const int times = sum(x).item<int>();
    for (int i = 0; i < times; ++i) y = y * 3.0f;
    return y;
  });
  for (const float n : {1.0f, 2.0f}) power(tensor({n, 0.0f}));
  save(file.path(), power);
  const Program program = load(file.path());
  EXPECT_EQ(program(tensor({1.0f, 1.0f}))[0].to_vector<float>()[0], 9.0f);
  EXPECT_THAT(message_of<GraphError>([&] { program(tensor({2.0f, 2.0f})); }),
              HasSubstr("which it was in no recorded call"));
  EXPECT_THAT(message_of<GraphError>([&] { program(tensor({2.0f, 2.0f})); }),
              HasSubstr("program_test.cpp:"));
}

TEST(ProgramTraining, GoesOnToTheSameBitsInThisProcess) {
  const TempFile file("step.dyad"), later("later.dyad");
  Training whole;
  const std::vector<std::uint32_t> all = whole.train(0, 12);
  const std::vector<std::uint32_t> weights = bits_of(whole.net.in.weight);

  Training first;
  const std::vector<std::uint32_t> begin = first.train(0, 5);
  first.save_to(file.path());
  const Program program = load(file.path());
  std::vector<std::uint32_t> losses = begin;
  for (const auto bits : go_on(program, 5, 9)) losses.push_back(bits);
  save(later.path(), program);
  for (const auto bits : go_on(load(later.path(), {.map = false}), 9, 12)) losses.push_back(bits);
  EXPECT_EQ(losses, all);
  for (const auto bits : go_on(program, 9, 12)) static_cast<void>(bits);
  EXPECT_EQ(bits_of(program.state().at("in.weight")), weights);
  EXPECT_TRUE(std::ranges::any_of(
      program.state(), [](const auto& entry) { return entry.first.starts_with("optimizer."); }));
}

// Run by the test below, in a process of its own.
TEST(ProgramTraining, DISABLED_Child) {
  const Program program = load(std::getenv("DYAD_PROGRAM"));
  const std::vector<std::uint32_t> losses = go_on(program, 5, 12);
  std::vector<std::int64_t> wide(losses.begin(), losses.end());
  TensorDict made = {{"losses", tensor(wide)}};
  made.add("weight", program.state().at("in.weight"));
  save_safetensors(std::getenv("DYAD_RESULT"), made);
}

/// What the child makes of a program, with more variables of the environment set for it.
TensorDict run_child(const std::string& program,
                     const std::vector<std::pair<std::string, std::string>>& environment = {}) {
  const TempFile result("result.safetensors");
  std::string self = "/proc/self/exe", filter = "--gtest_filter=ProgramTraining.DISABLED_Child",
              disabled = "--gtest_also_run_disabled_tests";
  char* const arguments[] = {self.data(), filter.data(), disabled.data(), nullptr};
  const pid_t child = ::fork();
  if (child == 0) {
    ::setenv("DYAD_PROGRAM", program.c_str(), 1);
    ::setenv("DYAD_RESULT", result.path().c_str(), 1);
    for (const auto& [name, value] : environment) ::setenv(name.c_str(), value.c_str(), 1);
    ::execv(self.c_str(), arguments);
    ::_exit(1);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  return status == 0 ? load_safetensors(result.path()) : TensorDict();
}

/// Steps 5 to 11 of a training, here and in a child that goes on from its file.
struct GoneOn {
  std::vector<std::uint32_t> here;  ///< bits of the losses
  std::vector<std::int64_t> there;
  std::vector<std::uint32_t> weight_here, weight_there;
};

GoneOn go_on_in_child(const std::vector<std::pair<std::string, std::string>>& environment = {}) {
  const TempFile file("step.dyad");
  Training training;
  training.train(0, 5);
  training.save_to(file.path());
  GoneOn made;
  made.here = training.train(5, 12);
  const TensorDict child = run_child(file.path(), environment);
  made.there = child.at("losses").to_vector<std::int64_t>();
  made.weight_here = bits_of(training.net.in.weight);
  made.weight_there = bits_of(child.at("weight"));
  return made;
}

TEST(ProgramTraining, GoesOnToTheSameBitsInAnotherProcess) {
  const GoneOn made = go_on_in_child();
  EXPECT_EQ(made.there, std::vector<std::int64_t>(made.here.begin(), made.here.end()));
  EXPECT_EQ(made.weight_there, made.weight_here);
}

TEST(ProgramTraining, GoesOnOnAnotherKindOfCpu) {
  // A file holds no code: kernels made here serve nobody there, libraries choose others.
  const GoneOn made = go_on_in_child({{"DYAD_KERNELS", "interpreter"},
                                      {"ONEDNN_MAX_CPU_ISA", "SSE41"},
                                      {"OPENBLAS_CORETYPE", "Nehalem"}});
  ASSERT_EQ(made.there.size(), made.here.size());
  for (std::size_t i = 0; i < made.there.size(); ++i) {
    const float here = std::bit_cast<float>(made.here[i]);
    EXPECT_NEAR(std::bit_cast<float>(static_cast<std::uint32_t>(made.there[i])), here,
                1e-3F * std::abs(here));
  }
}

TEST(ProgramTraining, GradientsFromBeforeTheCallAreState) {
  const TempFile file("sum.dyad");
  const auto run = [&](bool through_a_file) {
    Tensor w = tensor({1.0f, 2.0f}).requires_grad();
    const auto add = compile([&](const Tensor& x) {
      sum(w * x).backward();
      const Tensor total = w.grad() * 1.0f;
      return total;
    });
    const Tensor x = tensor({3.0f, 4.0f});
    for (int i = 0; i < 3; ++i) add(x);
    if (!through_a_file) return bits_of(add(x));
    save(file.path(), add);
    return bits_of(load(file.path())(x)[0]);
  };
  EXPECT_EQ(run(true), run(false));
}

TEST(ProgramFunction, AutocastIsPartOfWhatWasRecorded) {
  const TempFile file("narrow.dyad");
  const auto product = compile([](const Tensor& x) { return matmul(x, x); });
  const Tensor x = full({4, 4}, 0.3f);
  product(x);
  Tensor expected;
  {
    const Autocast scope(bf16);
    expected = product(x);
    save(file.path(), product);
  }
  EXPECT_EQ(load(file.path())(x)[0].dtype(), bf16);
  EXPECT_EQ(load(file.path())(x)[0].to(f32).to_vector<float>(),
            expected.to(f32).to_vector<float>());
  save(file.path(), product);
  EXPECT_EQ(load(file.path())(x)[0].dtype(), f32);
  const Autocast scope(f16);
  EXPECT_THAT(message_of<GraphError>([&] { save(file.path(), product); }),
              HasSubstr("was recorded with autocast bf16, which is f16 now"));
}

TEST(ProgramErrors, WhatCannotBeSaved) {
  const TempFile file("none.dyad");
  const auto message = [&](auto&& what) {
    return message_of<GraphError>([&] { save(file.path(), what); });
  };
  const auto never = compile([](const Tensor& x) { return x * 2.0f; }, {.name = "never"});
  EXPECT_THAT(message(never), HasSubstr("save: 'never' has no recording: call it before"));
  const auto eager = compile([](const Tensor& x) {
    static_cast<void>(x.data<float>());
    return x * 2.0f;
  });
  eager(ones({2}));
  EXPECT_THAT(message(eager), HasSubstr("runs eagerly: the host reads the memory of f32[2]"));
  EXPECT_THAT(message(eager), HasSubstr("program_test.cpp:"));
  const auto numbers = compile([](const Tensor& x, float by) { return x * by; });
  numbers(ones({2}), 2.0f);
  numbers(ones({2}), 3.0f);
  EXPECT_THAT(message(numbers), HasSubstr("several values of a number"));
  DropoutNet net;
  const auto mode = compile([&](const Tensor& x) { return net(x); });
  mode(ones({2, 6}));
  nn::eval(net);
  EXPECT_THAT(message(mode), HasSubstr("call it so before it is saved"));
  Tensor table = ones({9, 4}).requires_grad();
  const auto rows = compile([&](const Tensor& ids) {
    table.zero_grad();
    sum(square(sparse_embedding(ids, table))).backward();
    const NoGrad no_tape;
    table.add_(table.grad() * -0.1f);
  });
  for (int i = 0; i < 3; ++i) rows(tensor({1, 2, 1}, i64));
  EXPECT_THAT(message(rows), HasSubstr("a gradient of rows of a table"));
  Graph g;
  g.define([] {
    const auto clipped =
        custom_gradient([](const Tensor& x) { return x * 1.0f; },
                        [](const CustomGradient& grad) { return clamp(grad.grad(), -1, 1); });
    return clipped(placeholder("x", f32, {2}));
  });
  EXPECT_THAT(message(g), HasSubstr("custom_gradient cannot be saved: what it does is code"));
  EXPECT_THAT(message(g), HasSubstr("program_test.cpp:"));
  EXPECT_THAT(message_of<IoError>([&] { static_cast<void>(load(file.path())); }),
              HasSubstr("cannot be opened"));
}

TEST(ProgramErrors, InputsAreNamed) {
  const TempFile file("named.dyad");
  Graph g;
  g.define([] {
    const Tensor a = placeholder("a", f32, {2});
    return a + placeholder("b", f32, {2});
  });
  save(file.path(), g);
  const Program program = load(file.path());
  const Tensor x = ones({2});
  const auto message = [&](const std::vector<Feed>& feeds) {
    return message_of<GraphError>([&] { program.run(feeds); });
  };
  EXPECT_THAT(message({{"a", x}}),
              HasSubstr("\"b\" is not fed; the inputs are \"a\": f32[2], \"b\": f32[2]"));
  EXPECT_THAT(message({{"a", x}, {"c", x}}), HasSubstr("a feed names \"c\""));
  EXPECT_THAT(message({{"a", x}, {"a", x}}), HasSubstr("\"a\" is fed twice"));
  EXPECT_THAT(message_of<GraphError>([&] { program(x); }), HasSubstr("is given 1 inputs"));
  EXPECT_THAT(message_of<ShapeError>([&] { program(x, ones({3})); }), HasSubstr("\"b\": f32[2]"));
  const auto around = compile([&](const Tensor& t) { return program(t, t)[0]; });
  EXPECT_THAT(message_of<GraphError>([&] { around(x); }), HasSubstr("runs on data"));
}

TEST(ProgramFile, DamageIsFoundAndOtherFilesAreRefused) {
  const TempFile file("whole.dyad"), damaged("damaged.dyad");
  Graph g;
  g.define([] { return placeholder("x", f32, {2}) * variable("w", tensor({1.0f, 2.0f})); });
  save(file.path(), g);
  const std::string whole = file.read();
  expect_every_truncation_fails(whole, "cut.dyad",
                                [](const auto& path) { static_cast<void>(load(path)); });
  for (std::size_t i = 0; i < whole.size(); ++i) {
    std::string bytes = whole;
    bytes[i] = static_cast<char>(bytes[i] ^ 1);
    damaged.write(bytes);
    EXPECT_THAT(message_of<IoError>([&] { static_cast<void>(load(damaged.path())); }),
                HasSubstr(damaged.path()))
        << "byte " << i;
  }
  save_safetensors(damaged.path(), {{"w", ones({2})}});
  EXPECT_THAT(message_of<IoError>([&] { static_cast<void>(load(damaged.path())); }),
              HasSubstr("expected a program with 'dyad.program' in its metadata"));
  const auto with = [&](const std::string& program) {
    save_safetensors(damaged.path(), {}, {{"dyad.program", program}, {kChecksumKey, ""}});
    return message_of<IoError>([&] { static_cast<void>(load(damaged.path())); });
  };
  EXPECT_THAT(with(R"({"format": 2})"), HasSubstr("expected format 1, found 2"));
  EXPECT_THAT(with("{"), HasSubstr("the program cannot be read"));
  EXPECT_THAT(with(R"({"format": 1, "graphs": 1})"), HasSubstr("expected 1 graphs, found 0"));
}

TEST(ProgramFile, OptionsOutOfRangeAreRefused) {
  const TempFile file("options.dyad"), altered("altered.dyad");
  const auto fast = compile([](const Tensor& x) { return x * 2.0f; },
                            {.hot_calls = 7, .memory_limit = 5, .name = "f"});
  static_cast<void>(fast(ones({2})));
  save(file.path(), fast);
  const Safetensors whole = read_safetensors(file.path());
  const auto with = [&](const std::string& was, const std::string& now) {
    return message_when_altered(whole, altered.path(), was, now);
  };
  EXPECT_THAT(with(R"("memory_limit":5)", R"("memory_limit":-5)"),
              HasSubstr("expected 0 or more for 'memory_limit', found -5"));
  EXPECT_THAT(with(R"("hot_calls":7)", R"("hot_calls":-7)"),
              HasSubstr("expected 0 or more for 'hot_calls', found -7"));
  EXPECT_THAT(with(R"("hot_calls":7)", R"("hot_calls":"7")"),
              HasSubstr("expected a whole number for 'hot_calls', found \"7\""));
}

TEST(ProgramOptions, AMemoryLimitIsKept) {
  // Of each layer the product and its tanh are kept for the gradient; the latter follows from the
  // former.
  const TempFile file("limited.dyad");
  Tensor w = full({64, 64}, 0.01f).requires_grad();
  const auto fn = [&](Tensor x) {
    for (int layer = 0; layer < 8; ++layer) x = tanh(matmul(x, w));
    return grad(sum(x * x), {w})[0];
  };
  const Tensor x = normal({1024, 64});
  const auto most_of = [&](std::int64_t limit) {
    const auto fast = compile(fn, {.recheck = false, .memory_limit = limit});
    static_cast<void>(fast(x));
    save(file.path(), fast);
    const Program program = load(file.path());
    EXPECT_EQ(values_of<float>(program(x)[0]), values_of<float>(fn(x)));
    reset_peak_memory();
    const std::size_t before = memory_stats().in_use;
    static_cast<void>(program(x));
    return memory_stats().peak - before;
  };
  EXPECT_LT(most_of(1), most_of(0) * 3 / 4);
}

TEST(ProgramOptions, AGraphIsRunAsItsSessionWas) {
  const TempFile file("fast.dyad"), again("again.dyad");
  Graph g;
  const Tensor y = g.define([] {
    const Tensor x = placeholder("x", f32, {700, 700});
    const Tensor e = exp(x - max(x, {1}, true));
    return e / sum(e, {1}, true);
  });
  const auto steps = [](const Program& program) {
    static_cast<void>(program(normal({700, 700})));
    return dyad::to_string(program.explain());
  };
  save(file.path(), g);
  EXPECT_THAT(steps(load(file.path())), HasSubstr("share a kernel"));
  save(file.path(), g, {.fast_math = true, .memory_limit = 1 << 20});
  const Program program = load(file.path());
  EXPECT_THAT(steps(program), ::testing::Not(HasSubstr("share a kernel")));
  save(again.path(), program);
  EXPECT_THAT(steps(load(again.path())), ::testing::Not(HasSubstr("share a kernel")));
  const auto fn = compile([](const Tensor& x) { return x * 2.0f; });
  static_cast<void>(fn(ones({2})));
  EXPECT_THAT(message_of<ValueError>([&] { save(file.path(), fn, {.fast_math = true}); }),
              HasSubstr("fast_math and memory_limit of a function are those of its compile()"));
}

TEST(ProgramFile, FilesOfThisFormatAreRead) {
  const auto loaded = [](const std::string& name) {
    return load("tests/fuzz/corpus/program/" + name + ".safetensors", {.check = false});
  };
  const Tensor x = ones({3, 2});
  EXPECT_EQ(loaded("graph")(x)[0].to_vector<float>(), std::vector<float>(6, 0.0f));
  const Program step = loaded("function");
  EXPECT_THAT(step(x)[0].item<float>(), 0.0f);
  EXPECT_THAT(message_of<GraphError>([&] { step(ones({10, 2})); }), HasSubstr("guard s0 < 9"));
  const Program constant = loaded("constant");
  static_cast<void>(constant(ones({2})));
  EXPECT_THAT(constant(ones({2}))[0].to_vector<float>(), ElementsAre(2.0f, 4.0f));
}

TEST(ProgramFile, WeightsLieOnCacheLinesInTheFile) {
  const TempFile file("aligned.dyad");
  Graph g;
  g.define([] {
    const Tensor w = variable("w", ones({6, 16})), b = variable("b", ones({3}));
    const Tensor v = variable("v", ones({64, 16}));
    return matmul(placeholder("x", f32, {"n", 6}), w).sum() + b + v.sum();
  });
  save(file.path(), g);
  const Program program = load(file.path());
  for (const char* name : {"w", "v"}) {
    const auto at = reinterpret_cast<std::uintptr_t>(program.state().at(name).raw_data());
    EXPECT_EQ(at % 64, 0u) << name;
  }
}

}  // namespace
}  // namespace dyad::io
