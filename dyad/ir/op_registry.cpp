#include <map>
#include <mutex>
#include <shared_mutex>
#include <string>

#include "dyad/base/error.h"
#include "dyad/ir/graph_ops.h"
#include "dyad/ir/op_info.h"

namespace dyad {
namespace {

/// Owner of the list of operators of the process.
class Registry {
 public:
  Registry() {
    for (const OpInfo* row : {&kPlaceholderOp, &kConstantOp, &kVariableOp, &kAssignOp, &kAfterOp}) {
      rows_.emplace(row->name, row);
    }
  }

  const OpInfo* find(std::string_view name) noexcept {
    const std::shared_lock lock(mutex_);
    const auto it = rows_.find(name);
    return it == rows_.end() ? nullptr : it->second;
  }

  std::vector<const OpInfo*> all() {
    const std::shared_lock lock(mutex_);
    std::vector<const OpInfo*> rows;
    rows.reserve(rows_.size());
    for (const auto& [name, row] : rows_) rows.push_back(row);
    return rows;
  }

  /// All of `rows` or none.
  void add(std::span<const OpInfo* const> rows) {
    const std::unique_lock lock(mutex_);
    std::map<std::string_view, const OpInfo*> added = rows_;
    for (const OpInfo* row : rows) {
      if (row->name.empty()) throw ValueError("an operator needs a name");
      if (row->infer == nullptr) {
        throw ValueError("operator " + std::string(row->name) + " has no rule for its types");
      }
      const auto [it, is_new] = added.emplace(row->name, row);
      if (!is_new && it->second != row) {
        throw ValueError("there is already an operator " + std::string(row->name) +
                         "; choose another name, such as one with a prefix");
      }
    }
    rows_ = std::move(added);
  }

 private:
  std::shared_mutex mutex_;
  std::map<std::string_view, const OpInfo*> rows_;
};

Registry& registry() {
  static Registry owner;
  return owner;
}

}  // namespace

const OpInfo* find_op(std::string_view name) noexcept { return registry().find(name); }
std::vector<const OpInfo*> all_ops() { return registry().all(); }
void register_ops(std::span<const OpInfo* const> rows) { registry().add(rows); }

}  // namespace dyad
