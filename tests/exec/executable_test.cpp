#include "dyad/exec/executable.h"

#include <thread>

#include "exec_for_tests.h"
#include "tests/shared/message_of.h"

namespace dyad::exec {
namespace {

using dyad::testing::message_of;

class ExecutableTest : public ::testing::Test {
 protected:
  void SetUp() override { manual_seed(11); }
  void TearDown() override { set_num_threads(1); }
};

TEST_F(ExecutableTest, PointwiseChainsGiveTheBitsOfEager) {
  const Function chain = [](std::span<const Tensor> in) -> Tensors {
    const Tensor a = tanh(in[0] * 2 + in[1]);
    const Tensor b = exp(-a) / (1 + a * a);
    return {b, where(b > 0.5, a, b - 1), sqrt(abs(a))};
  };
  expect_as_eager(chain, {normal({37, 53}), normal({53})});
  expect_as_eager(chain, {normal({400, 300}), normal({400, 1})});
  expect_as_eager(chain, {normal({64, 48}).t(), normal({48, 64})});
  expect_as_eager(chain, {normal({}), normal({})});
  expect_as_eager(chain, {normal({0, 5}), normal({5})});
}

TEST_F(ExecutableTest, EveryIntermediateIsRoundedToItsDtype) {
  const Function chain = [](std::span<const Tensor> in) -> Tensors {
    const Tensor a = in[0] * in[1] + in[1];
    return {a, exp(a) * 3, sum(a * a, {1})};
  };
  for (const DType dtype : {f16, bf16, f64}) {
    SCOPED_TRACE(name_of(dtype));
    expect_as_eager(chain, {normal({33, 17}).to(dtype), normal({33, 17}).to(dtype)});
  }
  const Function integers = [](std::span<const Tensor> in) -> Tensors {
    const Tensor a = in[0] * in[0] * in[0] + 7;
    return {a, a / 3, a > 100, a.to(f32) * 0.5, sum(a)};
  };
  for (const DType dtype : {i64, i32, i16, i8, u8}) {
    SCOPED_TRACE(name_of(dtype));
    expect_as_eager(integers, {randint(0, 100, {200}, dtype)});
  }
}

TEST_F(ExecutableTest, ReductionsWithPrologues) {
  const Function reductions = [](std::span<const Tensor> in) -> Tensors {
    const Tensor& x = in[0];
    return {sum(x * x),
            mean(exp(x), {0}),
            max(abs(x), {1}, true),
            argmax(x * -1, 1),
            sum(x.transpose(0, 1) * 2, {0}),
            min(x),
            prod(1 + x * 0.01, {0, 1})};
  };
  expect_as_eager(reductions, {normal({40, 130})});
  expect_as_eager(reductions, {normal({9000, 3})});
  expect_as_eager(reductions, {normal({130, 40}).t()});
}

TEST_F(ExecutableTest, CompositesAndLibraryOperators) {
  const Function model = [](std::span<const Tensor> in) -> Tensors {
    const Tensor x = relu(conv2d(in[0], in[1], in[2], 1, 1));
    const Tensor pooled = max_pool2d(x, 2).flatten(1);
    const Tensor logits = linear(pooled, in[3]);
    return {softmax(logits, -1), cross_entropy(logits, in[4]), log_softmax(logits, 0), x};
  };
  expect_as_eager(model, {normal({5, 3, 8, 8}), normal({6, 3, 3, 3}), normal({6}), normal({10, 96}),
                          randint(0, 10, {5})});
  const Function norm = [](std::span<const Tensor> in) -> Tensors {
    return {layer_norm(in[0], in[1], in[2]), gelu(matmul(in[0], in[0].transpose(-1, -2)))};
  };
  expect_as_eager(norm, {normal({4, 6, 32}), normal({32}), normal({32})});
}

TEST_F(ExecutableTest, ViewsAreNoSteps) {
  const Function views = [](std::span<const Tensor> in) -> Tensors {
    const Tensor x = in[0].transpose(0, 1).slice(0, 1, 5, 2);
    return {x * 2, in[0].reshape({-1}) + 1, expand(in[0].select(1, 0).unsqueeze(1), {6, 4}),
            in[0].t().reshape({3, 12}) * 1.5};
  };
  const Tensors inputs{normal({6, 6})};
  expect_as_eager(views, inputs);
  Executable executable(record(
      [](std::span<const Tensor> in) -> Tensors {
        return {in[0].transpose(0, 1).slice(0, 1, 5) * 2};
      },
      types_of(inputs)));
  static_cast<void>(executable.run(inputs));
  EXPECT_EQ(executable.stats().kernels, 1);
  EXPECT_EQ(executable.stats().views, 2);
}

TEST_F(ExecutableTest, OneGraphServesEverySize) {
  const Function model = [](std::span<const Tensor> in) -> Tensors {
    const Tensor h = tanh(matmul(in[0], in[1]));
    return {cross_entropy(h, in[2]), h.reshape({in[0].size(0) * 5}), mean(h, {0})};
  };
  const Types types{Type(f32, {"batch", 7}), Type(f32, {7, 5}), Type(i64, {"batch"})};
  const Tensor weight = normal({7, 5});
  Executable executable(record(model, types));
  for (const int batch : {4, 1, 9, 4, 9, 200}) {
    const Tensors inputs{normal({batch, 7}), weight, randint(0, 5, {batch})};
    const Tensors expected = model(inputs), given = executable.run(inputs);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_TRUE(same_bits(given[i], expected[i])) << "batch " << batch;
    }
  }
  EXPECT_EQ(executable.stats().plans, 4) << "each size is planned once";
}

TEST_F(ExecutableTest, OnlySoManyPlansAreKept) {
  Executable executable(record([](std::span<const Tensor> in) -> Tensors { return {exp(in[0])}; },
                               Types{Type(f32, {"n"})}),
                        {.max_plans = 2});
  for (const int n : {1, 2, 1, 3, 1, 2}) static_cast<void>(executable.run(Tensors{normal({n})}));
  EXPECT_EQ(executable.stats().plans, 4);  // 2 went when 3 came
}

TEST_F(ExecutableTest, OnlySoManyPlansAreKeptForAllThreadsTogether) {
  Executable executable(record([](std::span<const Tensor> in) -> Tensors { return {exp(in[0])}; },
                               Types{Type(f32, {"n"})}),
                        {.max_plans = 2});
  constexpr int kSizes = 40;
  for (int n = 1; n <= kSizes; ++n)
    std::jthread([&] { static_cast<void>(executable.run(Tensors{ones({n})})); }).join();
  EXPECT_EQ(executable.stats().plans, kSizes);
  for (int n = 1; n <= kSizes; ++n) static_cast<void>(executable.run(Tensors{ones({n})}));
  EXPECT_GE(executable.stats().plans, 2 * kSizes - 2);
}

TEST_F(ExecutableTest, PlansOfAHundredLengthsAreAllKept) {
  Executable executable(record([](std::span<const Tensor> in) -> Tensors { return {exp(in[0])}; },
                               Types{Type(f32, {"n"})}));
  for (int call = 0; call < 300; ++call)
    static_cast<void>(executable.run(Tensors{normal({5 + call * 37 % 100})}));
  EXPECT_EQ(executable.stats().plans, 100);
}

TEST_F(ExecutableTest, ValuesThatDoNotFitTheirPlaceholdersAreRefused) {
  const Types types{Type(f32, {"batch", 3}), Type(i64, {"batch"}),
                    Type(f32, {Dim("batch") * 2 + 1})};
  Executable executable(
      record([](std::span<const Tensor> in) -> Tensors { return {sum(in[0], {1}) + in[1], in[2]}; },
             types));
  const Loc call = Loc::intern("train.cpp", 41);
  const auto run = [&](const Tensors& inputs) {
    return [&, inputs] { static_cast<void>(executable.run(inputs, nullptr, call)); };
  };
  const Tensor x = zeros({4, 3}), y = zeros({4}, i64), z = zeros({9});
  EXPECT_NO_THROW(run({x, y, z})());
  EXPECT_EQ(
      message_of<ShapeError>(run({x, zeros({5}, i64), z})),
      "placeholder \"x1\": i64[batch] was given i64[5]: axis 0 is 5, but batch is 4 by axis 0 "
      "of \"x0\"\n  at train.cpp:41");
  EXPECT_EQ(
      message_of<ShapeError>(run({zeros({4, 2}), y, z})),
      "placeholder \"x0\": f32[batch, 3] was given f32[4, 2]: axis 1 must be 3 but is 2\n  at "
      "train.cpp:41");
  EXPECT_EQ(
      message_of<ShapeError>(run({zeros({4}), y, z})),
      "placeholder \"x0\": f32[batch, 3] was given f32[4]: it must have 2 axes but has 1\n  at "
      "train.cpp:41");
  EXPECT_EQ(
      message_of<ShapeError>(run({x, y, zeros({8})})),
      "placeholder \"x2\": f32[2*batch + 1] was given f32[8]: axis 0 is 8, but 2*batch + 1 is "
      "9 by axis 0 of \"x0\"\n  at train.cpp:41");
  EXPECT_EQ(message_of<DTypeError>(run({x.to(f64), y, z})),
            "placeholder \"x0\": f32[batch, 3] was given f64[4, 3]: the dtype must be f32 but is "
            "f64; convert it with .to(f32)\n  at train.cpp:41");
  EXPECT_EQ(message_of<ValueError>(run({x, y})),
            "the graph has 3 placeholders, but 2 values were given\n  at train.cpp:41");
}

TEST_F(ExecutableTest, ASizeIsSolvedFromAnExpression) {
  const Function fn = [](std::span<const Tensor> in) -> Tensors {
    return {in[0] * 2, zeros({in[0].size(0) * 2})};
  };
  Executable executable(record(fn, Types{Type(f32, {Dim("half") * 2})}));
  EXPECT_EQ(executable.run(Tensors{zeros({6})})[1].shape().numbers()[0], 12);
  EXPECT_EQ(
      message_of<ShapeError>([&] { static_cast<void>(executable.run(Tensors{zeros({5})})); }),
      "placeholder \"x0\": f32[2*half] was given f32[5]: axis 0 is 5, which 2*half cannot be");
}

TEST_F(ExecutableTest, ShapesThatDoNotFitAtTheseSizesAreTheErrorOfEager) {
  ops::register_builtin_ops();
  Executable executable(parse_graph(R"(graph {
    %x = placeholder : f32[n]
    %y = reshape(%x) {shape = [2, 3]} : f32[2, 3] @model.cpp:12
    return %y
  })"));
  EXPECT_EQ(executable.run(Tensors{zeros({6})})[0].rank(), 2);
  const std::string eager =
      message_of<ShapeError>([&] { static_cast<void>(zeros({8}).reshape({2, 3})); });
  const std::string graph = message_of<ShapeError>([&] {
    static_cast<void>(executable.run(Tensors{zeros({8})}, nullptr, Loc::intern("train.cpp", 41)));
  });
  const auto message = [](const std::string& text) { return text.substr(0, text.find("\n  at ")); };
  EXPECT_EQ(message(graph), message(eager));
  EXPECT_THAT(graph, ::testing::HasSubstr("at train.cpp:41\n  declared at model.cpp:12"));
}

TEST_F(ExecutableTest, ErrorsOnDataNameTheCallAndTheNode) {
  const Function fn = [](std::span<const Tensor> in) -> Tensors {
    return {embedding(in[0], in[1], Loc::intern("model.cpp", 7))};
  };
  const Tensors inputs{tensor({0, 9}, i64), normal({4, 2})};
  Executable executable(record(fn, types_of(inputs)));
  const std::string graph = message_of<IndexError>(
      [&] { static_cast<void>(executable.run(inputs, nullptr, Loc::intern("train.cpp", 41))); });
  const std::string eager = message_of<IndexError>([&] { fn(inputs); });
  EXPECT_EQ(graph.substr(0, graph.find("\n  at ")), eager.substr(0, eager.find("\n  at ")));
  EXPECT_THAT(graph, ::testing::HasSubstr("at train.cpp:41\n  declared at model.cpp:7"));
}

TEST_F(ExecutableTest, OutputsOwnTheirMemory) {
  const Tensor held = normal({5});
  const Function fn = [&](std::span<const Tensor> in) -> Tensors {
    const Tensor a = in[0] + 1;
    return {a, a.reshape({5, 1}), in[0], held, in[0].slice(0, 1, 3)};
  };
  const Tensors inputs{normal({5})};
  Executable executable(record(fn, types_of(inputs)));
  const Tensors first = executable.run(inputs), second = executable.run(inputs);
  for (std::size_t i = 0; i < first.size(); ++i) {
    EXPECT_TRUE(same_bits(first[i], second[i]));
    EXPECT_NE(first[i].impl()->data, second[i].impl()->data);
    EXPECT_NE(first[i].impl()->storage, inputs[0].impl()->storage);
    EXPECT_NE(first[i].impl()->storage, held.impl()->storage);
  }
  EXPECT_EQ(first[0].impl()->data, first[1].impl()->data) << "a view of an output stays one";
}

TEST_F(ExecutableTest, MemoryIsSharedByValuesThatDoNotMeet) {
  const Function chain = [](std::span<const Tensor> in) -> Tensors {
    Tensor x = in[0];
    for (int i = 0; i < 10; ++i) x = matmul(x, in[1]);
    return {sum(x)};
  };
  const Tensors inputs{normal({64, 64}), normal({64, 64})};
  Executable executable(record(chain, types_of(inputs)));
  static_cast<void>(executable.run(inputs));
  EXPECT_EQ(executable.stats().arena_bytes, 2u * 64 * 64 * 4);
  EXPECT_EQ(executable.stats().live_peak, executable.stats().arena_bytes);
}

TEST_F(ExecutableTest, ElementwiseKernelsWriteOverInputsThatNobodyNeeds) {
  const Function chain = [](std::span<const Tensor> in) -> Tensors {
    const Tensor x = matmul(in[0], in[1]);
    return {matmul(tanh(x) + 1, in[1])};
  };
  const Tensors inputs{normal({64, 64}), normal({64, 64})};
  Executable executable(record(chain, types_of(inputs)));
  EXPECT_TRUE(same_bits(executable.run(inputs)[0], chain(inputs)[0]));
  EXPECT_EQ(executable.stats().arena_bytes, 64u * 64 * 4);
}

TEST_F(ExecutableTest, RandomNumbersAreThoseOfEager) {
  const Function fn = [](std::span<const Tensor> in) -> Tensors {
    const Tensor unused = normal({3});
    return {dropout(in[0], 0.5), uniform({4}), normal({in[0].size(0)})};
  };
  const Tensors inputs{ones({100})};
  Executable executable(record(fn, types_of(inputs)));
  manual_seed(5);
  const Tensors first = fn(inputs), second = fn(inputs);
  manual_seed(5);
  for (const Tensors& expected : {first, second}) {
    const Tensors given = executable.run(inputs);
    for (std::size_t i = 0; i < given.size(); ++i) EXPECT_TRUE(same_bits(given[i], expected[i]));
  }
}

TEST_F(ExecutableTest, CancellationStopsBetweenStepsAndTheNextRunIsWhole) {
  const Tensors inputs{normal({8, 8})};
  Executable executable(
      record([](std::span<const Tensor> in) -> Tensors { return {matmul(exp(in[0]), in[0])}; },
             types_of(inputs)));
  const CancelToken token;
  token.cancel();
  EXPECT_THAT(message_of<CancelledError>([&] {
                static_cast<void>(executable.run(inputs, &token, Loc::intern("train.cpp", 41)));
              }),
              ::testing::HasSubstr("cancelled\n  at train.cpp:41"));
  token.reset();
  EXPECT_TRUE(same_bits(executable.run(inputs, &token)[0], matmul(exp(inputs[0]), inputs[0])));
}

TEST_F(ExecutableTest, StatisticsSayWhatBecameOfTheGraph) {
  const Tensors inputs{normal({8, 8})};
  Executable executable(
      record([](std::span<const Tensor> in) -> Tensors { return {sum(tanh(in[0]) * 2 + 1)}; },
             types_of(inputs)));
  static_cast<void>(executable.run(inputs));
  const ExecutableStats stats = executable.stats();
  EXPECT_EQ(stats.nodes, 4);
  EXPECT_EQ(stats.lowered_nodes, 1);
  EXPECT_EQ(stats.kernels, 1);
  EXPECT_EQ(stats.plans, 1);
}

}  // namespace
}  // namespace dyad::exec
