#pragma once

#include <string>
#include <utility>

#include "dyad/ops/registry.h"
#include "dyad/passes/pipeline.h"
#include "dyad/passes/rewriter.h"

namespace dyad::exec {

/// A pass that makes `now` of each operator `was`.
inline passes::Pass wrong_pass(std::string name, const std::string& was, const std::string& now,
                               passes::PassUse use = passes::PassUse::optional) {
  return {std::move(name), "makes mistakes", use,
          [was, now](const Ref<GraphImpl>& graph, const passes::LowerOptions&) {
            passes::Rewriter rewriter(*graph);
            for (const auto& node : graph->nodes()) {
              if (!node->is(was)) {
                rewriter.copy(*node);
                continue;
              }
              Node* made = rewriter.to()->append_checked(*find_op(now), no_attrs(),
                                                         rewriter.at(node->inputs()), node->loc());
              rewriter.set(node->output(), made->output());
            }
            return rewriter.finish();
          }};
}

}  // namespace dyad::exec
