#include "dyad/core/dim.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <thread>

#include "dyad/base/error.h"
#include "tests/shared/message_of.h"

namespace dyad {
namespace {

using dyad::testing::bare_message_of;

const Dim b = "batch", t = "time";

std::string text(Dim dim) { return to_string(dim); }

TEST(Dim, NumbersStayNumbers) {
  EXPECT_EQ((Dim(3) + 4 * Dim(5) - 1).number(), 22);
  EXPECT_EQ((Dim(-7) / 2).number(), -4);
  EXPECT_EQ((Dim(-7) % 2).number(), 1);
  EXPECT_EQ((Dim(7) % -2).number(), -1);
  EXPECT_EQ(max(3, 4).number(), 4);
  EXPECT_EQ(min(3, 4).number(), 3);
  EXPECT_EQ(ceil_div(7, 2).number(), 4);
  EXPECT_EQ(Dim(5).value(), 5);
  EXPECT_EQ(sizeof(Dim), 8u);
}

TEST(Dim, EqualExpressionsAreTheSameWord) {
  EXPECT_TRUE((b + t).same_as(t + b));
  EXPECT_TRUE(((b + 1) * (b - 1)).same_as(b * b - 1));
  EXPECT_TRUE((b - b).same_as(0));
  EXPECT_TRUE((2 * b - b).same_as(b));
  EXPECT_TRUE(Dim::symbol("batch").same_as(b));
  EXPECT_FALSE(b.same_as(t));
  EXPECT_TRUE((b / 2 + 1).same_as((b + 2) / 2));
  EXPECT_TRUE(max(b, t).same_as(max(t, b)));
}

TEST(Dim, DivisionSimplifies) {
  EXPECT_EQ(text(b * 12 / b), "12");
  EXPECT_EQ(text(b * t * 12 / (b * 4)), "3*time");
  EXPECT_EQ(text(2 * b / 4), "floordiv(batch, 2)");
  EXPECT_EQ(text((2 * b + 1) / 4), "floordiv(batch, 2)");
  EXPECT_EQ(text((b - 1) / 2), "floordiv(batch + 1, 2) - 1");
  EXPECT_EQ(text(b / 2 / 3), "floordiv(batch, 6)");
  EXPECT_EQ(text(((b + 1) / 2 + 1) / 2), "floordiv(batch + 3, 4)");
  EXPECT_EQ(text((b * b - 1) / (b + 1)), "batch - 1");
  EXPECT_EQ(text(b / b), "1");
  EXPECT_EQ(text((b * t + b) / b), "time + 1");
  EXPECT_EQ(text((b * t + 3) / b), "time + floordiv(3, batch)");
  EXPECT_EQ(text(3 * b / (2 * b)), "1");
  EXPECT_EQ(text(b / -2), "-batch + floordiv(batch, 2)");
}

TEST(Dim, RemainderSimplifies) {
  EXPECT_EQ(text(4 * b % 2), "0");
  EXPECT_EQ(text((4 * b + 3) % 2), "1");
  EXPECT_EQ(text((2 * b + 1) % 4), "2*mod(batch, 2) + 1");
  EXPECT_EQ(text(b % 4 % 2), "mod(batch, 2)");
  EXPECT_EQ(text(b % 4 % 8), "mod(batch, 4)");
  EXPECT_EQ(text(b * t % b), "0");
  EXPECT_EQ(text(b % 4 / 4), "0");
}

TEST(Dim, ExtremaSimplify) {
  EXPECT_EQ(text(max(b, b + 1)), "batch + 1");
  EXPECT_EQ(text(min(b, b + 1)), "batch");
  EXPECT_EQ(text(max(b, 0)), "batch");
  EXPECT_EQ(text(max(max(b, t), b)), "max(batch, time)");
  EXPECT_EQ(text(max(t, max(7, b))), "max(max(batch, time), 7)");
  EXPECT_EQ(text(max(max(b, 3), 5)), "max(batch, 5)");
  EXPECT_EQ(text(min(b, 8)), "min(batch, 8)");
}

TEST(Dim, ComparisonsThatTheTextDecides) {
  EXPECT_TRUE(b == b);
  EXPECT_FALSE(b == b + 1);
  EXPECT_TRUE(b < b + 1);
  EXPECT_TRUE(b + t >= b);
  EXPECT_TRUE(b > -1);
  EXPECT_FALSE(b == -1);
  EXPECT_FALSE(b + 1 == 0);
  EXPECT_TRUE(b % 4 < 4);
  EXPECT_TRUE(min(b, 8) <= 8);
  EXPECT_TRUE(max(b, 8) >= 8);
  EXPECT_TRUE(b * t >= 0);
  EXPECT_TRUE(b / 2 >= 0);
}

TEST(Dim, TextReadsBack) {
  const std::vector<Dim> dims = {784,
                                 -3,
                                 b,
                                 2 * t + 1,
                                 -b + 3,
                                 t / 2,
                                 b % t,
                                 max(b, t) * min(b, 4) - 7,
                                 b * b * t - 5 * b,
                                 "with space",
                                 "it's \\ odd",
                                 "7up",
                                 ((b + t) / 3 + 1) % (t + 1)};
  for (const Dim dim : dims) EXPECT_TRUE(parse_dim(text(dim)).same_as(dim)) << text(dim);
  EXPECT_EQ(text(parse_dim(" 2 * ( time+ 1 ) - -batch")), "batch + 2*time + 2");
  EXPECT_EQ(text("it's"), "'it\\'s'");
}

TEST(Dim, TextDoesNotDependOnTheOrderOfCreation) {
  const Dim late = "zz_first", early = "aa_second";
  EXPECT_EQ(text(late + early * 2 + late * early), "aa_second*zz_first + 2*aa_second + zz_first");
}

TEST(Dim, ParseErrorsNameThePosition) {
  const auto message = [](std::string_view source) {
    return bare_message_of<GraphError>([&] { (void)parse_dim(source); });
  };
  EXPECT_EQ(message("2*"), "the size '2*' cannot be read: expected a size at character 3");
  EXPECT_EQ(message("a b"),
            "the size 'a b' cannot be read: expected an operator or the end at character 3");
  EXPECT_EQ(message("pow(a, 2)"),
            "the size 'pow(a, 2)' cannot be read: expected floordiv, mod, max or min before a "
            "bracket at character 1");
  EXPECT_EQ(message("max(a"), "the size 'max(a' cannot be read: expected ',' at character 6");
  EXPECT_EQ(message("'a"), "the size ''a' cannot be read: expected a closing quote at character 3");
  EXPECT_NE(message(std::string(100000, '(')).find("nested brackets"), std::string::npos);
  EXPECT_THROW((void)parse_dim("99999999999999999999"), ShapeError);
}

TEST(Dim, Errors) {
  EXPECT_EQ(bare_message_of<ShapeError>([] { (void)(b / 0); }),
            "floordiv(batch, 0): a size is divided by 0");
  EXPECT_EQ(bare_message_of<ShapeError>([] { (void)(Dim(4) % Dim(0)); }),
            "mod(4, 0): a size is divided by 0");
  EXPECT_THROW((void)Dim(std::int64_t{1} << 62), ShapeError);
  EXPECT_THROW((void)(Dim(std::int64_t{1} << 40) * Dim(std::int64_t{1} << 40)), ShapeError);
  EXPECT_THROW((void)(Dim((std::int64_t{1} << 62) - 1) + 1), ShapeError);
  EXPECT_THROW((void)(b * (std::int64_t{1} << 40) * (std::int64_t{1} << 40)), ShapeError);
  EXPECT_EQ(bare_message_of<ValueError>([] { (void)Dim(""); }),
            "the name of a symbolic size is empty");
}

TEST(SymbolMap, BindsAndEvaluates) {
  SymbolMap map;
  map.bind(b, 3);
  EXPECT_EQ(evaluate(2 * b + 1, map), 7);
  EXPECT_EQ(bare_message_of<GraphError>([&] { (void)evaluate(b + t, map); }),
            "the size time has no value here; it is bound by a feed whose shape has it");
  map.bind(t, 4);
  map.bind(b, 5);
  EXPECT_EQ(evaluate(max(b * t, 7) / 3, map), 6);
  EXPECT_EQ(map.entries().size(), 2u);
  SymbolMap other;
  other.bind(b, 5);
  EXPECT_FALSE(map == other);
  other.bind(t, 4);
  EXPECT_TRUE(map == other);
  EXPECT_EQ(bare_message_of<ShapeError>([&] { map.bind(b, -1); }),
            "the size batch = -1: a size is at least 0");
  EXPECT_EQ(bare_message_of<ValueError>([&] { map.bind(b + 1, 1); }),
            "only a symbol can be bound to a value, not batch + 1");
  map.bind(b, std::int64_t{1} << 40);
  EXPECT_THROW((void)evaluate(b * b, map), ShapeError);
  map.bind(b, 0);
  EXPECT_THROW((void)evaluate(t / b, map), ShapeError);
}

TEST(Dim, SubstituteAndCollect) {
  const Dim dim = max(b, 2 * t) + t;
  std::vector<Dim> symbols;
  collect_symbols(dim, symbols);
  ASSERT_EQ(symbols.size(), 2u);
  const Dim swapped = substitute(dim, [](Dim s) { return s.same_as(b) ? t : b; });
  EXPECT_TRUE(swapped.same_as(max(t, 2 * b) + b));
  EXPECT_TRUE(substitute(dim, [](Dim s) { return s; }).same_as(dim));
}

TEST(Dim, AsLinear) {
  std::int64_t coefficient = 0, constant = 0;
  Dim symbol;
  ASSERT_TRUE(as_linear(3 * t - 2, coefficient, symbol, constant));
  EXPECT_EQ(coefficient, 3);
  EXPECT_TRUE(symbol.same_as(t));
  EXPECT_EQ(constant, -2);
  EXPECT_FALSE(as_linear(4, coefficient, symbol, constant));
  EXPECT_FALSE(as_linear(b * t, coefficient, symbol, constant));
  EXPECT_FALSE(as_linear(b + t, coefficient, symbol, constant));
  EXPECT_FALSE(as_linear(b / 2, coefficient, symbol, constant));
}

// A random expression is built twice: as a Dim over symbols, and as plain numbers.
struct Pair {
  Dim dim;
  std::int64_t number;
};

std::int64_t floor_div(std::int64_t x, std::int64_t y) {
  return x / y - (x % y != 0 && (x < 0) != (y < 0));
}

Pair random_pair(std::mt19937& random, const std::vector<Pair>& leaves, int depth) {
  if (depth == 0 || random() % 6 == 0) {
    if (random() % 3 == 0) {
      const auto number = static_cast<int>(random() % 9) - 3;
      return {number, number};
    }
    return leaves[random() % leaves.size()];
  }
  const Pair x = random_pair(random, leaves, depth - 1), y = random_pair(random, leaves, depth - 1);
  switch (random() % 7) {
    case 0:
      return {x.dim + y.dim, x.number + y.number};
    case 1:
      return {x.dim - y.dim, x.number - y.number};
    case 2:
      return {x.dim * y.dim, x.number * y.number};
    case 3:
      if (y.number == 0 || y.dim.same_as(0)) return x;
      return {x.dim / y.dim, floor_div(x.number, y.number)};
    case 4:
      if (y.number == 0 || y.dim.same_as(0)) return x;
      return {x.dim % y.dim, x.number - y.number * floor_div(x.number, y.number)};
    case 5:
      return {max(x.dim, y.dim), std::max(x.number, y.number)};
    default:
      return {min(x.dim, y.dim), std::min(x.number, y.number)};
  }
}

TEST(Dim, AlgebraAgreesWithArithmetic) {
  std::mt19937 random(7);
  const std::vector<Dim> symbols = {"p", "q", "r"};
  int compared = 0;
  for (int round = 0; round < 20000; ++round) {
    SymbolMap map;
    std::vector<Pair> leaves;
    for (const Dim symbol : symbols) {
      const auto value = static_cast<std::int64_t>(random() % 12);
      map.bind(symbol, value);
      leaves.push_back({symbol, value});
    }
    const Pair made = random_pair(random, leaves, 1 + static_cast<int>(random() % 4));
    const std::string shown = text(made.dim);
    EXPECT_TRUE(parse_dim(shown).same_as(made.dim)) << shown;
    try {
      ASSERT_EQ(evaluate(made.dim, map), made.number) << shown;
      ++compared;
    } catch (const ShapeError&) {
      // A divisor that was not 0 in the numbers may be 0 inside a shared subexpression.
    }
    const Pair other = random_pair(random, leaves, 2);
    try {
      EXPECT_EQ(made.dim < other.dim, made.number < other.number)
          << shown << " < " << text(other.dim);
      EXPECT_EQ(made.dim == other.dim, made.number == other.number);
    } catch (const Error&) {
      // Undecidable: no evaluator answers here.
    }
  }
  EXPECT_GT(compared, 15000);
}

TEST(Dim, ExpressionsAreSharedByThreads) {
  constexpr int kThreads = 4;
  std::vector<std::vector<std::int64_t>> words(kThreads);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&words, i] {
      for (int k = 1; k < 300; ++k) {
        const Dim s = "thread_" + std::to_string(k);
        words[static_cast<std::size_t>(i)].push_back((s * k + s / 7 + max(s, k)).word());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int i = 1; i < kThreads; ++i) EXPECT_EQ(words[static_cast<std::size_t>(i)], words[0]);
}

}  // namespace
}  // namespace dyad
