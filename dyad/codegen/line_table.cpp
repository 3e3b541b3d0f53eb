#include "dyad/codegen/line_table.h"

#include <algorithm>
#include <bit>
#include <climits>
#include <cstring>
#include <limits>
#include <string_view>
#include <utility>

namespace dyad::codegen {
namespace {

/// Ends the reading of a table that the plug-in did not write.
struct OddTable {};

void expect(bool as_written) {
  if (!as_written) throw OddTable{};
}

/// Takes numbers and texts from the front of some bytes.
class LineBytes {
 public:
  explicit LineBytes(std::span<const std::byte> bytes) : bytes_(bytes) {}

  [[nodiscard]] bool empty() const noexcept { return bytes_.empty(); }

  LineBytes part(std::uint64_t size) {
    expect(size <= bytes_.size());
    const auto taken = bytes_.first(size);
    bytes_ = bytes_.subspan(size);
    return LineBytes(taken);
  }

  template <class T>
  T fixed() {
    const LineBytes taken = part(sizeof(T));
    T value;
    std::memcpy(&value, taken.bytes_.data(), sizeof value);
    return value;
  }

  /// DWARF's numbers of any length, 7 bits a byte.
  std::uint64_t natural() { return packed().first; }
  std::int64_t integer() {
    auto [value, bits] = packed();
    const bool negative = (value >> (bits - 1) & 1) != 0;
    if (negative && bits < 64) value |= ~std::uint64_t{0} << bits;
    return std::bit_cast<std::int64_t>(value);
  }

  std::string_view text() {
    const auto end = std::find(bytes_.begin(), bytes_.end(), std::byte{0});
    expect(end != bytes_.end());
    const auto size = static_cast<std::size_t>(end - bytes_.begin());
    const std::string_view found(reinterpret_cast<const char*>(bytes_.data()), size);
    bytes_ = bytes_.subspan(size + 1);
    return found;
  }

 private:
  /// A number's bits and how many there are, 64 at most.
  std::pair<std::uint64_t, int> packed() {
    std::uint64_t value = 0;
    for (int bits = 0; bits < 64; bits += 7) {
      const auto byte = fixed<std::uint8_t>();
      value |= std::uint64_t{byte & 0x7Fu} << bits;
      if (byte < 0x80) return {value, std::min(bits + 7, 64)};
    }
    throw OddTable{};
  }

  std::span<const std::byte> bytes_;
};

// What DWARF calls DW_LNS_* and DW_LNE_*.
enum Opcode : std::uint8_t {
  kExtended = 0,
  kCopy,
  kAdvanceAddress,
  kAdvanceLine,
  kSetFile,
  kSetColumn,
  kNegateStatement,
  kSetBasicBlock,
  kAdvanceAsSpecial,
  kAdvanceAddressFixed,
  kPrologueEnd,
  kEpilogueBegin,
  kSetMachine,
  kFirstSpecial,
};
enum ExtendedOpcode : std::uint8_t { kEndSequence = 1, kSetAddress = 2, kSetDiscriminator = 4 };
constexpr std::uint8_t kOperands[] = {0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1};  // of opcodes from 1 on

}  // namespace

/// Runs the programs of a section's units, which make the rows.
class LineTable::Reader {
 public:
  explicit Reader(LineTable& table) : table_(table) {}

  void read_unit(LineBytes& section) {
    LineBytes unit = section.part(section.fixed<std::uint32_t>());
    expect(unit.fixed<std::uint16_t>() == 4);  // DWARF's version
    LineBytes header = unit.part(unit.fixed<std::uint32_t>());
    expect(header.fixed<std::uint8_t>() == 1);  // bytes of the shortest instruction
    expect(header.fixed<std::uint8_t>() == 1);  // operations in one
    header.fixed<std::uint8_t>();               // whether rows begin statements
    line_base_ = header.fixed<std::int8_t>();
    line_range_ = header.fixed<std::uint8_t>();
    expect(line_range_ > 0);
    expect(header.fixed<std::uint8_t>() == kFirstSpecial);
    for (const std::uint8_t count : kOperands) expect(header.fixed<std::uint8_t>() == count);
    read_files(header);
    expect(header.empty());
    run(unit);
  }

 private:
  void read_files(LineBytes& header) {
    std::vector<std::string_view> folders = {""};
    for (auto name = header.text(); !name.empty(); name = header.text()) folders.push_back(name);
    first_file_ = table_.files_.size();
    for (auto name = header.text(); !name.empty(); name = header.text()) {
      const std::uint64_t folder = header.natural();
      header.natural();  // time of change
      header.natural();  // bytes
      expect(folder < folders.size());
      // So that a file's folder, which many may share, takes no more memory than a path can need.
      expect(folders[folder].size() + name.size() < PATH_MAX);
      std::string path(folders[folder]);
      if (!path.empty()) path += '/';
      table_.files_.push_back(path.append(name));
    }
  }

  void run(LineBytes& program) {
    start_sequence();
    while (!program.empty()) step(program);
    expect(!in_sequence());
  }

  void step(LineBytes& program) {
    const auto opcode = program.fixed<std::uint8_t>();
    switch (opcode) {
      case kExtended:
        extended(program);
        break;
      case kCopy:
        add_row(false);
        break;
      case kAdvanceAddress:
        advance_address(program.natural());
        break;
      case kAdvanceLine:
        advance_line(program.integer());
        break;
      case kSetFile:
        file_ = program.natural();
        break;
      case kSetColumn:
      case kSetMachine:
        program.natural();
        break;
      case kNegateStatement:
      case kSetBasicBlock:
      case kPrologueEnd:
      case kEpilogueBegin:
        break;
      case kAdvanceAsSpecial:
        advance_address(static_cast<std::uint64_t>((255 - kFirstSpecial) / line_range_));
        break;
      case kAdvanceAddressFixed:
        advance_address(program.fixed<std::uint16_t>());
        break;
      default:
        advance_address(static_cast<std::uint64_t>((opcode - kFirstSpecial) / line_range_));
        advance_line(line_base_ + (opcode - kFirstSpecial) % line_range_);
        add_row(false);
    }
  }

  void extended(LineBytes& program) {
    LineBytes operands = program.part(program.natural());
    switch (operands.fixed<std::uint8_t>()) {
      case kEndSequence:
        add_row(true);
        start_sequence();
        break;
      case kSetAddress: {
        const auto address = operands.fixed<std::uint64_t>();
        expect(address >= address_);
        address_ = address;
        break;
      }
      case kSetDiscriminator:
        operands.natural();
        break;
      default:
        throw OddTable{};
    }
    expect(operands.empty());
  }

  void start_sequence() {
    sequence_ = table_.rows_.size();
    address_ = 0;
    file_ = 1;
    line_ = 1;
  }
  [[nodiscard]] bool in_sequence() const { return table_.rows_.size() > sequence_; }

  void advance_address(std::uint64_t by) {
    expect(by <= std::numeric_limits<std::uint64_t>::max() - address_);
    address_ += by;
  }

  void advance_line(std::int64_t by) {
    constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
    expect(by >= -line_ && by <= kMost - line_);
    line_ += by;
  }

  void add_row(bool ends) {
    std::vector<Row>& rows = table_.rows_;
    expect(file_ >= 1 && file_ <= table_.files_.size() - first_file_);
    const Row row = {address_, first_file_ + file_ - 1, static_cast<std::uint32_t>(line_), ends};
    if (in_sequence() && rows.back().address == row.address) rows.pop_back();  // holds for nothing
    if (in_sequence() && !ends && rows.back().file == row.file && rows.back().line == row.line)
      return;
    rows.push_back(row);
  }

  LineTable& table_;
  int line_base_ = 0, line_range_ = 1;
  std::size_t first_file_ = 0;  // of this unit, in the table
  std::size_t sequence_ = 0;    // its first row
  std::uint64_t address_ = 0, file_ = 1;
  std::int64_t line_ = 1;
};

LineTable LineTable::read(std::span<const std::byte> section) {
  try {
    LineTable table;
    Reader reader(table);
    LineBytes bytes(section);
    while (!bytes.empty()) reader.read_unit(bytes);
    return table;
  } catch (const OddTable&) {
    return {};
  }
}

std::vector<SourceLine> LineTable::lines(std::uint64_t address, std::uint64_t size) const {
  std::vector<SourceLine> found;
  for (std::size_t r = 0; r + 1 < rows_.size(); ++r) {
    const Row& row = rows_[r];
    if (row.ends) continue;
    const std::uint64_t first = std::max(row.address, address);
    if (first >= rows_[r + 1].address || first - address >= size) continue;
    if (!found.empty() && first <= found.back().address) return {};
    found.push_back({first, row.line, files_[row.file]});
  }
  return found;
}

}  // namespace dyad::codegen
