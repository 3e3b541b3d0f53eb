#pragma once

#include <cstddef>
#include <cstdint>

#include "dyad/codegen/kernel.h"

/// The loops around generated rows, the same for every origin of code: outer dims, chunks, lanes,
/// partial results.
namespace dyad::codegen {

class PointwiseDriver {
 public:
  static void run(const CompiledKernel& kernel, const KernelArgs& args, std::int64_t lo,
                  std::int64_t hi);

 private:
  class Walk;
};

class ReductionDriver {
 public:
  static void run(const CompiledKernel& kernel, const KernelArgs& args, std::int64_t lo,
                  std::int64_t hi);
  static void partial(const CompiledKernel& kernel, const KernelArgs& args, std::int64_t lo,
                      std::int64_t hi);
  static void combine(const CompiledKernel& kernel, const KernelArgs& args, std::int64_t lo,
                      std::int64_t hi);

  [[nodiscard]] static std::int64_t chunks(std::int64_t count) noexcept {
    return count <= kReduceChunk ? 1 : (count + kReduceChunk - 1) / kReduceChunk;
  }
  /// Bytes between the scratch areas of two accumulators.
  [[nodiscard]] static std::size_t scratch_stride(std::int64_t partials) noexcept {
    return (static_cast<std::size_t>(partials) * 8 + 63) / 64 * 64;
  }

 private:
  ReductionDriver(const CompiledKernel& kernel, const KernelArgs& args);

  class Levels;
  struct Odometer;
  using Values = char* [kMaxAccumulators];

  template <class F>
  void for_strips(std::int64_t lo, std::int64_t hi, F&& f) const;
  void whole(char* const* data, std::int64_t outputs, char* const* results) const;
  void chunk(char* const* data, std::int64_t outputs, std::int64_t number,
             char* const* results) const;
  void chunk_rows(char* const* data, std::int64_t outputs, std::int64_t first, std::int64_t count,
                  char* const* results) const;
  /// Whether the chunks of an output lie like rows.
  [[nodiscard]] bool chunks_are_rows() const;
  /// Whole chunks of one output, from number `first` on.
  void chunks_as_rows(char* const* data, std::int64_t first, std::int64_t count,
                      char* const* results) const;
  void chunk_columns(char* const* data, std::int64_t outputs, std::int64_t first,
                     std::int64_t count, char* const* results) const;
  void fill_init(char* const* lanes, std::int64_t count) const;
  void combine_row(char* const* into, char* const* values, std::int64_t count) const;
  void join_lanes(char* const* lanes, std::int64_t width) const;
  void finish(char* const* results, char* const* data, std::int64_t outputs) const;
  /// Places 16 lanes of `width` values for each accumulator into a buffer, 64-byte aligned.
  void place_lanes(std::byte* buffer, std::int64_t width, char** lanes) const;

  const CompiledKernel& kernel_;
  const KernelArgs& args_;
  int rank_, kept_, reduced_;
  std::int64_t count_, chunks_, strip_;
  std::int64_t strides_[kMaxRank][kMaxOperands];  // bytes
  std::int64_t kept_strides_[kMaxOperands];       // of the innermost kept dim
  std::int64_t reduced_strides_[kMaxOperands];    // of the innermost reduced dim
};

}  // namespace dyad::codegen
