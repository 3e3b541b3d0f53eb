#pragma once

#include <span>
#include <string>

#include "dyad/debug/html_report.h"
#include "dyad/exec/explain.h"

namespace dyad::debug {

/// What `explain_passes()` of a compiled function or session tells, as JSON: a list of graphs, each
/// with its text and its passes in their order; times in milliseconds. A pass that changed nothing
/// has no text.
[[nodiscard]] std::string to_json(std::span<const ExplainedPasses> graphs);

/// Sections of a page, one for each graph: a table of the passes that changed it, the names of the
/// others, and for each pass in the table which lines of the graph's text it removed and added.
void add_passes(HtmlReport& page, std::span<const ExplainedPasses> graphs);

}  // namespace dyad::debug
