#include "dyad/base/loc.h"

#include <deque>
#include <mutex>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "dyad/base/no_loc_scope.h"

namespace dyad {
namespace {

thread_local Loc scope_loc;                         // owned by the outermost LocScope of the thread
thread_local const char* scope_function = nullptr;  // by the outermost that names one

/// Owner of the records made at run time; deques keep addresses stable.
class LocTable {
 public:
  const LocRecord* find_or_add(std::string_view file, std::uint32_t line,
                               std::string_view function) {
    std::string key =
        std::string(file) + '\0' + std::string(function) + '\0' + std::to_string(line);
    const std::lock_guard lock(mutex_);
    if (auto it = index_.find(key); it != index_.end()) return it->second;
    const char* file_text = strings_.emplace_back(file).c_str();
    const char* function_text = strings_.emplace_back(function).c_str();
    const LocRecord* record = &records_.emplace_back(LocRecord{file_text, function_text, line, 0});
    index_.emplace(std::move(key), record);
    return record;
  }

 private:
  std::mutex mutex_;
  std::deque<std::string> strings_;
  std::deque<LocRecord> records_;
  std::unordered_map<std::string, const LocRecord*> index_;
};

LocTable& loc_table() {
  static auto* table = new LocTable;  // immortal: locations outlive static destructors
  return *table;
}

}  // namespace

Loc Loc::intern(std::string_view file, std::uint32_t line, std::string_view function) {
  Loc loc;
  loc.record_ = loc_table().find_or_add(file, line, function);
  return loc;
}

Loc Loc::user() const noexcept { return scope_loc ? scope_loc : *this; }

std::string to_string(Loc loc) {
  if (!loc) return "<unknown>";
  std::string_view file = loc.file();
  if (auto slash = file.find_last_of("/\\"); slash != std::string_view::npos) {
    file.remove_prefix(slash + 1);
  }
  return std::string(file) + ":" + std::to_string(loc.line());
}

LocScope::LocScope(Loc loc, const char* function) noexcept
    : owner_(!scope_loc && loc), names_(!scope_function && function) {
  if (owner_) scope_loc = loc;
  if (names_) scope_function = function;
}

LocScope::~LocScope() {
  if (owner_) scope_loc = Loc();
  if (names_) scope_function = nullptr;
}

NoLocScope::NoLocScope() noexcept
    : loc_(std::exchange(scope_loc, Loc())), function_(std::exchange(scope_function, nullptr)) {}

NoLocScope::~NoLocScope() {
  scope_loc = loc_;
  scope_function = function_;
}

std::string_view LocScope::function() noexcept { return scope_function ? scope_function : ""; }

}  // namespace dyad
