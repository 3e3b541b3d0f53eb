#pragma once

#include "dyad/nn/visitor.h"

namespace dyad::nn {

// Functions as layers, for Sequential and as members of a model: they hold settings only.

struct ReLU {
  Tensor operator()(const Tensor& x, Loc loc = std::source_location::current()) const;
  void visit(Visitor&) {}
};
struct Tanh {
  Tensor operator()(const Tensor& x, Loc loc = std::source_location::current()) const;
  void visit(Visitor&) {}
};
struct Sigmoid {
  Tensor operator()(const Tensor& x, Loc loc = std::source_location::current()) const;
  void visit(Visitor&) {}
};
struct GELU {
  bool tanh_form = false;
  Tensor operator()(const Tensor& x, Loc loc = std::source_location::current()) const;
  void visit(Visitor&) {}
};
struct SiLU {
  Tensor operator()(const Tensor& x, Loc loc = std::source_location::current()) const;
  void visit(Visitor&) {}
};
struct Softmax {
  std::int64_t axis = -1;
  Tensor operator()(const Tensor& x, Loc loc = std::source_location::current()) const;
  void visit(Visitor&) {}
};
struct LogSoftmax {
  std::int64_t axis = -1;
  Tensor operator()(const Tensor& x, Loc loc = std::source_location::current()) const;
  void visit(Visitor&) {}
};
/// The axes first to last as one: [n, c, h, w] -> [n, c*h*w].
struct Flatten {
  std::int64_t first = 1;
  std::int64_t last = -1;
  Tensor operator()(const Tensor& x, Loc loc = std::source_location::current()) const;
  void visit(Visitor&) {}
};
struct Identity {
  Tensor operator()(const Tensor& x, Loc loc = std::source_location::current()) const;
  void visit(Visitor&) {}
};

}  // namespace dyad::nn
