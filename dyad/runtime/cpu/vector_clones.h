#pragma once

// Compiles a function once for each of three instruction sets, chosen by the CPU at load time. The
// results do not depend on the choice: nothing is contracted to fused operations. Checkers want one
// plain version.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(DYAD_PLAIN_LOOPS)
#define DYAD_VECTOR_CLONES \
  [[gnu::target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4"), gnu::optimize("O3")]]
#else
#define DYAD_VECTOR_CLONES
#endif

// NOLINTBEGIN(bugprone-macro-parentheses): arguments are parts of declarations.
// Defines `result function parameters` as `loop<kBytes> arguments`, once for each of those
// instruction sets: kBytes is the size of its vectors, because GCC takes vectors that are wider
// than the CPU's apart into single elements. `loop` is always inline.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(DYAD_PLAIN_LOOPS)
#define DYAD_VECTOR_VERSIONS(result, function, parameters, loop, arguments)                     \
  namespace {                                                                                   \
  [[gnu::target("default"), gnu::optimize("O3")]] result function##_version parameters {        \
    return loop<16> arguments;                                                                  \
  }                                                                                             \
  [[gnu::target("arch=x86-64-v3"), gnu::optimize("O3")]] result function##_version parameters { \
    return loop<32> arguments;                                                                  \
  }                                                                                             \
  [[gnu::target("arch=x86-64-v4"), gnu::optimize("O3")]] result function##_version parameters { \
    return loop<64> arguments;                                                                  \
  }                                                                                             \
  }                                                                                             \
  result function parameters { return function##_version arguments; }
#else
#define DYAD_VECTOR_VERSIONS(result, function, parameters, loop, arguments) \
  result function parameters { return loop<16> arguments; }
#endif

// NOLINTEND(bugprone-macro-parentheses)

// Loops that are worth GCC's vectoriser where the rest is not.
#if defined(__GNUC__) && !defined(__clang__)
#define DYAD_VECTOR_LOOP [[gnu::optimize("O3")]]
#else
#define DYAD_VECTOR_LOOP
#endif
