#include "dyad/core/free_runs.h"

#include <cstdint>
#include <iterator>

namespace dyad::detail {

FreeRun FreeRuns::erase(ByPlace::iterator at) noexcept {
  const FreeRun run = {at->first, at->second};
  by_size_.erase({run.bytes, run.begin});
  by_place_.erase(at);
  return run;
}

void FreeRuns::add(FreeRun run) noexcept {
  auto next = by_place_.lower_bound(run.begin);
  if (next != by_place_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == run.begin) {
      run.begin = before->first;
      run.bytes += erase(before).bytes;
    }
  }
  if (next != by_place_.end() && run.begin + run.bytes == next->first)
    run.bytes += erase(next).bytes;
  by_place_.emplace(run.begin, run.bytes);
  by_size_.emplace(run.bytes, run.begin);
}

std::byte* FreeRuns::take(std::size_t bytes) noexcept {
  const auto found = by_size_.lower_bound({bytes, nullptr});
  if (found == by_size_.end()) return nullptr;
  const FreeRun run = erase(by_place_.find(found->second));
  if (run.bytes > bytes) add({run.begin + bytes, run.bytes - bytes});
  return run.begin;
}

std::vector<FreeRun> FreeRuns::take_pages(std::size_t page) noexcept {
  std::vector<FreeRun> taken;
  for (auto at = by_place_.begin(); at != by_place_.end();) {
    const auto [begin, bytes] = *at;
    const std::size_t skip = (page - reinterpret_cast<std::uintptr_t>(begin) % page) % page;
    if (bytes < skip + page) {
      ++at;
      continue;
    }
    const FreeRun pages = {begin + skip, (bytes - skip) / page * page};
    taken.push_back(pages);
    const auto rest = at++;
    erase(rest);
    // What is left lies before `at`, and joins with nothing: the pages were between.
    if (skip > 0) add({begin, skip});
    if (const std::size_t after = bytes - skip - pages.bytes; after > 0)
      add({pages.begin + pages.bytes, after});
  }
  return taken;
}

}  // namespace dyad::detail
