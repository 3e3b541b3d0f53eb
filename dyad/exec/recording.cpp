#include "dyad/exec/recording.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <numeric>
#include <span>
#include <utility>

#include "dyad/autograd/grad_mode.h"
#include "dyad/autograd/tape.h"
#include "dyad/base/error.h"
#include "dyad/core/autocast_switch.h"
#include "dyad/exec/compile.h"
#include "dyad/exec/drawn_keys.h"
#include "dyad/exec/eager.h"
#include "dyad/exec/partial_backward.h"
#include "dyad/ir/graph_evaluator.h"

namespace dyad::exec {
namespace {

std::string guard_string(const DimGuard& guard) {
  switch (guard.kind) {
    case DimGuard::Kind::equal:
      return to_string(guard.a) + (guard.answer ? " == " : " != ") + to_string(guard.b);
    case DimGuard::Kind::less:
      if (guard.a.is_number()) {
        return to_string(guard.b) + (guard.answer ? " > " : " <= ") + to_string(guard.a);
      }
      return to_string(guard.a) + (guard.answer ? " < " : " >= ") + to_string(guard.b);
    case DimGuard::Kind::value:
      return to_string(guard.a) + " == " + std::to_string(guard.answer);
  }
  return {};
}

/// Adds what `same` finds nothing like.
template <class List, class Same>
void add_new(List& into, const List& from, const Same& same) {
  for (const auto& item : from) {
    if (std::none_of(into.begin(), into.end(),
                     [&](const auto& known) { return same(known, item); }))
      into.push_back(item);
  }
}

/// What a key tells of a call beside its tensors.
std::span<const std::int64_t> numbers_of(const CallKey& key) {
  return std::span(key).subspan(2 + 3 * static_cast<std::size_t>(key[1]));
}

/// How many are equal: behind another number of parts, the same place means something else.
std::size_t entries_in_common(std::span<const std::int64_t> a, std::span<const std::int64_t> b) {
  if (a.size() != b.size())
    return static_cast<std::size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
  return std::inner_product(a.begin(), a.end(), b.begin(), std::size_t{0}, std::plus<>(),
                            std::equal_to<>());
}

}  // namespace

std::string autocast_of(const CallKey& key) {
  return key[0] < 2 ? "off" : std::string(name_of(static_cast<DType>(key[0] / 2 - 1)));
}

CallKey key_of(std::span<const Tensor> arguments, std::span<const std::int64_t> numbers) {
  const std::int64_t autocast =
      autocast_dtype() ? 2 * (static_cast<std::int64_t>(*autocast_dtype()) + 1) : 0;
  CallKey key;
  key.reserve(2 + 3 * arguments.size() + numbers.size());
  key.push_back(autocast + (grad_enabled() ? 1 : 0));
  key.push_back(static_cast<std::int64_t>(arguments.size()));
  for (const Tensor& argument : arguments) {
    key.push_back(static_cast<std::int64_t>(argument.dtype()));
    key.push_back(argument.rank());
    // What was computed begins a tape of its own, and keeps no gradient.
    key.push_back(!argument.tracks_grad() ? 0 : argument.is_leaf() ? 1 : 2);
  }
  key.insert(key.end(), numbers.begin(), numbers.end());
  // Which tensors are one: their gradients are one, and what is written to the one is in the other.
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    if (const std::size_t first = first_same(arguments, i); first < i) {
      key.push_back(static_cast<std::int64_t>(i));
      key.push_back(static_cast<std::int64_t>(first));
    }
  }
  return key;
}

std::string Recording::argument(std::size_t position) const {
  return position < names.tensors.size() ? names.tensors[position]
                                         : "argument " + std::to_string(position);
}

Loc Recording::line_of(const Mismatch& differs) const {
  if (differs.argument < 0 || !tree) return {};
  for (const DecisionTree::Leaf& leaf : tree->leaves()) {
    const GraphImpl& graph = *leaf.path->graph;
    const Value argument = graph.placeholders()[static_cast<std::size_t>(differs.argument)];
    for (const auto& node : graph.nodes()) {
      if (std::ranges::find(node->inputs(), argument) != node->inputs().end()) return node->loc();
    }
  }
  return {};
}

Mismatch Recording::key_difference(const CallKey& of_call,
                                   std::span<const Tensor> arguments) const {
  if (key[0] / 2 != of_call[0] / 2)
    return {"autocast was " + autocast_of(key) + ", is " + autocast_of(of_call)};
  if (key[0] != of_call[0])
    return {of_call[0] ? "gradients are recorded now" : "gradients are not recorded now"};
  // With another number of tensors a length or the like differs, which tells more.
  for (std::size_t i = 0; i < arguments.size() && key[1] == of_call[1]; ++i) {
    if (std::equal(of_call.begin() + 2 + 3 * static_cast<std::ptrdiff_t>(i),
                   of_call.begin() + 5 + 3 * static_cast<std::ptrdiff_t>(i),
                   key.begin() + 2 + 3 * static_cast<std::ptrdiff_t>(i))) {
      continue;
    }
    std::string now = type_string(arguments[i]);
    if (types[i] == now) {
      const bool computed = key[4 + 3 * i] == 1 && of_call[4 + 3 * i] == 2;
      now += computed                     ? ", computed from others"
             : arguments[i].tracks_grad() ? " with gradients"
                                          : " without gradients";
    }
    return {.text = argument(i) + " was " + types[i] + ", is " + now,
            .argument = static_cast<int>(i)};
  }
  // Up to the first number that differs both calls have the same parts.
  const auto numbers = numbers_of(key), now = numbers_of(of_call);
  const auto [was, is] = std::ranges::mismatch(numbers, now);
  const auto position = static_cast<std::size_t>(was - numbers.begin());
  if (position < names.numbers.size() && is != now.end())
    return {pack::difference(names.numbers[position], *was, *is)};
  if (key[1] != of_call[1]) return {"another number of tensors"};
  return {"other arguments than before are the same tensor"};
}

std::optional<Mismatch> Recording::sizes_differ(std::span<const Tensor> arguments,
                                                SymbolMap& symbols) const {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    for (std::size_t axis = 0; axis < shapes[i].size(); ++axis) {
      const Dim expected = shapes[i][axis];
      const std::int64_t size = arguments[i].impl()->shape[axis].number();
      const auto differs = [&](const std::string& was) {
        return Mismatch{.text = "size of " + argument(i) + " along axis " + std::to_string(axis) +
                                " was " + was + ", is " + std::to_string(size),
                        .argument = static_cast<int>(i)};
      };
      if (expected.is_number()) {
        if (expected.number() != size) return differs(std::to_string(expected.number()));
      } else if (const std::int64_t* bound = symbols.find(expected)) {
        if (*bound != size) return differs(to_string(expected) + " = " + std::to_string(*bound));
      } else {
        symbols.bind(expected, size);
      }
    }
  }
  return std::nullopt;
}

void Recording::add_buckets(const std::shared_ptr<const Path>& path,
                            const CompileOptions& options) {
  if (!bucketed) {
    std::vector<BucketedSymbol> symbols;
    for (const auto& [axis, sizes] : options.buckets) {
      const Shape& shape = shapes[static_cast<std::size_t>(axis.argument)];
      const int rank = shape.rank();
      const Dim size = shape[static_cast<std::size_t>(from_front(axis.axis, rank))];
      const bool is_new = std::ranges::none_of(
          symbols, [&](const BucketedSymbol& known) { return known.symbol.same_as(size); });
      if (size.is_symbolic() && is_new) symbols.push_back({size, sizes});
    }
    if (symbols.empty()) return;
    bucketed = std::make_unique<BucketedCalls>(std::move(symbols), executable_options(options));
  }
  bucketed->add(path);
}

bool Recording::writes_overlap(std::span<const Tensor> arguments) const {
  for (std::size_t i = 0; i < writes_argument.size(); ++i) {
    if (!writes_argument[i]) continue;
    if (is_broadcast(*arguments[i].impl())) return true;
    for (std::size_t j = 0; j < arguments.size(); ++j) {
      if (i != j && share_memory(arguments[i], arguments[j])) return true;
    }
    for (const auto& [capture, tracked] : captures) {
      if (share_memory(arguments[i], capture)) return true;
    }
  }
  for (const Tensor& written : written_captures) {
    for (const Tensor& argument : arguments) {
      if (share_memory(written, argument)) return true;
    }
  }
  return false;
}

const SmallSizes* Recording::known_at(const SymbolMap& sizes) const {
  const auto found = std::ranges::find(small, sizes, &SmallSizes::sizes);
  return found == small.end() ? nullptr : &*found;
}

bool Recording::is_unproved(const SymbolMap& symbols) const {
  return has_small_sizes(symbols) && !known_at(small_sizes_of(symbols));
}

const std::vector<std::size_t>* Recording::ways_at(const SymbolMap& symbols) const {
  const SmallSizes* const known = known_at(small_sizes_of(symbols));
  return known ? &known->ways : nullptr;
}

Dim Recording::layout_hiding(const SymbolMap& symbols) const {
  const auto found = std::ranges::find_if(layout_sizes, [&](Dim symbol) {
    const std::int64_t* const size = symbols.find(symbol);
    return size && *size < 2;
  });
  return found == layout_sizes.end() ? Dim() : *found;
}

std::optional<Mismatch> Recording::hidden_layout(std::span<const Tensor> arguments,
                                                 const SymbolMap& symbols) const {
  if (!is_unproved(symbols)) return std::nullopt;
  if (const Dim symbol = layout_hiding(symbols); symbol.is_symbolic()) {
    return Mismatch{"with " + to_string(symbol) + " = " + std::to_string(*symbols.find(symbol)) +
                    " a write in place may reach other tensors than at larger sizes"};
  }
  return strides_matter ? strides_differ(layouts, arguments) : std::nullopt;
}

std::string Recording::sizes_of(const DimGuard& guard, const SymbolMap& now) const {
  std::vector<Dim> symbols;
  collect_symbols(guard.a, symbols);
  collect_symbols(guard.b, symbols);
  std::string text;
  for (const Dim symbol : symbols) {
    text += (text.empty() ? "" : "; ") + to_string(symbol);
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      const auto axis =
          std::ranges::find_if(shapes[i], [&](Dim size) { return size.same_as(symbol); });
      if (axis == shapes[i].end()) continue;
      text += ", axis " + std::to_string(axis - shapes[i].begin()) + " of " + argument(i) + ",";
      break;
    }
    if (const std::int64_t* const then = hints.find(symbol))
      text += " was " + std::to_string(*then) + ", is " + std::to_string(evaluate(symbol, now));
    else
      text += " is " + std::to_string(evaluate(symbol, now));
  }
  return text;
}

std::optional<Mismatch> Recording::guards_fail(std::span<const DimGuard> of_calls,
                                               const SymbolMap& symbols) const {
  for (const DimGuard& guard : of_calls) {
    if (holds(guard, symbols)) continue;
    return Mismatch{"guard " + guard_string(guard) + " failed: " + sizes_of(guard, symbols),
                    guard.loc};
  }
  return std::nullopt;
}

std::optional<Mismatch> Recording::small_sizes_differ(const SymbolMap& symbols) const {
  const SymbolMap sizes = small_sizes_of(symbols);
  if (sizes.entries().empty()) return std::nullopt;
  // What keeps larger sizes from being compiled may not be there.
  if (runs_eagerly()) return Mismatch{"larger sizes run eagerly, now " + sizes_string(sizes)};
  const SmallSizes* const known = known_at(sizes);
  if (!known) return std::nullopt;
  if (!known->differs.empty())
    return Mismatch{"with " + sizes_string(sizes) + " something else was done: " + known->differs};
  return guards_fail(known->guards, symbols);
}

std::optional<Mismatch> Recording::memory_differs(std::span<const Tensor> arguments,
                                                  const SymbolMap& symbols) const {
  if (writes_overlap(arguments) != overlap) {
    return Mismatch{overlap ? "no argument shares memory with another tensor now"
                            : "an argument shares memory with another tensor now, and one "
                              "of the two is written"};
  }
  for (std::size_t i = 0; i < gaps.size(); ++i) {
    if (!writes_argument[i] || has_gaps(*arguments[i].impl()) == gaps[i]) continue;
    return Mismatch{.text = argument(i) + " is written, and its elements " +
                            (gaps[i] ? "lie side by side now" : "do not lie side by side now"),
                    .argument = static_cast<int>(i)};
  }
  const SmallSizes* const known = known_at(small_sizes_of(symbols));
  if (known)
    return known->strides_matter ? strides_differ(known->layouts, arguments) : std::nullopt;
  if (!strides_matter || is_unproved(symbols)) return std::nullopt;
  return strides_differ(layouts, arguments);
}

bool Recording::learn_strides(std::span<const Tensor> arguments) {
  // Strides as such are others at other sizes, too.
  const auto lies_as_then = [](const Tensor& now, const ArgumentLayout& then) {
    return now.impl()->contiguous == then.contiguous;
  };
  if (strides_matter || std::ranges::equal(arguments, layouts, lies_as_then)) return false;
  strides_matter = true;
  return true;
}

std::optional<Mismatch> Recording::strides_differ(std::span<const ArgumentLayout> layouts_then,
                                                  std::span<const Tensor> arguments) const {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const TensorImpl& now = *arguments[i].impl();
    const ArgumentLayout& then = layouts_then[i];
    if ((now.contiguous && then.contiguous) || now.strides == then.strides) continue;
    return Mismatch{
        .text = "the strides of " + argument(i) + " are others now, on which what it does depends",
        .argument = static_cast<int>(i)};
  }
  return std::nullopt;
}

/// Of a gradient of some rows: whether there is one, and how many there are.
std::optional<Mismatch> Recording::rows_differ(const GradNote& note,
                                               std::span<const Tensor> arguments) const {
  const Tensor& leaf = note.in(arguments);
  const autograd::LeafGrad* kept = autograd::leaf_grad_of(*leaf.impl());
  if (!kept) return std::nullopt;
  const bool like_argument = note.argument >= 0 && note.part == autograd::GradPart::whole;
  if (kept->grad.defined() && !like_argument && !kept->grad.shape().same_as(note.shape))
    return Mismatch{"a gradient was " + to_string(note.shape) + ", is " +
                    to_string(kept->grad.shape())};
  if (kept->index.defined() && autograd::grad_of(*kept->index.impl()).defined() &&
      !knows_rows(grads, *kept, arguments))
    return Mismatch{"a gradient of some rows of " + type_string(leaf) + " is there to add to now"};
  return std::nullopt;
}

std::optional<Mismatch> Recording::mismatch(const CallKey& of_call,
                                            std::span<const Tensor> arguments,
                                            SymbolMap& symbols) const {
  if (key != of_call) return key_difference(of_call, arguments);
  if (auto sizes = sizes_differ(arguments, symbols)) return sizes;
  if (auto failed = guards_fail(guards, symbols)) return failed;
  if (auto small_sizes = small_sizes_differ(symbols)) return small_sizes;
  if (auto memory = memory_differs(arguments, symbols)) return memory;
  for (const StateGuard& guard : states) {
    if (guard.state->peek() == guard.value) continue;
    return Mismatch{guard.state->name() + " was " + std::to_string(guard.value) + ", is " +
                    std::to_string(guard.state->peek())};
  }
  for (const GradNote& note : grads) {
    const bool defined = autograd::grad_of(*note.in(arguments).impl()).defined();
    if (const std::size_t now = hooks_on(note.in(arguments)); now != note.hooks) {
      return Mismatch{type_string(note.in(arguments)) + " had " + std::to_string(note.hooks) +
                      " hooks, has " + std::to_string(now)};
    }
    if (!note.reads_first) continue;
    if (defined != note.defined_before) {
      return Mismatch{"a gradient of " + type_string(note.in(arguments)) +
                      (defined ? " is there to add to now" : " was there to add to before")};
    }
    if (auto rows = rows_differ(note, arguments)) return rows;
  }
  for (const auto& [tensor, tracked] : captures) {
    if (tensor.tracks_grad() == tracked) continue;
    return Mismatch{"a tensor from outside, " + type_string(tensor) + ", " +
                    (tracked ? "no longer requires" : "now requires") + " gradients"};
  }
  return std::nullopt;
}

Mismatch difference_of_kind(std::span<const std::unique_ptr<Recording>> recordings,
                            const CallKey& of_call, std::span<const Tensor> arguments) {
  const Recording* nearest = nullptr;
  std::pair<std::size_t, std::size_t> most;  // numbers in common, and all entries of the key
  for (const auto& recording : recordings) {
    const std::pair common(entries_in_common(numbers_of(recording->key), numbers_of(of_call)),
                           entries_in_common(recording->key, of_call));
    if (nearest && common < most) continue;
    nearest = recording.get();
    most = common;
  }
  if (!nearest) return {"first call"};
  SymbolMap symbols;
  Mismatch differs = *nearest->mismatch(of_call, arguments, symbols);
  if (!differs.loc) differs.loc = nearest->line_of(differs);
  return differs;
}

std::string Recording::why_eager() const {
  if (!refusal.empty() || !runs_eagerly()) return refusal;
  if (*tape_need == TapeNeed::spent) {
    return "gradients of its results are taken outside, though a backward pass inside has used up "
           "their tape, or a write in place what it keeps";
  }
  return "second derivatives of its results are taken outside, with create_graph; what takes "
         "gradients inside, with create_graph too, is compiled";
}

void Recording::learn(const Path& path) {
  if (hints.entries().empty()) hints = path.hints;
  add_new(guards, path.guards, std::mem_fn(&DimGuard::asks_same));
  add_new(states, path.states,
          [](const StateGuard& a, const StateGuard& b) { return a.state == b.state; });
  add_new(grads, path.grads, [](const GradNote& a, const GradNote& b) { return a.is_same(b); });
  learn_captures(path);
  add_new(layout_sizes, path.layout_sizes, [](Dim a, Dim b) { return a.same_as(b); });
  writes_argument.resize(static_cast<std::size_t>(path.arguments), false);
  for (const Write& write : path.writes) {
    if (write.argument >= 0) {
      writes_argument[static_cast<std::size_t>(write.argument)] = true;
    } else if (std::none_of(written_captures.begin(), written_captures.end(),
                            [&](const Tensor& t) { return t.is_same(write.variable); })) {
      written_captures.push_back(write.variable);
    }
  }
  strides_matter = strides_matter || path.strides_matter;
  tells_the_host = tells_the_host || std::ranges::any_of(path.graph->nodes(), [](const auto& node) {
                     return node->op().effect == Effect::host;
                   });
  draws = draws || std::ranges::any_of(path.graph->nodes(), [](const auto& node) {
            return find_drawing(*node) != nullptr;
          });
  writes_outside =
      writes_outside || !written_captures.empty() ||
      std::ranges::any_of(path.grad_writes, [](const GradWrite& w) { return w.argument < 0; });
}

void Recording::learn_captures(const Path& path) {
  for (const auto* used : {&path.captures, &path.aliases}) {
    add_new(captures, *used, [](const auto& a, const auto& b) { return a.first.is_same(b.first); });
  }
}

void Recording::compare_small(const SymbolMap& symbols, const Path& path,
                              std::span<const Tensor> arguments) {
  const SymbolMap sizes = small_sizes_of(symbols);
  if (!path.refusal.empty()) return exclude(sizes, path.refusal);
  std::string why = "the host's branches went another way";
  const auto& leaves = tree->leaves();
  for (std::size_t way = 0; way < leaves.size(); ++way) {
    const Path& recorded = *leaves[way].path;
    const auto differs = compare_whole(recorded, path, sizes);
    if (!differs) return prove(sizes, path, way, arguments);
    std::size_t common = 0;
    if (!compare_paths(recorded, path, common) && common < recorded.decisions.size())
      continue;  // until the host read something else
    why = differs->text + (differs->second ? " at " + to_string(differs->second) : "");
  }
  exclude(sizes, std::move(why));
}

void Recording::prove(const SymbolMap& sizes, const Path& path, std::size_t way,
                      std::span<const Tensor> arguments) {
  auto at = std::ranges::find(small, sizes, &SmallSizes::sizes);
  if (at == small.end()) at = small.insert(at, {.sizes = sizes, .layouts = layouts_of(arguments)});
  SmallSizes& known = *at;
  if (std::ranges::find(known.ways, way) == known.ways.end()) known.ways.push_back(way);
  add_new(known.guards, path.guards, std::mem_fn(&DimGuard::asks_same));
  if (path.strides_matter && !known.strides_matter) known.layouts = layouts_of(arguments);
  known.strides_matter = known.strides_matter || path.strides_matter;
  learn_captures(path);
}

void Recording::exclude(const SymbolMap& sizes, std::string why) {
  std::erase_if(small, [&](const SmallSizes& known) { return known.sizes == sizes; });
  small.push_back({.sizes = sizes, .differs = std::move(why)});
}

ExplainedRecording Recording::explain(const StepProfile* profile) const {
  ExplainedRecording told;
  told.reason = reason;
  told.loc = reason_loc;
  told.arguments = types;
  told.refusal = why_eager();
  for (const DimGuard& guard : guards) {
    told.guards.push_back(guard_string(guard) + (guard.loc ? " at " + to_string(guard.loc) : ""));
  }
  for (const SmallSizes& known : small)
    told.small_sizes.push_back({sizes_string(known.sizes), known.differs});
  // Layers of one kind have states of one name: all of them hold, told once.
  for (const StateGuard& guard : states) {
    std::string text = guard.state->name() + " == " + std::to_string(guard.value);
    if (std::find(told.guards.begin(), told.guards.end(), text) == told.guards.end())
      told.guards.push_back(std::move(text));
  }
  if (!tree) return told;
  told.ways = static_cast<int>(tree->leaves().size());
  for (const DecisionTree::Leaf& leaf : tree->leaves()) {
    for (const Decision& decision : leaf.path->decisions) {
      const bool is_bool = decision.kind == Decision::Kind::boolean;
      auto it = std::find_if(told.decisions.begin(), told.decisions.end(),
                             [&](const ExplainedDecision& d) {
                               return d.loc == decision.loc && d.is_bool == is_bool;
                             });
      if (it == told.decisions.end())
        it = told.decisions.insert(told.decisions.end(), {decision.loc, is_bool, {}});
      const std::string outcome = outcome_string(decision.outcome, decision.kind);
      if (std::find(it->outcomes.begin(), it->outcomes.end(), outcome) == it->outcomes.end())
        it->outcomes.push_back(outcome);
    }
  }
  const auto append = [&](const Segment& segment) {
    const std::vector<ExplainedKernel> kernels = segment.kernels(profile);
    told.table.insert(told.table.end(), kernels.begin(), kernels.end());
  };
  const DecisionTree* const padded = padded_tree();
  if (bucketed) {
    told.no_buckets = bucketed->refusal();
    if (padded) told.buckets = bucketed->texts();
    told.unpadded = bucketed->exact();
  }
  std::vector<Segment*> segments = tree->segments();
  if (padded) {
    // What runs on exact sizes counts where calls have needed it.
    std::erase_if(segments, [](Segment* segment) { return segment->stats().plans == 0; });
    const std::vector<Segment*> more = padded->segments();
    segments.insert(segments.begin(), more.begin(), more.end());
  }
  for (Segment* segment : segments) {
    add_to(told, segment->stats());
    append(*segment);
  }
  const DecisionTree* const exact = tree.get();
  for (const DecisionTree* const ways : {padded, exact}) {
    if (!ways) continue;
    for (const DecisionTree::Leaf& leaf : ways->leaves()) {
      if (!leaf.backward) continue;
      append(*leaf.backward);
      for (const PartialBackward::Part& part : leaf.partial->parts()) append(*part.segment);
    }
  }
  return told;
}

std::vector<ExplainedPasses> Recording::explain_passes(const std::string& name) const {
  std::vector<ExplainedPasses> all;
  if (!tree) return all;
  const auto append = [&](Segment& segment, const std::string& called) {
    std::vector<ExplainedPasses> more = segment.explain_passes(called);
    std::ranges::move(more, std::back_inserter(all));
  };
  const DecisionTree* const padded = padded_tree();
  const DecisionTree& ways = padded ? *padded : *tree;
  const std::vector<Segment*> segments = ways.segments();
  for (std::size_t i = 0; i < segments.size(); ++i) {
    append(*segments[i], segments.size() == 1 ? name
                                              : name + ", stretch " + std::to_string(i + 1) +
                                                    " of " + std::to_string(segments.size()));
  }
  for (const DecisionTree::Leaf& leaf : ways.leaves()) {
    if (!leaf.backward) continue;
    if (leaf.backward->stats().plans > 0) append(*leaf.backward, name + ", backward");
    for (const PartialBackward::Part& part : leaf.partial->parts())
      append(*part.segment,
             name + ", backward through " + std::to_string(part.seeds.size()) + " of its results");
  }
  return all;
}

}  // namespace dyad::exec
