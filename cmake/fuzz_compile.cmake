# build/bin/dyad-fuzz-compile: random programs, each run in every mode. ./dev fuzz-compile builds and
# runs it; the tests run the first of the same programs (tests/random_programs).
if(NOT DYAD_TESTS OR DYAD_SANITIZE STREQUAL "fuzzer")
  return()
endif()
# The objects of that test program, but for those of its tests: compiled once.
add_executable(dyad_fuzz_compile ${PROJECT_SOURCE_DIR}/tests/random_programs/program/main.cpp
  $<FILTER:$<TARGET_OBJECTS:test_random_programs>,EXCLUDE,_test\\.cpp>)
set_target_properties(dyad_fuzz_compile PROPERTIES OUTPUT_NAME dyad-fuzz-compile)
target_link_libraries(dyad_fuzz_compile PRIVATE dyad_flags dyad_test_flags dyad::exec fmt::fmt)
target_link_options(dyad_fuzz_compile PRIVATE -Wl,--exclude-libs,ALL)
if(TARGET dyad_codegen_llvm)
  add_dependencies(dyad_fuzz_compile dyad_codegen_llvm)
endif()
