#include "dyad/passes/lower.h"

#include "dyad/passes/cse.h"
#include "dyad/passes/dce.h"
#include "dyad/passes/expand_composites.h"
#include "dyad/passes/sink_assigns.h"

namespace dyad::passes {
namespace {

struct Pass {
  std::string_view name;
  Ref<GraphImpl> (*run)(Ref<GraphImpl> graph, const LowerOptions& options);
};

constexpr Pass kPasses[] = {
    {"sink_assigns", [](Ref<GraphImpl> g, const LowerOptions&) { return sink_assigns(*g); }},
    {"expand_composites",
     [](Ref<GraphImpl> g, const LowerOptions&) { return expand_composites(*g); }},
    {"fold_constants",
     [](Ref<GraphImpl> g, const LowerOptions& options) {
       return options.evaluate ? fold_constants(*g, options.evaluate) : g;
     }},
    {"cse",
     [](Ref<GraphImpl> g, const LowerOptions&) {
       cse(*g);
       return g;
     }},
    {"dce",
     [](Ref<GraphImpl> g, const LowerOptions&) {
       dce(*g);
       return g;
     }},
    {"fuse",
     [](Ref<GraphImpl> g, const LowerOptions& options) {
       return options.fuse ? fuse(*g, options.fusion) : g;
     }},
};

}  // namespace

Ref<GraphImpl> lower(const GraphImpl& graph, const LowerOptions& options) {
  if (options.dump) options.dump("input", graph);
  Ref<GraphImpl> lowered = clone(graph);
  for (const Pass& pass : kPasses) {
    lowered = pass.run(std::move(lowered), options);
    if (options.dump) options.dump(pass.name, *lowered);
  }
  return lowered;
}

}  // namespace dyad::passes
