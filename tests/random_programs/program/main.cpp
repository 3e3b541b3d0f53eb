// dyad-fuzz-compile: checks random programs, each run eagerly, as a static graph and compiled; see
// ./dev fuzz-compile --help.

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <iostream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "dyad/base/log.h"
#include "tests/random_programs/campaign.h"
#include "tests/random_programs/generate.h"
#include "tests/random_programs/print.h"
#include "tests/random_programs/soak.h"

namespace dyad::testing {
namespace {

struct Options {
  std::uint64_t from = 0, to = 2000;
  double seconds = 1e18;
  std::string digests;  ///< the folder of the file that is written or compared with
  bool help = false;
  bool write = false;
  bool show = false;
  bool reasons = false;  ///< tell why programs were no static graphs
  std::size_t most_findings = 5;
  std::int64_t soak = 0;  ///< steps
};

constexpr std::string_view kHelp =
    R"(usage: dyad-fuzz-compile [--seeds A:B] [--seconds N] [--digests FOLDER [--write]] [--show]
       dyad-fuzz-compile --soak STEPS

Runs the random programs A to B - 1 (0:2000) eagerly, as static graphs and compiled, and compares
bits; a difference is shrunk to its smallest program, printed as C++. Programs from 1000000 on have
state besides, those from 2000000 on layers, transforms and decompositions, those from 3000000 on
these, most other functions and complex numbers. The environment's DYAD_KERNELS=interpreter saves
the time of compiling kernels.

  --seconds N       stop after N seconds
  --digests FOLDER  compare what 100 programs in a row do with the digest kept there of it
  --write           keep new digests there, where what programs do has changed because it should
  --show            print the programs as C++, instead
  --reasons         tell why programs were no static graphs
  --findings N      stop after N programs with a difference (5)
  --soak STEPS      steps of training with changing sizes instead: memory and recordings
)";

std::uint64_t number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty())
    throw std::invalid_argument(fmt::format("'{}' is no number", text));
  return value;
}

Options parse(int count, char** arguments) {
  Options options;
  for (int i = 1; i < count; ++i) {
    const std::string_view name = arguments[i];
    const auto value = [&]() -> std::string_view {
      if (i + 1 == count) throw std::invalid_argument(fmt::format("{} needs a value", name));
      return arguments[++i];
    };
    if (name == "--help" || name == "-h") {
      options.help = true;
    } else if (name == "--seeds") {
      const std::string_view range = value();
      const std::size_t colon = range.find(':');
      options.from = number(range.substr(0, colon));
      options.to =
          colon == std::string_view::npos ? options.from + 1 : number(range.substr(colon + 1));
    } else if (name == "--seconds") {
      options.seconds = static_cast<double>(number(value()));
    } else if (name == "--digests") {
      options.digests = value();
    } else if (name == "--write") {
      options.write = true;
    } else if (name == "--show") {
      options.show = true;
    } else if (name == "--soak") {
      options.soak = static_cast<std::int64_t>(number(value()));
    } else if (name == "--reasons") {
      options.reasons = true;
    } else if (name == "--findings") {
      options.most_findings = number(value());
    } else {
      throw std::invalid_argument(fmt::format("there is no option '{}'", name));
    }
  }
  if (options.from >= options.to) throw std::invalid_argument("--seeds A:B needs A below B");
  for (const std::uint64_t first : {kFirstStateful, kFirstLayered, kFirstWide}) {
    if (options.from < first && options.to > first)
      throw std::invalid_argument(
          fmt::format("programs from {} on are of another kind: run them alone", first));
  }
  return options;
}

void show(const Options& options) {
  for (std::uint64_t seed = options.from; seed < options.to; ++seed) {
    const Program program = generate(seed);
    const Finding found = check(program).finding;
    std::cout << to_cpp(program, draw_configuration(seed).options,
                        fmt::format("seed {}{}", seed, found ? ": " + found.text : ""));
  }
}

/// Compares the digest of a block with the one kept, or puts it in its place.
bool settle(std::vector<std::uint64_t>& kept, const DigestFile& file, std::uint64_t first,
            std::uint64_t digest, bool write) {
  const std::size_t at = (first - file.first) / kBlock;
  if (write) {
    if (kept.size() < at)
      throw std::invalid_argument(fmt::format("digests are kept up to seed {}: begin there",
                                              file.first + kept.size() * kBlock));
    kept.resize(std::max(kept.size(), at + 1));
    kept[at] = digest;
    return true;
  }
  if (at >= kept.size() || kept[at] == digest) return true;
  std::cout << fmt::format("seeds {}:{} do something else than when their digest was kept\n", first,
                           first + kBlock);
  return false;
}

/// Runs the range; whether all was well.
bool run(const Options& options) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  const auto passed = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  std::vector<std::uint64_t> kept;
  const DigestFile file = digest_file(options.digests, options.from);
  if (!options.digests.empty() && std::filesystem::exists(file.path))
    kept = read_digests(file.path);
  Campaign all;
  std::uint64_t seed = options.from;
  double next = 10;
  int others = 0;
  while (seed < options.to && passed() < options.seconds &&
         all.findings.size() < options.most_findings) {
    const std::uint64_t first = seed;
    all.digest = 0;
    for (; seed < options.to && (seed == first || seed % kBlock != 0); ++seed) {
      const std::size_t before = all.findings.size();
      all.run(seed);
      if (all.findings.size() > before)
        std::cout << explain(seed, all.findings.back().second) << std::endl;
    }
    if (first % kBlock == 0 && seed == first + kBlock && !options.digests.empty() &&
        !settle(kept, file, first, all.digest, options.write))
      ++others;
    if (passed() > next) {
      next += 10;
      std::cout << fmt::format("    {} programs in {:.0f} s, {} findings", all.programs, passed(),
                               all.findings.size())
                << std::endl;
    }
  }
  if (options.write) write_digests(file, kept);
  std::cout << fmt::format(
      "seeds {}:{}: {} programs, {} statements, {} of them as static graphs too, {} end with an "
      "error; {} findings; {:.0f} s; digest of the last block {:016x}\n",
      options.from, seed, all.programs, all.statements, all.ran_statically, all.failed,
      all.findings.size(), passed(), all.digest);
  if (options.reasons) {
    for (const auto& [reason, count] : all.not_static)
      std::cout << fmt::format("{:8} not static: {}\n", count, reason);
  }
  return all.findings.empty() && others == 0;
}

bool run_soak(std::int64_t steps) {
  const Soak found =
      soak(steps, [](const std::string& line) { std::cout << "    " << line << std::endl; });
  std::cout << fmt::format(
      "{} steps in {:.0f} s: {} recordings, {} calls recorded; {:.1f} MB resident after half of "
      "them, "
      "{:.1f} MB at the end; {}\n",
      found.steps, found.seconds, found.recordings, found.recorded, found.early_mb, found.late_mb,
      found.equal ? "the bits of eager execution" : "other bits than eager execution");
  return found.equal;
}

}  // namespace
}  // namespace dyad::testing

int main(int count, char** arguments) {
  try {
    const dyad::testing::Options options = dyad::testing::parse(count, arguments);
    if (options.help) {
      std::cout << dyad::testing::kHelp;
      return 0;
    }
    // Not that a program runs eagerly, as many do.
    dyad::set_log_sink([](dyad::LogLevel level, std::string_view text) {
      if (level >= dyad::LogLevel::warning && !text.starts_with("compiled function"))
        std::cerr << text << "\n";
    });
    if (options.soak > 0) return dyad::testing::run_soak(options.soak) ? 0 : 1;
    if (options.show) {
      dyad::testing::show(options);
      return 0;
    }
    return dyad::testing::run(options) ? 0 : 1;
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 2;
  }
}
