#include "onnx_forms.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <vector>

#include "cases.h"
#include "dyad/base/error.h"
#include "dyad/onnx/description.h"
#include "dyad/onnx/export.h"

namespace dyad::testing {
namespace {

constexpr int kLastOpset = 23;
constexpr int kMostCases = 24;  ///< of a row that are looked at
constexpr std::int64_t kManyNodes = 1000;

struct OnnxForm {
  std::int64_t nodes = 0;
  std::string text;
};

using OnnxVersions = std::map<std::string, std::vector<int>>;

OnnxVersions read_onnx_versions() {
  OnnxVersions versions;
  std::ifstream file("tests/ops/onnx_versions.txt");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string op;
    words >> op;
    for (int version = 0; words >> version;) versions[op].push_back(version);
  }
  return versions;
}

std::string with_version(const std::string& op, int opset, const OnnxVersions& versions) {
  const auto found = versions.find(op);
  if (found == versions.end()) return op;  // of another domain
  int since = 1;
  for (const int version : found->second) {
    if (version <= opset) since = version;
  }
  return op + " (" + std::to_string(since) + ")";
}

/// What a case is written as; nothing where it cannot be.
std::optional<OnnxForm> form_of(const Case& c, int opset, const std::string& path,
                                const OnnxVersions& versions) {
  try {
    const Graph graph = graph_of(c, false);
    std::ofstream(path, std::ios::binary) << onnx::to_bytes(graph, {.opset = opset});
  } catch (const Error&) {
    return std::nullopt;
  }
  const onnx::ModelDescription model = onnx::describe(path);
  OnnxForm form{.nodes = model.nodes(), .text = {}};
  std::vector<std::string> all, ops;
  for (const auto& part : model.operators) {
    all.push_back(with_version(part.op, opset, versions));
    // They bring operands and dtypes into shape for the others.
    if (part.op != "Cast" && part.op != "Constant" && part.op != "Identity")
      ops.push_back(all.back());
  }
  if (ops.empty()) {
    // Said where a row has no other form.
    const bool casts =
        std::ranges::any_of(all, [](const auto& op) { return op.starts_with("Cast"); });
    form.nodes += casts ? kManyNodes : 2 * kManyNodes;
    ops = all;
  }
  std::ranges::sort(ops);
  for (const std::string& op : ops) form.text += (form.text.empty() ? "" : ", ") + op;
  return form;
}

}  // namespace

std::map<std::string, std::string> onnx_forms() {
  const OnnxVersions versions = read_onnx_versions();
  const std::string path = ::testing::TempDir() + "dyad_onnx_form.onnx";
  std::map<std::string, OnnxForm> shortest;
  std::map<std::string, int> seen;
  for (const Case& c : reference_cases()) {
    if (c.op == nullptr || !c.op->to_onnx || ++seen[c.name] > kMostCases) continue;
    std::optional<OnnxForm> form = form_of(c, onnx::SaveOptions().opset, path, versions);
    if (!form) form = form_of(c, kLastOpset, path, versions);
    if (!form || form->text.empty()) continue;
    const auto known = shortest.find(c.name);
    if (known == shortest.end() || form->nodes < known->second.nodes) shortest[c.name] = *form;
  }
  std::filesystem::remove(path);
  std::map<std::string, std::string> forms;
  for (const auto& [name, form] : shortest) forms[name] = form.text;
  return forms;
}

}  // namespace dyad::testing
