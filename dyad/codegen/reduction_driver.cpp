#include <algorithm>
#include <cstring>
#include <deque>
#include <vector>

#include "dyad/codegen/address.h"
#include "dyad/codegen/driver.h"

namespace dyad::codegen {
namespace {

constexpr int kInitContext = 1, kAccumulateContext = 2, kCombineContext = 3, kFinishContext = 4;
/// Outputs are reduced together as long as all their lanes fit into kLaneBytes.
constexpr std::int64_t kMaxStrip = 1024;
constexpr std::int64_t kLaneBytes = 32 << 10;
constexpr std::int64_t kPage = 4096;
/// So many chunks of a long row are read from two places at once.
constexpr std::int64_t kFarChunks = 64;
/// Columns: how far ahead memory is asked for.
constexpr std::int64_t kRowsAhead = 2;

/// `count` times the first `bytes` of `bits`.
void fill(char* at, std::int64_t count, std::uint64_t bits, std::int64_t bytes) {
  const std::int64_t total = count * bytes;
  if (bits == 0) {
    std::memset(at, 0, static_cast<std::size_t>(total));
    return;
  }
  std::memcpy(at, &bits, static_cast<std::size_t>(std::min(bytes, total)));
  for (std::int64_t done = bytes; done < total; done *= 2) {
    std::memcpy(at + done, at, static_cast<std::size_t>(std::min(done, total - done)));
  }
}

/// How far behind `memory` lanes begin so that a load of what is added to them is not held up by a
/// store before it: CPUs compare the places of both within a page alone.
std::int64_t distance_in_page(std::intptr_t memory, const char* data) {
  constexpr std::int64_t kAhead = 1024;
  const auto place = reinterpret_cast<std::intptr_t>(data) + kAhead;
  return (place - memory) & (kPage - 64);
}

void advance(char*& data, std::int64_t bytes) { data = moved(data, bytes); }

void prefetch(const char* data, std::int64_t bytes) {
  constexpr std::int64_t kLine = 64;
  for (std::int64_t i = 0; i < bytes; i += kLine) __builtin_prefetch(data + i);
}

}  // namespace

/// Where a walk over some dims stands.
struct ReductionDriver::Odometer {
  std::int64_t coordinates[kMaxRank] = {};

  /// Goes to element `number` of dims [first, last), adding to `data`.
  void seek(const ReductionDriver& d, int first, int last, std::int64_t number, char** data,
            int operands) {
    for (int dim = last - 1; dim >= first; --dim) {
      coordinates[dim] = number % d.args_.sizes[dim];
      number /= d.args_.sizes[dim];
      for (int i = 0; i < operands; ++i) advance(data[i], coordinates[dim] * d.strides_[dim][i]);
    }
  }
  /// Steps the dims [first, last) by one; wraps to the start after the end.
  void step(const ReductionDriver& d, int first, int last, char** data, int operands) {
    for (int dim = last - 1; dim >= first; --dim) {
      if (++coordinates[dim] < d.args_.sizes[dim]) {
        for (int i = 0; i < operands; ++i) advance(data[i], d.strides_[dim][i]);
        return;
      }
      for (int i = 0; i < operands; ++i)
        advance(data[i], -(coordinates[dim] - 1) * d.strides_[dim][i]);
      coordinates[dim] = 0;
    }
  }
};

/// Joins a stream of chunk results for `width` outputs by the rule of chunks, level upon level.
class ReductionDriver::Levels {
 public:
  Levels(const ReductionDriver& driver, std::int64_t width) : driver_(driver), width_(width) {}

  void push(char* const* values, std::size_t level = 0) {
    if (level == levels_.size()) {
      levels_.emplace_back();
      levels_[level].memory.resize(width_ * 8 * driver_.kernel_.accumulators_ * kReduceLanes + 64);
      driver_.place_lanes(levels_[level].memory.data(), width_, levels_[level].lanes);
      driver_.fill_init(levels_[level].lanes, kReduceLanes * width_);
    }
    if (levels_[level].count == kReduceChunk) {
      driver_.join_lanes(levels_[level].lanes, width_);
      push(levels_[level].lanes, level + 1);
      driver_.fill_init(levels_[level].lanes, kReduceLanes * width_);
      levels_[level].count = 0;
    }
    Level& l = levels_[level];
    Values lane;
    const std::int64_t number = l.count++ % kReduceLanes;
    for (int k = 0; k < driver_.kernel_.accumulators_; ++k) {
      lane[k] = l.lanes[k] + number * width_ * driver_.kernel_.accumulator_bytes_[k];
    }
    driver_.combine_row(lane, values, width_);
  }

  void result(char* const* results) {
    std::size_t level = 0;
    driver_.join_lanes(levels_[0].lanes, width_);
    while (level + 1 < levels_.size()) {
      push(levels_[level].lanes, level + 1);
      ++level;
      driver_.join_lanes(levels_[level].lanes, width_);
    }
    for (int k = 0; k < driver_.kernel_.accumulators_; ++k) {
      std::memcpy(results[k], levels_[level].lanes[k],
                  width_ * driver_.kernel_.accumulator_bytes_[k]);
    }
  }

 private:
  struct Level {
    std::vector<std::byte> memory;
    Values lanes = {};
    std::int64_t count = 0;
  };
  const ReductionDriver& driver_;
  std::int64_t width_;
  std::deque<Level> levels_;  // a level is read while the next one is added
};

ReductionDriver::ReductionDriver(const CompiledKernel& kernel, const KernelArgs& args)
    : kernel_(kernel),
      args_(args),
      rank_(args.rank),
      kept_(args.rank - args.reduced),
      reduced_(args.reduced),
      count_(kernel.reduced_count(args)),
      chunks_(chunks(count_)) {
  int bytes = 0;
  for (int k = 0; k < kernel.accumulators_; ++k) bytes += kernel.accumulator_bytes_[k];
  strip_ = std::min(kMaxStrip, kLaneBytes / kReduceLanes / std::max(bytes, 1) / 16 * 16);
  for (int i = 0; i < kernel.operands_; ++i) {
    for (int d = 0; d < rank_; ++d) strides_[d][i] = args.strides[i * rank_ + d] * kernel.sizes_[i];
    kept_strides_[i] = kept_ > 0 ? strides_[kept_ - 1][i] : 0;
    reduced_strides_[i] = reduced_ > 0 ? strides_[rank_ - 1][i] : 0;
  }
}

void ReductionDriver::place_lanes(std::byte* buffer, std::int64_t width, char** lanes) const {
  auto* at = reinterpret_cast<char*>((reinterpret_cast<std::uintptr_t>(buffer) + 63) / 64 * 64);
  for (int k = 0; k < kernel_.accumulators_; ++k) {
    lanes[k] = at;
    at += kReduceLanes * width * kernel_.accumulator_bytes_[k];
  }
}

void ReductionDriver::fill_init(char* const* lanes, std::int64_t count) const {
  for (int k = 0; k < kernel_.accumulators_; ++k) {
    fill(lanes[k], count, kernel_.recipe_.init[k], kernel_.accumulator_bytes_[k]);
  }
}

void ReductionDriver::combine_row(char* const* into, char* const* values,
                                  std::int64_t count) const {
  const int k = kernel_.accumulators_;
  char* data[3 * kMaxAccumulators];
  std::int64_t strides[3 * kMaxAccumulators];
  for (int i = 0; i < k; ++i) {
    data[i] = data[2 * k + i] = into[i];
    data[k + i] = values[i];
    strides[i] = strides[k + i] = strides[2 * k + i] = kernel_.accumulator_bytes_[i];
  }
  kernel_.code_.combine(kernel_.contexts_[kCombineContext], data, strides, count, args_.slots, 0);
}

void ReductionDriver::join_lanes(char* const* lanes, std::int64_t width) const {
  for (int half = kReduceLanes / 2; half > 0; half /= 2) {
    Values upper;
    for (int k = 0; k < kernel_.accumulators_; ++k) {
      upper[k] = lanes[k] + half * width * kernel_.accumulator_bytes_[k];
    }
    combine_row(lanes, upper, half * width);
  }
}

void ReductionDriver::finish(char* const* results, char* const* data, std::int64_t outputs) const {
  const int k = kernel_.accumulators_, out = kernel_.operands_ - kernel_.inputs_;
  char* row[kMaxOperands];
  std::int64_t strides[kMaxOperands];
  std::int64_t count = count_;
  for (int i = 0; i < k; ++i) {
    row[i] = results[i];
    strides[i] = kernel_.accumulator_bytes_[i];
  }
  row[k] = reinterpret_cast<char*>(&count);
  strides[k] = 0;
  for (int i = 0; i < out; ++i) {
    row[k + 1 + i] = data[kernel_.inputs_ + i];
    strides[k + 1 + i] = kept_strides_[kernel_.inputs_ + i];
  }
  kernel_.code_.finish(kernel_.contexts_[kFinishContext], row, strides, outputs, args_.slots, 0);
}

void ReductionDriver::chunk_rows(char* const* data, std::int64_t outputs, std::int64_t first,
                                 std::int64_t count, char* const* results) const {
  const int inputs = kernel_.inputs_;
  const auto reduce = kernel_.code_.reduce;
  const void* context = kernel_.contexts_[kInitContext];
  char* at[kMaxOperands];
  if (reduced_ <= 1) {
    for (int i = 0; i < inputs; ++i) at[i] = moved(data[i], first * reduced_strides_[i]);
    reduce(context, at, kept_strides_, reduced_strides_, outputs, 0, count, nullptr, results,
           args_.slots, DYAD_REDUCE_INIT | DYAD_REDUCE_RESULT);
    return;
  }
  alignas(64) std::byte memory[kMaxAccumulators * kReduceLanes * 8 + 64];
  Values lanes = {}, result;
  place_lanes(memory, 1, lanes);
  const std::int64_t width = args_.sizes[rank_ - 1];
  for (std::int64_t o = 0; o < outputs; ++o) {
    for (int i = 0; i < inputs; ++i) at[i] = moved(data[i], o * kept_strides_[i]);
    for (int k = 0; k < kernel_.accumulators_; ++k)
      result[k] = results[k] + o * kernel_.accumulator_bytes_[k];
    Odometer odometer;
    if (count > 0) odometer.seek(*this, kept_, rank_, first, at, inputs);
    std::int64_t done = 0;
    do {
      const std::int64_t column = odometer.coordinates[rank_ - 1];
      const std::int64_t n = std::min(width - column, count - done);
      const std::uint32_t flags =
          (done == 0 ? DYAD_REDUCE_INIT : 0) | (done + n == count ? DYAD_REDUCE_RESULT : 0);
      reduce(context, at, kept_strides_, reduced_strides_, 1, done % kReduceLanes, n, lanes, result,
             args_.slots, flags);
      done += n;
      for (int i = 0; i < inputs; ++i) at[i] = moved(at[i], -column * reduced_strides_[i]);
      odometer.coordinates[rank_ - 1] = 0;
      odometer.step(*this, kept_, rank_ - 1, at, inputs);
    } while (done < count);
  }
}

bool ReductionDriver::chunks_are_rows() const {
  return kernel_.recipe_.kind == KernelKind::reduce_rows && reduced_ == 1;
}

void ReductionDriver::chunks_as_rows(char* const* data, std::int64_t first, std::int64_t count,
                                     char* const* results) const {
  const int inputs = kernel_.inputs_;
  // `rows` chunks from `chunk` on, `apart` from one to the next.
  const auto reduce = [&](std::int64_t chunk, std::int64_t rows, std::int64_t apart,
                          char* const* into) {
    char* at[kMaxOperands];
    std::int64_t distances[kMaxOperands];
    for (int i = 0; i < inputs; ++i) {
      const std::int64_t distance = kReduceChunk * reduced_strides_[i];
      distances[i] = apart * distance;
      at[i] = moved(data[i], chunk * distance);
    }
    kernel_.code_.reduce(kernel_.contexts_[kInitContext], at, distances, reduced_strides_, rows, 0,
                         kReduceChunk, nullptr, into, args_.slots,
                         DYAD_REDUCE_INIT | DYAD_REDUCE_RESULT);
  };
  if (kernel_.accumulators_ > 1) return reduce(first, count, 1, results);
  // The code takes two rows at a time. From far apart: a core asks for two long runs of memory
  // sooner than for one.
  const std::int64_t bytes = kernel_.accumulator_bytes_[0];
  for (std::int64_t begin = 0; begin < count; begin += kFarChunks) {
    const std::int64_t n = std::min(kFarChunks, count - begin), half = n / 2;
    for (std::int64_t i = begin; i < begin + half; ++i) {
      alignas(8) char values[2 * 8];
      char* into[] = {values};
      reduce(first + i, 2, half, into);
      for (const std::int64_t at : {std::int64_t{0}, std::int64_t{1}})
        std::memcpy(results[0] + (i + at * half) * bytes, values + at * bytes,
                    static_cast<std::size_t>(bytes));
    }
    if (n % 2 != 0) {
      char* into[] = {results[0] + (begin + n - 1) * bytes};
      reduce(first + begin + n - 1, 1, 1, into);
    }
  }
}

void ReductionDriver::chunk_columns(char* const* data, std::int64_t outputs, std::int64_t first,
                                    std::int64_t count, char* const* results) const {
  const int k = kernel_.accumulators_, inputs = kernel_.inputs_;
  alignas(64) std::byte memory[kLaneBytes + kPage + 64];
  Values lanes = {};
  const auto begin = reinterpret_cast<std::intptr_t>(&memory);
  place_lanes(memory + distance_in_page(begin, data[0]), outputs, lanes);
  fill_init(lanes, kReduceLanes * outputs);
  char* at[kMaxOperands];
  std::int64_t strides[kMaxOperands];
  char** in = at + k;
  for (int i = 0; i < k; ++i) strides[i] = strides[k + inputs + i] = kernel_.accumulator_bytes_[i];
  for (int i = 0; i < inputs; ++i) {
    in[i] = data[i];
    strides[k + i] = kept_strides_[i];
  }
  // Where rows of outputs follow one another without gaps, 16 of them are one long row, laid out as
  // the lanes are.
  bool dense = reduced_ == 1;
  for (int i = 0; i < inputs; ++i)
    dense = dense && reduced_strides_[i] == outputs * kept_strides_[i];
  Odometer odometer;
  if (count > 0) odometer.seek(*this, kept_, rank_, first, in, inputs);
  const std::int64_t step = dense ? kReduceLanes : 1;
  for (std::int64_t r = 0; r < count; r += step) {
    for (int i = 0; i < k; ++i) {
      at[i] = at[k + inputs + i] =
          lanes[i] + r % kReduceLanes * outputs * kernel_.accumulator_bytes_[i];
    }
    // A short piece of each row is over before the CPU sees that it is read on.
    if (!dense && reduced_ == 1 && r + kRowsAhead < count) {
      for (int i = 0; i < inputs; ++i) {
        if (kept_strides_[i] != kernel_.sizes_[i]) continue;
        prefetch(in[i] + kRowsAhead * reduced_strides_[i], outputs * kernel_.sizes_[i]);
      }
    }
    kernel_.code_.accumulate(kernel_.contexts_[kAccumulateContext], at, strides,
                             std::min(step, count - r) * outputs, args_.slots, 0);
    if (dense) {
      for (int i = 0; i < inputs; ++i) advance(in[i], step * reduced_strides_[i]);
    } else {
      odometer.step(*this, kept_, rank_, in, inputs);
    }
  }
  join_lanes(lanes, outputs);
  for (int i = 0; i < k; ++i)
    std::memcpy(results[i], lanes[i], outputs * kernel_.accumulator_bytes_[i]);
}

void ReductionDriver::chunk(char* const* data, std::int64_t outputs, std::int64_t number,
                            char* const* results) const {
  const std::int64_t first = number * kReduceChunk, count = std::min(kReduceChunk, count_ - first);
  // Without elements there is nothing to map: the columns' way joins initial values alone.
  if (kernel_.recipe_.kind == KernelKind::reduce_rows && count > 0)
    chunk_rows(data, outputs, first, count, results);
  else
    chunk_columns(data, outputs, first, count, results);
}

void ReductionDriver::whole(char* const* data, std::int64_t outputs, char* const* results) const {
  if (chunks_ == 1) return chunk(data, outputs, 0, results);
  Levels levels(*this, outputs);
  std::int64_t c = 0;
  if (outputs == 1 && chunks_are_rows()) {
    // Some whole chunks at once, as if they were rows of a matrix.
    alignas(64) std::byte memory[kMaxAccumulators * kFarChunks * 8];
    for (const std::int64_t whole = count_ / kReduceChunk; c < whole;) {
      const std::int64_t n = std::min(kFarChunks, whole - c);
      Values joined = {};
      for (int k = 0; k < kernel_.accumulators_; ++k) {
        joined[k] = reinterpret_cast<char*>(memory + k * kFarChunks * 8);
      }
      chunks_as_rows(data, c, n, joined);
      for (const std::int64_t end = c + n; c < end; ++c) {
        levels.push(joined);
        for (int k = 0; k < kernel_.accumulators_; ++k) joined[k] += kernel_.accumulator_bytes_[k];
      }
    }
  }
  for (; c < chunks_; ++c) {
    chunk(data, outputs, c, results);
    levels.push(results);
  }
  levels.result(results);
}

/// Calls f(data, first, n) for runs of at most strip_ outputs along the innermost kept dim.
template <class F>
void ReductionDriver::for_strips(std::int64_t lo, std::int64_t hi, F&& f) const {
  if (lo >= hi) return;
  const std::int64_t width = kept_ > 0 ? args_.sizes[kept_ - 1] : 1;
  char* data[kMaxOperands];
  for (int i = 0; i < kernel_.operands_; ++i) data[i] = static_cast<char*>(args_.data[i]);
  Odometer odometer;
  odometer.seek(*this, 0, kept_, lo, data, kernel_.operands_);
  while (lo < hi) {
    const std::int64_t column = kept_ > 0 ? odometer.coordinates[kept_ - 1] : 0;
    const std::int64_t n = std::min({width - column, hi - lo, strip_});
    f(data, lo, n);
    lo += n;
    if (column + n < width) {
      odometer.coordinates[kept_ - 1] += n;
      for (int i = 0; i < kernel_.operands_; ++i) advance(data[i], n * kept_strides_[i]);
    } else if (kept_ > 0) {
      odometer.coordinates[kept_ - 1] = 0;
      for (int i = 0; i < kernel_.operands_; ++i) advance(data[i], -column * kept_strides_[i]);
      odometer.step(*this, 0, kept_ - 1, data, kernel_.operands_);
    }
  }
}

void ReductionDriver::run(const CompiledKernel& kernel, const KernelArgs& args, std::int64_t lo,
                          std::int64_t hi) {
  const ReductionDriver driver(kernel, args);
  alignas(64) char memory[kLaneBytes / kReduceLanes];
  Values results = {};
  char* at = memory;
  for (int k = 0; k < kernel.accumulators_; ++k) {
    results[k] = at;
    at += driver.strip_ * kernel.accumulator_bytes_[k];
  }
  driver.for_strips(lo, hi, [&](char* const* data, std::int64_t, std::int64_t n) {
    driver.whole(data, n, results);
    driver.finish(results, data, n);
  });
}

void ReductionDriver::partial(const CompiledKernel& kernel, const KernelArgs& args, std::int64_t lo,
                              std::int64_t hi) {
  const ReductionDriver driver(kernel, args);
  const std::int64_t outputs = kernel.units(args);
  const std::size_t stride = scratch_stride(kernel.partials(args));
  Values results = {};
  const auto place_results = [&](std::int64_t part) {
    for (int k = 0; k < kernel.accumulators_; ++k) {
      results[k] =
          static_cast<char*>(args.scratch) + k * stride + part * kernel.accumulator_bytes_[k];
    }
  };
  if (outputs == 1 && driver.chunks_are_rows()) {
    const std::int64_t whole = std::min(hi, driver.count_ / kReduceChunk);
    if (lo < whole) {
      driver.for_strips(0, 1, [&](char* const* data, std::int64_t, std::int64_t) {
        place_results(lo);
        driver.chunks_as_rows(data, lo, whole - lo, results);
      });
      lo = whole;
    }
  }
  while (lo < hi) {
    const std::int64_t number = lo / outputs, begin = lo % outputs,
                       end = std::min(outputs, begin + hi - lo);
    driver.for_strips(begin, end, [&](char* const* data, std::int64_t first, std::int64_t n) {
      place_results(number * outputs + first);
      driver.chunk(data, n, number, results);
    });
    lo += end - begin;
  }
}

void ReductionDriver::combine(const CompiledKernel& kernel, const KernelArgs& args, std::int64_t lo,
                              std::int64_t hi) {
  const ReductionDriver driver(kernel, args);
  const std::int64_t outputs = kernel.units(args);
  const std::size_t stride = scratch_stride(kernel.partials(args));
  driver.for_strips(lo, hi, [&](char* const* data, std::int64_t first, std::int64_t n) {
    const auto partials = [&](std::int64_t chunk, char** values) {
      for (int k = 0; k < kernel.accumulators_; ++k) {
        values[k] = static_cast<char*>(args.scratch) + k * stride +
                    (chunk * outputs + first) * kernel.accumulator_bytes_[k];
      }
    };
    Values values = {};
    partials(0, values);
    if (driver.chunks_ > 1) {
      Levels levels(driver, n);
      for (std::int64_t c = 0; c < driver.chunks_; ++c) {
        partials(c, values);
        levels.push(values);
      }
      partials(0, values);  // the first chunk's place takes the result
      levels.result(values);
    }
    driver.finish(values, data, n);
  });
}

}  // namespace dyad::codegen
