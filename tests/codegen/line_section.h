#pragma once

#include <cstdint>
#include <string>

namespace dyad::codegen {

/// A section .debug_line of DWARF 4, written down by hand from the standard. Its two units say:
///   0x1000 /somewhere/model.cpp:7, 0x1004 :9, 0x1015 :3 (17 bytes on), 0x1115 plain.cpp:303,
///   up to 0x1119;
///   0x2000 other.cpp:1, up to 0x2002.
inline std::string line_section() {
  const auto number = [](std::uint32_t value, int bytes) {
    std::string text;
    for (int b = 0; b < bytes; ++b) text += static_cast<char>(value >> 8 * b & 0xff);
    return text;
  };
  const auto unit = [&](const std::string& names, const std::string& program) {
    // Shortest instruction, operations in one, is_stmt, line base -5, line range 14, opcode
    // base 13.
    const std::string header = std::string("\x01\x01\x01\xfb\x0e\x0d", 6) +
                               std::string("\x00\x01\x01\x01\x01\x00\x00\x00\x01\x00\x00\x01", 12) +
                               names;
    const std::string rest =
        number(4, 2) + number(static_cast<std::uint32_t>(header.size()), 4) + header + program;
    return number(static_cast<std::uint32_t>(rest.size()), 4) + rest;
  };
  const auto set_address = [&](std::uint32_t address) {
    return std::string("\x00\x09\x02", 3) + number(address, 4) + number(0, 4);
  };
  const std::string end("\x00\x01\x01", 3);

  const std::string names("/somewhere\0\0model.cpp\0\x01\0\0plain.cpp\0\0\x80\x01\0\0", 40);
  std::string program = set_address(0x1000);
  program += std::string("\x03\x06\x01", 3);                      // advance_line 6, copy: line 7
  program += std::string("\x05\x81\x01\x0a", 4);                  // set_column 129, prologue_end
  program += static_cast<char>(13 + 5 + 2 + 14 * 4);              // 4 bytes and 2 lines on
  program += std::string("\x00\x02\x04\x03", 4);                  // set_discriminator 3
  program += static_cast<char>(13 + 5 + 14 * 0);                  // the same place once more
  program += std::string("\x08", 1);                              // const_add_pc: 17 bytes
  program += std::string("\x03\x7a\x06\x01", 4);                  // advance_line -6, copy: line 3
  program += std::string("\x09\x00\x01\x04\x02\x03\xac\x02", 8);  // fixed_advance_pc 256, file 2
  program += std::string("\x01\x02\x04", 3);                      // copy: line 303; advance_pc 4
  program += end;
  const std::string other("\0other.cpp\0\0\0\0\0", 15);
  return unit(names, program) + unit(other, set_address(0x2000) + "\x01\x02\x02" + end);
}

}  // namespace dyad::codegen
