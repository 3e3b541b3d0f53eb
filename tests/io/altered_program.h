#pragma once

#include <string>

#include "dyad/base/error.h"
#include "dyad/io/program.h"
#include "dyad/io/safetensors.h"
#include "tests/shared/message_of.h"

namespace dyad::io {

/// What is wrong with a program's file, says who loads it, when `now` stands where `was` stood. It
/// is written to `path`.
inline std::string message_when_altered(const Safetensors& whole, const std::string& path,
                                        const std::string& was, const std::string& now) {
  Metadata metadata = whole.metadata;
  std::string& program = metadata.at("dyad.program");
  program.replace(program.find(was), was.size(), now);
  metadata[kChecksumKey] = "";
  save_safetensors(path, whole.tensors, metadata);
  return dyad::testing::message_of<IoError>([&] { static_cast<void>(load(path)); });
}

}  // namespace dyad::io
