#include "dyad/exec/read_graph.h"

#include "dyad/exec/checkpoint.h"
#include "dyad/exec/control_flow_ops.h"
#include "dyad/exec/print.h"
#include "dyad/ops/registry.h"

namespace dyad::exec {

void register_all_ops() {
  ops::register_builtin_ops();
  register_control_ops();
  register_checkpoint_ops();
  register_print_op();
}

Ref<GraphImpl> read_graph(std::string_view text, const NamedTensors& variables,
                          const NamedTensors& constants) {
  register_all_ops();
  return parse_graph(text, variables, constants);
}

}  // namespace dyad::exec
