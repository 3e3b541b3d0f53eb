#include "dyad/exec/step_profile.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <utility>

#include "dyad/ir/graph_ops.h"
#include "dyad/passes/fused_op.h"

namespace dyad::exec {
namespace {

thread_local StepProfile* active_profile = nullptr;

double now() noexcept {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

std::vector<StepTime::Part> parts_of(const Node& node) {
  if (!passes::is_kernels(node)) return {{std::string(node.op().name), node.loc()}};
  std::vector<StepTime::Part> parts;
  for (const auto& inner : node.regions()[0]->nodes()) {
    const OpInfo& op = inner->op();
    if (&op == &kPlaceholderOp || &op == &kConstantOp || op.kind == BodyKind::view ||
        inner->is("full"))
      continue;
    for (StepTime::Part& part : parts_of(*inner)) parts.push_back(std::move(part));
  }
  return parts;
}

StepProfile::StepProfile() noexcept : previous_(std::exchange(active_profile, this)) {}
StepProfile::~StepProfile() { active_profile = previous_; }
StepProfile* StepProfile::active() noexcept { return active_profile; }

StepProfile::Clock::Clock(StepProfile& profile, const Node& node) noexcept
    : profile_(profile),
      node_(node),
      inner_before_(std::exchange(profile.inner_, 0)),
      start_(now()) {}

StepProfile::Clock::~Clock() {
  const double whole = now() - start_;
  StepTime& time = profile_.times_[&node_];
  if (time.calls++ == 0) time.parts = parts_of(node_);
  time.seconds += whole - profile_.inner_;
  profile_.inner_ = inner_before_ + whole;
}

const StepTime* StepProfile::find(const Node& node) const {
  const auto found = times_.find(&node);
  return found == times_.end() ? nullptr : &found->second;
}

std::vector<StepTime> StepProfile::steps() const {
  std::vector<StepTime> all;
  for (const auto& [node, time] : times_) all.push_back(time);
  std::ranges::sort(all, std::greater<>(), &StepTime::seconds);
  return all;
}

}  // namespace dyad::exec
