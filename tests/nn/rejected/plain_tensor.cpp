// expect: a tensor in a model is an nn::Parameter \(learned\) or an nn::Buffer \(kept\)
#include "dyad/nn/nn.h"

struct Model {
  dyad::nn::Linear layer{1, 1};
  dyad::Tensor scale;
};

void use(const Model& model) { (void)dyad::nn::parameters(model); }
