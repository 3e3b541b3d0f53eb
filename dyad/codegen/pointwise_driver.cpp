#include <algorithm>
#include <atomic>
#include <cstdlib>

#include "dyad/codegen/address.h"
#include "dyad/codegen/driver.h"

namespace dyad::codegen {
namespace {

/// Rows and columns of a tile: the lines that a tile touches stay in the first-level cache.
constexpr std::int64_t kTileRows = 32, kTileColumns = 64;

/// Puts stores past the caches before everything that follows. Once for all rows: it waits until
/// memory has them, as long as a row of several KB takes.
void fence_streams(std::uint32_t flags) {
  if ((flags & DYAD_KERNEL_STREAM) == 0) return;
#ifdef __x86_64__
  __builtin_ia32_sfence();
#else
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

}  // namespace

/// A walk over the rows of a space of at least two dims.
class PointwiseDriver::Walk {
 public:
  Walk(const CompiledKernel& kernel, const KernelArgs& args, std::int64_t first)
      : kernel_(kernel),
        args_(args),
        operands_(kernel.operands_),
        rank_(args.rank),
        width_(args.sizes[rank_ - 1]),
        column_(first % width_) {
    std::int64_t row = first / width_;
    for (int d = rank_ - 2; d >= 0; --d) {
      coordinates_[d] = row % args.sizes[d];
      row /= args.sizes[d];
    }
    for (int i = 0; i < operands_; ++i) {
      inner_[i] = args.strides[i * rank_ + rank_ - 1] * kernel.sizes_[i];
      data_[i] = moved(static_cast<char*>(args.data[i]), column_ * inner_[i]);
      for (int d = 0; d < rank_ - 1; ++d) {
        strides_[d][i] = args.strides[i * rank_ + d] * kernel.sizes_[i];
        data_[i] = moved(data_[i], coordinates_[d] * strides_[d][i]);
      }
      // An operand whose next element is farther away than its next row would fetch a line for each
      // element.
      const std::int64_t next_row = std::abs(strides_[rank_ - 2][i]);
      tiled_ = tiled_ || (next_row != 0 && std::abs(inner_[i]) > next_row);
    }
  }

  void run(std::int64_t count) {
    while (count > 0) {
      const std::int64_t rows =
          tiled_ && column_ == 0
              ? std::min(
                    {count / width_, args_.sizes[rank_ - 2] - coordinates_[rank_ - 2], kTileRows})
              : 0;
      if (rows > 1) {
        tile(rows);
        advance(rows);
        count -= rows * width_;
        continue;
      }
      const std::int64_t n = std::min(width_ - column_, count);
      row(data_, n);
      count -= n;
      if (count > 0) {
        for (int i = 0; i < operands_; ++i) data_[i] = moved(data_[i], -column_ * inner_[i]);
        column_ = 0;
        advance(1);
      }
    }
  }

 private:
  void row(char* const* data, std::int64_t n) const {
    kernel_.code_.row(kernel_.contexts_[0], data, inner_, n, args_.slots, args_.flags);
  }

  void tile(std::int64_t rows) const {
    for (std::int64_t column = 0; column < width_; column += kTileColumns) {
      char* data[kMaxOperands];
      for (int i = 0; i < operands_; ++i) data[i] = moved(data_[i], column * inner_[i]);
      for (std::int64_t r = 0; r < rows; ++r) {
        row(data, std::min(kTileColumns, width_ - column));
        for (int i = 0; i < operands_; ++i) data[i] = moved(data[i], strides_[rank_ - 2][i]);
      }
    }
  }

  /// Steps by `rows` rows, which do not pass the end of the next dim; carries into the outer ones.
  void advance(std::int64_t rows) {
    int d = rank_ - 2;
    coordinates_[d] += rows;
    for (int i = 0; i < operands_; ++i) data_[i] = moved(data_[i], rows * strides_[d][i]);
    while (d > 0 && coordinates_[d] == args_.sizes[d]) {
      for (int i = 0; i < operands_; ++i) {
        data_[i] = moved(data_[i], strides_[d - 1][i] - coordinates_[d] * strides_[d][i]);
      }
      coordinates_[d] = 0;
      ++coordinates_[--d];
    }
  }

  const CompiledKernel& kernel_;
  const KernelArgs& args_;
  const int operands_, rank_;
  const std::int64_t width_;
  std::int64_t column_;
  bool tiled_ = false;
  char* data_[kMaxOperands];
  std::int64_t inner_[kMaxOperands], strides_[kMaxRank][kMaxOperands], coordinates_[kMaxRank];
};

void PointwiseDriver::run(const CompiledKernel& kernel, const KernelArgs& args, std::int64_t lo,
                          std::int64_t hi) {
  if (lo >= hi) return;
  if (args.rank > 1) {
    Walk(kernel, args, lo).run(hi - lo);
    return fence_streams(args.flags);
  }
  char* data[kMaxOperands];
  std::int64_t inner[kMaxOperands];
  for (int i = 0; i < kernel.operands_; ++i) {
    inner[i] = args.rank == 0 ? 0 : args.strides[i] * kernel.sizes_[i];
    data[i] = moved(static_cast<char*>(args.data[i]), lo * inner[i]);
  }
  kernel.code_.row(kernel.contexts_[0], data, inner, hi - lo, args.slots, args.flags);
  fence_streams(args.flags);
}

}  // namespace dyad::codegen
