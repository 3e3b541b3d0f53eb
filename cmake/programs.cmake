# dyad_program(TARGET NAME source...): an executable build/bin/NAME that links Dyad.
function(dyad_program target name)
  dyad_units(units ${target} ${ARGN})
  add_executable(${target} ${units})
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ${name})
  # --exclude-libs: no symbol of a static library shows to shared ones in the same process.
  target_link_libraries(${target} PRIVATE dyad_flags dyad::dyad)
  target_link_options(${target} PRIVATE -Wl,--exclude-libs,ALL)
  dyad_precompile(${target} program)
  if(TARGET dyad_codegen_llvm)
    add_dependencies(${target} dyad_codegen_llvm)  # opened at run time, so no link orders it
  endif()
endfunction()

if(NOT DYAD_PROGRAMS)
  return()
endif()

# One program for each examples/NAME.cpp and each folder examples/NAME. They come first: a precompiled
# header serves sources with more definitions than it was made with, not with fewer.
set(DYAD_EXAMPLES "")
file(GLOB entries CONFIGURE_DEPENDS LIST_DIRECTORIES true ${PROJECT_SOURCE_DIR}/examples/*)
foreach(entry IN LISTS entries)
  get_filename_component(example ${entry} NAME_WE)
  if(IS_DIRECTORY ${entry})
    file(GLOB sources CONFIGURE_DEPENDS ${entry}/*.cpp)
  elseif(entry MATCHES "\\.cpp$")
    set(sources ${entry})
  else()
    set(sources "")
  endif()
  if(sources)
    dyad_program(example_${example} ${example} ${sources})
    set_target_properties(example_${example} PROPERTIES
      RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin/examples)
    list(APPEND DYAD_EXAMPLES ${example})
  endif()
endforeach()

file(GLOB_RECURSE tool_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tools/dyad/*.cpp)
if(tool_sources)
  find_package(CLI11 REQUIRED)
  dyad_program(dyad_tool dyad ${tool_sources})
  target_link_libraries(dyad_tool PRIVATE CLI11::CLI11 fmt::fmt)
  # The work is the library's; what is left is reading arguments and printing.
  target_compile_options(dyad_tool PRIVATE $<$<CONFIG:RelWithDebInfo>:-O1>)
endif()

file(GLOB bench_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/bench/*.cpp)
if(bench_sources)
  find_package(benchmark REQUIRED)
  find_package(CLI11 REQUIRED)
  # The peak is measured in fused multiply-adds, which nothing else may be contracted to. A precompiled header brings
  # the options that it was compiled with, so there is none.
  set_source_files_properties(${PROJECT_SOURCE_DIR}/bench/machine.cpp PROPERTIES
    COMPILE_OPTIONS -ffp-contract=fast SKIP_PRECOMPILE_HEADERS ON)
  dyad_program(dyad_bench dyad-bench ${bench_sources})
  target_link_libraries(dyad_bench PRIVATE benchmark::benchmark CLI11::CLI11 fmt::fmt nlohmann_json::nlohmann_json)
endif()
