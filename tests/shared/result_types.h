#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "dyad/core/dtype.h"

namespace dyad::testing {

/// What PyTorch makes of operands of two dtypes: a line of tests/core/data/result_types.txt.
struct TypedResult {
  std::string op;           ///< result_type, add...
  std::string left, right;  ///< tensor (of an axis), scalar (a tensor without) or number
  DType a, b, result;

  [[nodiscard]] std::string text() const {
    const auto of = [](const std::string& kind, DType t) {
      const std::string name(name_of(t));
      return kind == "tensor" ? name + "[2]" : kind == "scalar" ? name + "[]" : name;
    };
    return op + "(" + of(left, a) + ", " + of(right, b) + ")";
  }
};

/// All that PyTorch does not refuse.
inline std::vector<TypedResult> results_of_torch() {
  std::ifstream in("tests/core/data/result_types.txt");
  EXPECT_TRUE(in) << "tests run in the source folder";
  const auto words = [&in] {
    std::string line;
    std::getline(in, line);
    std::istringstream text(line);
    std::vector<std::string> made;
    for (std::string word; text >> word;) made.push_back(word);
    return made;
  };
  std::vector<DType> dtypes;
  for (const std::string& name : words()) dtypes.push_back(parse_dtype(name));
  std::vector<TypedResult> results;
  for (std::vector<std::string> head = words(); head.size() == 3; head = words()) {
    for (const DType a : dtypes) {
      const std::vector<std::string> row = words();
      for (std::size_t i = 0; i < row.size(); ++i) {
        if (row[i] == "-") continue;
        results.push_back({head[0], head[1], head[2], a, dtypes[i], parse_dtype(row[i])});
      }
    }
  }
  return results;
}

}  // namespace dyad::testing
