#pragma once

#include <bit>
#include <cstdint>
#include <source_location>
#include <string>
#include <string_view>

namespace dyad {

/// One place in a user's source. The layout is that of the record behind std::source_location, so
/// that a location captured by the compiler needs no copy.
struct LocRecord {
  const char* file;
  const char* function;
  std::uint32_t line;
  std::uint32_t column;
};

/// The source line that made a value: one pointer to an immortal record. C++ call sites come from
/// std::source_location; Python frames, ONNX nodes and parsed graphs come from `intern`.
class Loc {
 public:
  /// An unknown place.
  constexpr Loc() noexcept = default;

  /// Implicit, so that a function captures its caller with `Loc loc =
  /// std::source_location::current()`.
  Loc(std::source_location where) noexcept : record_(std::bit_cast<const LocRecord*>(where)) {}

  /// A record with the same contents for the same arguments; kept for the life of the process.
  static Loc intern(std::string_view file, std::uint32_t line, std::string_view function = {});

  [[nodiscard]] std::string_view file() const noexcept { return record_ ? record_->file : ""; }
  [[nodiscard]] std::string_view function() const noexcept {
    return record_ ? record_->function : "";
  }
  [[nodiscard]] std::uint32_t line() const noexcept { return record_ ? record_->line : 0; }
  [[nodiscard]] explicit operator bool() const noexcept { return record_ != nullptr; }
  [[nodiscard]] bool operator==(const Loc&) const noexcept = default;

  /// The caller's place when library code runs on a user's behalf (a layer, an optimiser, a
  /// gradient rule: see LocScope), otherwise this one.
  [[nodiscard]] Loc user() const noexcept;

 private:
  const LocRecord* record_ = nullptr;
};

static_assert(sizeof(std::source_location) == sizeof(const LocRecord*),
              "Loc relies on std::source_location being one pointer");

/// `train.cpp:41` (the file's last component), or `<unknown>`.
[[nodiscard]] std::string to_string(Loc loc);

/// While it lives, values made in this thread are attributed to `loc`, and errors of operators name
/// `function` (a literal), which is made of them. Scopes nest; the outermost wins, because it is
/// the line the user wrote and what was called there.
class LocScope {
 public:
  explicit LocScope(Loc loc, const char* function = nullptr) noexcept;
  ~LocScope();
  LocScope(const LocScope&) = delete;
  LocScope& operator=(const LocScope&) = delete;
  /// The function that the program called; empty where none says its name.
  [[nodiscard]] static std::string_view function() noexcept;

 private:
  bool owner_, names_;
};

}  // namespace dyad
