#include <fmt/format.h>

#include <exception>
#include <vector>

#include "dyad/base/error.h"
#include "tools/dyad/bench.h"
#include "tools/dyad/demo.h"
#include "tools/dyad/inspect.h"
#include "tools/dyad/onnx_test.h"
#include "tools/dyad/opt.h"
#include "tools/dyad/run.h"

int main(int argc, char** argv) {
  using namespace dyad::tool;
  CLI::App app("Dyad: define by run, define then run. One model source for both.");
  app.require_subcommand(1);
  add_footer(app,
             "Start with:\n"
             "  dyad demo                                     train, compare, export\n"
             "  dyad inspect model.onnx                       what is in a model\n"
             "  dyad run model.onnx --input image=digit.npy   its results\n"
             "  dyad bench model.onnx                         how fast it is, and why\n\n"
             "dyad COMMAND --help says more about each.");
  const std::vector<Command> commands{add_demo(app),  add_inspect(app),   add_run(app),
                                      add_bench(app), add_onnx_test(app), add_passes(app),
                                      add_opt(app)};
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  try {
    for (const Command& command : commands) {
      if (command.app->parsed()) return command.run();
    }
    return 2;
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
