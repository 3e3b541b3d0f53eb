# One GoogleTest program test_NAME for each folder tests/NAME with *_test.cpp; other .cpp files beside
# them are helpers of that program. Tests run in the source folder, so they open
# files by a path relative to it; what they write goes to testing::TempDir(). DYAD_PYTHON in their
# environment is a Python that has the packages of tests/python/{requirements,models}.txt.
enable_testing()
find_package(GTest REQUIRED)
include(GoogleTest)

# ./dev setup puts that Python into .venv.
if(DEFINED ENV{DYAD_PYTHON})
  set(python $ENV{DYAD_PYTHON})
elseif(EXISTS ${PROJECT_SOURCE_DIR}/.venv/bin/python)
  set(python ${PROJECT_SOURCE_DIR}/.venv/bin/python)
else()
  find_program(DYAD_PYTHON3 python3 REQUIRED)
  set(python ${DYAD_PYTHON3})
endif()

# The test of a low layer links no more than that layer, so that it builds and runs before, and without,
# the layers above. A folder that is not here tests the whole and links it all.
set(DYAD_TEST_LAYER_base base)
set(DYAD_TEST_LAYER_core core)
set(DYAD_TEST_LAYER_ir ir)
set(DYAD_TEST_LAYER_passes passes)
set(DYAD_TEST_LAYER_codegen codegen)
set(DYAD_TEST_LAYER_runtime runtime)
# Operators and gradients are checked on numbers, which takes the executor; operators also as ONNX models.
set(DYAD_TEST_LAYER_ops onnx)
set(DYAD_TEST_LAYER_autograd exec)
# Layers and optimizers against numbers that PyTorch made, kept in files.
set(DYAD_TEST_LAYER_torch io)
# Wrong calls in both modes, and damaged files of every format.
set(DYAD_TEST_LAYER_bad_input io)
set(DYAD_TEST_LAYER_fuzz onnx)
set(DYAD_TEST_LAYER_random_programs exec)
foreach(layer exec nn optim data io onnx debug)
  set(DYAD_TEST_LAYER_${layer} ${layer})
endforeach()

add_library(dyad_test_flags INTERFACE)
target_compile_options(dyad_test_flags INTERFACE
  $<$<CONFIG:RelWithDebInfo>:-O0>                   # a test runs for milliseconds and compiles for seconds
  $<$<CXX_COMPILER_ID:Clang>:-Wno-unused-result>)  # EXPECT_THROW(f()) drops what f returns

add_library(dyad_test_environment OBJECT ${PROJECT_SOURCE_DIR}/tests/shared/environment.cpp)
target_link_libraries(dyad_test_environment PRIVATE dyad_flags)

file(GLOB folders CONFIGURE_DEPENDS LIST_DIRECTORIES true ${PROJECT_SOURCE_DIR}/tests/*)
foreach(folder IN LISTS folders)
  get_filename_component(name ${folder} NAME)
  file(GLOB tests CONFIGURE_DEPENDS ${folder}/*_test.cpp)
  if(NOT tests OR (name STREQUAL "tool" AND NOT TARGET dyad_tool))
    continue()
  endif()
  file(GLOB sources CONFIGURE_DEPENDS ${folder}/*.cpp)
  set(target test_${name})
  dyad_units(units ${target} ${sources})
  add_executable(${target} ${units} $<TARGET_OBJECTS:dyad_test_environment>)
  set(layer dyad)
  if(DEFINED DYAD_TEST_LAYER_${name})
    set(layer ${DYAD_TEST_LAYER_${name}})
  endif()
  target_link_libraries(${target} PRIVATE
    dyad_flags dyad_test_flags dyad::${layer} fmt::fmt nlohmann_json::nlohmann_json GTest::gtest_main GTest::gmock)
  target_link_options(${target} PRIVATE -Wl,--exclude-libs,ALL)
  dyad_precompile(${target} test <gmock/gmock.h> <gtest/gtest.h>)
  if(TARGET dyad_codegen_llvm)
    add_dependencies(${target} dyad_codegen_llvm)
  endif()
  if(name STREQUAL "random_programs")
    target_compile_definitions(${target} PRIVATE DYAD_CXX="${CMAKE_CXX_COMPILER}")
  endif()
  if(name STREQUAL "tool")
    add_dependencies(${target} dyad_tool)  # which the tests run
  endif()
  if(TARGET dyad_kernels)
    target_compile_definitions(${target} PRIVATE DYAD_BUILT_IN_KERNELS=1)
    if(name STREQUAL "runtime")
      target_link_libraries(${target} PRIVATE dyad_kernel_recipes)
    endif()
  endif()
  gtest_discover_tests(${target}
    TEST_PREFIX ${name}/
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
    DISCOVERY_MODE PRE_TEST
    DISCOVERY_TIMEOUT 60
    PROPERTIES ENVIRONMENT DYAD_PYTHON=${python})

  # rejected/NAME.cpp must not compile: its first line says what the compiler's message matches.
  file(GLOB rejected CONFIGURE_DEPENDS ${folder}/rejected/*.cpp)
  foreach(source IN LISTS rejected)
    get_filename_component(case ${source} NAME_WE)
    file(STRINGS ${source} expected LIMIT_COUNT 1)
    string(REGEX REPLACE "^// expect: " "" expected "${expected}")
    add_test(NAME ${name}/rejected/${case}
      COMMAND ${CMAKE_CXX_COMPILER} -std=c++20 -fsyntax-only -I${PROJECT_SOURCE_DIR} ${source})
    set_tests_properties(${name}/rejected/${case} PROPERTIES PASS_REGULAR_EXPRESSION "${expected}")
  endforeach()
endforeach()

foreach(example IN LISTS DYAD_EXAMPLES)
  add_test(NAME example/${example} COMMAND example_${example}
           WORKING_DIRECTORY ${PROJECT_BINARY_DIR}/bin/examples)
  set_tests_properties(example/${example} PROPERTIES
    ENVIRONMENT "DYAD_DATA_DIR=${PROJECT_SOURCE_DIR}/data")
endforeach()
if(ship_serving IN_LIST DYAD_EXAMPLES)
  set_tests_properties(example/ship_training PROPERTIES FIXTURES_SETUP shipped)
  set_tests_properties(example/ship_serving PROPERTIES FIXTURES_REQUIRED shipped)
endif()

include(repo_tests)
