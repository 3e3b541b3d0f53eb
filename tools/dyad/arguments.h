#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace CLI {  // NOLINT(readability-identifier-naming): it is the library's
class App;
}

namespace dyad::tool {

/// A subcommand, and what it does once its arguments are read. Gives the exit status.
struct Command {
  CLI::App* app;
  std::function<int()> run;
};

using AddCommand = Command (*)(CLI::App& program);

/// Reads the arguments and runs the subcommand that they name. Gives the exit status; throws what
/// the subcommand throws.
int run_program(int argc, const char* const* argv, const std::string& description,
                const std::string& footer, std::span<const AddCommand> commands);

CLI::App& add_command(CLI::App& program, const std::string& name, const std::string& description);

/// `without` are options that cannot be given together with it.
void add_flag(CLI::App& command, const std::string& name, bool& value, const std::string& help,
              const std::vector<std::string>& without = {});

struct OptionText {
  std::string name;  ///< `--name`, or `name` for what stands alone
  std::string help;
  std::string value = {};      ///< what the help calls the value, as FILE; empty: its type
  bool required = false;       ///< it must be given
  bool positive = false;       ///< other numbers are refused
  bool from_zero = false;      ///< negative numbers are refused
  bool shows_default = false;  ///< the help tells what the value is now
  bool by_commas = false;      ///< several values as one word, with commas between
  std::string without = {};    ///< an option that cannot be given together with it
};
/// Where a value goes.
using OptionValue =
    std::variant<std::string*, std::vector<std::string>*, int*, std::int64_t*, std::uint64_t*,
                 double*, std::optional<int>*, std::optional<std::uint64_t>*>;
void add_option(CLI::App& command, const OptionText& text, OptionValue value);

/// What several subcommands take.

void add_model(CLI::App& command, std::string& path);
/// `--dim NAME=N`, any number of times; `with` is an option that it needs.
void add_sizes(CLI::App& command, std::map<std::string, std::int64_t>& sizes,
               const std::string& help =
                   "The size that the model calls NAME is N; sizes that nothing tells are 1",
               const std::string& with = {});
/// `--input NAME=FILE`, any number of times.
void add_inputs(CLI::App& command, std::vector<std::pair<std::string, std::string>>& files);
void add_threads(CLI::App& command, std::optional<int>& threads);
/// `--exact`, which switches fast_math off.
void add_exact(CLI::App& command, bool& exact);
/// After the arguments were read.
void use_threads(const std::optional<int>& threads);

/// Uses a model on inputs that are drawn; when their sizes may be why that fails, says on standard
/// error which of them nobody told.
int with_drawn_inputs(const std::string& model, const std::map<std::string, std::int64_t>& sizes,
                      const std::function<int()>& use);

/// Examples and other text below the options, with the line on exit status that all have.
void add_footer(CLI::App& command, const std::string& text);

}  // namespace dyad::tool
