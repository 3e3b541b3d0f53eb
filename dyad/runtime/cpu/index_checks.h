#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "dyad/core/tensor.h"
#include "dyad/runtime/op_kernel.h"

namespace dyad::runtime::cpu {

/// IndexError: the index found at `at` is none of least to size - 1, for axis `axis`. `of` is the
/// operator that it was given to where this is a part of another (see IndexAttrs).
[[noreturn]] void fail_index(const OpCall& call, std::int64_t index,
                             std::span<const std::int64_t> at, std::size_t axis, std::int64_t least,
                             std::int64_t size, std::string_view of = {});
/// Throws that for the first index (row-major) that is not allowed, before anything is written.
void check_indices(const OpCall& call, const Tensor& index, std::size_t axis, std::int64_t least,
                   std::int64_t size, std::string_view of = {});
/// `f32[3, 4], index: i64[2]`: the inputs of a call, for messages.
[[nodiscard]] std::string call_text(const OpCall& call);

/// Whether all of `count` indices, `step` apart, are from `least` to `size` - 1.
[[nodiscard]] bool all_fit(const std::int64_t* at, std::int64_t step, std::int64_t count,
                           std::int64_t least, std::int64_t size);
[[nodiscard]] bool all_fit(const std::int32_t* at, std::int64_t step, std::int64_t count,
                           std::int64_t least, std::int64_t size);

}  // namespace dyad::runtime::cpu
