#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace dyad::tool {

/// A subcommand, and what it does once its arguments are read. Gives the exit status.
struct Command {
  CLI::App* app;
  std::function<int()> run;
};

/// What several subcommands take.

void add_model(CLI::App& command, std::string& path);
/// `--dim NAME=N`, any number of times.
void add_sizes(CLI::App& command, std::map<std::string, std::int64_t>& sizes);
/// `--input NAME=FILE`, any number of times.
void add_inputs(CLI::App& command, std::vector<std::pair<std::string, std::string>>& files);
void add_threads(CLI::App& command, std::optional<int>& threads);
/// After the arguments were read.
void use_threads(const std::optional<int>& threads);

/// Uses a model on inputs that are drawn; when their sizes may be why that fails, says on standard
/// error which of them nobody told.
int with_drawn_inputs(const std::string& model, const std::map<std::string, std::int64_t>& sizes,
                      const std::function<int()>& use);

/// Examples and other text below the options, with the line on exit status that all have.
void add_footer(CLI::App& command, const std::string& text);

}  // namespace dyad::tool
