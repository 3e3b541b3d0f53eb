#include "dyad/autograd/gradients.h"
#include "dyad/exec/compile.h"
#include "exec_for_tests.h"
#include "tests/shared/message_of.h"

// Kernels that work on the same rows run together, a few rows at a time: the bits of eager.

namespace dyad::exec {
namespace {

class FusedRows : public ::testing::Test {
 protected:
  void SetUp() override { manual_seed(7); }
  void TearDown() override { set_num_threads(1); }
};

/// Steps that a run of `fn` takes.
int kernels_of(const Function& fn, const Tensors& inputs) {
  Executable executable(record(fn, types_of(inputs)));
  static_cast<void>(executable.run(inputs));
  return executable.stats().kernels;
}

Tensors softmax_by_hand(std::span<const Tensor> in) {
  const Tensor x = in[0] * 0.5 + 1;
  const Tensor e = exp(x - max(x, {-1}, true));
  const Tensor s = sum(e, {-1}, true);
  return {e / s, log(s)};
}

Tensors norm_by_hand(std::span<const Tensor> in) {
  const Tensor h = in[0] + in[1];
  const Tensor c = h - mean(h, {-1}, true);
  const Tensor y = c * rsqrt(mean(square(c), {-1}, true) + 1e-5);
  return {h, y * in[2], argmax(y, -1), max(abs(y), {-1})};
}

TEST_F(FusedRows, ReductionsWithTheirNeighboursAreOneStep) {
  const Tensor x = normal({300, 700});
  EXPECT_EQ(kernels_of(softmax_by_hand, {x}), 1);
  EXPECT_EQ(kernels_of(norm_by_hand, {x, x, normal({700})}), 1);
}

TEST_F(FusedRows, GiveTheBitsOfEagerAtEverySize) {
  for (const Shape& shape :
       {Shape{300, 700}, {1000, 3}, {7, 9000}, {1, 5000}, {5, 1}, {64, 17}, {0, 4}, {2049, 130}}) {
    SCOPED_TRACE(to_string(shape));
    const Tensor x = normal(shape), w = normal({shape[1]});
    expect_as_eager(softmax_by_hand, {x});
    expect_as_eager(norm_by_hand, {x, normal(shape), w});
  }
  for (const Shape& shape :
       {Shape{6, 50, 64}, {2, 3, 5, 7}, {1, 200, 300}, {40, 2, 3000}, {3, 3, 3}, {9, 0, 4}}) {
    SCOPED_TRACE(to_string(shape));
    const Tensor x = normal(shape);
    expect_as_eager(softmax_by_hand, {x});
    expect_as_eager(norm_by_hand,
                    {x, normal({shape[shape.size() - 2], 1}), normal({shape[shape.size() - 1]})});
  }
}

Tensors picked(std::span<const Tensor> in) {
  const Tensor rows = log_softmax(in[0] * 0.5, -1);
  return {gather(rows, -1, in[1]) * 2, scatter_add(exp(rows), -1, in[1], in[2])};
}

Tensors embedded(std::span<const Tensor> in) {
  const Tensor h = embedding(in[1], in[0]) + in[2];
  return {h, layer_norm(h, in[3], in[3])};
}

/// Of a table elements, each from its column.
Tensors picked_of_columns(std::span<const Tensor> in) {
  const Tensor h = gather(in[0], 0, in[1]) * 2;
  return {h, layer_norm(h, in[2], in[2])};
}

TEST_F(FusedRows, PickElementsByIndex) {
  EXPECT_EQ(kernels_of(picked, {normal({300, 70}), randint(0, 70, {300, 2}), normal({300, 2})}), 1);
  EXPECT_EQ(kernels_of(embedded,
                       {normal({50, 64}), randint(0, 50, {6, 40}), normal({40, 64}), normal({64})}),
            1);
  EXPECT_EQ(
      kernels_of(picked_of_columns, {normal({50, 64}), randint(0, 50, {600, 64}), normal({64})}),
      1);
  for (const int threads : {1, 2}) {
    set_num_threads(threads);
    for (const auto& [rows, size] :
         {std::pair(300, 700), {1000, 3}, {7, 9000}, {1, 5}, {2049, 130}}) {
      SCOPED_TRACE(rows);
      expect_as_eager(picked_of_columns,
                      {normal({20, size + 1}), randint(-20, 20, {rows, size}), normal({size})});
      expect_as_eager(picked_of_columns, {normal({20, size + 1}).t().contiguous().t(),
                                          randint(-20, 20, {rows, size}), normal({size})});
      expect_as_eager(picked,
                      {normal({rows, size}), randint(0, size, {rows, 4}), normal({rows, 4})});
      expect_as_eager(embedded,
                      {normal({20, size}), randint(0, 20, {rows}), normal({size}), normal({size})});
      expect_as_eager(embedded, {normal({20, size}), randint(0, 20, {3, rows}),
                                 normal({rows, size}), normal({size})});
    }
    expect_as_eager(picked, {normal({4, 30, 9}), randint(0, 9, {4, 30, 5}), normal({4, 30, 5})});
  }
}

TEST_F(FusedRows, LeaveTablesAloneThatOtherRowsRead) {
  // The table has the size of the result, and nobody needs it afterwards.
  const Function turned = [](std::span<const Tensor> in) -> Tensors {
    const Tensor table = matmul(in[0], in[1]);
    const Tensor rows = embedding(in[2], table) * 2;
    return {matmul(softmax(rows + 1, -1), in[3])};
  };
  for (const int threads : {1, 2}) {
    set_num_threads(threads);
    const Tensor ids = flip(arange(3000), {0}).contiguous();
    expect_as_eager(turned, {normal({3000, 16}) * 9, normal({16, 64}), ids, normal({64, 8})});
  }
}

TEST_F(FusedRows, RefusePositionsAsEagerExecution) {
  const auto message = [](const std::function<void()>& call) {
    return testing::bare_message_of<IndexError>(call);
  };
  for (const int threads : {1, 2}) {
    set_num_threads(threads);
    Tensor index = randint(0, 70, {3000, 2}), ids = randint(0, 50, {60, 40});
    index.select(0, 2719).select(0, 1).fill_(70);
    ids.select(0, 51).select(0, 7).fill_(-3);
    const Tensors in{normal({3000, 70}), index, normal({3000, 2})};
    const Tensors table{normal({50, 64}), ids, normal({40, 64}), normal({64})};
    Tensor rows = randint(0, 50, {3000, 64});
    rows.select(0, 2719).select(0, 5).fill_(50);
    const Tensors columns{normal({50, 64}), rows, normal({64})};
    for (const auto& [fn, inputs] : {std::pair(Function(picked), in),
                                     {Function(embedded), table},
                                     {Function(picked_of_columns), columns}}) {
      Executable executable(record(fn, types_of(inputs)));
      const std::string eager = message([&] { static_cast<void>(fn(inputs)); });
      EXPECT_EQ(message([&] { static_cast<void>(executable.run(inputs)); }), eager);
      EXPECT_THAT(eager, ::testing::HasSubstr("is out of range"));
    }
  }
}

TEST_F(FusedRows, GiveTheBitsOfEagerForEveryDType) {
  for (const DType dtype : {f64, f16, bf16}) {
    SCOPED_TRACE(name_of(dtype));
    const Tensor x = normal({400, 300}).to(dtype), w = normal({300}).to(dtype);
    expect_as_eager(softmax_by_hand, {x});
    expect_as_eager(norm_by_hand, {x, x * 2, w});
    expect_as_eager(
        [](std::span<const Tensor> in) -> Tensors {
          const Tensor h = gelu(in[0]);
          return {softmax(h * 2, -1) + 1, layer_norm(h, in[1], in[1]), rms_norm(h, in[1])};
        },
        {x, w});
  }
  const Function counts = [](std::span<const Tensor> in) -> Tensors {
    const Tensor a = in[0] * in[0] + 3;
    const Tensor s = sum(a, {1}, true);
    return {s - a, max(a, {1}), prod(a, {1}), any(a > 50, {1})};
  };
  for (const DType dtype : {i64, i32, i16, u8}) {
    SCOPED_TRACE(name_of(dtype));
    expect_as_eager(counts, {randint(0, 9, {500, 70}, dtype)});
  }
}

TEST_F(FusedRows, TakeInputsOfAnyStrides) {
  const Tensor x = normal({260, 340}), w = normal({340});
  expect_as_eager(softmax_by_hand, {normal({340, 260}).t()});
  expect_as_eager(softmax_by_hand, {slice(normal({520, 700}), 0, 0, 520, 2).slice(1, 3, 343)});
  expect_as_eager(norm_by_hand, {x, normal({340, 260}).t(), w});
  expect_as_eager(norm_by_hand, {normal({340, 260}).t(), normal({340, 260}).t(), w});
  expect_as_eager(norm_by_hand,
                  {expand(slice(x, 0, 0, 1), {260, 340}), x, expand(slice(w, 0, 0, 1), {340})});
  expect_as_eager(norm_by_hand,
                  {normal({5, 7, 64, 16}).transpose(1, 2), normal({5, 64, 1, 1}), normal({16})});
}

TEST_F(FusedRows, LibraryOperatorsKeepTheirBits) {
  const Function attention = [](std::span<const Tensor> in) -> Tensors {
    const Tensor scores = in[0] * 0.125 + in[1];
    const Tensor p = softmax(scores, -1);
    return {p * (in[0] > 0).to(f32), log_softmax(scores - 1, -1)};
  };
  expect_as_eager(attention, {normal({4, 3, 33, 65}), normal({33, 65})});
  expect_as_eager(attention, {normal({4, 3, 40, 10}), normal({40, 10})});  // short rows
  expect_as_eager(attention, {normal({3, 17, 5}), normal({17, 5})});
  expect_as_eager(attention, {normal({65, 30, 33}).transpose(0, 1), normal({33})});
  const Function block = [](std::span<const Tensor> in) -> Tensors {
    const Tensor h = in[0] + relu(in[1]);
    const Tensor n = layer_norm(h, in[2], in[3]);
    return {h, gelu(n), rms_norm(n + 1, in[2]) * 2};
  };
  expect_as_eager(block, {normal({9, 31, 96}), normal({9, 31, 96}), normal({96}), normal({96})});
  expect_as_eager(block, {normal({2000, 256}), normal({256}), normal({256}), normal({256})});
  expect_as_eager(block, {normal({96, 80}).t(), normal({80, 96}), normal({96}), normal({96})});
  EXPECT_EQ(
      kernels_of(block, {normal({900, 256}), normal({900, 256}), normal({256}), normal({256})}), 1);
}

/// The gradients of outputs of `fn`, weighted, by its inputs: in a graph, values of it.
Tensors weighted_gradients(const Function& fn, std::span<const Tensor> inputs,
                           std::span<const Tensor> weights) {
  if (dynamic_cast<GraphEvaluator*>(&Evaluator::current()) != nullptr) {
    return autograd::graph_gradients(fn(inputs), weights, inputs, Loc());
  }
  Tensors leaves;
  for (const Tensor& input : inputs) leaves.push_back(input.detach().requires_grad());
  return grad(fn(leaves), leaves, {.weights = {weights.begin(), weights.end()}});
}

/// A layer_norm and an rms_norm between pointwise operators, with gradients of everything.
Tensors norms_both_ways(std::span<const Tensor> in) {
  const Function norms = [](std::span<const Tensor> x) -> Tensors {
    const Tensor h = x[0] * 1.5 + x[1];
    return {layer_norm(h, x[2], x[3]) + rms_norm(h, x[2]), h};
  };
  return weighted_gradients(norms, in.first(4), Tensors{gelu(in[4]), in[4]});
}

TEST_F(FusedRows, GradientsOfNormsRunWithTheirNeighbours) {
  for (const DType dtype : {f32, f64, bf16, f16}) {
    // As many parts of rows as 32, fewer, and a last one that is shorter; more rows than a part's
    // before the last axis ends, and fewer.
    for (const Shape& shape : {Shape{2048, 96},
                               {1000, 700},
                               {1027, 515},
                               {40, 2000},
                               {5, 3000},
                               {1, 9000},
                               {33, 1},
                               {16, 128, 64},
                               {8, 100, 128},
                               {7, 300, 96},
                               {300, 7, 96},
                               {1, 500, 80},
                               {2, 3, 400, 64},
                               {0, 8},
                               {3, 0, 8}}) {
      SCOPED_TRACE(to_string(shape) + " of " + std::string(name_of(dtype)));
      const Tensor weight = normal({shape[shape.size() - 1]}).to(dtype);
      const auto rows = [&] { return normal(shape).to(dtype); };
      expect_as_eager(norms_both_ways, {rows(), rows(), weight, weight * 2, rows()});
    }
  }
  const auto rows = [] { return normal({600, 256}); };
  const Tensors in{rows(), rows(), normal({256}), normal({256}), rows()};
  EXPECT_LE(kernels_of(norms_both_ways, in), 2) << "one for all rows, one for the weight's sum";
}

TEST_F(FusedRows, ResultsThatGoPastTheCachesHaveTheSameBits) {
  const auto rows = [] { return normal({3000, 1024}); };
  expect_as_eager(norms_both_ways, {rows(), rows(), normal({1024}), normal({1024}), rows()});
  expect_as_eager(softmax_by_hand, {normal({5000, 1023})});
}

TEST_F(FusedRows, GradientsOfNormsTakeInputsOfAnyStrides) {
  const auto turned = [] { return normal({256, 600}).t(); };
  const Tensor w = expand(normal({1}), {256});
  expect_as_eager(norms_both_ways, {turned(), normal({600, 256}), w, w, normal({600, 256})});
  expect_as_eager(norms_both_ways,
                  {normal({600, 256}), turned(), normal({256}), w, expand(w, {600, 256})});
}

TEST_F(FusedRows, OfWeightsGradientsThatNobodyReadsThereIsNone) {
  const Function of_input = [](std::span<const Tensor> in) -> Tensors {
    return {norms_both_ways(in)[0]};
  };
  const Function of_weight = [](std::span<const Tensor> in) -> Tensors {
    return {norms_both_ways(in)[2]};
  };
  const auto rows = [] { return normal({600, 256}); };
  const Tensors in{rows(), rows(), normal({256}), normal({256}), rows()};
  expect_as_eager(of_input, in);
  expect_as_eager(of_weight, in);
}

TEST_F(FusedRows, WeightsOfTwoAxesHaveGradientsLikeRows) {
  // Those of a weight have the shape of what one row is for others.
  const Function square = [](std::span<const Tensor> in) -> Tensors {
    const Function norm = [](std::span<const Tensor> x) -> Tensors {
      return {layer_norm(x[0], x[1], x[1])};
    };
    const Tensors g = weighted_gradients(norm, in.first(2), in.subspan(2));
    return {g[0], softmax(g[1], -1), max(g[1], {-1}, true) * in[1]};
  };
  expect_as_eager(square, {normal({64, 64, 32}), normal({64, 32}), normal({64, 64, 32})});
}

TEST_F(FusedRows, SumsOfOtherPartsOfRowsLeaveThemApart) {
  const auto rows = [] { return normal({7, 300, 16}); };
  const Tensors in{rows(), rows(), normal({16}), normal({16}), rows()};
  const auto fast = compile([](const Tensors& x) { return norms_both_ways(x); },
                            {.recheck = false, .background = Background::never});
  for (int call = 0; call < 2; ++call) static_cast<void>(fast(in));
  EXPECT_THAT(fast.explain().recordings[0].fusion,
              ::testing::Contains(::testing::HasSubstr("kernels on all rows, one after the other: "
                                                       "sums are made of 66 rows at a time, blocks "
                                                       "would have 6")));
}

TEST_F(FusedRows, AlongAnAxisInTheMiddle) {
  const Function middle = [](std::span<const Tensor> in) -> Tensors {
    const Tensor p = softmax(in[0] * 2, 1);
    return {p, p / max(p, {1, 2}, true), sum(p * in[0], {1, 2})};
  };
  expect_as_eager(middle, {normal({20, 31, 12})});
  expect_as_eager(middle, {normal({3, 500, 40})});
}

TEST_F(FusedRows, ViewsOfRowsBetweenMembers) {
  const Function views = [](std::span<const Tensor> in) -> Tensors {
    const Tensor e = exp(in[0]);
    const Tensor s = sum(e, {1}).unsqueeze(1);
    const Tensor y = e / s;
    const Tensor halves = y.reshape({y.size(0), 2, -1});
    return {y, s, max(halves, {2}), sum(y.slice(1, 1, 4), {1}) + s.squeeze(1)};
  };
  expect_as_eager(views, {normal({150, 8})});
  expect_as_eager(views, {normal({4000, 200})});
}

TEST_F(FusedRows, OneGraphServesEverySize) {
  const Types types{Type(f32, {"rows", "columns"}), Type(f32, {"rows", "columns"}),
                    Type(f32, {"columns"})};
  Executable executable(record(norm_by_hand, types));
  for (const auto& [rows, columns] :
       {std::pair{40, 7}, {1, 7}, {700, 512}, {3, 20000}, {700, 512}, {1, 1}}) {
    const Tensors inputs{normal({rows, columns}), normal({rows, columns}), normal({columns})};
    const Tensors expected = norm_by_hand(inputs), given = executable.run(inputs);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_TRUE(same_bits(given[i], expected[i])) << rows << ", " << columns << ", output " << i;
    }
  }
}

TEST_F(FusedRows, WhatOnlyMembersReadTakesNoMemory) {
  const Tensor x = normal({2000, 1000});
  Executable executable(
      record([](std::span<const Tensor> in) -> Tensors { return {softmax_by_hand(in)[0]}; },
             types_of(Tensors{x})));
  static_cast<void>(executable.run(Tensors{x}));
  EXPECT_EQ(executable.stats().kernels, 1);
  EXPECT_EQ(executable.stats().arena_bytes, 0u);
}

TEST_F(FusedRows, WriteOverInputsThatNobodyNeedsAfterwards) {
  const Function block = [](std::span<const Tensor> in) -> Tensors {
    const Tensor h = matmul(in[0], in[0]) * 2;
    return {matmul(h, softmax(h, -1))};
  };
  const Tensor x = normal({512, 512});
  expect_as_eager(block, {x});
  Executable executable(record(block, types_of(Tensors{x})));
  static_cast<void>(executable.run(Tensors{x}));
  EXPECT_EQ(executable.stats().arena_bytes, std::size_t{2} * 512 * 512 * sizeof(float))
      << "the product lies over the one that it was made from";
  // Read again after the result of its layout is written, or by a member that needs whole rows.
  expect_as_eager(
      [](std::span<const Tensor> in) -> Tensors {
        const Tensor p = matmul(in[0], in[0]);
        const Tensor a = softmax(p, -1), b = a * 2 + max(p, {-1}, true);
        return {matmul(a, b), a - p};
      },
      {x});
}

TEST_F(FusedRows, ExplainSaysHow) {
  const auto fast =
      compile([](const Tensor& x) { return softmax(x * 2, -1) + 1; }, {.recheck = false});
  const Tensor x = normal({900, 256});
  for (int call = 0; call < 2; ++call) static_cast<void>(fast(x));
  const std::vector<std::string> notes = fast.explain().recordings[0].fusion;
  EXPECT_THAT(notes,
              ::testing::ElementsAre(
                  ::testing::HasSubstr(": mul, softmax, add run together on the rows of 1 axis"),
                  ::testing::ContainsRegex(": 3 kernels on [0-9]+ rows at a time, [0-9]+ kB in "
                                           "cache, of which [0-9]+ kB in scratch$")));
  EXPECT_THAT(to_string(fast.explain()), ::testing::HasSubstr("\n    fusion: " + notes.at(0)));
  const auto wide =
      compile([](const Tensor& x) { return softmax(x * 2, -1) + 1; }, {.recheck = false});
  for (int call = 0; call < 2; ++call) static_cast<void>(wide(normal({2, 4 << 20})));
  EXPECT_THAT(wide.explain().recordings[0].fusion,
              ::testing::Contains(::testing::ContainsRegex(
                  ": 3 kernels on all rows, one after the other: a row takes [0-9]+ kB, the cache "
                  "of a core is [0-9]+ kB$")));
}

TEST_F(FusedRows, ResultsMayBeReadLaterInTheSameRows) {
  const Function chain = [](std::span<const Tensor> in) -> Tensors {
    const Tensor a = softmax(in[0], -1), b = softmax(a * 3, -1), c = softmax(b + a, -1);
    return {a, c, matmul(b, in[0].transpose(-1, -2))};
  };
  expect_as_eager(chain, {normal({70, 300})});
}

}  // namespace
}  // namespace dyad::exec
