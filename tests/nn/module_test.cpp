#include "dyad/nn/module.h"

#include <gmock/gmock.h>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dyad/autograd/grad_mode.h"
#include "dyad/base/error.h"
#include "dyad/core/create.h"
#include "dyad/core/generator.h"
#include "dyad/exec/compile.h"
#include "dyad/ir/graph_evaluator.h"
#include "dyad/nn/nn.h"
#include "dyad/ops/ops.h"
#include "tests/shared/message_of.h"

namespace dyad::nn {
namespace {

using dyad::testing::message_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> names_of(const TensorDict& named) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : named) names.push_back(name);
  return names;
}

/// The message of the ValueError that `action` throws.
struct Block {
  Linear up{4, 8}, down{8, 4, {.bias = false}};
  Dropout dropout{0.1};
  double scale = 0.5;
};

struct Model {
  Conv2d conv{1, 2, 3, {.padding = 1}};
  BatchNorm2d norm{2};
  std::vector<Block> blocks = std::vector<Block>(2);
  std::array<LayerNorm, 1> norms{LayerNorm(4)};
  std::optional<Linear> extra;
  std::unique_ptr<Linear> head = std::make_unique<Linear>(4, 2);
  Parameter scale{full({}, 2)};
  Buffer table{zeros({3}, i64)};
  MaxPool2d pool{2};
  GELU gelu;
  std::string name = "model";
  int layers = 2;
};

TEST(Module, FindsAndNamesMembers) {
  const Model model;
  EXPECT_THAT(names_of(named_parameters(model)),
              ElementsAre("conv.weight", "conv.bias", "norm.weight", "norm.bias",
                          "blocks.0.up.weight", "blocks.0.up.bias", "blocks.0.down.weight",
                          "blocks.1.up.weight", "blocks.1.up.bias", "blocks.1.down.weight",
                          "norms.0.weight", "norms.0.bias", "head.weight", "head.bias", "scale"));
  EXPECT_THAT(names_of(named_buffers(model)), ElementsAre("norm.running_mean", "norm.running_var",
                                                          "norm.num_batches_tracked", "table"));
  EXPECT_EQ(state_dict(model).size(), 19u);
  EXPECT_EQ(parameters(model).size(), 15u);
  for (const Tensor& parameter : parameters(model)) {
    EXPECT_TRUE(parameter.is_leaf());
    EXPECT_TRUE(parameter.tracks_grad());
  }
}

class Hidden {
 public:
  Tensor operator()(const Tensor& x) const { return layer_(x); }
  void visit(Visitor& v) { v("layer", layer_); }

 private:
  Linear layer_{2, 2};
};

struct Outer {
  Hidden hidden;
};

TEST(Module, AClassThatIsNoAggregateShowsItsMembers) {
  EXPECT_THAT(names_of(named_parameters(Outer())),
              ElementsAre("hidden.layer.weight", "hidden.layer.bias"));
  EXPECT_THAT(names_of(named_parameters(Hidden())), ElementsAre("layer.weight", "layer.bias"));
}

TEST(Module, TiedParametersCountOnceAndAreSavedUnderBothNames) {
  struct Tied {
    Embedding in{5, 3};
    Linear out{3, 5, {.bias = false}};
  } model;
  model.out.weight = model.in.weight;
  EXPECT_THAT(names_of(named_parameters(model)), ElementsAre("in.weight"));
  EXPECT_THAT(names_of(state_dict(model)), ElementsAre("in.weight", "out.weight"));
  const Tied copy = clone(model);
  EXPECT_TRUE(copy.in.weight.is_same(copy.out.weight));
  EXPECT_FALSE(copy.in.weight.is_same(model.in.weight));
}

TEST(Module, CopiesShareAndClonesDoNot) {
  Block block;
  const Block shared = block;
  const Block own = clone(block);
  EXPECT_TRUE(shared.up.weight.is_same(block.up.weight));
  EXPECT_FALSE(own.up.weight.is_same(block.up.weight));
  EXPECT_TRUE(own.up.weight.tracks_grad());
  EXPECT_TRUE(own.up.weight.is_leaf());
  EXPECT_EQ(own.up.weight.to_vector<float>(), block.up.weight.to_vector<float>());
  eval(block);
  EXPECT_FALSE(shared.dropout.mode.training());
  EXPECT_TRUE(own.dropout.mode.training());
}

TEST(Module, TrainAndEvalReachEveryLayer) {
  const Model model;
  EXPECT_TRUE(model.norm.mode.training());
  eval(model);
  EXPECT_FALSE(model.norm.mode.training());
  EXPECT_FALSE(model.blocks[1].dropout.mode.training());
  train(model);
  EXPECT_TRUE(model.blocks[1].dropout.mode.training());
}

TEST(Module, ZeroGradForgetsGradients) {
  const Block block;
  sum(block.up(ones({1, 4}))).backward();
  EXPECT_TRUE(block.up.weight.grad().defined());
  zero_grad(block);
  EXPECT_FALSE(block.up.weight.grad().defined());
}

TEST(Module, StateIsLoadedInPlace) {
  Block from, into;
  const Tensor before = into.up.weight;
  load_state_dict(into, state_dict(from));
  EXPECT_TRUE(into.up.weight.is_same(before));
  EXPECT_EQ(into.up.weight.to_vector<float>(), from.up.weight.to_vector<float>());
  EXPECT_EQ(into.down.weight.to_vector<float>(), from.down.weight.to_vector<float>());
}

TEST(Module, AllThatDoesNotFitIsOneErrorAndNothingIsWritten) {
  const Linear layer(4, 8);
  const std::vector<float> before = layer.weight.to_vector<float>();
  struct Three {
    Parameter weight{zeros({8, 4})};
    Parameter bias{zeros({9})};
    Parameter other{zeros({1})};
  };
  const std::string message =
      message_of<ValueError>([&] { load_state_dict(layer, state_dict(Three())); });
  EXPECT_THAT(message, HasSubstr("load_state_dict: the state does not fit the model:\n"));
  EXPECT_THAT(message, HasSubstr("wrong shape: bias is f32[8] in the model, f32[9] in the state"));
  EXPECT_THAT(message, HasSubstr("unexpected: other f32[1]"));
  EXPECT_THAT(message, HasSubstr("at module_test.cpp:"));
  EXPECT_EQ(layer.weight.to_vector<float>(), before);

  EXPECT_THAT(
      message_of<ValueError>([&] { load_state_dict(layer, {{"weight", zeros({8, 4}, f64)}}); }),
      ::testing::AllOf(HasSubstr("wrong dtype: weight is f32[8, 4] in the model, f64[8, 4]"),
                       HasSubstr("missing: bias f32[8]")));
}

TEST(Module, StrictnessCanBeLeftOut) {
  const Linear layer(1, 1);
  load_state_dict(layer, {{"weight", full({1, 1}, 3)}, {"more", zeros({2})}}, {.strict = false});
  EXPECT_EQ(layer.weight.item(), 3);
}

TEST(Module, SummaryIsATable) {
  struct Small {
    Linear first{784, 32};
    Sequential rest{ReLU(), Linear(32, 10, {.bias = false})};
    BatchNorm norm{10};
  };
  Small model;
  model.norm.bias.requires_grad(false);
  EXPECT_EQ(summary(model),
            "layer    type        parameters                             count\n"
            "Small\n"
            "  first  Linear      weight f32[32, 784], bias f32[32]     25,120\n"
            "  rest   Sequential\n"
            "    0    ReLU\n"
            "    1    Linear      weight f32[10, 32]                       320\n"
            "  norm   BatchNorm   weight f32[10], bias f32[10]              20\n"
            "25,460 parameters (10 frozen), 21 in buffers, 101.9 kB\n");
}

TEST(Module, SummaryOfARunShowsResultsAndWork) {
  struct Small {
    Conv2d conv{1, 2, 3};
    BatchNorm norm{2};
    Sequential rest{Flatten(), Linear(2 * 4 * 4, 5), ReLU()};
    Tensor operator()(const Tensor& x) const { return rest(norm(conv(x))); }
  };
  const Small model;
  EXPECT_EQ(summary(model, zeros({3, 1, 6, 6})),
            "layer   type        parameters                               count  output           "
            "multiply-adds\n"
            "Small\n"
            "  conv  Conv2d      weight f32[2, 1, 3, 3], bias f32[2]         20  f32[3, 2, 4, 4]  "
            "          864\n"
            "  norm  BatchNorm   weight f32[2], bias f32[2]                   4  f32[3, 2, 4, 4]\n"
            "  rest  Sequential\n"
            "    0   Flatten\n"
            "    1   Linear      weight f32[5, 32], bias f32[5]             165  f32[3, 5]        "
            "          480\n"
            "    2   ReLU\n"
            "189 parameters, 5 in buffers, 780 B; 1,344 multiply-adds, 1.7 kB of results\n");
  // What is asked for changes nothing.
  EXPECT_TRUE(model.norm.mode.training());
  EXPECT_EQ(model.norm.num_batches_tracked.item<int>(), 0);
}

TEST(Module, SummaryCountsTheWorkWithinRecurrentLayersAndAttention) {
  struct Layers {
    LSTM net{4, 6};
    MultiheadAttention attention{6, 2};
    Tensor operator()(const Tensor& x) const {
      const Tensor y = net(x).y;
      return attention(y, y, y).out;
    }
  };
  // 5 * 3 steps by (24 * 4 + 24 * 6), projections of 15 rows by (18 * 6 + 6 * 6), and for 3 samples
  // with 2 heads 5 * 5 scores by 3 + 3.
  const std::string text = summary(Layers(), zeros({5, 3, 4}));
  EXPECT_THAT(text, HasSubstr("288  f32[5, 3, 6]           3,600\n"));
  EXPECT_THAT(text, HasSubstr("; 6,660 multiply-adds, "));
}

TEST(Module, SummaryNamesTheListsThatLayersAreIn) {
  struct Listed {
    std::array<Linear, 2> steps{Linear(2, 3), Linear(3, 2)};
    std::vector<Sequential> heads{Sequential(Linear(2, 1))};
  };
  EXPECT_EQ(summary(Listed()),
            "layer      type        parameters                         count\n"
            "Listed\n"
            "  steps.0  Linear      weight f32[3, 2], bias f32[3]          9\n"
            "  steps.1  Linear      weight f32[2, 3], bias f32[2]          8\n"
            "  heads.0  Sequential\n"
            "    0      Linear      weight f32[1, 2], bias f32[1]          3\n"
            "20 parameters, 80 B\n");
}

TEST(Module, SummaryPutsManyTensorsOnSeveralLines) {
  struct Model {
    LSTM words{3, 4, {.bidirectional = true}};
  };
  const std::string text = summary(Model());
  std::size_t longest = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    longest = std::max(longest, end - at);
    at = end + 1;
  }
  EXPECT_LE(longest, 90) << text;
  EXPECT_THAT(text, HasSubstr("weight_ih_l0 f32[16, 3]"));
  EXPECT_THAT(text, HasSubstr("bias_hh_l0_reverse f32[16]"));
}

TEST(Module, SummaryOfARunLeavesModesThatLayersShare) {
  struct Twice {
    Dropout first{0.5};
    Dropout second = first;
    Tensor operator()(const Tensor& x) const { return second(first(x)); }
  };
  const Twice model;
  (void)summary(model, zeros({3}));
  EXPECT_TRUE(model.first.mode.training());
  EXPECT_TRUE(model.second.mode.training());
}

TEST(Module, FreezeCountAndApply) {
  struct Small {
    Linear first{4, 3};
    Sequential rest{ReLU(), Linear(3, 2)};
    Tensor operator()(const Tensor& x) const { return rest(first(x)); }
  };
  const Small model;
  EXPECT_EQ(num_parameters(model), 4 * 3 + 3 + 3 * 2 + 2);
  freeze(model.first);
  EXPECT_EQ(num_parameters(model, true), 3 * 2 + 2);
  sum(model(ones({1, 4}))).backward();
  EXPECT_FALSE(model.first.weight.grad().defined());
  freeze(model, false);
  EXPECT_EQ(num_parameters(model, true), num_parameters(model));
  int layers = 0;
  apply<Linear>(model, [&](Linear& layer) {
    ++layers;
    init::zeros_(layer.bias);
  });
  EXPECT_EQ(layers, 2);
  EXPECT_EQ(model.first.bias.to_vector<float>(), std::vector<float>(3, 0));
  apply<Small>(model, [&](Small&) { ++layers; });
  EXPECT_EQ(layers, 3);
}

TEST(Layers, FunctionsAsLayers) {
  const Tensor x = tensor(std::vector<float>{-2, -0.5f, 0.5f, 4}).reshape({2, 2});
  const auto same = [&](const Tensor& a, const Tensor& b) {
    EXPECT_EQ(a.to_vector<float>(), b.to_vector<float>());
  };
  same(ELU{0.5}(x), elu(x, 0.5));
  same(CELU{0.5}(x), celu(x, 0.5));
  same(LeakyReLU{0.2}(x), leaky_relu(x, 0.2));
  same(Softplus{2}(x), softplus(x, 2));
  same(Hardtanh{-0.25, 0.75}(x), hardtanh(x, -0.25, 0.75));
  same(Hardshrink{1}(x), hardshrink(x, 1));
  same(Softshrink{1}(x), softshrink(x, 1));
  same(Threshold{0.1, 20}(x), tensor(std::vector<float>{20, 20, 0.5f, 4}).reshape({2, 2}));
  same(GLU{}(x), glu(x, -1));
  same(SwiGLU{}(x), swiglu(x, -1));
  same(Softmin{0}(x), softmax(-x, 0));
  same(Softmax2d{}(x.reshape({4, 1, 1})), softmax(x.reshape({4}), 0).reshape({4, 1, 1}));
  same(SELU{}(x), selu(x));
  same(Mish{}(x), mish(x));
  same(Softsign{}(x), softsign(x));
  same(Tanhshrink{}(x), tanhshrink(x));
  same(Hardsigmoid{}(x), hardsigmoid(x));
  same(Hardsigmoid{.alpha = 0.25, .beta = 0.5}(x), hardsigmoid(x, 0.25, 0.5));
  same(Swish{}(x), silu(x));
  same(Swish{.alpha = 2}(x), x * sigmoid(x * 2));
  same(Hardswish{}(x), hardswish(x));
  same(ReLU6{}(x), relu6(x));
  same(LogSigmoid{}(x), logsigmoid(x));
  same(QuickGELU{}(x), quick_gelu(x));
  const Tensor target = tensor(std::vector<std::int64_t>{1, 0});
  same(CrossEntropyLoss{}(x, target), cross_entropy(x, target));
  same(NLLLoss{.reduction = Reduction::sum}(x, target), nll_loss(x, target, {}, Reduction::sum));
  same(MSELoss{.reduction = Reduction::none}(x, x + 1), ones({2, 2}));
  const PReLU learned(2, 0.5);
  same(learned(x), prelu(x, learned.weight));
  const Unflatten split{1, {2, -1}};
  EXPECT_EQ(split(ones({3, 6})).shape(), Shape({3, 2, 3}));
  const Sequential chain(Unflatten{-1, {2, 1}}, Mish{}, PReLU(), LeakyReLU{0.1});
  EXPECT_EQ(chain(x).shape(), Shape({2, 2, 1}));
  EXPECT_THAT(names_of(named_parameters(chain)), ElementsAre("2.weight"));
}

TEST(Module, SameSeedSameParametersAlsoWhileAGraphIsDefined) {
  manual_seed(5);
  const Linear a(3, 4);
  GraphEvaluator graph(make_ref<GraphImpl>());
  const Evaluator::Scope defining(graph);
  manual_seed(5);
  const Linear b(3, 4);
  EXPECT_TRUE(b.weight.is_concrete());
  EXPECT_TRUE(graph.graph()->nodes().empty());
  EXPECT_EQ(a.weight.to_vector<float>(), b.weight.to_vector<float>());
  const float bound = 1 / std::sqrt(3.0f);
  for (const float x : a.weight.to_vector<float>()) {
    EXPECT_GE(x, -bound);
    EXPECT_LT(x, bound);
  }
}

TEST(Module, SequentialNamesItsLayersAndTakesFunctions) {
  const Sequential model(Linear(2, 3), [](const Tensor& x) { return x * 2.0f; }, Linear(3, 1));
  EXPECT_THAT(names_of(named_parameters(model)),
              ElementsAre("0.weight", "0.bias", "2.weight", "2.bias"));
  const Linear first(2, 3), last(3, 1);
  Sequential again(first, [](const Tensor& x) { return x * 2.0f; });
  again.add(last);
  const Tensor x = ones({4, 2});
  EXPECT_EQ(again(x).to_vector<float>(), last(first(x) * 2.0f).to_vector<float>());
}

TEST(Layers, BadArgumentsAreErrors) {
  EXPECT_THAT(message_of<ValueError>([] { Linear(0, 3); }),
              HasSubstr("Linear: in must be at least 1, found 0"));
  EXPECT_THAT(
      message_of<ValueError>([] { Conv2d(3, 4, 3, {.groups = 2}); }),
      HasSubstr("Conv2d: groups must divide in and out, found in = 3, out = 4, groups = 2"));
  EXPECT_THAT(message_of<ValueError>([] { Dropout(1.5); }),
              HasSubstr("Dropout: p must be from 0 to 1, found 1.5"));
  EXPECT_THAT(message_of<ValueError>([] { GRUCell(3, -1); }),
              HasSubstr("GRUCell: hidden must be at least 1"));
  EXPECT_THAT(
      message_of<ValueError>([] { BatchNorm(2)(ones({1, 2})); }),
      HasSubstr("BatchNorm(f32[1, 2]): training needs more than one value for each channel"));
}

TEST(Layers, BatchNormRefusesOneSampleThatOnlyDataLeave) {
  const BatchNorm norm(2);
  // Recorded at several samples, then called with one, and the other way round.
  for (const bool one_first : {false, true}) {
    const auto fast = compile([&](const Tensor& x, const Tensor& keep) {
      return norm(index_select(x, 0, reshape(nonzero(keep), {-1})));
    });
    const Tensor x = randn({4, 2}), some = tensor({1.0f, 1.0f, 0.0f, 1.0f}),
                 one = tensor({0.0f, 1.0f, 0.0f, 0.0f});
    for (int call = 0; call < 6; ++call) {
      if ((call % 2 == 0) == one_first) {
        EXPECT_THAT(message_of<ValueError>([&] { fast(x, one); }),
                    HasSubstr("BatchNorm(f32[1, 2]): training needs more than one value for each "
                              "channel, found 1"))
            << call;
      } else {
        EXPECT_NO_THROW(fast(x, some)) << call;
      }
    }
  }
}

TEST(Layers, ErrorsNameTheCallersLine) {
  const Linear layer(3, 4);
  const int line = __LINE__ + 2;
  try {
    layer(ones({2, 5}));
    FAIL();
  } catch (const ShapeError& error) {
    EXPECT_THAT(error.what(), HasSubstr("at module_test.cpp:" + std::to_string(line)));
  }
}

TEST(Layers, DropoutDropsInTrainingOnly) {
  manual_seed(1);
  const Dropout dropout(0.25);
  const Tensor x = ones({10000});
  int zeros_seen = 0;
  for (const float value : dropout(x).to_vector<float>()) {
    if (value == 0) {
      ++zeros_seen;
    } else {
      EXPECT_FLOAT_EQ(value, 1 / 0.75f);
    }
  }
  EXPECT_NEAR(zeros_seen, 2500, 5 * 43.3);  // 5 sigma
  eval(dropout);
  EXPECT_EQ(dropout(x).to_vector<float>(), x.to_vector<float>());
}

TEST(Layers, BatchNormOfRowsSeriesAndVolumesNormalisesChannels) {
  const Tensor x = normal({4, 2, 2, 3, 2}) * 5 + 3;
  const auto expect_normal = [](const Tensor& y) {
    const Tensor of_channels = reshape(movedim(y, 1, 0), {2, -1});
    EXPECT_LT(max(abs(mean(of_channels, {1}))).item<double>(), 1e-5);
    EXPECT_LT(max(abs(var(of_channels, {1}, 0) - 1)).item<double>(), 1e-4);
  };
  expect_normal(BatchNorm1d(2)(reshape(movedim(x, 1, -1), {-1, 2})));
  expect_normal(BatchNorm1d(2)(reshape(x, {4, 2, -1})));
  expect_normal(BatchNorm3d(2)(x));
}

TEST(Layers, RunningStatisticsStayApartFromGradients) {
  const BatchNorm norm(2);
  Tensor x = normal({4, 2});
  x.requires_grad();
  sum(square(norm(x))).backward();
  EXPECT_FALSE(norm.running_mean.tracks_grad());
  EXPECT_EQ(norm.num_batches_tracked.item<int>(), 1);
  eval(norm);
  norm(x);
  EXPECT_EQ(norm.num_batches_tracked.item<int>(), 1);
}

}  // namespace
}  // namespace dyad::nn
