#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace dyad::bench {

/// One measured figure. `floor` is what the machine allows in the same unit, measured in the same
/// run; 0 when there is none.
struct Row {
  std::string workload, system;
  int threads = 1;
  double value = 0;
  std::string unit;
  double floor = 0;
};

/// Gathers rows; prints them as a table, with each system's ratio to the fastest peer, and writes
/// them as JSON.
class Results {
 public:
  /// Only workloads whose names have one of these texts are wanted, all of them when there is none,
  /// but for those that have one of the texts after a `-`.
  explicit Results(std::vector<std::string> only = {}) : only_(std::move(only)) {}
  [[nodiscard]] bool wants(const std::string& workload) const;
  void add(Row row);
  /// A result that was computed wrongly: the run ends with a failure.
  void fail(const std::string& workload, const std::string& what);

  [[nodiscard]] const std::vector<Row>& rows() const noexcept { return rows_; }
  [[nodiscard]] bool failed() const noexcept { return failed_; }
  /// The table: first how many times as fast as the fastest peer, then the share of the floor.
  void print() const;
  /// Throws IoError when the file cannot be read or written, or holds no rows.
  void read_json(const std::string& path);
  void write_json(const std::string& path) const;

 private:
  std::vector<std::string> only_;
  std::vector<Row> rows_;
  bool failed_ = false;
};

/// Median seconds of one call of `body` over seven samples, each of enough calls to last 50 ms,
/// after a warm-up. The peers' scripts measure by the same rule.
[[nodiscard]] double median_seconds(const std::function<void()>& body);

/// Seconds of one call in the fastest of samples of 1 ms, after a warm-up: for floors, which are
/// what the machine does at its best. Seven samples at least, for as many seconds as `during`.
[[nodiscard]] double least_seconds(const std::function<void()>& body, double during = 0.03);

/// A named set of measurements, run once for each number of threads.
struct Group {
  std::string name, what;
  void (*run)(Results& results, int threads);
};

/// The groups of this program, in the order in which they run.
[[nodiscard]] const std::vector<Group>& groups();

void dispatch(Results& results, int threads);
void pointwise(Results& results, int threads);
void kernels(Results& results, int threads);
void fused(Results& results, int threads);
void training(Results& results, int threads);
void compile_time(Results& results, int threads);
void dynamic(Results& results, int threads);
void concurrent(Results& results, int callers);

/// Prints where the time of the compiled steps goes whose workloads `wanted` wants.
void profile_training(const Results& wanted);

/// What compile_time starts processes for, since a process compiles cold only once: prints what
/// the first steps of the workload of that number took. ValueError when there is none.
void first_steps(int workload, bool compiled);

}  // namespace dyad::bench
