#include "dyad/io/checkpoint.h"

#include <fmt/format.h>

#include <exception>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "dyad/base/error.h"

namespace dyad::io {
namespace {

constexpr const char* kKey = "dyad.checkpoint";
constexpr int kFormat = 1;

std::string position_text(const Checkpoint& checkpoint) {
  const nlohmann::ordered_json json = {
      {"format", kFormat},
      {"generator", {{"seed", checkpoint.generator.seed}, {"offset", checkpoint.generator.offset}}},
      {"loader",
       {{"seed", checkpoint.loader.seed},
        {"epoch", checkpoint.loader.epoch},
        {"batch", checkpoint.loader.batch}}},
      {"schedule", checkpoint.schedule}};
  return json.dump();
}

/// A whole number that the member can hold; what else nlohmann would convert is refused.
template <class T>
void get_whole(const nlohmann::json& json, const char* key, T& value) {
  const auto& found = json.at(key);
  const bool fits = found.is_number_unsigned()
                        ? std::in_range<T>(found.get<std::uint64_t>())
                        : found.is_number_integer() && std::in_range<T>(found.get<std::int64_t>());
  if (!fits) {
    throw std::invalid_argument(
        fmt::format("expected a whole number for '{}', found {}", key, found.dump()));
  }
  found.get_to(value);
}

void parse_position(const std::string& text, Checkpoint& checkpoint) {
  const nlohmann::json json = nlohmann::json::parse(text);
  if (json.at("format") != kFormat) {
    throw std::invalid_argument(
        fmt::format("expected format {}, found {}", kFormat, json.at("format").dump()));
  }
  const auto& generator = json.at("generator");
  get_whole(generator, "seed", checkpoint.generator.seed);
  get_whole(generator, "offset", checkpoint.generator.offset);
  const auto& loader = json.at("loader");
  get_whole(loader, "seed", checkpoint.loader.seed);
  get_whole(loader, "epoch", checkpoint.loader.epoch);
  get_whole(loader, "batch", checkpoint.loader.batch);
  get_whole(json, "schedule", checkpoint.schedule);
}

}  // namespace

void save_checkpoint(const std::string& path, const Checkpoint& checkpoint, Loc loc) {
  TensorDict tensors;
  tensors.add_all("model.", checkpoint.model);
  tensors.add_all("optimizer.", checkpoint.optimizer);
  Metadata metadata = checkpoint.notes;
  if (!metadata.emplace(kKey, position_text(checkpoint)).second) {
    throw ValueError(fmt::format("save_checkpoint: '{}' cannot name a note", kKey), loc.user());
  }
  save_safetensors(path, tensors, metadata, loc);
}

Checkpoint load_checkpoint(const std::string& path, Loc loc) {
  Safetensors file = read_safetensors(path, {}, loc);
  const auto position = file.metadata.find(kKey);
  if (position == file.metadata.end()) {
    throw IoError(fmt::format("'{}': expected a checkpoint with '{}' in its metadata, found a "
                              "safetensors file without",
                              path, kKey),
                  loc.user());
  }
  Checkpoint checkpoint;
  try {
    parse_position(position->second, checkpoint);
  } catch (const std::exception& error) {
    throw IoError(
        fmt::format("'{}': '{}' in the metadata cannot be read: {}", path, kKey, error.what()),
        loc.user());
  }
  file.metadata.erase(position);
  checkpoint.notes = std::move(file.metadata);
  checkpoint.model = file.tensors.below("model.");
  checkpoint.optimizer = file.tensors.below("optimizer.");
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
