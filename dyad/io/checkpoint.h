#pragma once

#include <cstdint>
#include <string>

#include "dyad/core/generator.h"
#include "dyad/data/batch_stream.h"
#include "dyad/io/safetensors.h"
#include "dyad/nn/module.h"
#include "dyad/optim/optimizer.h"

namespace dyad::io {

/// All that the rest of a training run depends on beside data and code. Restored into objects made
/// in the same way, training goes on with the same bits.
struct Checkpoint {
  TensorDict model;
  TensorDict optimizer;
  TensorDict extra;             ///< the program's own: averages of weights, a GradScaler's state...
  RandomKey generator;          ///< of the default generator
  data::LoaderPosition loader;  ///< DataLoader::position()
  std::int64_t schedule = 0;    ///< optim::Schedule::position()
  Metadata notes;               ///< the program's own: epochs done, best accuracy...
};

/// Writes a checkpoint as one safetensors file, which other programs can read: the tensors are
/// named `model.*`, `optimizer.*` and `extra.*`. Atomic: a crash at any moment leaves the old
/// checkpoint. ValueError for a note named `dyad.checkpoint` or `dyad.crc32`; IoError.
void save_checkpoint(const std::string& path, const Checkpoint& checkpoint,
                     Loc loc = std::source_location::current());
/// IoError for a file that is no checkpoint or is damaged, which its checksum tells.
[[nodiscard]] Checkpoint load_checkpoint(const std::string& path, const LoadOptions& options = {},
                                         Loc loc = std::source_location::current());

/// The state of a model, its optimizer and the default generator now. Shares the tensors: save it
/// before training goes on.
template <class M>
[[nodiscard]] Checkpoint take_checkpoint(const M& model, const optim::Optimizer& optimizer) {
  Checkpoint checkpoint;
  checkpoint.model = nn::state_dict(model);
  checkpoint.optimizer = optimizer.state_dict();
  checkpoint.generator = default_generator().state();
  return checkpoint;
}

namespace detail {
void restore(const Checkpoint& checkpoint, const TensorDict& model, optim::Optimizer& optimizer,
             Loc loc);
}  // namespace detail

/// Overwrites the state of a model, its optimizer and the default generator. ValueError listing
/// everything that does not fit, before anything is written. Loader and schedule take their parts
/// by set_position, what is in `extra` takes its own by load_state_dict.
template <class M>
void restore_checkpoint(const Checkpoint& checkpoint, const M& model, optim::Optimizer& optimizer,
                        Loc loc = std::source_location::current()) {
  detail::restore(checkpoint, nn::state_dict(model), optimizer, loc);
}

}  // namespace dyad::io
