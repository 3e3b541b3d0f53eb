#include "dyad/passes/fusion_notes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "dyad/ir/graph_ops.h"
#include "dyad/passes/node_cost.h"

namespace dyad::passes {
namespace {

using Values = std::unordered_set<Value, ValueHash>;

/// A sum of bytes.
class Bytes {
 public:
  explicit Bytes(const SymbolMap& known) : sizes_(known) {}

  void add(const Type& type) { sum_ += bytes_of(type, sizes_); }
  [[nodiscard]] std::int64_t sum() const noexcept { return sum_; }

 private:
  SymbolMap sizes_;
  std::int64_t sum_ = 0;
};

/// No memory is read for it: it is a number in the kernel.
bool is_number(Value value) {
  return value.node->is("full") || (&value.node->op() == &kConstantOp && value.type().rank() == 0);
}

bool computes(const Node& node) { return node.op().kind != BodyKind::view; }

}  // namespace

std::string names_in(std::span<Node* const> members) {
  constexpr std::size_t kMost = 6;
  std::vector<std::string_view> names;
  for (const Node* node : members) {
    if (computes(*node)) names.push_back(node->op().name);
  }
  const std::size_t shown = names.size() > kMost + 1 ? kMost : names.size();
  const std::string text = fmt::format("{}", fmt::join(std::span(names).first(shown), ", "));
  return shown == names.size() ? text : fmt::format("{} and {} more", text, names.size() - shown);
}

void note_together(const FuseOptions& options, std::span<Node* const> members,
                   std::span<const Value> results, const std::string& names,
                   const std::string& doing) {
  if (!options.note) return;
  Bytes together(options.sizes), apart(options.sizes);
  Values from_outside;
  const std::unordered_set<const Node*> inside(members.begin(), members.end());
  for (const Node* const node : members) {
    if (!computes(*node)) continue;
    Values read;
    for (const Value v : node->inputs()) {
      if (!v || is_number(v) || !read.insert(v).second) continue;
      apart.add(v.type());
      if (!inside.contains(v.node) && from_outside.insert(v).second) together.add(v.type());
    }
    for (const Type& made : node->types()) apart.add(made);
  }
  for (const Value v : results) together.add(v.type());
  options.note(members.back()->loc(), fmt::format("{} {}: {} bytes to move, apart {}", names, doing,
                                                  together.sum(), apart.sum()));
}

void note_apart(const FuseOptions& options, const Node& made, const Node& node,
                const std::string& why) {
  if (!options.note) return;
  Bytes between(options.sizes);
  between.add(made.types()[0]);
  options.note(node.loc(),
               fmt::format("{} and {} have kernels of their own, {} bytes between them: {}",
                           made.op().name, node.op().name, between.sum(), why));
}

void note_read_twice(const FuseOptions& options, const Node& first, const Node& second, Value value,
                     const std::string& why) {
  if (!options.note) return;
  Bytes read(options.sizes);
  read.add(value.type());
  options.note(second.loc(),
               fmt::format("{} and {} read the same {} bytes in kernels of their own: {}",
                           first.op().name, second.op().name, read.sum(), why));
}

}  // namespace dyad::passes
