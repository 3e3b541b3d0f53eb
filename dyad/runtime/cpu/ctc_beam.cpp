#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <unordered_map>
#include <vector>

#include "dyad/base/error.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/ops/attrs/ctc.h"
#include "dyad/runtime/cpu/element.h"
#include "dyad/runtime/cpu/kernels.h"
#include "dyad/runtime/threads.h"

namespace dyad::runtime::cpu {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

double log_sum(double a, double b) noexcept {
  const double top = std::max(a, b);
  return top == kNever ? top : top + std::log1p(std::exp(-std::abs(a - b)));
}

/// A label sequence: a node of the tree of those that have been followed, 0 being the empty one.
struct Node {
  std::int64_t parent = -1, label = -1;
};

/// A sequence and the logarithms of the probabilities of its alignments, those that end in a blank
/// and those that do not. One that is new has no node yet.
struct Entry {
  std::int64_t node = -1, parent = -1, label = -1;
  double blank = kNever, other = kNever;
  [[nodiscard]] double total() const noexcept { return log_sum(blank, other); }
};

class BeamSearch {
 public:
  BeamSearch(const ops::CtcBeamAttrs& attrs, std::int64_t classes)
      : attrs_(attrs), classes_(classes), nodes_{Node{}} {
    Entry empty;
    empty.node = 0;
    empty.blank = 0;
    beam_.push_back(empty);
  }

  void step(const std::vector<double>& log_probs) {
    std::vector<Entry> next(beam_.size());
    std::unordered_map<std::int64_t, std::size_t> places;
    for (std::size_t i = 0; i < beam_.size(); ++i) {
      next[i].node = beam_[i].node;
      places.emplace(beam_[i].node, i);
    }
    for (std::size_t i = 0; i < beam_.size(); ++i) {
      const Entry& from = beam_[i];
      const double total = from.total();
      const std::int64_t last = nodes_[static_cast<std::size_t>(from.node)].label;
      for (std::int64_t c = 0; c < classes_; ++c) {
        const double p = log_probs[static_cast<std::size_t>(c)];
        if (p == kNever) continue;
        if (c == attrs_.blank) {
          next[i].blank = log_sum(next[i].blank, total + p);
          continue;
        }
        // A label after itself is the same one, unless a blank is between.
        if (c == last) next[i].other = log_sum(next[i].other, from.other + p);
        extend(next, places, from.node, c, (c == last ? from.blank : total) + p);
      }
    }
    keep_best(next, static_cast<std::size_t>(attrs_.width));
    for (Entry& entry : next) {
      if (entry.node < 0) entry.node = make(entry.parent, entry.label);
    }
    beam_ = std::move(next);
  }

  /// The sequences that were found, the best first.
  [[nodiscard]] const std::vector<Entry>& found() const noexcept { return beam_; }
  [[nodiscard]] std::vector<std::int64_t> labels_of(const Entry& entry) const {
    std::vector<std::int64_t> labels;
    for (std::int64_t at = entry.node; at > 0; at = nodes_[static_cast<std::size_t>(at)].parent) {
      labels.push_back(nodes_[static_cast<std::size_t>(at)].label);
    }
    std::reverse(labels.begin(), labels.end());
    return labels;
  }

 private:
  void extend(std::vector<Entry>& next, const std::unordered_map<std::int64_t, std::size_t>& places,
              std::int64_t node, std::int64_t label, double p) {
    if (p == kNever) return;
    const auto known = children_.find(node * classes_ + label);
    if (known != children_.end()) {
      const auto place = places.find(known->second);
      if (place != places.end()) {
        Entry& same = next[place->second];
        same.other = log_sum(same.other, p);
        return;
      }
    }
    Entry longer;
    longer.parent = node;
    longer.label = label;
    longer.other = p;
    next.push_back(longer);
  }

  std::int64_t make(std::int64_t parent, std::int64_t label) {
    const auto [at, fresh] =
        children_.emplace(parent * classes_ + label, static_cast<std::int64_t>(nodes_.size()));
    if (fresh) nodes_.push_back({parent, label});
    return at->second;
  }

  static void keep_best(std::vector<Entry>& entries, std::size_t count) {
    std::vector<double> totals(entries.size());
    std::vector<std::size_t> order(entries.size());
    for (std::size_t i = 0; i < entries.size(); ++i) totals[i] = entries[i].total();
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::erase_if(order, [&](std::size_t i) { return !(totals[i] > kNever); });
    count = std::min(count, order.size());
    std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count),
                      order.end(), [&](std::size_t a, std::size_t b) {
                        return totals[a] != totals[b] ? totals[a] > totals[b] : a < b;
                      });
    std::vector<Entry> best;
    for (std::size_t i = 0; i < count; ++i) best.push_back(entries[order[i]]);
    entries = std::move(best);
  }

  const ops::CtcBeamAttrs& attrs_;
  std::int64_t classes_;
  std::vector<Node> nodes_;
  std::unordered_map<std::int64_t, std::int64_t> children_;
  std::vector<Entry> beam_;
};

void ctc_beam_search(const OpCall& call) {
  const auto& attrs = call.attrs_as<ops::CtcBeamAttrs>();
  const TensorImpl &x = *call.inputs[0].impl(), &lengths = *call.inputs[1].impl();
  const std::int64_t steps = x.shape[0].number(), samples = x.shape[1].number(),
                     classes = x.shape[2].number();
  std::vector<std::int64_t> counts;
  with_index(lengths.dtype, [&]<class I>(I) {
    const I* from = reinterpret_cast<const I*>(lengths.data);
    for (std::int64_t n = 0; n < samples; ++n) counts.push_back(from[n * lengths.strides[0]]);
  });
  for (std::size_t n = 0; n < counts.size(); ++n) {
    if (counts[n] >= 0 && counts[n] <= steps) continue;
    throw ValueError("ctc_beam_search(log_probs: " + type_string(call.inputs[0]) +
                         "): input_lengths[" + std::to_string(n) + "] = " +
                         std::to_string(counts[n]) + " must be from 0 to " + std::to_string(steps),
                     call.loc.user());
  }
  auto* labels = reinterpret_cast<std::int64_t*>(call.outputs[0].impl()->data);
  auto* sizes = reinterpret_cast<std::int64_t*>(call.outputs[1].impl()->data);
  with_floating(x.dtype, [&]<class T>(T) {
    const T* from = reinterpret_cast<const T*>(x.data);
    T* totals = reinterpret_cast<T*>(call.outputs[2].impl()->data);
    const double flops = 100.0 * static_cast<double>(steps * classes * attrs.width);
    parallel_for(
        0, samples, grain_for({.flops = flops}, samples), [&](std::int64_t lo, std::int64_t hi) {
          std::vector<double> row(static_cast<std::size_t>(classes));
          for (std::int64_t n = lo; n < hi; ++n) {
            BeamSearch search(attrs, classes);
            for (std::int64_t t = 0; t < counts[static_cast<std::size_t>(n)]; ++t) {
              const T* at = from + t * x.strides[0] + n * x.strides[1];
              for (std::int64_t c = 0; c < classes; ++c) {
                row[static_cast<std::size_t>(c)] = static_cast<double>(load(at[c * x.strides[2]]));
              }
              search.step(row);
            }
            const auto& found = search.found();
            for (std::int64_t p = 0; p < attrs.paths; ++p) {
              const std::int64_t out = n * attrs.paths + p;
              std::int64_t* to = labels + out * steps;
              std::fill_n(to, steps, std::int64_t{-1});
              const bool exists = p < static_cast<std::int64_t>(found.size());
              std::vector<std::int64_t> path;
              if (exists) path = search.labels_of(found[static_cast<std::size_t>(p)]);
              std::copy(path.begin(), path.end(), to);
              sizes[out] = static_cast<std::int64_t>(path.size());
              const double total = exists ? found[static_cast<std::size_t>(p)].total() : kNever;
              totals[out] = store<T>(static_cast<Accumulator<T>>(total));
            }
          }
        });
  });
}

}  // namespace

std::span<const NamedKernel> ctc_beam_kernels() {
  static constexpr NamedKernel kernels[] = {{"ctc_beam_search", {ctc_beam_search}}};
  return kernels;
}

}  // namespace dyad::runtime::cpu
