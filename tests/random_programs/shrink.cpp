#include "shrink.h"

#include <algorithm>
#include <utility>

#include "instructions.h"

namespace dyad::testing {
namespace {

/// Calls `visit` with every body, the outermost first.
void for_each_body(Body& body, const std::function<void(Body&)>& visit) {
  visit(body);
  for (Statement& statement : body.statements) {
    for (Body& inner : statement.bodies) for_each_body(inner, visit);
  }
}

void for_each_statement(Body& body, const std::function<void(Statement&)>& visit) {
  for_each_body(body, [&](Body& one) {
    for (Statement& statement : one.statements) visit(statement);
  });
}

/// Puts value `to` in the place of `from` wherever it is used.
void replace_value(Program& program, int from, int to) {
  const auto put = [&](int& value) {
    if (value == from) value = to;
  };
  for_each_body(program.body, [&](Body& body) {
    for (int& result : body.results) put(result);
    for (Statement& statement : body.statements) {
      for (int& in : statement.in) put(in);
      for (Number& number : statement.numbers) put(number.of);
    }
  });
}

/// The `at`th body of the program, counted as for_each_body does; null when there are no more.
Body* body_number(Program& program, std::size_t at) {
  Body* found = nullptr;
  std::size_t count = 0;
  for_each_body(program.body, [&](Body& body) {
    if (count++ == at) found = &body;
  });
  return found;
}

class Shrinker {
 public:
  Shrinker(Program program, const std::function<bool(const Program&)>& fails, int tries)
      : best_(std::move(program)), fails_(fails), left_(tries) {}

  Program run() {
    while (left_ > 0) {
      changed_ = false;
      drop_calls();
      drop_results();
      drop_statements();
      simplify_gradients();
      simplify_inputs();
      simplify_sizes();
      simplify_statements();
      if (!changed_) break;
    }
    drop_unused_inputs();
    return std::move(best_);
  }

 private:
  /// Keeps what `change` makes of the program when that still fails.
  bool attempt(const std::function<void(Program&)>& change) {
    if (left_ <= 0) return false;
    Program tried = best_;
    change(tried);
    --left_;
    if (!fails_(tried)) return false;
    best_ = std::move(tried);
    changed_ = true;
    return true;
  }

  void drop_calls() {
    for (std::size_t i = best_.calls.size(); i-- > 0 && best_.calls.size() > 1;) {
      attempt([i](Program& p) { p.calls.erase(p.calls.begin() + static_cast<std::ptrdiff_t>(i)); });
    }
  }

  void drop_results() {
    for (std::size_t i = best_.body.results.size(); i-- > 0 && best_.body.results.size() > 1;) {
      attempt([i](Program& p) {
        p.body.results.erase(p.body.results.begin() + static_cast<std::ptrdiff_t>(i));
      });
    }
    // The result of an earlier statement may show as much.
    if (best_.body.results.size() == 1) {
      for (std::size_t i = 0; i < best_.body.statements.size(); ++i) {
        const Statement& statement = best_.body.statements[i];
        if (statement.out.empty() || statement.out[0] == best_.body.results[0]) continue;
        if (attempt([i](Program& p) {
              p.body.results = {p.body.statements[i].out[0]};
              p.body.statements.resize(i + 1);
            }))
          return;
      }
    }
  }

  /// Whole runs of statements of the outermost body first, then single ones of every body.
  void drop_statements() {
    for (std::size_t length = best_.body.statements.size() / 2; length > 1; length /= 2) {
      for (std::size_t end = best_.body.statements.size(); end >= length; end -= length) {
        attempt([&](Program& p) {
          for (std::size_t i = end; i-- > end - length;) remove(p, p.body, i);
        });
        if (end > best_.body.statements.size()) end = best_.body.statements.size() + length;
      }
    }
    for (std::size_t number = 0;; ++number) {
      const Body* body = body_number(best_, number);
      if (!body) break;
      for (std::size_t i = body->statements.size(); i-- > 0;) {
        drop_statement(number, i);
        body = body_number(best_, number);
        if (!body) return;
        i = std::min(i, body->statements.size());
      }
    }
  }

  /// Takes a statement out; its results become what went into it.
  static void remove(Program& p, Body& body, std::size_t i, std::size_t input = 0) {
    const Statement gone = body.statements[i];
    body.statements.erase(body.statements.begin() + static_cast<std::ptrdiff_t>(i));
    const int stands_in = input < gone.in.size() ? gone.in[input] : 0;
    for (const int out : gone.out) replace_value(p, out, stands_in);
  }

  void drop_statement(std::size_t number, std::size_t i) {
    const Statement gone = body_number(best_, number)->statements[i];
    const std::size_t inputs = gone.out.empty() ? 1 : std::max<std::size_t>(1, gone.in.size());
    for (std::size_t input = 0; input < inputs; ++input) {
      if (attempt([&](Program& p) { remove(p, *body_number(p, number), i, input); })) return;
    }
    // An input of the program instead.
    for (std::size_t input = 0; input < best_.inputs.size() && !gone.out.empty(); ++input) {
      if (attempt([&](Program& p) {
            Body& body = *body_number(p, number);
            body.statements.erase(body.statements.begin() + static_cast<std::ptrdiff_t>(i));
            for (const int out : gone.out) replace_value(p, out, static_cast<int>(input));
          }))
        return;
    }
    // What a branch or a loop does, by itself.
    for (std::size_t inner = 0; inner < gone.bodies.size(); ++inner) {
      if (attempt([&](Program& p) { inline_body(p, *body_number(p, number), i, inner); })) return;
    }
  }

  static void inline_body(Program& p, Body& body, std::size_t i, std::size_t inner) {
    const Statement gone = body.statements[i];
    const Body& taken = gone.bodies[inner];
    const auto at = body.statements.erase(body.statements.begin() + static_cast<std::ptrdiff_t>(i));
    body.statements.insert(at, taken.statements.begin(), taken.statements.end());
    const std::size_t extra = gone.in.size() - std::min(gone.in.size(), taken.parameters.size());
    for (std::size_t k = 0; k < taken.parameters.size(); ++k)
      replace_value(p, taken.parameters[k], gone.in[std::min(k + extra, gone.in.size() - 1)]);
    for (std::size_t k = 0; k < gone.out.size(); ++k)
      replace_value(p, gone.out[k], taken.results[std::min(k, taken.results.size() - 1)]);
  }

  void simplify_gradients() {
    if (best_.after != After::nothing) attempt([](Program& p) { p.after = After::nothing; });
    if (best_.gradients == Gradients::twice)
      attempt([](Program& p) { p.gradients = Gradients::outside; });
    if (best_.gradients == Gradients::none) return;
    if (attempt([](Program& p) {
          p.gradients = Gradients::none;
          for (Input& input : p.inputs) input.requires_grad = false;
        }))
      return;
    if (best_.gradients == Gradients::step)
      attempt([](Program& p) { p.gradients = Gradients::inside; });
    for (std::size_t i = 0; i < best_.inputs.size(); ++i) {
      if (best_.inputs[i].requires_grad)
        attempt([i](Program& p) { p.inputs[i].requires_grad = false; });
    }
  }

  void simplify_inputs() {
    for (std::size_t i = 0; i < best_.inputs.size(); ++i) {
      const Input input = best_.inputs[i];
      const auto with = [&](auto change) {
        return attempt([&](Program& p) { change(p.inputs[i]); });
      };
      if (input.order != Order::row_major) with([](Input& of) { of.order = Order::row_major; });
      if (input.content == Content::special &&
          !with([](Input& of) { of.content = Content::ordinary; }))
        continue;
      if (input.content == Content::ordinary) with([](Input& of) { of.content = Content::whole; });
      if (input.kept) with([](Input& of) { of.kept = false; });
      if (input.computed) with([](Input& of) { of.computed = false; });
      if (input.view_of >= 0) with([](Input& of) { of.view_of = -1; });
      if (input.captured) with([](Input& of) { of.captured = false; });
      if (input.dtype != DType::f32) with([](Input& of) { of.dtype = DType::f32; });
      for (std::size_t axis = 0; axis < input.shape.size(); ++axis) {
        const int size = input.shape[axis];
        if (size >= 0 && size <= 1) continue;
        for (const int smaller : {1, 2, 3}) {
          if (size >= 0 && smaller >= size) break;
          if (with([&](Input& of) { of.shape[axis] = smaller; })) break;
        }
      }
      for (std::size_t axis = input.shape.size(); axis-- > 0;) {
        with([&](Input& of) {
          of.shape.erase(of.shape.begin() + static_cast<std::ptrdiff_t>(axis));
        });
        if (best_.inputs[i].shape.size() != input.shape.size()) break;
      }
    }
  }

  void simplify_sizes() {
    for (std::size_t k = 0; k < best_.calls.size(); ++k) {
      for (std::size_t d = 0; d < best_.calls[k].sizes.size(); ++d) {
        for (const std::int64_t smaller : {1, 2, 3}) {
          if (smaller >= best_.calls[k].sizes[d]) break;
          // In all calls of that size, or in this one alone.
          const std::int64_t size = best_.calls[k].sizes[d];
          if (attempt([&](Program& p) {
                for (Call& call : p.calls) {
                  if (call.sizes[d] == size) call.sizes[d] = smaller;
                }
              }))
            break;
          if (attempt([&](Program& p) { p.calls[k].sizes[d] = smaller; })) break;
        }
      }
    }
  }

  void simplify_statements() {
    std::size_t count = 0;
    for_each_statement(best_.body, [&](Statement&) { ++count; });
    const auto with = [&](std::size_t at, const std::function<void(Statement&)>& change) {
      return attempt([&](Program& p) {
        std::size_t number = 0;
        for_each_statement(p.body, [&](Statement& one) {
          if (number++ == at) change(one);
        });
      });
    };
    for (std::size_t at = 0; at < count; ++at) {
      Statement statement;
      std::size_t number = 0;
      for_each_statement(best_.body, [&](Statement& one) {
        if (number++ == at) statement = one;
      });
      for (std::size_t i = 0; i < statement.numbers.size(); ++i) {
        const Number was = statement.numbers[i];
        for (const std::int64_t plain : {0, 1, 2}) {
          if (was.of < 0 && (was.n == plain || was.n == 0 || was.n == 1)) break;
          if (with(at, [&](Statement& one) { one.numbers[i] = {plain, -1}; })) break;
        }
      }
      for (std::size_t i = 0; i < statement.reals.size(); ++i) {
        if (statement.reals[i] != 1 && statement.reals[i] != 2)
          with(at, [&](Statement& one) { one.reals[i] = 2; });
      }
      if (statement.dtype != DType::f32) with(at, [](Statement& one) { one.dtype = DType::f32; });
    }
  }

  /// Inputs that nothing reads: their places stay, so that values keep their numbers, but nothing
  /// of them does.
  void drop_unused_inputs() {
    for (std::size_t i = 0; i < best_.inputs.size(); ++i) {
      attempt([i](Program& p) {
        const bool captured = p.inputs[i].captured;
        p.inputs[i] = Input();
        p.inputs[i].captured = captured;
      });
    }
  }

  Program best_;
  const std::function<bool(const Program&)>& fails_;
  int left_;
  bool changed_ = false;
};

}  // namespace

Program shrink(Program program, const std::function<bool(const Program&)>& fails, int tries) {
  return Shrinker(std::move(program), fails, tries).run();
}

}  // namespace dyad::testing
