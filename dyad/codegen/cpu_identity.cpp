#include "dyad/codegen/cpu_identity.h"

#include <fmt/format.h>

#include <cstdint>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace dyad::codegen {

std::string cpu_identity() {
#if defined(__x86_64__)
  std::string text = "x86-64";
  const auto add = [&](std::uint32_t leaf, std::uint32_t sub, bool a, bool b, bool c, bool d) {
    std::uint32_t r[4] = {};
    if (__get_cpuid_count(leaf, sub, &r[0], &r[1], &r[2], &r[3]) == 0) return;
    const bool wanted[] = {a, b, c, d};
    for (int i = 0; i < 4; ++i) text += fmt::format(" {:x}", wanted[i] ? r[i] : 0u);
  };
  add(0, 0, false, true, true, true);  // vendor
  add(1, 0, true, false, true, true);  // family, model; features; not the core's number
  add(7, 0, false, true, true, true);  // extended features
  add(7, 1, true, true, true, true);
  add(0x80000001u, 0, false, false, true, true);
  return text;
#else
  return "other";
#endif
}

}  // namespace dyad::codegen
