// What libFuzzer calls. DYAD_FUZZ_TARGET names the target.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "tests/fuzz/libfuzzer/onnx_mutator.h"
#include "tests/fuzz/targets.h"

namespace {

const dyad::fuzz::Target* target = nullptr;  // set once, by LLVMFuzzerInitialize
bool is_onnx() { return target->name == "onnx"; }

}  // namespace

extern "C" {

std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);

int LLVMFuzzerInitialize(int*, char***) {
  setenv("DYAD_KERNELS", "interpreter", /*overwrite=*/0);
  const char* const name = std::getenv("DYAD_FUZZ_TARGET");
  target = dyad::fuzz::find_target(name ? name : "");
  if (target != nullptr) return 0;
  std::fprintf(stderr, "DYAD_FUZZ_TARGET must name a target, one of:");
  for (const dyad::fuzz::Target& t : dyad::fuzz::targets()) {
    std::fprintf(stderr, " %.*s", static_cast<int>(t.name.size()), t.name.data());
  }
  std::fprintf(stderr, "\n");
  std::exit(2);
}

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  target->run({reinterpret_cast<const char*>(data), size});
  return 0;
}

std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most,
                                    unsigned int seed) {
  // Every eighth is changed as any bytes are: that reaches the reader of messages itself.
  if (!is_onnx() || seed % 8 == 0) return LLVMFuzzerMutate(data, size, most);
  return dyad::fuzz::mutate_onnx(data, size, most, seed);
}

std::size_t LLVMFuzzerCustomCrossOver(const std::uint8_t* a, std::size_t a_size,
                                      const std::uint8_t* b, std::size_t b_size, std::uint8_t* out,
                                      std::size_t most, unsigned int seed) {
  if (!is_onnx()) return 0;
  return dyad::fuzz::cross_onnx({reinterpret_cast<const char*>(a), a_size},
                                {reinterpret_cast<const char*>(b), b_size}, out, most, seed);
}
}
