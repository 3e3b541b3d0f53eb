// expect: a model is an aggregate .* of layers, or a class with `void visit\(nn::Visitor& v\)`
#include "dyad/nn/nn.h"

class Model {
 public:
  Model();

 private:
  dyad::nn::Linear layer_{1, 1};
};

void use(const Model& model) { (void)dyad::nn::parameters(model); }
