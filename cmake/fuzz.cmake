# build-fuzz/bin/dyad-fuzz: libFuzzer and every target of tests/fuzz, of which the environment's
# DYAD_FUZZ_TARGET chooses one. ./dev fuzz builds and runs it; the tests replay the same targets' corpora
# without libFuzzer (tests/fuzz/replay_test.cpp).
if(NOT DYAD_SANITIZE STREQUAL "fuzzer")
  return()
endif()
file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/fuzz/*.cpp)
list(FILTER sources EXCLUDE REGEX "_test\\.cpp$")
file(GLOB driver CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/fuzz/libfuzzer/*.cpp)
add_executable(dyad_fuzz ${sources} ${driver})
set_target_properties(dyad_fuzz PROPERTIES OUTPUT_NAME dyad-fuzz)
target_link_libraries(dyad_fuzz PRIVATE dyad_flags dyad::onnx fmt::fmt)
target_link_options(dyad_fuzz PRIVATE -fsanitize=fuzzer)
