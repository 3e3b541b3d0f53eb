#pragma once

#include <span>
#include <string_view>

namespace dyad::fuzz {

/// Something that reads bytes from outside. It returns when they were read, or refused by one of
/// Dyad's errors; any other exception, and InternalError, leaves it.
struct Target {
  std::string_view name;
  void (*run)(std::string_view bytes);
};

/// All of them. Each has a folder tests/fuzz/corpus/<name>.
[[nodiscard]] std::span<const Target> targets();
/// The one of that name, or null.
[[nodiscard]] const Target* find_target(std::string_view name);

void read_onnx(std::string_view bytes);
void read_graph_text(std::string_view bytes);
void read_npy(std::string_view bytes);
void read_npz(std::string_view bytes);
void read_safetensors(std::string_view bytes);
void read_checkpoint(std::string_view bytes);
void read_program(std::string_view bytes);
void read_idx(std::string_view bytes);
void read_csv(std::string_view bytes);
void read_line_table(std::string_view bytes);

}  // namespace dyad::fuzz
