// expect: this member of a model is no layer, tensor or setting
#include "dyad/nn/nn.h"

class Cache {
 public:
  Cache();

 private:
  int entries_ = 0;
};

struct Model {
  dyad::nn::Linear layer{1, 1};
  Cache cache;
};

void use(const Model& model) { (void)dyad::nn::parameters(model); }
