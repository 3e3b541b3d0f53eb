#include "dyad/io/checkpoint.h"

#include <fmt/format.h>

#include <exception>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "dyad/base/error.h"
#include "dyad/io/json_fields.h"

namespace dyad::io {
namespace {

constexpr const char* kPositionKey = "dyad.checkpoint";
constexpr int kPositionFormat = 1;

std::string position_text(const Checkpoint& checkpoint) {
  const nlohmann::ordered_json json = {
      {"format", kPositionFormat},
      {"generator", {{"seed", checkpoint.generator.seed}, {"offset", checkpoint.generator.offset}}},
      {"loader",
       {{"seed", checkpoint.loader.seed},
        {"epoch", checkpoint.loader.epoch},
        {"batch", checkpoint.loader.batch}}},
      {"schedule", checkpoint.schedule}};
  return json.dump();
}

void parse_position(const std::string& text, Checkpoint& checkpoint) {
  const JsonValue json = JsonValue::parse(text);
  if (json.whole<std::int64_t>("format") != kPositionFormat) {
    json.at("format").fail(fmt::format("format {}", kPositionFormat));
  }
  const JsonValue generator = json.at("generator");
  checkpoint.generator = {generator.whole<std::int64_t>("seed"),
                          generator.whole<std::int64_t>("offset")};
  const JsonValue loader = json.at("loader");
  const auto read = [](const JsonValue& from, const char* key, auto& value) {
    value = from.whole<std::remove_reference_t<decltype(value)>>(key);
  };
  read(loader, "seed", checkpoint.loader.seed);
  read(loader, "epoch", checkpoint.loader.epoch);
  read(loader, "batch", checkpoint.loader.batch);
  read(json, "schedule", checkpoint.schedule);
}

}  // namespace

void save_checkpoint(const std::string& path, const Checkpoint& checkpoint, Loc loc) {
  TensorDict tensors;
  tensors.add_all("model.", checkpoint.model);
  tensors.add_all("optimizer.", checkpoint.optimizer);
  tensors.add_all("extra.", checkpoint.extra);
  Metadata metadata = checkpoint.notes;
  for (const char* key : {kPositionKey, kChecksumKey}) {
    if (metadata.emplace(key, "").second) continue;
    throw ValueError(fmt::format("save_checkpoint: '{}' cannot name a note", key), loc.user());
  }
  metadata[kPositionKey] = position_text(checkpoint);
  save_safetensors(path, tensors, metadata, loc);
}

Checkpoint load_checkpoint(const std::string& path, const LoadOptions& options, Loc loc) {
  Safetensors file = read_safetensors(path, options, loc);
  const auto position = file.metadata.find(kPositionKey);
  if (position == file.metadata.end()) {
    throw IoError(fmt::format("'{}': expected a checkpoint with '{}' in its metadata, found a "
                              "safetensors file without",
                              path, kPositionKey),
                  loc.user());
  }
  Checkpoint checkpoint;
  try {
    parse_position(position->second, checkpoint);
  } catch (const std::exception& error) {
    throw IoError(fmt::format("'{}': '{}' in the metadata cannot be read: {}", path, kPositionKey,
                              error.what()),
                  loc.user());
  }
  file.metadata.erase(position);
  file.metadata.erase(kChecksumKey);
  checkpoint.notes = std::move(file.metadata);
  checkpoint.model = file.tensors.below("model.");
  checkpoint.optimizer = file.tensors.below("optimizer.");
  checkpoint.extra = file.tensors.below("extra.");
  return checkpoint;
}

namespace detail {

void restore(const Checkpoint& checkpoint, const TensorDict& model, optim::Optimizer& optimizer,
             Loc loc) {
  TensorDict into, from;
  into.add_all("model.", model);
  into.add_all("optimizer.", optimizer.state_dict());
  from.add_all("model.", checkpoint.model);
  from.add_all("optimizer.", checkpoint.optimizer);
  nn::detail::load_state(into, from, {}, loc);
  optimizer.load_state_dict(checkpoint.optimizer, loc);
  default_generator().set_state(checkpoint.generator);
}

}  // namespace detail
}  // namespace dyad::io
