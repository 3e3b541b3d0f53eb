// expect: a model that holds a unique_ptr cannot be copied
#include <memory>

#include "dyad/nn/nn.h"

struct Model {
  std::unique_ptr<dyad::nn::Linear> layer;
};

void use(const Model& model) { (void)dyad::nn::clone(model); }
