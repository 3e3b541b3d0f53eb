#include "dyad/core/create.h"
#include "dyad/ir/graph_ops.h"
#include "dyad/onnx/graph_writer.h"
#include "dyad/onnx/program_writer.h"
#include "dyad/ops/attrs/random.h"

// What only the graphs of training steps have: writes to variables, and random numbers, which are
// functions of a seed and an offset.

namespace dyad::onnx {

void GraphWriter::add_input_for(Value value, const std::string& name, const Tensor& first) {
  check_interface(value);
  bind(value, add_input(name, value.type()));
  if (first.defined()) context_.default_value(name_of(value), first);
}

void GraphWriter::add_random_inputs(RandomKey now, bool with_defaults) {
  const Type number(DType::i64, {});
  random_seed_ = add_input("random.seed", number);
  random_offset_ = add_input("random.offset", number);
  if (!with_defaults) return;
  context_.default_value(random_seed_, tensor(now.seed, i64));
  context_.default_value(random_offset_, tensor(now.offset, i64));
}

void GraphWriter::add_random_output() {
  const std::string name = context_.fresh("next.random.offset");
  finish({&random_offset_, 1}, {Type(DType::i64, {})}, {&name, 1});
}

bool GraphWriter::write_training() {
  const OpInfo& op = node_->op();
  if (&op == &kAssignOp) {
    bind(node_->output(), name_of(node_->inputs()[1]));
  } else if (op.name == "random_key") {
    write_random_key();
  } else if (op.name == "uniform") {
    write_uniform_numbers();
  } else {
    return false;
  }
  return true;
}

void GraphWriter::write_random_key() {
  if (outer_ != nullptr) fail("it draws random numbers inside of a branch or a loop");
  bind(node_->output(0), random_seed_);
  bind(node_->output(1), random_offset_);
  const Dim count = node_->attrs_as<ops::RandomKeyAttrs>().count;
  random_offset_ = node("Add", {random_offset_, size(count)}, {});
}

void GraphWriter::write_uniform_numbers() {
  const auto& attrs = node_->attrs_as<ops::UniformAttrs>();
  if (attrs.dtype != DType::f32 && attrs.dtype != DType::f64) {
    fail("random numbers are written in f32 and f64; convert them");
  }
  const std::string zero = scalar(0, DType::i64), one = scalar(1, DType::i64);
  const std::string places = node("Range", {zero, size(attrs.shape.numel()), one}, {});
  const std::string counters = node("Add", {places, input(1)}, {});
  const std::string numbers = write_uniform(*this, input(0), counters, attrs.dtype);
  output(0, node("Reshape", {numbers, shape(attrs.shape)}, {}));
}

}  // namespace dyad::onnx
