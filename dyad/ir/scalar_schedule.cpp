#include "dyad/ir/scalar_schedule.h"

#include <algorithm>

namespace dyad::scalar {
namespace {

/// Finds for each instruction the group of selects that alone needs it. A group is named by the
/// last of its selects.
class Groups {
 public:
  Groups(std::span<const Instruction> code, std::span<const std::uint32_t> outputs)
      : code_(code), owner_(code.size(), kNobody), group_(code.size(), kNobody) {
    for (const std::uint32_t id : outputs) owner_[id] = kAll;
    for (std::size_t id = code.size(); id-- > 0;) {
      if (owner_[id] == kNobody) owner_[id] = kAll;
      const Instruction& i = code[id];
      const bool rare = i.op == Op::select_rarely;
      if (rare) group_[id] = joins_next(id) ? group_[id + 1] : static_cast<std::uint32_t>(id);
      for (int a = 0; a < arity(i.op); ++a)
        need(i.args[a], rare && a == 1 ? group_[id] : owner_[id]);
    }
  }

  std::vector<ScheduledStep> steps() {
    members_.resize(code_.size());
    std::vector<std::uint32_t> main;
    for (std::uint32_t id = 0; id < code_.size(); ++id) {
      (owner_[id] == kAll ? main : members_[owner_[id]]).push_back(id);
    }
    add(main);
    return std::move(steps_);
  }

 private:
  static constexpr std::uint32_t kNobody = UINT32_MAX, kAll = UINT32_MAX - 1;

  void need(std::uint32_t id, std::uint32_t by) {
    // Constants and what stands outside of the program are there in any case.
    if (arity(code_[id].op) == 0) by = kAll;
    std::uint32_t& owner = owner_[id];
    if (owner == kNobody) owner = by;
    // The innermost group that holds both; an outer one has a later name.
    while (owner != by) (owner < by ? owner : by) = owner_[std::min(owner, by)];
  }

  /// Whether a rare select belongs to the group of the one behind it.
  bool joins_next(std::size_t id) const {
    const std::size_t next = id + 1;
    if (next == code_.size() || group_[next] == kNobody || owner_[next] != owner_[id] ||
        code_[next].args[0] != code_[id].args[0]) {
      return false;
    }
    for (std::size_t other = next; other <= group_[next]; ++other) {
      const auto& args = code_[other].args;
      if (std::find(args.begin(), args.end(), id) != args.end()) return false;
    }
    return true;
  }

  void add(const std::vector<std::uint32_t>& ids) {
    for (const std::uint32_t id : ids) {
      const std::uint32_t group = group_[id];
      const bool first = group != kNobody && (id == 0 || group_[id - 1] != group);
      if (first && !members_[group].empty()) {
        const std::size_t guard = steps_.size();
        steps_.push_back({.id = id, .selects = group - id + 1});
        add(members_[group]);
        steps_[guard].guarded = static_cast<std::uint32_t>(steps_.size() - guard - 1);
      }
      steps_.push_back({.id = id});
    }
  }

  std::span<const Instruction> code_;
  std::vector<std::uint32_t> owner_, group_;
  std::vector<std::vector<std::uint32_t>> members_;  // by group
  std::vector<ScheduledStep> steps_;
};

}  // namespace

std::vector<ScheduledStep> schedule(std::span<const Instruction> code,
                                    std::span<const std::uint32_t> outputs) {
  const auto rare = [](const Instruction& i) { return i.op == Op::select_rarely; };
  if (std::any_of(code.begin(), code.end(), rare)) return Groups(code, outputs).steps();
  std::vector<ScheduledStep> steps(code.size());
  for (std::uint32_t id = 0; id < code.size(); ++id) steps[id].id = id;
  return steps;
}

}  // namespace dyad::scalar
