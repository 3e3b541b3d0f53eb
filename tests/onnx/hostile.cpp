#include "hostile.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <ctime>
#include <fstream>

#include "dyad/base/error.h"

namespace dyad::testing {
namespace {

// Each graph runs once, so kernels are interpreted.
[[maybe_unused]] const bool kInterpreted =
    setenv("DYAD_KERNELS", "interpreter", /*overwrite=*/0) == 0;

std::size_t kilobytes(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(key)) return std::strtoull(line.c_str() + key.size() + 1, nullptr, 10);
  }
  return 0;
}

double processor_seconds() {
  return static_cast<double>(std::clock()) / static_cast<double>(CLOCKS_PER_SEC);
}

/// Bytes of UTF-8 without control characters but newlines, or the end.
bool is_printable(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const std::size_t length = byte < 0x80 ? 1 : byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : 2;
    if (byte < 0x20 ? byte != '\n' : (byte >= 0x7F && byte < 0xC2)) return false;
    if (i + length > text.size()) return false;
    for (std::size_t k = 1; k < length; ++k) {
      if ((static_cast<unsigned char>(text[i + k]) & 0xC0) != 0x80) return false;
    }
    i += length;
  }
  return true;
}

}  // namespace

MemoryGrowth::MemoryGrowth() {
  std::ofstream("/proc/self/clear_refs") << 5;  // from now on the peak is that of what follows
  before_ = kilobytes("VmRSS");
}

std::size_t MemoryGrowth::bytes() const {
  const std::size_t peak = kilobytes("VmHWM");
  return peak > before_ ? (peak - before_) * 1024 : 0;
}

Attempt try_model(std::string_view bytes, const onnx::LoadOptions& options) {
  Attempt outcome;
  const MemoryGrowth growth;
  const double before = processor_seconds();
  try {
    const onnx::Model model = onnx::parse(bytes, options);
    outcome.loaded = true;
    if (model.inputs().empty()) {
      (void)model.run_values({});
      outcome.ran = true;
    }
  } catch (const InternalError& error) {
    ADD_FAILURE() << error.what();
  } catch (const Error& error) {
    outcome.error = error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "another error: " << error.what();
  }
  outcome.growth = growth.bytes();
  EXPECT_LE(outcome.growth, std::size_t{256} << 20);
  EXPECT_LE(processor_seconds() - before, 10);
  EXPECT_TRUE(is_printable(outcome.error)) << outcome.error;
  EXPECT_LE(outcome.error.size(), 8000u);
  if (std::getenv("DYAD_SHOW_HOSTILE") != nullptr) {
    std::printf("%6.2f s %6zu MB %s%s %s\n", processor_seconds() - before, outcome.growth >> 20,
                outcome.loaded ? "loaded " : "", outcome.ran ? "ran" : "",
                outcome.error.substr(0, 400).c_str());
  }
  return outcome;
}

std::string refusal(std::string_view bytes, const onnx::LoadOptions& options) {
  const Attempt outcome = try_model(bytes, options);
  EXPECT_FALSE(outcome.loaded);
  return outcome.error;
}

}  // namespace dyad::testing
