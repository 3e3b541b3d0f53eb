// Library calls with what follows them in graphs, and weights that steps of plans keep packed.
#include <dlfcn.h>

#include <optional>
#include <sstream>
#include <thread>

#include "dyad/core/generator.h"
#include "dyad/exec/session.h"
#include "exec_for_tests.h"

namespace dyad::exec {
namespace {

class EpiloguesTest : public RestoresThreads {
 protected:
  void SetUp() override {
    ops::register_builtin_ops();
    manual_seed(7);
  }
};

/// The largest difference, relative to the largest element.
double difference(const Tensor& a, const Tensor& b) {
  return (max(abs(a - b)) / (max(abs(b)) + 1e-6)).item<double>();
}

/// That under fast_math `fn` becomes nodes of `op` alone, and gives nearly what eager mode gives.
void expect_joined(const Function& fn, const Tensors& inputs, std::string_view op, int count) {
  const Ref<GraphImpl> graph = record(fn, types_of(inputs));
  for (const int threads : {1, 2}) {
    set_num_threads(threads);
    Executable executable(graph, {.fast_math = true, .channel_blocks = false});
    EXPECT_EQ(count_of(executable.lowered(), op), count) << to_string(executable.lowered());
    EXPECT_EQ(executable.stats().lowered_nodes, count) << to_string(executable.lowered());
    const Tensors expected = fn(inputs);
    for (int run = 0; run < 2; ++run) {
      const Tensors given = executable.run(inputs);
      for (std::size_t i = 0; i < given.size(); ++i) {
        EXPECT_LT(difference(given[i], expected[i]), 1e-5) << "run " << run;
      }
    }
  }
}

TEST_F(EpiloguesTest, AttentionThatIsWrittenOutIsOneCall) {
  const Tensor q = normal({2, 3, 5, 8}), k = normal({2, 3, 7, 8}), v = normal({2, 3, 7, 4});
  const Tensor mask = where(uniform({2, 1, 5, 7}) < 0.7f, 0, -1e4f);
  const Tensor seen = uniform({5, 7}) < 0.8f;
  const auto scores = [](std::span<const Tensor> x) {
    return matmul(x[0], transpose(x[1], -1, -2)) / 3;
  };
  expect_joined(
      [&](std::span<const Tensor> x) -> Tensors { return {matmul(softmax(scores(x), -1), x[2])}; },
      {q, k, v}, "attention_forward", 1);
  expect_joined(
      [&](std::span<const Tensor> x) -> Tensors {
        return {matmul(softmax(scores(x) + x[3], -1), x[2])};
      },
      {q, k, v, mask}, "attention_forward", 1);
  // A row of nothing: 0, as its author meant.
  const Tensor hidden = where(arange(5) == 2, false, true);
  expect_joined(
      [&](std::span<const Tensor> x) -> Tensors {
        const Tensor p =
            softmax(where(x[3], scores(x), -std::numeric_limits<float>::infinity()), -1);
        return {matmul(where(isnan(p), 0, p), x[2])};
      },
      {q, k, v, logical_and(seen, unsqueeze(hidden, 1))}, "attention_forward", 1);
}

struct Sizes {
  std::int64_t channels, out, side, kernel, stride, groups;
};
constexpr Sizes kSizes[] = {{16, 16, 9, 3, 1, 1}, {24, 40, 7, 1, 1, 1}, {64, 64, 14, 3, 1, 1},
                            {13, 7, 5, 3, 1, 1},  {8, 12, 8, 3, 2, 2},  {32, 32, 10, 3, 1, 32}};

TEST_F(EpiloguesTest, ProductsOfEverNewRowsHaveTheSameBits) {
  // The library's code for sizes that come for the first time is put together from what it has.
  const Tensor w = normal({130, 70}), b = normal({130}), x = normal({300, 70}),
               residual = normal({300, 130});
  const Function fn = [&](std::span<const Tensor> in) -> Tensors {
    return {relu(linear(in[0], literal(w), literal(b)) + in[1]), linear(in[0], literal(w))};
  };
  const auto run = [&](std::int64_t rows) {
    const Tensors inputs{clone(slice(x, 0, 0, rows)), clone(slice(residual, 0, 0, rows))};
    Executable executable(record(fn, types_of(inputs)), {.fast_math = true});
    EXPECT_EQ(count_of(executable.lowered(), "product_epilogue"), 2)
        << to_string(executable.lowered());
    return executable.run(inputs);
  };
  for (const int threads : {1, 2}) {
    set_num_threads(threads);
    for (int time = 1; time <= 6; ++time) {
      for (const std::int64_t rows : {40, 17, 31, 64, 100, 133, 300, 25}) {
        const Tensors changing = run(rows);
        Tensors alone;
        if (time <= 2) std::thread([&] { alone = run(rows); }).join();
        for (std::size_t i = 0; i < alone.size(); ++i) {
          EXPECT_TRUE(same_bits(changing[i], alone[i])) << rows << " rows, time " << time;
          EXPECT_LT(difference(changing[i], fn(std::array{clone(slice(x, 0, 0, rows)),
                                                          clone(slice(residual, 0, 0, rows))})[i]),
                    1e-5);
        }
      }
    }
  }
}

TEST_F(EpiloguesTest, ResidualsGiveTheBitsOfEager) {
  for (const Sizes& s : kSizes) {
    const Tensor w = normal({s.out, s.channels / s.groups, s.kernel, s.kernel}),
                 b = normal({s.out});
    const Tensor square = normal({s.out, s.out, 1, 1});
    const Function fn = [&](std::span<const Tensor> in) -> Tensors {
      const std::int64_t pad = s.kernel / 2;
      const auto windows = [&](const Tensor& x) {
        return conv2d(x, literal(w), literal(b), s.stride, pad, 1, s.groups);
      };
      // Both convolutions give channels-last images, so that one takes over the other's memory.
      const Tensor residual = windows(in[0]);
      return {conv2d(windows(in[0] * 2) + residual, literal(square), Tensor(), 1)};
    };
    expect_as_eager(fn, {normal({2, s.channels, s.side, s.side})});
  }
  const Tensor w = normal({8, 8, 1, 1});
  const Function bottleneck = [&](std::span<const Tensor> in) -> Tensors {
    const Tensor x = conv2d(in[0], literal(w), Tensor(), 1);
    return {conv2d(conv2d(x, literal(w), Tensor(), 1) + x, literal(w), Tensor(), 1)};
  };
  const Ref<GraphImpl> graph = record(bottleneck, types_of(Tensors{normal({1, 8, 6, 6})}));
  EXPECT_EQ(count_of(Executable(graph).lowered(), "conv_epilogue"), 1);
}

TEST_F(EpiloguesTest, ConvolutionsTakeActivations) {
  using Activation = Tensor (*)(const Tensor&);
  constexpr Activation kActivations[] = {
      [](const Tensor& x) { return relu(x); },
      [](const Tensor& x) { return clamp(x, -0.5, 0.75); },
      [](const Tensor& x) { return minimum(maximum(x, 0.25), 1.5); },
      [](const Tensor& x) { return leaky_relu(x, 0.125); },
      [](const Tensor& x) { return sigmoid(x); },
      [](const Tensor& x) { return silu(x); },
      [](const Tensor& x) { return x * sigmoid(x); },
      [](const Tensor& x) { return hardswish(x); },
  };
  for (const Sizes& s : kSizes) {
    const std::int64_t channels = s.channels / s.groups;
    // Sums of about 1, so that activations bend them.
    const Tensor w = normal({s.out, channels, s.kernel, s.kernel}) /
                     std::sqrt(static_cast<double>(channels * s.kernel * s.kernel)),
                 b = normal({s.out});
    for (const Activation activation : kActivations) {
      const Function fn = [&](std::span<const Tensor> in) -> Tensors {
        return {
            activation(conv2d(in[0], literal(w), literal(b), s.stride, s.kernel / 2, 1, s.groups))};
      };
      expect_joined(fn, {normal({2, s.channels, s.side, s.side})}, "conv_epilogue", 1);
    }
  }
}

TEST_F(EpiloguesTest, ResidualsOfAnyOriginAreAdded) {
  for (const std::int64_t channels : {16, 64}) {
    const Tensor w = normal({channels, channels, 3, 3});
    const Function fn = [&](std::span<const Tensor> in) -> Tensors {
      const Tensor y = relu(conv2d(in[0], literal(w), Tensor(), 1, 1) + in[0]);
      return {relu(conv2d(y, literal(w), Tensor(), 1, 1) + y)};
    };
    expect_joined(fn, {normal({2, channels, 14, 14})}, "conv_epilogue", 2);
    // A residual that is needed later is not written over.
    const Function kept = [&](std::span<const Tensor> in) -> Tensors {
      const Tensor x = relu(conv2d(in[0], literal(w), Tensor(), 1, 1));
      const Tensor y = relu(conv2d(x, literal(w), Tensor(), 1, 1) + x);
      return {relu(conv2d(y, literal(w), Tensor(), 1, 1) + x)};
    };
    expect_joined(kept, {normal({1, channels, 14, 14})}, "conv_epilogue", 3);
  }
}

TEST_F(EpiloguesTest, ProductsTakeWhatFollowsThem) {
  for (const std::int64_t rows : {1, 3, 16, 130}) {
    const Tensor w = normal({96, 64}), v = normal({64, 64}), b = normal({64});
    const Function fn = [&](std::span<const Tensor> in) -> Tensors {
      const Tensor h = relu(matmul(in[0], literal(w)) + literal(b));
      const Tensor turned = matmul(h, transpose(literal(v), 0, 1)) + h;
      return {silu(linear(turned, literal(v), literal(b)))};
    };
    expect_joined(fn, {normal({rows, 96})}, "product_epilogue", 3);
    expect_joined(fn, {normal({2, rows, 96})}, "product_epilogue", 3);
  }
}

TEST_F(EpiloguesTest, NormsGoIntoConvolutions) {
  const Tensor w = normal({40, 24, 3, 3}), b = normal({40}), scale = normal({40}),
               shift = normal({40}), mean = normal({40}), var = abs(normal({40})) + 0.5;
  const Function fn = [&](std::span<const Tensor> in) -> Tensors {
    const Tensor y = conv2d(in[0], literal(w), literal(b), 1, 1);
    return {relu(batch_norm(y, literal(scale), literal(shift), literal(mean), literal(var)))};
  };
  expect_joined(fn, {normal({2, 24, 6, 6})}, "conv_epilogue", 1);
}

TEST_F(EpiloguesTest, ASessionAsksForIt) {
  Graph g;
  const Tensor w = normal({96, 64});
  const Tensor y = g.define([&] {
    const Tensor x = placeholder("x", f32, {4, 96});
    return relu(matmul(x, literal(w)));
  });
  const Tensor x = normal({4, 96}), expected = relu(matmul(x, w));
  EXPECT_TRUE(same_bits(Session(g).run({y}, {{"x", x}})[0], expected));
  EXPECT_LT(difference(Session(g, {.fast_math = true}).run({y}, {{"x", x}})[0], expected), 1e-5);
}

TEST_F(EpiloguesTest, ConstantWeightsArePackedOnceAndGiveTheBitsOfEager) {
  const Tensor w = normal({32, 16, 3, 3}), b = normal({32});
  const Function fn = [&](std::span<const Tensor> in) -> Tensors {
    return {conv2d(in[0], literal(w), literal(b), 1, 1)};
  };
  const Dim batch = Dim::symbol("batch");
  const Type type(f32, {batch, 16, 12, 12});
  Executable executable(record(fn, {&type, 1}));
  // Other sizes, threads and callers: other primitives for the same weight.
  for (const std::int64_t n : {1, 3, 1}) {
    const Tensors inputs{normal({n, 16, 12, 12})};
    for (const int threads : {1, 2, 1}) {
      set_num_threads(threads);
      EXPECT_TRUE(same_bits(executable.run(inputs)[0], fn(inputs)[0]));
      std::thread([&] { EXPECT_TRUE(same_bits(executable.run(inputs)[0], fn(inputs)[0])); }).join();
    }
  }
}

/// How often the convolutions that `run` calls bring a tensor from one layout into another, as the
/// library itself tells; nothing where they are not the library's.
std::optional<int> reorders(const std::function<void()>& run) {
  const auto set_verbose = reinterpret_cast<int (*)(int)>(dlsym(RTLD_DEFAULT, "dnnl_set_verbose"));
  if (set_verbose == nullptr) return std::nullopt;
  ::testing::internal::CaptureStdout();
  set_verbose(1);
  run();
  set_verbose(0);
  std::istringstream told(::testing::internal::GetCapturedStdout());
  int reorders = 0, calls = 0;
  for (std::string line; std::getline(told, line);) {
    reorders += line.find("exec,cpu,reorder") != std::string::npos;
    calls += line.find("exec,cpu,convolution") != std::string::npos;
  }
  return calls > 0 ? std::optional(reorders) : std::nullopt;
}

TEST_F(EpiloguesTest, WeightsArePackedOnceUntilTheyChange) {
  const Tensor constant = normal({32, 16, 3, 3});
  Tensor weight = normal({32, 16, 3, 3});
  const Tensors inputs{normal({2, 16, 12, 12})};
  Executable executable(record(
      [&](std::span<const Tensor> in) -> Tensors {
        return {conv2d(in[0], literal(constant), {}, 1, 1)};
      },
      types_of(inputs)));
  const auto compiled = compile([&](const Tensor& x) { return conv2d(x, weight, {}, 1, 1); },
                                {.background = Background::never});
  if (!reorders([&] { static_cast<void>(executable.run(inputs)); })) {
    GTEST_SKIP() << "the library has no part in these convolutions";
  }
  EXPECT_EQ(reorders([&] { static_cast<void>(executable.run(inputs)); }), 0);
  for (int update = 0; update < 3; ++update) {
    // A weight that is written all the time is packed into memory that calls share; from the second
    // call without a write on its copy is kept.
    const std::optional<int> packed = reorders([&] {
      for (int call = 0; call < 3; ++call) static_cast<void>(compiled(inputs[0]));
    });
    EXPECT_THAT(packed, ::testing::Optional(::testing::Le(2)));
    EXPECT_EQ(reorders([&] { static_cast<void>(compiled(inputs[0])); }), 0) << "update " << update;
    const NoGrad guard;
    weight.add_(1);
  }
}

TEST_F(EpiloguesTest, ChainsOfConvolutionsTurnNoImagesInBetween) {
  const Tensor first = normal({32, 16, 3, 3}), b = normal({32});
  const Tensor later[] = {normal({32, 32, 3, 3}), normal({32, 32, 3, 3}), normal({32, 32, 3, 3})};
  const Function fn = [&](std::span<const Tensor> in) -> Tensors {
    Tensor x = relu(conv2d(in[0], literal(first), literal(b), 1, 1));
    for (const Tensor& w : later) x = relu(conv2d(x, literal(w), literal(b), 1, 1) + x);
    return {mean(max_pool2d(x, 2), {2, 3})};
  };
  const Tensors inputs{normal({2, 16, 12, 12})};
  Executable executable(record(fn, types_of(inputs)));
  if (!reorders([&] { static_cast<void>(executable.run(inputs)); })) {
    GTEST_SKIP() << "the library has no part in these convolutions";
  }
  EXPECT_THAT(reorders([&] { static_cast<void>(executable.run(inputs)); }),
              ::testing::Optional(::testing::Le(2)))
      << "the images once into the layout of the chain, and once out of it";
  EXPECT_TRUE(same_bits(executable.run(inputs)[0], fn(inputs)[0]));
}

TEST_F(EpiloguesTest, RecurrentLayersKeepTheirWeightsPacked) {
  const Tensor wx = normal({64, 24}), wh = normal({64, 16}), b = normal({64});
  const Tensor gx = normal({48, 24}), gh = normal({48, 16});
  const Function fn = [&](std::span<const Tensor> in) -> Tensors {
    const RecurrentArgs state{.h0 = in[1]};
    const RecurrentResult cell =
        lstm(in[0], literal(wx), literal(wh), literal(b), Tensor(), {.h0 = in[1], .c0 = in[1]});
    const RecurrentResult after = gru(in[0], literal(gx), literal(gh), Tensor(), Tensor(), state);
    RecurrentArgs before = state;
    before.linear_before_reset = false;
    return {cell.y, cell.c, after.h,
            gru(in[0], literal(gx), literal(gh), Tensor(), Tensor(), before).h};
  };
  for (const std::int64_t samples : {1, 5}) {
    for (const std::int64_t steps : {1, 4}) {
      expect_as_eager(fn, {normal({steps, samples, 24}), normal({samples, 16})});
    }
  }
  // From another thread, with what the first one packed.
  const Tensors inputs{normal({2, 3, 24}), normal({3, 16})};
  Executable executable(record(fn, types_of(inputs)));
  static_cast<void>(executable.run(inputs));
  std::thread([&] {
    const Tensors given = executable.run(inputs), expected = fn(inputs);
    for (std::size_t i = 0; i < given.size(); ++i) EXPECT_TRUE(same_bits(given[i], expected[i]));
  }).join();
}

TEST_F(EpiloguesTest, LargeConstantsAreComputedOnceUpToTheBytesThatThereAre) {
  const Tensor w = normal({100, 100});
  const Function fn = [&](std::span<const Tensor> in) -> Tensors {
    const Tensor c = literal(w);
    const std::vector<Tensor> parts = chunk(c, 2, 0);
    const Tensor turned = concat({parts[1], parts[0]}, 0);  // as many bytes as w
    const Tensor more = turned * 2;                         // beyond them
    return {in[0] + turned, in[0] * more};
  };
  const Tensors inputs{normal({100, 100})};
  expect_as_eager(fn, inputs);
  Executable executable(record(fn, types_of(inputs)));
  EXPECT_EQ(count_of(executable.lowered(), "concat"), 0) << to_string(executable.lowered());
  EXPECT_EQ(executable.stats().lowered_nodes, 1) << to_string(executable.lowered());
}

}  // namespace
}  // namespace dyad::exec
