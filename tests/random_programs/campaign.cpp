#include "campaign.h"

#include <fmt/format.h>

#include <fstream>
#include <stdexcept>
#include <string>

#include "generate.h"
#include "instructions.h"
#include "print.h"
#include "shrink.h"

namespace dyad::testing {

void Campaign::run(std::uint64_t seed) {
  const Program program = generate(seed);
  const Report report = check(program);
  ++programs;
  statements += count_statements(program.body);
  ran_statically += report.ran_statically ? 1 : 0;
  failed += report.failed ? 1 : 0;
  if (!report.ran_statically) ++not_static[report.not_static];
  if (report.finding) findings.emplace_back(seed, report.finding);
  digest = (digest ^ report.digest) * 0x9E3779B97F4A7C15u;
  digest ^= digest >> 31;
}

std::string explain(std::uint64_t seed, const Finding& finding) {
  Finding last = finding;
  const Program smallest = shrink(generate(seed), [&](const Program& program) {
    const Finding found = check(program).finding;
    if (found.mode != finding.mode || found.kind != finding.kind) return false;
    last = found;
    return true;
  });
  last = check(smallest).finding;
  const Configuration drawn = draw_configuration(seed);
  const bool configured = finding.mode == "configured";
  std::string note = fmt::format("seed {}, {}: {}", seed, finding.mode, last.text);
  if (configured) note += fmt::format("\nthreads: {}", drawn.threads);
  if (configured && !drawn.keeps_all) note += "\nunder RematerializeFrom(0)";
  if (finding.mode == "static")
    note += drawn.symbolic ? "\nas a graph with symbols for sizes" : "\nas a graph of known sizes";
  return to_cpp(smallest, configured ? drawn.options : CompileOptions(), note);
}

DigestFile digest_file(const std::string& folder, std::uint64_t seed) {
  if (is_stateful(seed)) return {folder + "/stateful_digests.txt", kFirstStateful};
  if (is_layered(seed)) return {folder + "/layered_digests.txt", kFirstLayered};
  if (is_wide(seed)) return {folder + "/wide_digests.txt", kFirstWide};
  return {folder + "/digests.txt", 0};
}

std::vector<std::uint64_t> read_digests(const std::string& path) {
  std::ifstream in(path);
  std::vector<std::uint64_t> digests;
  for (std::string line; std::getline(in, line);) {
    if (!line.empty() && line[0] != '#') digests.push_back(std::stoull(line, nullptr, 16));
  }
  if (digests.empty()) throw std::runtime_error(path + " holds no digests");
  return digests;
}

std::size_t instructions_of_digests(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  const std::size_t at = line.rfind("of ");
  return at == std::string::npos ? 0 : std::stoull(line.substr(at + 3));
}

void write_digests(const DigestFile& file, const std::vector<std::uint64_t>& digests) {
  std::ofstream out(file.path);
  out << fmt::format("# {} programs in a line, from {} on, made of {} instructions\n", kBlock,
                     file.first, instructions_of(file.first));
  for (const std::uint64_t digest : digests) out << fmt::format("{:016x}\n", digest);
}

}  // namespace dyad::testing
