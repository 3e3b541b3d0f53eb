# What a builder may choose, and the flags that every Dyad target gets through dyad_flags.

option(DYAD_TESTS "Build the tests" ${PROJECT_IS_TOP_LEVEL})
option(DYAD_PROGRAMS "Build the dyad program, the examples and the benchmarks" ${PROJECT_IS_TOP_LEVEL})
option(DYAD_PRECOMPILE "Compile the headers of the standard library once for all layers" ${PROJECT_IS_TOP_LEVEL})
set(DYAD_UNITY 6 CACHE STRING "How many sources of a target are compiled at a time; 0: each alone, as clang-tidy and editors want it")
set(DYAD_SANITIZE "" CACHE STRING "Sanitizer: empty, address (with undefined), thread or fuzzer (clang: address too)")
set_property(CACHE DYAD_SANITIZE PROPERTY STRINGS "" address thread fuzzer)

# Settings of the whole build are Dyad's only when nobody includes Dyad as a subdirectory.
if(PROJECT_IS_TOP_LEVEL)
  if(NOT CMAKE_BUILD_TYPE)
    set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "Debug, RelWithDebInfo or Release" FORCE)
  endif()
  # Line numbers and backtraces, but no local variables: those cost a third of the compile time. For a
  # debugger's session there is CMAKE_BUILD_TYPE=Debug.
  set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g1 -DNDEBUG")
  set(CMAKE_EXPORT_COMPILE_COMMANDS ON)  # for clang-tidy and editors

  # One cache serves every checkout: paths are hashed relative to the checkout, and debug
  # information holds relative paths, so an object made in one tree fits in another.
  find_program(DYAD_CCACHE ccache)
  if(DYAD_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
    # CCACHE_DEPEND: what a source includes is known from its compilation, not from preprocessing it first,
    # which would make a build with an empty cache a fifth longer. CCACHE_SLOPPINESS: what ccache asks for to
    # look at precompiled headers at all; those here define nothing and tell no time.
    set(CMAKE_CXX_COMPILER_LAUNCHER env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1 CCACHE_DEPEND=1
        CCACHE_SLOPPINESS=pch_defines,time_macros ${DYAD_CCACHE})
    set(DYAD_RELATIVE_PATHS -fdebug-prefix-map=${PROJECT_SOURCE_DIR}=.)
  endif()
  find_program(DYAD_MOLD mold)
  if(DYAD_MOLD)
    add_link_options(-fuse-ld=mold)  # links a test program in a tenth of the time GNU ld takes
  endif()
  # The linker drops what no program reaches: a small executable out of large static libraries.
  add_link_options(-Wl,--gc-sections)
endif()

add_library(dyad_flags INTERFACE)
target_compile_features(dyad_flags INTERFACE cxx_std_20)
target_compile_options(dyad_flags INTERFACE
  -Wall -Wextra -Werror
  # To clang GCC's loop pragmas are unknown, and GCC's library deprecates what its stable_sort calls.
  $<$<CXX_COMPILER_ID:Clang>:-Wno-unknown-pragmas>
  $<$<CXX_COMPILER_ID:Clang>:-Wno-deprecated-declarations>
  # A multiply and an add stay two roundings unless the source says fma: results must not depend on
  # which compiler made a kernel.
  -ffp-contract=off
  # GCC 12 makes a tail call of one that reads a variable of its caller by reference, whose frame is gone
  # then, where this analysis has seen into both (result_type, compiled with dtype.cpp in one unit).
  $<$<AND:$<CXX_COMPILER_ID:GNU>,$<BOOL:${DYAD_UNITY}>>:-fno-ipa-modref>
  -ffunction-sections -fdata-sections
  # Of GCC alone, which clang-tidy is told without (DYAD_UNITY is 0 then):
  # GCC takes the sources of a unit for headers, where a class whose members have local types is a mistake.
  $<$<AND:$<CXX_COMPILER_ID:GNU>,$<BOOL:${DYAD_UNITY}>>:-Wno-subobject-linkage>
  # GCC looks for garbage whenever its heap has grown beyond what it begins with (128 MB): with room for
  # the headers a source compiles in 85 to 93 % of the time.
  $<$<AND:$<CXX_COMPILER_ID:GNU>,$<BOOL:${DYAD_UNITY}>>:--param=ggc-min-heapsize=400000>
  ${DYAD_RELATIVE_PATHS})

set(DYAD_PLAIN_LOOPS 0)
if(DYAD_SANITIZE STREQUAL "address")
  set(DYAD_SANITIZE_FLAGS -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
elseif(DYAD_SANITIZE STREQUAL "thread")
  set(DYAD_SANITIZE_FLAGS -fsanitize=thread -fno-omit-frame-pointer)
elseif(DYAD_SANITIZE STREQUAL "fuzzer")
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "DYAD_SANITIZE=fuzzer takes clang, whose libFuzzer it is; ./dev fuzz sets it up")
  endif()
  set(DYAD_SANITIZE_FLAGS -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
elseif(DYAD_SANITIZE)
  message(FATAL_ERROR "DYAD_SANITIZE is '${DYAD_SANITIZE}'; it may be empty, address, thread or fuzzer")
endif()
if(DYAD_SANITIZE)
  # A sanitizer sees only code that it compiled: plain loops stand in for generated kernels and
  # library calls, a plain thread pool for OpenMP. Instrumented code takes three times as long to
  # optimise as to compile, and these tests are many small runs.
  set(DYAD_PLAIN_LOOPS 1)
  target_compile_options(dyad_flags INTERFACE ${DYAD_SANITIZE_FLAGS} -Og)
  target_link_options(dyad_flags INTERFACE ${DYAD_SANITIZE_FLAGS})
  target_compile_definitions(dyad_flags INTERFACE DYAD_PLAIN_LOOPS=1)
endif()

set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
