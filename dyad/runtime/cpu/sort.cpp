#include "dyad/runtime/cpu/sort.h"

#include <algorithm>
#include <array>
#include <utility>

#include "dyad/ops/attrs/cumulative.h"
#include "dyad/runtime/cpu/kernels.h"
#include "dyad/runtime/cpu/lines.h"

namespace dyad::runtime::cpu {
namespace {

/// By digits of the keys from the lowest on, each pass stable; digits that are all the same are
/// skipped.
template <int kDigitBits, class Record>
void radix_sort(std::vector<Record>& records, std::vector<Record>& spare, int key_bits) {
  constexpr std::size_t kDigits = std::size_t{1} << kDigitBits;
  const auto digit = [](const Record& r, int shift) {
    return static_cast<std::size_t>(key_of(r) >> shift) & (kDigits - 1);
  };
  const int passes = (key_bits + kDigitBits - 1) / kDigitBits;
  std::vector<std::size_t> counts(kDigits * static_cast<std::size_t>(passes), 0);
  for (const Record& r : records) {
    for (int pass = 0; pass < passes; ++pass) {
      ++counts[static_cast<std::size_t>(pass) * kDigits + digit(r, pass * kDigitBits)];
    }
  }
  spare.resize(records.size());
  for (int pass = 0; pass < passes; ++pass) {
    std::size_t* const starts = counts.data() + static_cast<std::size_t>(pass) * kDigits;
    const int shift = pass * kDigitBits;
    if (starts[digit(records[0], shift)] == records.size()) continue;
    std::size_t next = 0;
    for (std::size_t d = 0; d < kDigits; ++d) next += std::exchange(starts[d], next);
    for (const Record& r : records) spare[starts[digit(r, shift)]++] = r;
    records.swap(spare);
  }
}

template <class Record>
void sort_any(std::vector<Record>& records, std::vector<Record>& spare, int key_bits) {
  // Below that, comparing is faster than clearing and adding up the counts of digits.
  if (records.size() < 200) {
    std::sort(records.begin(), records.end());
  } else if (records.size() < (1u << 15) || key_bits <= 16) {
    radix_sort<8>(records, spare, key_bits);
  } else {
    radix_sort<11>(records, spare, key_bits);
  }
}

}  // namespace

void sort_records(std::vector<NarrowRecord>& records, std::vector<NarrowRecord>& spare,
                  int key_bits) {
  sort_any(records, spare, key_bits);
}
void sort_records(std::vector<WideRecord>& records, std::vector<WideRecord>& spare, int key_bits) {
  sort_any(records, spare, key_bits);
}

namespace {

/// Lines of an input and of the two outputs along an axis; the outputs may be shorter there.
struct Lines {
  const TensorImpl &x, &values, &indices;
  std::size_t axis;
  std::int64_t length;  ///< of a line of x
};

Lines lines_of(const OpCall& call, std::int64_t axis) {
  const TensorImpl& x = *call.inputs[0].impl();
  const auto at = static_cast<std::size_t>(axis < 0 ? axis + x.shape.rank() : axis);
  return {x, *call.outputs[0].impl(), *call.outputs[1].impl(), at, x.shape[at].number()};
}

/// Calls body(from, step, to, to_step, places, places_step) for each line, on the team.
/// `kept`: the outputs have the axis, too.
template <class T, class Body>
void for_lines(const Lines& lines, bool kept, double cost, Body&& body) {
  const auto sizes = lines.x.shape.numbers();
  const Ints outer = without(sizes, lines.axis);
  const auto outside = [&](const Strides& strides, bool has_axis) {
    return has_axis ? without(strides, lines.axis) : Ints(strides);
  };
  const std::array<Ints, 3> strides{outside(lines.x.strides, true),
                                    outside(lines.values.strides, kept),
                                    outside(lines.indices.strides, kept)};
  const std::int64_t step = lines.x.strides[lines.axis];
  const std::int64_t to_step = kept ? lines.values.strides[lines.axis] : 0;
  const std::int64_t place_step = kept ? lines.indices.strides[lines.axis] : 0;
  const std::int64_t count = product(outer);
  parallel_for(0, count, grain_for({.flops = cost * static_cast<double>(lines.length)}, count),
               [&](std::int64_t lo, std::int64_t hi) {
                 RowWalk<3> walk(outer, strides, lo);
                 auto worker = body();
                 for (std::int64_t i = lo; i < hi; ++i, walk.next()) {
                   worker(reinterpret_cast<const T*>(lines.x.data) + walk[0], step,
                          reinterpret_cast<T*>(lines.values.data) + walk[1], to_step,
                          reinterpret_cast<std::int64_t*>(lines.indices.data) + walk[2],
                          place_step);
                 }
               });
}

void sort(const OpCall& call) {
  const auto& attrs = call.attrs_as<ops::SortAttrs>();
  const Lines lines = lines_of(call, attrs.axis);
  if (lines.x.numel() == 0) return;
  with_element(lines.x.dtype, [&]<class T>(T) {
    with_record<T>(lines.length, [&]<class Record>(Record) {
      for_lines<T>(lines, true, 40, [&] {
        return [&lines, &attrs, records = std::vector<Record>(), spare = std::vector<Record>()](
                   const T* from, std::int64_t step, T* to, std::int64_t to_step,
                   std::int64_t* places, std::int64_t place_step) mutable {
          records.resize(static_cast<std::size_t>(lines.length));
          for (std::int64_t i = 0; i < lines.length; ++i) {
            records[static_cast<std::size_t>(i)] =
                record_of<Record>(from[i * step], i, attrs.descending);
          }
          sort_records(records, spare, static_cast<int>(8 * sizeof(T)));
          for (std::int64_t i = 0; i < lines.length; ++i) {
            const std::int64_t place = place_of(records[static_cast<std::size_t>(i)]);
            to[i * to_step] = from[place * step];
            places[i * place_step] = place;
          }
        };
      });
    });
  });
}

/// Leaves the `k` least of the records of a line in `best`, in any order.
template <class Record, class T>
void least_records(const T* from, std::int64_t step, std::int64_t length, bool descending,
                   std::size_t k, std::vector<Record>& best) {
  best.clear();
  if (k == 0) return;
  const auto record = [&](std::int64_t i) {
    return record_of<Record>(from[i * step], i, descending);
  };
  constexpr std::size_t kFew = 32;
  if (k <= kFew) {
    // Sorted all the time: later elements rarely come in, and then move a few.
    Record sorted[kFew];
    const auto first = static_cast<std::int64_t>(k);
    for (std::int64_t i = 0; i < first; ++i) sorted[i] = record(i);
    std::sort(sorted, sorted + k);
    for (std::int64_t i = first; i < length; ++i) {
      const Record next = record(i);
      if (!(next < sorted[k - 1])) [[likely]]
        continue;
      std::size_t at = k - 1;
      for (; at > 0 && next < sorted[at - 1]; --at) sorted[at] = sorted[at - 1];
      sorted[at] = next;
    }
    best.assign(sorted, sorted + k);
    return;
  }
  // Candidates are taken in until there are twice as many; then only the k least stay, and what is
  // not below the greatest of them is no candidate any more.
  const std::size_t room = 2 * k + 64;
  best.reserve(room);
  const auto keep = [&] {
    std::nth_element(best.begin(), best.begin() + static_cast<std::ptrdiff_t>(k) - 1, best.end());
    best.resize(k);
  };
  bool full = false;
  Record bound{};
  for (std::int64_t i = 0; i < length; ++i) {
    const Record next = record(i);
    if (full && !(next < bound)) continue;
    best.push_back(next);
    if (best.size() < room) continue;
    keep();
    bound = best[k - 1];
    full = true;
  }
  if (best.size() > k) keep();
}

void topk(const OpCall& call) {
  const auto& attrs = call.attrs_as<ops::TopKAttrs>();
  const Lines lines = lines_of(call, attrs.axis);
  if (lines.values.numel() == 0) return;
  const auto k = static_cast<std::size_t>(attrs.k.number());
  with_element(lines.x.dtype, [&]<class T>(T) {
    with_record<T>(lines.length, [&]<class Record>(Record) {
      for_lines<T>(lines, true, 8, [&] {
        return [&lines, &attrs, k, best = std::vector<Record>()](
                   const T* from, std::int64_t step, T* to, std::int64_t to_step,
                   std::int64_t* places, std::int64_t place_step) mutable {
          least_records(from, step, lines.length, attrs.largest, k, best);
          if (attrs.sorted) {
            std::sort(best.begin(), best.end());
          } else {
            std::sort(best.begin(), best.end(),
                      [](const Record& a, const Record& b) { return place_of(a) < place_of(b); });
          }
          for (std::size_t i = 0; i < k; ++i) {
            const std::int64_t place = place_of(best[i]), at = static_cast<std::int64_t>(i);
            to[at * to_step] = from[place * step];
            places[at * place_step] = place;
          }
        };
      });
    });
  });
}

void kthvalue(const OpCall& call) {
  const auto& attrs = call.attrs_as<ops::KthAttrs>();
  const Lines lines = lines_of(call, attrs.axis);
  if (lines.values.numel() == 0) return;
  const std::int64_t k = attrs.k.number() - 1;
  with_element(lines.x.dtype, [&]<class T>(T) {
    with_record<T>(lines.length, [&]<class Record>(Record) {
      for_lines<T>(lines, attrs.keepdim, 16, [&] {
        return [&lines, k, records = std::vector<Record>()](const T* from, std::int64_t step, T* to,
                                                            std::int64_t, std::int64_t* places,
                                                            std::int64_t) mutable {
          records.resize(static_cast<std::size_t>(lines.length));
          for (std::int64_t i = 0; i < lines.length; ++i) {
            records[static_cast<std::size_t>(i)] = record_of<Record>(from[i * step], i, false);
          }
          std::nth_element(records.begin(), records.begin() + k, records.end());
          *places = place_of(records[static_cast<std::size_t>(k)]);
          *to = from[*places * step];
        };
      });
    });
  });
}

}  // namespace

std::span<const NamedKernel> sort_kernels() {
  static constexpr NamedKernel kernels[] = {
      {"sort", {sort}}, {"topk", {topk}}, {"kthvalue", {kthvalue}}};
  return kernels;
}

}  // namespace dyad::runtime::cpu
