#include "dyad/exec/bucketed.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "dyad/core/create.h"
#include "dyad/ops/creation.h"

namespace dyad::exec {

bool are_buckets(std::span<const std::int64_t> sizes) {
  return !sizes.empty() && sizes.front() >= 2 &&
         std::ranges::adjacent_find(sizes, std::greater_equal<>()) == sizes.end();
}

BucketedCalls::BucketedCalls(std::vector<BucketedSymbol> symbols, ExecutableOptions options)
    : symbols_(std::move(symbols)), options_(std::move(options)) {
  for (const BucketedSymbol& one : symbols_)
    padded_.push_back({one.symbol, Dim::symbol(to_string(one.symbol) + "_padded")});
}

void BucketedCalls::add(const std::shared_ptr<const Path>& path) {
  if (!refusal_.empty()) return;
  recorded_.push_back(path);
  PaddedPath made = pad_path(*path, padded_, tells_exact_sizes_);
  if (!made.refusal.empty()) {
    refusal_ = made.refusal;
    tree_ = nullptr;
    ways_.clear();
    return;
  }
  if (!made.exact.empty() && !tells_exact_sizes_) {
    tells_exact_sizes_ = true;
    return rebuild();
  }
  if (!tree_) {
    tree_ = std::make_unique<DecisionTree>(made.path, options_);
  } else {
    tree_->add(made.path);
  }
  for (const DimGuard& guard : made.path->guards) {
    const auto asks_same = [&](const DimGuard& known) { return known.asks_same(guard); };
    if (std::ranges::none_of(path->guards, asks_same) && std::ranges::none_of(guards_, asks_same))
      guards_.push_back(guard);
  }
  ways_.push_back(std::move(made));
}

void BucketedCalls::rebuild() {
  tree_ = nullptr;
  ways_.clear();
  guards_.clear();
  for (const auto& path : std::exchange(recorded_, {})) add(path);
}

std::optional<BucketedCalls::Call> BucketedCalls::padded(std::span<const Tensor> arguments,
                                                         const SymbolMap& sizes) const {
  if (!tree_) return std::nullopt;
  Call call;
  SymbolMap all = sizes;  // with those of the padded symbols
  for (const auto& [symbol, size] : sizes.entries()) {
    call.exact.bind(symbol, size);
    call.padded.bind(symbol, size);
  }
  for (std::size_t i = 0; i < symbols_.size(); ++i) {
    const std::int64_t size = *sizes.find(symbols_[i].symbol);
    const auto bucket = std::ranges::lower_bound(symbols_[i].sizes, size);
    if (bucket == symbols_[i].sizes.end()) return std::nullopt;
    call.padded.bind(symbols_[i].symbol, *bucket);
    all.bind(padded_[i].padded, *bucket);
  }
  if (!std::ranges::all_of(guards_, [&](const DimGuard& g) { return holds(g, all); }))
    return std::nullopt;
  const PaddedPath& any = ways_.front();
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const PaddedLayout& layout = any.arguments[i];
    call.arguments.push_back(layout.is_padded()
                                 ? put_in_padding(arguments[i], layout, call.exact, call.padded)
                                 : arguments[i]);
  }
  for (const BucketedSymbol& one : symbols_)
    call.arguments.push_back(full({}, static_cast<double>(*sizes.find(one.symbol)), DType::i64));
  for (std::size_t i = 0; i < symbols_.size() && tells_exact_sizes_; ++i)
    call.arguments.push_back(make_empty(DType::boolean, {*sizes.find(symbols_[i].symbol)}));
  return call;
}

void BucketedCalls::cut_results(const Call& call, DecisionTree::Outcome& outcome) const {
  const PaddedPath& taken = way(outcome.leaf);
  for (std::size_t i = 0; i < outcome.results.size(); ++i) {
    const auto first = static_cast<std::size_t>(taken.path->same_as[i]);
    if (first != i) {
      outcome.results[i] = outcome.results[first];
    } else if (taken.results[i].is_padded()) {
      outcome.results[i] =
          cut_from_padding(outcome.results[i], taken.results[i], call.exact, call.padded);
    }
  }
}

std::vector<std::string> BucketedCalls::texts() const {
  std::vector<std::string> texts;
  texts.reserve(symbols_.size());
  for (const BucketedSymbol& one : symbols_)
    texts.push_back(fmt::format("{} = {}", to_string(one.symbol), fmt::join(one.sizes, ", ")));
  return texts;
}

std::vector<std::string> BucketedCalls::exact() const {
  std::vector<std::string> all;
  for (const PaddedPath& one : ways_) {
    for (const std::string& note : one.exact) {
      if (std::ranges::find(all, note) == all.end()) all.push_back(note);
    }
  }
  return all;
}

}  // namespace dyad::exec
