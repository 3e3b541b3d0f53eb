#include "dyad/codegen/loader.h"

#include <elf.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "dyad/base/error.h"
#include "dyad/codegen/code_registry.h"
#include "dyad/codegen/jit_dump.h"
#include "dyad/codegen/line_table.h"

namespace dyad::codegen {

/// Reads the object and fills a LoadedObject.
class LoadedObject::Builder {
 public:
  Builder(LoadedObject& target, std::span<const std::byte> object)
      : target_(target), image_(object.begin(), object.end()) {}

  void build() {
    read_headers();
    place();
    for (std::size_t s = 0; s < sections_.size(); ++s) copy(s);
    read_symbols();
    for (std::size_t s = 0; s < sections_.size(); ++s) {
      if (sections_[s].sh_type == SHT_RELA) relocate(sections_[s]);
    }
    target_.memory_.make_executable();
    export_functions();
    std::memcpy(image_.data() + header_.e_shoff, sections_.data(),
                sections_.size() * sizeof(Elf64_Shdr));
    target_.debug_image_ = std::move(image_);
  }

 private:
  [[noreturn]] static void bad(const std::string& what) { throw IoError("kernel object: " + what); }

  template <class T>
  T read(std::uint64_t offset) const {
    if (offset > image_.size() || image_.size() - offset < sizeof(T)) bad("ends too early");
    T value;
    std::memcpy(&value, image_.data() + offset, sizeof value);
    return value;
  }

  void read_headers() {
    header_ = read<Elf64_Ehdr>(0);
    if (std::memcmp(header_.e_ident, ELFMAG, SELFMAG) != 0 ||
        header_.e_ident[EI_CLASS] != ELFCLASS64 || header_.e_type != ET_REL ||
        header_.e_machine != EM_X86_64 || header_.e_shentsize != sizeof(Elf64_Shdr)) {
      bad("is no relocatable x86-64 ELF file");
    }
    for (std::size_t s = 0; s < header_.e_shnum; ++s) {
      sections_.push_back(read<Elf64_Shdr>(header_.e_shoff + s * sizeof(Elf64_Shdr)));
      const Elf64_Shdr& section = sections_.back();
      if (section.sh_type != SHT_NOBITS && (section.sh_offset > image_.size() ||
                                            section.sh_size > image_.size() - section.sh_offset)) {
        bad("has a section that ends too late");
      }
    }
  }

  static bool executable(const Elf64_Shdr& s) { return (s.sh_flags & SHF_EXECINSTR) != 0; }
  static bool mapped(const Elf64_Shdr& s) { return (s.sh_flags & SHF_ALLOC) != 0; }

  /// Code and its constants, one after the other: they need one kind of access, so that many
  /// objects are one mapping.
  void place() {
    constexpr std::uint64_t kPage = 4096;
    offsets_.resize(sections_.size());
    std::uint64_t at = 0;
    for (std::size_t s = 0; s < sections_.size(); ++s) {
      const Elf64_Shdr& section = sections_[s];
      if (!mapped(section)) continue;
      if (section.sh_addralign > kPage || section.sh_size > (std::uint64_t{1} << 30))
        bad("has an odd section");
      const std::uint64_t alignment = std::max<std::uint64_t>(1, section.sh_addralign);
      offsets_[s] = (at + alignment - 1) / alignment * alignment;
      at = offsets_[s] + section.sh_size;
    }
    target_.memory_ = CodeMemory(at);
  }

  void copy(std::size_t s) {
    Elf64_Shdr& section = sections_[s];
    if (!mapped(section)) return;
    std::byte* at = target_.memory_.bytes().data() + offsets_[s];
    if (section.sh_type != SHT_NOBITS)
      std::memcpy(at, image_.data() + section.sh_offset, section.sh_size);
    section.sh_addr = reinterpret_cast<std::uint64_t>(at);
  }

  const Elf64_Shdr& section(std::size_t index) const {
    if (index >= sections_.size()) bad("names a section that it does not have");
    return sections_[index];
  }

  /// `section`, whose bytes are in the image.
  static const Elf64_Shdr& stored(const Elf64_Shdr& section) {
    if (section.sh_type == SHT_NOBITS) bad("has a section without bytes that are needed");
    return section;  // NOLINT(bugprone-return-const-ref-from-parameter): one of sections_
  }

  void read_symbols() {
    for (const Elf64_Shdr& s : sections_) {
      if (s.sh_type != SHT_SYMTAB) continue;
      strings_ = stored(section(s.sh_link));
      for (std::uint64_t at = 0; at + sizeof(Elf64_Sym) <= s.sh_size; at += sizeof(Elf64_Sym)) {
        symbols_.push_back(read<Elf64_Sym>(s.sh_offset + at));
      }
      return;
    }
    bad("has no symbols");
  }

  std::string name_of(const Elf64_Sym& symbol) const {
    if (symbol.st_name >= strings_.sh_size) bad("has a symbol without a name");
    return std::string(text_at(strings_, symbol.st_name));
  }

  std::string_view text_at(const Elf64_Shdr& texts, std::uint64_t offset) const {
    const char* first = reinterpret_cast<const char*>(image_.data() + texts.sh_offset + offset);
    return {first, strnlen(first, texts.sh_size - offset)};
  }

  std::uint64_t address_of(std::uint64_t number) const {
    if (number >= symbols_.size()) bad("refers to a symbol that it does not have");
    const Elf64_Sym& symbol = symbols_[number];
    if (symbol.st_shndx == SHN_UNDEF) bad("needs the symbol '" + name_of(symbol) + "'");
    if (symbol.st_shndx == SHN_ABS) return symbol.st_value;
    return section(symbol.st_shndx).sh_addr + symbol.st_value;
  }

  /// Fixes the places that a relocation section names: in mapped memory, or for debug sections in
  /// the image.
  void relocate(const Elf64_Shdr& relocations) {
    const Elf64_Shdr& where = section(relocations.sh_info);
    std::byte* bytes = mapped(where)
                           ? target_.memory_.bytes().data() + offsets_[relocations.sh_info]
                           : image_.data() + stored(where).sh_offset;
    for (std::uint64_t at = 0; at + sizeof(Elf64_Rela) <= relocations.sh_size;
         at += sizeof(Elf64_Rela)) {
      const auto r = read<Elf64_Rela>(relocations.sh_offset + at);
      const std::uint64_t type = ELF64_R_TYPE(r.r_info);
      if (type == R_X86_64_NONE) continue;
      const std::uint64_t width = type == R_X86_64_64 || type == R_X86_64_PC64 ? 8 : 4;
      if (r.r_offset > where.sh_size || where.sh_size - r.r_offset < width)
        bad("relocates past a section's end");
      const std::uint64_t place = where.sh_addr + r.r_offset;
      std::uint64_t value =
          address_of(ELF64_R_SYM(r.r_info)) + static_cast<std::uint64_t>(r.r_addend);
      switch (type) {
        case R_X86_64_64:
        case R_X86_64_32:
        case R_X86_64_32S:
          break;
        case R_X86_64_PC32:
        case R_X86_64_PLT32:
        case R_X86_64_PC64:
          value -= place;
          break;
        default:
          bad("has a relocation of type " + std::to_string(type));
      }
      std::memcpy(bytes + r.r_offset, &value, width);  // x86-64 is little-endian
    }
  }

  /// The lines of all code, once relocated; none from a section that is damaged or missing, because
  /// the code runs without them.
  LineTable read_lines() const {
    if (header_.e_shstrndx >= sections_.size()) return {};
    const Elf64_Shdr& names = sections_[header_.e_shstrndx];
    if (names.sh_type == SHT_NOBITS) return {};
    for (const Elf64_Shdr& s : sections_) {
      if (s.sh_type != SHT_NOBITS && s.sh_name < names.sh_size &&
          text_at(names, s.sh_name) == ".debug_line")
        return LineTable::read(std::span(image_).subspan(s.sh_offset, s.sh_size));
    }
    return {};
  }

  void export_functions() {
    const bool dumped = jit_dump_wanted();
    const LineTable lines = dumped ? read_lines() : LineTable();
    for (const Elf64_Sym& symbol : symbols_) {
      if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || symbol.st_shndx == SHN_UNDEF) continue;
      const Elf64_Shdr& code = section(symbol.st_shndx);
      if (!executable(code) || symbol.st_value >= code.sh_size)
        bad("has a function outside of its code");
      const auto* address = reinterpret_cast<const void*>(code.sh_addr + symbol.st_value);
      const std::string name = name_of(symbol);
      target_.symbols_.emplace(name.substr(name.rfind('$') + 1), address);
      add_to_perf_map(address, symbol.st_size, name);
      if (!dumped) continue;
      const std::uint64_t size = std::min(symbol.st_size, code.sh_size - symbol.st_value);
      add_to_jit_dump({static_cast<const std::byte*>(address), size}, name,
                      lines.lines(code.sh_addr + symbol.st_value, size));
    }
  }

  LoadedObject& target_;
  std::vector<std::byte> image_;
  Elf64_Ehdr header_ = {};
  std::vector<Elf64_Shdr> sections_;
  std::vector<std::uint64_t> offsets_;
  Elf64_Shdr strings_ = {};
  std::vector<Elf64_Sym> symbols_;
};

std::shared_ptr<const LoadedObject> LoadedObject::load(std::span<const std::byte> object) {
  const std::shared_ptr<LoadedObject> loaded(new LoadedObject);
  Builder(*loaded, object).build();
  loaded->debugger_ = std::make_unique<DebuggerEntry>(loaded->debug_image_);
  return loaded;
}

LoadedObject::~LoadedObject() = default;

const void* LoadedObject::find(const std::string& key) const {
  const auto at = symbols_.find(key);
  return at == symbols_.end() ? nullptr : at->second;
}

}  // namespace dyad::codegen
