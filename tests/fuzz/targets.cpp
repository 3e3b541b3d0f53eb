#include "tests/fuzz/targets.h"

#include <algorithm>

namespace dyad::fuzz {
namespace {

constexpr Target kTargets[] = {
    {"onnx", read_onnx},
    {"graph_text", read_graph_text},
    {"npy", read_npy},
    {"npz", read_npz},
    {"safetensors", read_safetensors},
    {"checkpoint", read_checkpoint},
    {"program", read_program},
    {"idx", read_idx},
    {"csv", read_csv},
    {"line_table", read_line_table},
};

}  // namespace

std::span<const Target> targets() { return kTargets; }

const Target* find_target(std::string_view name) {
  const auto* const found = std::ranges::find(kTargets, name, &Target::name);
  return found == std::end(kTargets) ? nullptr : found;
}

}  // namespace dyad::fuzz
