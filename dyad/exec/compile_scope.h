#pragma once

#include "dyad/autograd/grad_mode.h"
#include "dyad/core/autocast_switch.h"
#include "dyad/runtime/planned_team.h"
#include "dyad/runtime/threads.h"

namespace dyad::exec {

/// How a thread in the background compiles: alone, off the tape, with the casts that were recorded,
/// for calls that `threads` will run.
class CompileScope {
 public:
  explicit CompileScope(int threads) : team_(threads) {}

 private:
  NoGrad no_tape_;
  AutocastSwitch as_recorded_{std::nullopt};
  ThreadScope alone_{1};
  runtime::PlannedTeam team_;
};

}  // namespace dyad::exec
