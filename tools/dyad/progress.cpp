#include "tools/dyad/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <utility>

namespace dyad::tool {
namespace {

constexpr int kBarWidth = 28;
constexpr auto kRedraw = std::chrono::milliseconds(80);

std::string bar(double part) {
  std::string text;
  const int full = static_cast<int>(part * kBarWidth + 0.5);
  for (int i = 0; i < kBarWidth; ++i) text += i < full ? "█" : "░";
  return text;
}

bool is_terminal(int descriptor) {
  const char* term = std::getenv("TERM");
  return isatty(descriptor) != 0 && term && std::string_view(term) != "dumb";
}

}  // namespace

bool is_terminal() { return is_terminal(STDOUT_FILENO); }

StageLine::StageLine() : terminal_(is_terminal(STDERR_FILENO)) {}

void StageLine::show(std::string_view stage, double part) {
  const auto now = std::chrono::steady_clock::now();
  if (!terminal_ || (stage == stage_ && now - drawn_ < kRedraw)) return;
  stage_ = stage;
  drawn_ = now;
  shown_ = true;
  fmt::print(stderr, "\r{} {}\033[K", stage_, part > 0 ? bar(part) : "...");
  std::fflush(stderr);
}

void StageLine::clear() {
  if (std::exchange(shown_, false)) fmt::print(stderr, "\r\033[K");
}

Progress::Progress(std::string label, std::int64_t steps)
    : label_(std::move(label)), steps_(steps), terminal_(is_terminal()) {}

std::string Progress::line() const {
  const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
  std::string text = fmt::format("loss {:7.4f}", loss_);
  if (accuracy_ >= 0) text += fmt::format("  accuracy {:5.2f}%", 100 * accuracy_);
  return text + fmt::format("  {:7.0f} samples/s",
                            seconds > 0 ? static_cast<double>(samples_) / seconds : 0.0);
}

void Progress::draw(bool now) {
  if (!terminal_ || (!now && Clock::now() - drawn_ < kRedraw)) return;
  drawn_ = Clock::now();
  const double part = steps_ ? static_cast<double>(done_) / static_cast<double>(steps_) : 1.0;
  fmt::print("\r{:<9} {} {:3.0f}%  {}\033[K", label_, bar(part), 100 * part, line());
  std::fflush(stdout);
}

void Progress::step(double loss, std::int64_t samples) {
  ++done_;
  samples_ += samples;
  loss_ = loss;
  draw(false);
}

void Progress::epoch(int number, int epochs, double accuracy) {
  accuracy_ = accuracy;
  if (terminal_) {
    draw(true);
  } else {
    fmt::print("{:<9} epoch {:2}/{}  {}\n", label_, number, epochs, line());
    std::fflush(stdout);
  }
}

void Progress::finish() {
  draw(true);
  if (terminal_) fmt::print("\n");
}

}  // namespace dyad::tool
