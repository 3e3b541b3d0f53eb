#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "check.h"
#include "program.h"

namespace dyad::testing {

/// Programs of which one digest is kept.
inline constexpr std::uint64_t kBlock = 100;

/// What became of a range of seeds.
struct Campaign {
  int programs = 0;
  int statements = 0;
  int ran_statically = 0;
  int failed = 0;  ///< with an error, the same in every mode
  std::map<std::string, int> not_static;
  std::vector<std::pair<std::uint64_t, Finding>> findings;
  std::uint64_t digest = 0;  ///< of all of them in a row

  /// Makes and checks the program of that seed.
  void run(std::uint64_t seed);
};

/// The text of a finding: its smallest program as C++, and what differs.
std::string explain(std::uint64_t seed, const Finding& finding);

/// The file, in a folder, that keeps the digests of programs like the one of that seed, and the
/// seed at which it begins.
struct DigestFile {
  std::string path;
  std::uint64_t first = 0;
};
DigestFile digest_file(const std::string& folder, std::uint64_t seed);
/// How many instructions programs were made of when digests were written: with other rows in the
/// registry the programs are others, and their digests say nothing.
std::size_t instructions_of_digests(const std::string& path);
/// The digests of such a file: one for each block of seeds.
std::vector<std::uint64_t> read_digests(const std::string& path);
void write_digests(const DigestFile& file, const std::vector<std::uint64_t>& digests);

}  // namespace dyad::testing
