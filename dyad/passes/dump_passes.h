#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "dyad/ir/graph.h"

namespace dyad::passes {

/// A dump is there to be read: of constants that take more bytes in all the elements are left out.
inline constexpr std::int64_t kDumpDataLimit = 1 << 16;

/// What the environment variable DYAD_DUMP_PASSES=FILE asks for (`-` is the standard error): each
/// graph that is compiled, as text, as it was given and after each pass that changed it, appended
/// to the file. Constants of more than kDumpDataLimit are left out. Nothing when it is not set. One
/// object for each graph.
class PassDump {
 public:
  PassDump();

  /// Writes the graph after a pass; IoError when the file cannot be written.
  void operator()(std::string_view pass, const GraphImpl& graph);

 private:
  std::string path_, last_;
  int number_ = 0;
};

}  // namespace dyad::passes
