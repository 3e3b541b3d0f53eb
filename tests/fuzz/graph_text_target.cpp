#include <algorithm>
#include <stdexcept>

#include "dyad/base/error.h"
#include "dyad/core/allocation_limit.h"
#include "dyad/exec/control_flow_ops.h"
#include "dyad/exec/graph.h"
#include "dyad/ops/registry.h"
#include "tests/fuzz/targets.h"

namespace dyad::fuzz {

/// A graph that can be read is written as a text which, read again, is written as the same text.
void read_graph_text(std::string_view bytes) {
  ops::register_builtin_ops();
  exec::register_control_ops();
  // Constants of zeros may be written shortly.
  const AllocationLimit limit(std::size_t{256} << 20);
  Graph graph;
  try {
    graph = Graph::parse(bytes);
    graph.verify();
  } catch (const GraphError&) {
    return;
  } catch (const MemoryError&) {
    return;
  }
  const std::string text = graph.to_string();
  const std::string again = Graph::parse(text).to_string();
  if (again != text)
    throw std::logic_error("written as\n" + text + "\nbut read again as\n" + again);
}

}  // namespace dyad::fuzz
