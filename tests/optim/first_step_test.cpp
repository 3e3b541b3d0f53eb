// What a program does first, in a process of its own.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "dyad/autograd/grad_mode.h"
#include "dyad/codegen/built_in.h"
#include "dyad/codegen/kernel_provider.h"
#include "dyad/exec/autocast.h"
#include "dyad/nn/nn.h"
#include "dyad/ops/ops.h"
#include "dyad/optim/optim.h"

namespace dyad::optim {
namespace {

struct Cnn {
  nn::Conv2d conv1{1, 4, 3, {.padding = 1}}, conv2{4, 8, 3, {.padding = 1}};
  nn::BatchNorm norm{4};
  nn::Dropout dropout{0.2};
  nn::Linear fc1{32, 16}, fc2{16, 10};

  Tensor operator()(const Tensor& x) const {
    const Tensor h = max_pool2d(relu(conv2(max_pool2d(relu(norm(conv1(x))), 2))), 2);
    return fc2(dropout(gelu(fc1(flatten(h, 1)))));
  }
};

/// Steps with two optimizers, clipping and an evaluation, the forward passes under autocast to bf16
/// where that is `narrow`; gives how many kernels were compiled.
std::size_t train(bool narrow) {
  setenv("DYAD_CACHE", "0", 1);
  setenv("DYAD_LOG", "debug", 1);  // tells which
  const Cnn model;
  const Tensor x = uniform({6, 1, 8, 8}), y = randint(0, 10, {6});
  AdamW adam(nn::parameters(model), {.lr = 0.01});
  SGD sgd(nn::parameters(model), {.lr = 0.01, .momentum = 0.9});
  for (Optimizer* optimizer : {static_cast<Optimizer*>(&adam), static_cast<Optimizer*>(&sgd)}) {
    optimizer->zero_grad();
    Tensor loss = [&] {
      const Autocast scope(bf16, narrow);
      return cross_entropy(model(x), y);
    }();
    loss.backward();
    (void)clip_grad_norm(nn::parameters(model), 1.0);
    optimizer->step();
  }
  nn::eval(model);
  const NoGrad no_grad;
  const Autocast scope(bf16, narrow);
  (void)mean((argmax(softmax(model(x), 1), 1) == y).to(f32)).item();
  return codegen::KernelProvider::instance().statistics().compiled;
}

class FirstStepDeathTest : public ::testing::TestWithParam<bool> {};

TEST_P(FirstStepDeathTest, EagerTrainingCompilesNothing) {
#ifndef DYAD_BUILT_IN_KERNELS
  GTEST_SKIP() << "no kernels are built in";
#endif
  if (codegen::built_in_level() == 0) GTEST_SKIP() << "kernels are built in for x86-64-v3 and v4";
  // This style starts the test program anew: nothing that other tests compiled is there.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        const std::size_t compiled = train(GetParam());
        std::fprintf(stderr, "%zu kernels were compiled\n", compiled);
        std::_Exit(compiled == 0 ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "^0 kernels were compiled");
}

INSTANTIATE_TEST_SUITE_P(Autocast, FirstStepDeathTest, ::testing::Bool());

}  // namespace
}  // namespace dyad::optim
