#include "tools/dyad/arguments.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>

#include "dyad/base/error.h"
#include "dyad/onnx/description.h"
#include "dyad/onnx/inputs.h"
#include "dyad/onnx/unsupported.h"
#include "dyad/runtime/threads.h"

namespace dyad::tool {
namespace {

/// Both sides of the first `=`.
std::pair<std::string, std::string> split(const std::string& option, const std::string& text,
                                          const std::string& form) {
  const std::size_t at = text.find('=');
  if (at == std::string::npos || at == 0 || at + 1 == text.size()) {
    throw CLI::ValidationError(option, fmt::format("'{}' is not {}", text, form));
  }
  return {text.substr(0, at), text.substr(at + 1)};
}

/// One value after each mention, so that what follows may be something else.
void take_each(CLI::App& command, const std::string& option, const std::string& form,
               const std::string& help, const std::function<void(const std::string&)>& take) {
  command
      .add_option_function<std::vector<std::string>>(
          option,
          [take](const std::vector<std::string>& all) {
            for (const std::string& each : all) take(each);
          },
          help)
      ->type_name(form)
      ->allow_extra_args(false);
}

/// Refuses what is no number, or none like that.
CLI::Validator number_that(bool (*fits)(double), const std::string& which) {
  return {[=](const std::string& text) {
            double number = 0;
            const char* end = text.data() + text.size();
            const auto read = std::from_chars(text.data(), end, number);
            const bool is_one = read.ec == std::errc() && read.ptr == end && fits(number);
            return is_one ? "" : fmt::format("'{}' is no number {}", text, which);
          },
          ""};
}

}  // namespace

int run_program(int argc, const char* const* argv, const std::string& description,
                const std::string& footer, std::span<const AddCommand> commands) {
  CLI::App program(description, "dyad");
  program.require_subcommand(1);
  add_footer(program, footer);
  std::vector<Command> added;
  for (const AddCommand add : commands) added.push_back(add(program));
  try {
    program.parse(argc, argv);
  } catch (const CLI::RequiredError& error) {
    // What is not known says more than what is missing because of it.
    const std::vector<std::string> unknown = program.remaining(/*recurse=*/true);
    unknown.empty() ? program.exit(error) : program.exit(CLI::ExtrasError(unknown));
    return 2;
  } catch (const CLI::ParseError& error) {
    return program.exit(error) == 0 ? 0 : 2;
  }
  for (const Command& command : added) {
    if (command.app->parsed()) return command.run();
  }
  return 2;
}

CLI::App& add_command(CLI::App& program, const std::string& name, const std::string& description) {
  return *program.add_subcommand(name, description);
}

void add_flag(CLI::App& command, const std::string& name, bool& value, const std::string& help,
              const std::vector<std::string>& without) {
  CLI::Option* const option = command.add_flag(name, value, help);
  for (const std::string& other : without) option->excludes(command.get_option(other));
}

void add_option(CLI::App& command, const OptionText& text, OptionValue value) {
  CLI::Option* const option = std::visit(
      [&](auto* target) { return command.add_option(text.name, *target, text.help); }, value);
  if (!text.value.empty()) option->type_name(text.value);
  if (text.required) option->required();
  if (text.positive) option->check(number_that([](double x) { return x > 0; }, "above 0"));
  if (text.from_zero) option->check(number_that([](double x) { return x >= 0; }, "from 0 on"));
  if (text.shows_default) option->capture_default_str();
  if (text.by_commas) option->delimiter(',')->allow_extra_args(false);
  if (!text.without.empty()) option->excludes(command.get_option(text.without));
}

void add_model(CLI::App& command, std::string& path) {
  add_option(command,
             {.name = "model",
              .help = "An ONNX model, or a program that io::save wrote: model.onnx, step.dyad",
              .value = "MODEL",
              .required = true},
             &path);
}

void add_sizes(CLI::App& command, std::map<std::string, std::int64_t>& sizes,
               const std::string& help, const std::string& with) {
  take_each(command, "--dim", "NAME=N", help, [&sizes](const std::string& text) {
    const auto [name, digits] = split("--dim", text, "NAME=N, such as batch=8");
    std::int64_t number = 0;
    const char* end = digits.data() + digits.size();
    const auto read = std::from_chars(digits.data(), end, number);
    if (read.ec != std::errc() || read.ptr != end || number < 0) {
      throw CLI::ValidationError(
          "--dim", fmt::format("'{}' is no size; NAME=N needs a number from 0 on", digits));
    }
    sizes[name] = number;
  });
  if (!with.empty()) command.get_option("--dim")->needs(command.get_option(with));
}

void add_inputs(CLI::App& command, std::vector<std::pair<std::string, std::string>>& files) {
  take_each(command, "--input", "NAME=FILE",
            "What goes into the input NAME: NumPy's .npy, or a message of ONNX (.pb)",
            [&files](const std::string& text) {
              files.push_back(split("--input", text, "NAME=FILE, such as x=image.npy"));
            });
}

void add_threads(CLI::App& command, std::optional<int>& threads) {
  add_option(command,
             {.name = "--threads",
              .help = "Threads to compute with (default: all cores)",
              .value = "N",
              .positive = true},
             &threads);
}

void add_exact(CLI::App& command, bool& exact) {
  add_flag(command, "--exact", exact,
           "Give the bits of the model's operators one by one (ONNX models otherwise run with "
           "fast_math; programs as they were saved)");
}

void use_threads(const std::optional<int>& threads) {
  if (threads) set_num_threads(*threads);
}

int with_drawn_inputs(const std::string& model, const std::map<std::string, std::int64_t>& sizes,
                      const std::function<int()>& use) {
  const auto explain = [&](const Error& error) {
    std::string untold;
    for (const std::string& name : onnx::size_names(onnx::describe(model, Loc()).inputs)) {
      if (!sizes.contains(name)) untold += (untold.empty() ? "" : ", ") + name;
    }
    if (untold.empty()) return false;
    fmt::print(stderr, "dyad: {}\n  sizes that --dim does not tell are 1: {}\n", error.message(),
               untold);
    return true;
  };
  try {
    return use();
  } catch (const ShapeError& error) {
    if (!explain(error)) throw;
  } catch (const onnx::UnsupportedError&) {
    throw;
  } catch (const OnnxError& error) {
    if (!explain(error)) throw;
  }
  return 1;
}

void add_footer(CLI::App& command, const std::string& text) {
  command.footer(text +
                 "\n\nExit status: 0 on success, 1 when something failed, 2 for wrong arguments.");
}

}  // namespace dyad::tool
