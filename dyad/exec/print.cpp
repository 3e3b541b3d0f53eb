#include "dyad/exec/print.h"

#include <fmt/format.h>

#include <cstdio>
#include <span>

#include "dyad/base/error.h"
#include "dyad/ir/op.h"
#include "dyad/runtime/op_kernel.h"

namespace dyad::exec {
namespace {

struct PrintAttrs {
  std::string format;
};

std::size_t places_of(std::string_view format) {
  std::size_t count = 0;
  for (std::size_t at = format.find("{}"); at != std::string_view::npos;
       at = format.find("{}", at + 2)) {
    ++count;
  }
  return count;
}

struct Print {
  using Attrs = PrintAttrs;
  static constexpr Schema schema{
      .name = "print",
      .inputs = kAnyTensors,
      .outputs = {},
      .doc = "Prints tensors as a line of text; every run prints.",
      .effect = Effect::host,
  };
  static Types infer(const InferIn& in, const Attrs& attrs) {
    if (places_of(attrs.format) > in.inputs.size()) {
      fail_value(in, fmt::format("the format has {} places {{}} for {} tensors",
                                 places_of(attrs.format), in.inputs.size()));
    }
    return {};
  }
};

void run_print(const runtime::OpCall& call) {
  const std::string& format = call.attrs_as<PrintAttrs>().format;
  std::string line, left_over;
  std::size_t at = 0;
  for (const Tensor& tensor : call.inputs) {
    const std::size_t place = format.find("{}", at);
    if (place == std::string::npos) {
      left_over += " " + to_string(tensor);
      continue;
    }
    line += format.substr(at, place - at) + to_string(tensor);
    at = place + 2;
  }
  line += format.substr(at) + left_over + "\n";
  static_cast<void>(std::fwrite(line.data(), 1, line.size(), stdout));
  static_cast<void>(std::fflush(stdout));
}

}  // namespace

void register_print_op() {
  static const bool done = [] {
    const OpInfo* row = &op_info<Print>;
    register_ops({&row, 1});
    runtime::register_kernel("print", {.run = run_print});
    return true;
  }();
  static_cast<void>(done);
}

void print_tensors(std::string format, std::vector<Tensor> tensors, Loc loc) {
  register_print_op();
  std::vector<const Tensor*> refs;
  for (const Tensor& tensor : tensors) refs.push_back(&tensor);
  static_cast<void>(apply_multi<Print>({std::move(format)}, loc, refs, 0));
}

}  // namespace dyad::exec
