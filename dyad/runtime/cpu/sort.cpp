#include "dyad/runtime/cpu/sort.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "dyad/core/tensor_impl.h"
#include "dyad/ops/attrs/cumulative.h"
#include "dyad/runtime/cpu/kernels.h"
#include "dyad/runtime/cpu/lines.h"
#include "dyad/runtime/cpu/vector_clones.h"

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
  const auto at = static_cast<std::size_t>(from_front(axis, x.shape.rank()));
  return {x, *call.outputs[0].impl(), *call.outputs[1].impl(), at, x.shape[at].number()};
}

/// Elements of one line, by addresses; steps are in elements.
struct StridedLine {
  const std::byte* from;
  std::byte* to;
  std::int64_t* places;
  std::int64_t step, to_step, place_step;
};

/// Calls worker(line) for each line, on the team, with a worker() of its own for each thread.
/// `kept`: the outputs have the axis, too.
template <class Worker>
void for_lines(const Lines& lines, bool kept, double cost, const Worker& worker) {
  const auto sizes = lines.x.shape.numbers();
  const Ints outer = without(sizes, lines.axis);
  const auto outside = [&](const Strides& strides, bool has_axis) {
    return has_axis ? without(strides, lines.axis) : Ints(strides);
  };
  const std::array<Ints, 3> strides{outside(lines.x.strides, true),
                                    outside(lines.values.strides, kept),
                                    outside(lines.indices.strides, kept)};
  const auto bytes = static_cast<std::int64_t>(size_of(lines.x.dtype));
  StridedLine first{.from = lines.x.data,
                    .to = lines.values.data,
                    .places = reinterpret_cast<std::int64_t*>(lines.indices.data),
                    .step = lines.x.strides[lines.axis],
                    .to_step = kept ? lines.values.strides[lines.axis] : 0,
                    .place_step = kept ? lines.indices.strides[lines.axis] : 0};
  const std::int64_t count = product(outer);
  parallel_for(0, count, grain_for({.flops = cost * static_cast<double>(lines.length)}, count),
               [&](std::int64_t lo, std::int64_t hi) {
                 RowWalk<3> walk(outer, strides, lo);
                 Worker mine = worker;
                 for (std::int64_t i = lo; i < hi; ++i, walk.next()) {
                   StridedLine line = first;
                   line.from += walk[0] * bytes;
                   line.to += walk[1] * bytes;
                   line.places += walk[2];
                   mine(line);
                 }
               });
}

/// Writes the records of elements `start` to `start + count` of a line.
template <class Record>
using WriteRecords = void (*)(const StridedLine& line, std::int64_t start, std::int64_t count,
                              bool descending, Record* records);

template <class Record, class T>
DYAD_VECTOR_LOOP void write_records(const StridedLine& line, std::int64_t start, std::int64_t count,
                                    bool descending, Record* __restrict records) {
  const std::int64_t step = line.step;
  const T* const __restrict from = reinterpret_cast<const T*>(line.from) + start * step;
  if (step == 1) {
    for (std::int64_t i = 0; i < count; ++i) {
      records[i] = record_of<Record>(from[i], start + i, descending);
    }
    return;
  }
  for (std::int64_t i = 0; i < count; ++i) {
    records[i] = record_of<Record>(from[i * step], start + i, descending);
  }
}

/// Writes the elements of sorted records and their places.
template <class Record>
using WriteElements = void (*)(const StridedLine& line, std::span<const Record> records);

template <class Record, class Word>
void write_elements(const StridedLine& line, std::span<const Record> records) {
  const Word* const from = reinterpret_cast<const Word*>(line.from);
  Word* const to = reinterpret_cast<Word*>(line.to);
  for (std::size_t k = 0; k < records.size(); ++k) {
    const std::int64_t place = place_of(records[k]), i = static_cast<std::int64_t>(k);
    to[i * line.to_step] = from[place * line.step];
    line.places[i * line.place_step] = place;
  }
}

/// What depends on the dtype: the rest of a kernel knows records alone.
template <class Record>
struct Access {
  WriteRecords<Record> read;
  WriteElements<Record> write;
};

/// Calls f(access) with the records that elements of the dtype and lines of that length have.
template <class F>
void with_access(const Lines& lines, F&& f) {
  with_element(lines.x.dtype, [&]<class T>(T) {
    with_record<T>(lines.length, [&]<class Record>(Record) {
      const Access<Record> access{write_records<Record, T>, write_elements<Record, SortKey<T>>};
      f(access);
    });
  });
}

template <class Record>
struct SortLine {
  Access<Record> access;
  std::int64_t length;
  bool descending;
  int key_bits;
  std::vector<Record> records = {}, spare = {};

  void operator()(const StridedLine& line) {
    records.resize(static_cast<std::size_t>(length));
    access.read(line, 0, length, descending, records.data());
    sort_records(records, spare, key_bits);
    access.write(line, records);
  }
};

void sort(const OpCall& call) {
  const auto& attrs = call.attrs_as<ops::SortAttrs>();
  const Lines lines = lines_of(call, attrs.axis);
  if (lines.x.numel() == 0) return;
  const int key_bits = static_cast<int>(8 * size_of(lines.x.dtype));
  with_access(lines, [&]<class Record>(const Access<Record>& access) {
    for_lines(lines, true, 40, SortLine<Record>{access, lines.length, attrs.descending, key_bits});
  });
}

/// The records of a line in order, made a block at a time.
template <class Record>
class RecordStream {
 public:
  RecordStream(const Access<Record>& access, const StridedLine& line, std::int64_t length,
               bool descending)
      : access_(access), line_(line), length_(length), descending_(descending) {}

  /// The next records, `most` at most and at least one.
  std::span<const Record> next(std::int64_t most) {
    if (at_ == made_) refill();
    const std::int64_t count = std::min(most, made_ - at_);
    at_ += count;
    return {block_ + at_ - count, static_cast<std::size_t>(count)};
  }

 private:
  void refill() {
    at_ = 0;
    made_ = std::min<std::int64_t>(kBlock, length_ - start_);
    access_.read(line_, start_, made_, descending_, block_);
    start_ += made_;
  }

  static constexpr std::int64_t kBlock = 256;
  const Access<Record>& access_;
  const StridedLine& line_;
  std::int64_t length_, start_ = 0, at_ = 0, made_ = 0;
  bool descending_;
  Record block_[kBlock];
};

template <class Record>
DYAD_VECTOR_LOOP bool any_below(std::span<const Record> records, const Record& bound) {
  bool any = false;
  for (const Record& record : records) any |= record < bound;
  return any;
}

/// Leaves the `k` least of the records of a line in `best`, in any order.
template <class Record>
void least_records(RecordStream<Record>& stream, std::int64_t length, std::size_t k,
                   std::vector<Record>& best) {
  best.clear();
  if (k == 0) return;
  constexpr std::size_t kFew = 32;
  if (k <= kFew) {
    // Sorted all the time: later elements rarely come in, and then move a few.
    Record sorted[kFew];
    const auto first = static_cast<std::int64_t>(k);
    std::ranges::copy(stream.next(first), sorted);
    std::sort(sorted, sorted + k);
    for (std::int64_t i = first; i < length;) {
      // Most groups have none that comes in, which one look at them all tells.
      const std::span<const Record> group = stream.next(std::min<std::int64_t>(length - i, 16));
      i += std::ssize(group);
      if (!any_below(group, sorted[k - 1])) continue;
      for (const Record& next : group) {
        if (!(next < sorted[k - 1])) continue;
        std::size_t at = k - 1;
        for (; at > 0 && next < sorted[at - 1]; --at) sorted[at] = sorted[at - 1];
        sorted[at] = next;
      }
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
  for (std::int64_t i = 0; i < length;) {
    const std::span<const Record> block = stream.next(length - i);
    i += std::ssize(block);
    for (const Record& next : block) {
      if (full && !(next < bound)) continue;
      best.push_back(next);
      if (best.size() < room) continue;
      keep();
      bound = best[k - 1];
      full = true;
    }
  }
  if (best.size() > k) keep();
}

template <class Record>
struct TopKLine {
  Access<Record> access;
  std::int64_t length;
  std::size_t k;
  bool largest, sorted;
  std::vector<Record> best = {};

  void operator()(const StridedLine& line) {
    RecordStream<Record> stream(access, line, length, largest);
    least_records(stream, length, k, best);
    if (sorted) {
      std::sort(best.begin(), best.end());
    } else {
      std::sort(best.begin(), best.end(),
                [](const Record& a, const Record& b) { return place_of(a) < place_of(b); });
    }
    access.write(line, best);
  }
};

void topk(const OpCall& call) {
  const auto& attrs = call.attrs_as<ops::TopKAttrs>();
  const Lines lines = lines_of(call, attrs.axis);
  if (lines.values.numel() == 0) return;
  const auto k = static_cast<std::size_t>(attrs.k.number());
  with_access(lines, [&]<class Record>(const Access<Record>& access) {
    for_lines(lines, true, 8,
              TopKLine<Record>{access, lines.length, k, attrs.largest, attrs.sorted});
  });
}

template <class Record>
struct KthLine {
  Access<Record> access;
  std::int64_t length, k;
  std::vector<Record> records = {};

  void operator()(const StridedLine& line) {
    records.resize(static_cast<std::size_t>(length));
    access.read(line, 0, length, false, records.data());
    std::nth_element(records.begin(), records.begin() + k, records.end());
    access.write(line, std::span(records).subspan(static_cast<std::size_t>(k), 1));
  }
};

void kthvalue(const OpCall& call) {
  const auto& attrs = call.attrs_as<ops::KthAttrs>();
  const Lines lines = lines_of(call, attrs.axis);
  if (lines.values.numel() == 0) return;
  with_access(lines, [&]<class Record>(const Access<Record>& access) {
    for_lines(lines, attrs.keepdim, 16,
              KthLine<Record>{access, lines.length, attrs.k.number() - 1});
  });
}

}  // namespace

std::span<const NamedKernel> sort_kernels() {
  static constexpr NamedKernel kernels[] = {
      {"sort", {sort}}, {"topk", {topk}}, {"kthvalue", {kthvalue}}};
  return kernels;
}

}  // namespace dyad::runtime::cpu
