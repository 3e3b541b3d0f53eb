#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace dyad::fuzz {

/// Changes a model in place, as libFuzzer's LLVMFuzzerCustomMutator: takes the messages apart,
/// changes some of their fields (numbers, names, operators, attributes; nodes left out, doubled,
/// moved, added, connected otherwise) and puts them together again, so that what comes out is
/// still a model to the reader of messages.
std::size_t mutate_onnx(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed);
/// Puts parts of `b` where `a` has parts of the same kind.
std::size_t cross_onnx(std::string_view a, std::string_view b, std::uint8_t* out, std::size_t most,
                       unsigned seed);

}  // namespace dyad::fuzz
