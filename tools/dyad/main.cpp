#include <fmt/format.h>

#include <array>
#include <exception>

#include "dyad/base/error.h"
#include "tools/dyad/arguments.h"
#include "tools/dyad/bench.h"
#include "tools/dyad/demo.h"
#include "tools/dyad/inspect.h"
#include "tools/dyad/onnx_test.h"
#include "tools/dyad/opt.h"
#include "tools/dyad/run.h"

int main(int argc, char** argv) {
  using namespace dyad::tool;
  const std::array commands{add_demo,      add_inspect, add_run, add_bench,
                            add_onnx_test, add_passes,  add_opt};
  try {
    return run_program(argc, argv,
                       "Dyad: define by run, define then run. One model source for both.",
                       "Start with:\n"
                       "  dyad demo                                     train, compare, export\n"
                       "  dyad inspect model.onnx                       what is in a model\n"
                       "  dyad run model.onnx --input image=digit.npy   its results\n"
                       "  dyad bench model.onnx                         how fast it is, and why\n\n"
                       "dyad COMMAND --help says more about each.",
                       commands);
  } catch (const dyad::Error& error) {
    // The lines of this program say nothing to its user, those of a model do.
    const std::string declared = error.declared() ? "\n  at " + to_string(error.declared()) : "";
    fmt::print(stderr, "dyad: {}{}\n", error.message(), declared);
    return 1;
  } catch (const std::exception& error) {
    fmt::print(stderr, "dyad: {}\n", error.what());
    return 1;
  }
}
