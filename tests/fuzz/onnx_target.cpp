#include <algorithm>
#include <string>
#include <vector>

#include "dyad/base/error.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/ir/graph.h"
#include "dyad/ir/graph_ops.h"
#include "dyad/onnx/load.h"
#include "dyad/ops/ops.h"
#include "tests/fuzz/targets.h"

namespace dyad::fuzz {
namespace {

/// Enough for any small model, and little enough to try thousands in a second.
constexpr onnx::LoadLimits kLimits{
    .nodes = 2000, .constants = std::size_t{1} << 20, .run_memory = std::size_t{16} << 20};
constexpr std::int64_t kSize = 2, kMostElements = 4096;

/// Small numbers, of both signs where the dtype has them; nothing for a type that no test would
/// feed.
Tensor some(DType dtype, const Shape& symbolic) {
  Shape shape;
  std::int64_t count = 1;
  for (const Dim size : symbolic) {
    shape.push_back(size.is_number() ? size : Dim(kSize));
    if (shape.back().number() > kMostElements) return {};
    count *= std::max<std::int64_t>(shape.back().number(), 1);
    if (count > kMostElements) return {};
  }
  if (dtype == DType::string) return {};
  return (arange(count, f32) - 2).to(dtype).slice(0, 0, shape.numel().number()).reshape(shape);
}

/// Whether a run ends soon: a loop may go on for ever, and says so in no other way.
bool ends_soon(const GraphImpl& graph) {
  if (graph.nodes().size() > 500) return false;
  return std::ranges::none_of(graph.nodes(), [](const auto& node) {
    return node->is("while_loop") || node->is("scan") ||
           !std::ranges::all_of(node->regions(), [](const auto& r) { return ends_soon(*r); });
  });
}

void run(const onnx::Model& model) {
  if (!model.value_inputs().empty()) {
    // Numbers for whatever decides: most are axes, sizes and conditions.
    std::vector<Feed> feeds;
    for (const std::string& name : model.inputs()) {
      const bool decides = std::ranges::count(model.value_inputs(), name) > 0;
      feeds.emplace_back(name, decides ? some(i64, {1}) : some(f32, {2, 3}));
    }
    (void)model.run(feeds);
    return;
  }
  const Graph& graph = model.graph();
  graph.verify();
  (void)graph.to_string();
  if (!ends_soon(*graph.impl())) return;
  std::vector<Feed> feeds;
  for (const std::string& name : model.inputs()) {
    const Tensor input = graph.input(name);
    const Tensor value = some(input.dtype(), input.shape());
    if (!value.defined()) return;
    feeds.emplace_back(name, value);
  }
  (void)model.run(feeds);
}

}  // namespace

void read_onnx(std::string_view bytes) {
  try {
    run(onnx::parse(bytes, {.trainable = bytes.size() % 2 == 0, .limits = kLimits}));
  } catch (const InternalError&) {
    throw;
  } catch (const Error&) {
    return;  // refused
  }
}

}  // namespace dyad::fuzz
