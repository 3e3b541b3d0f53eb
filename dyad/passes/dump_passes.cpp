#include "dyad/passes/dump_passes.h"

#include <fmt/format.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>

#include "dyad/base/error.h"

namespace dyad::passes {
namespace {

void append(const std::string& path, const std::string& text) {
  static std::mutex mutex;
  const std::scoped_lock lock(mutex);
  if (path == "-") {
    static_cast<void>(std::fwrite(text.data(), 1, text.size(), stderr));
    return;
  }
  std::FILE* file = std::fopen(path.c_str(), "ab");
  const bool written = file && std::fwrite(text.data(), 1, text.size(), file) == text.size();
  const bool closed = file && std::fclose(file) == 0;
  if (!written || !closed) throw IoError("DYAD_DUMP_PASSES: cannot write to '" + path + "'");
}

}  // namespace

PassDump::PassDump() {
  static std::atomic<int> graphs{0};
  const char* wanted = std::getenv("DYAD_DUMP_PASSES");  // NOLINT(concurrency-mt-unsafe)
  if (!wanted || !*wanted) return;
  path_ = wanted;
  number_ = ++graphs;
}

void PassDump::operator()(std::string_view pass, const GraphImpl& graph) {
  if (path_.empty()) return;
  std::string text = to_string(graph, {.data_limit = kDumpDataLimit});
  if (text == last_) {
    append(path_, fmt::format("// graph {}, after {}: as before\n", number_, pass));
    return;
  }
  append(path_, pass == "input" ? fmt::format("// graph {}, as given\n{}", number_, text)
                                : fmt::format("// graph {}, after {}\n{}", number_, pass, text));
  last_ = std::move(text);
}

}  // namespace dyad::passes
