#include <algorithm>

#include "dyad/core/tensor_impl.h"
#include "dyad/ir/graph_evaluator.h"
#include "dyad/ir/graph_ops.h"
#include "dyad/onnx/importer.h"
#include "dyad/ops/index.h"
#include "dyad/ops/views.h"

// Everybody who reads a result has checked what was taken for granted of sizes: one may read its
// shape alone, of which a name stands in the place of another, and nothing else of what checks it.

namespace dyad::onnx {
namespace {

/// The value, which only a run has that computes the others too.
Tensor after(const Tensor& value, std::span<const Tensor> others, Loc loc) {
  std::vector<const Tensor*> inputs{&value};
  for (const Tensor& other : others) inputs.push_back(&other);
  const NoAttrs none;
  Tensor made;
  Evaluator::current().apply(kAfterOp, inputs, &none, {&made, 1}, loc);
  return made;
}

}  // namespace

class Importer::Region {
 public:
  explicit Region(Importer& importer) : depth_(importer.regions_) { ++depth_; }
  ~Region() { --depth_; }
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

 private:
  int& depth_;
};

void Importer::add_check(const Tensor& check) {
  checks_[graph_value(check)->graph.get()].push_back(check);
  ++check_count_;
}

std::vector<Tensor> Importer::record(const std::function<std::vector<Tensor>()>& construct) {
  const std::size_t before = check_count_;
  std::vector<Tensor> results;
  {
    const Region recording(*this);
    results = construct();
  }
  if (check_count_ == before) return results;
  const auto numbers =
      std::ranges::find_if(results, [](const Tensor& r) { return r.dtype() != DType::string; });
  if (numbers == results.end()) fail("a subgraph compares sizes that only a run tells");
  // Nobody may want its results, but only their sizes. What is looked for places is computed.
  const Tensor rows = numbers->rank() == 0 ? unsqueeze(*numbers, 0, loc_) : *numbers;
  add_check(nonzero(slice(rows, 0, 0, 0, 1, loc_), loc_));
  return results;
}

void Importer::check_before(std::vector<Tensor>& results) {
  const auto* evaluator = dynamic_cast<GraphEvaluator*>(&Evaluator::current());
  if (evaluator == nullptr) return;
  const auto found = checks_.find(evaluator->graph().get());
  if (found == checks_.end()) return;
  std::vector<Tensor>& checks = found->second;
  if (checks.size() > 1) {
    const std::span<const Tensor> all(checks);
    checks = {after(all[0], all.subspan(1), loc_)};
  }
  for (Tensor& result : results) result = after(result, checks, loc_);
}

}  // namespace dyad::onnx
