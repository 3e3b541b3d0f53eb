# Tests of the repository itself: its layers, its headers, what it installs, what it exports.

add_test(NAME repo/layers COMMAND ${python} ${PROJECT_SOURCE_DIR}/tests/repo/layers.py)
add_test(NAME repo/dev_help COMMAND ${python} ${PROJECT_SOURCE_DIR}/tests/repo/dev_help.py)

# Every header compiles alone. tests/repo/layers.py makes x.cpp include x.h first, so only headers without
# a source need a translation unit of their own.
file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/dyad/*.h)
set(units "")
foreach(header IN LISTS headers)
  string(REGEX REPLACE "\\.h$" ".cpp" source ${header})
  if(NOT EXISTS ${PROJECT_SOURCE_DIR}/${source} AND NOT header MATCHES "^dyad/(codegen/llvm|onnx)/")
    set(unit ${PROJECT_BINARY_DIR}/headers/${source})
    file(CONFIGURE OUTPUT ${unit} CONTENT "#include \"@header@\"\n" @ONLY)
    list(APPEND units ${unit})
  endif()
endforeach()
if(units)
  add_library(dyad_headers OBJECT EXCLUDE_FROM_ALL ${units})
  target_link_libraries(dyad_headers PRIVATE dyad_flags)
  target_include_directories(dyad_headers PRIVATE ${PROJECT_SOURCE_DIR})
  target_compile_options(dyad_headers PRIVATE -O0 -g0)
  add_test(NAME repo/headers_alone
    COMMAND ${CMAKE_COMMAND} --build ${PROJECT_BINARY_DIR} --target dyad_headers)
  # Two ninjas in one build folder would disturb each other.
  set_tests_properties(repo/headers_alone PROPERTIES RESOURCE_LOCK build_folder)
endif()

# The install and subdirectory tests configure a project of their own; once, without a sanitizer, is enough.
if(NOT DYAD_SANITIZE)
  foreach(way install subdirectory)
    add_test(NAME repo/${way}
      COMMAND ${CMAKE_COMMAND} -DWAY=${way} -DSOURCE=${PROJECT_SOURCE_DIR} -DBUILD=${PROJECT_BINARY_DIR}
        -DGENERATOR=${CMAKE_GENERATOR} -DCOMPILER=${CMAKE_CXX_COMPILER} -DBUILD_TYPE=${CMAKE_BUILD_TYPE}
        "-DLAUNCHER=${CMAKE_CXX_COMPILER_LAUNCHER}"
        -P ${PROJECT_SOURCE_DIR}/tests/repo/stranger.cmake)
    set_tests_properties(repo/${way} PROPERTIES RESOURCE_LOCK build_folder TIMEOUT 900)
  endforeach()
  if(TARGET dyad_tool)
    add_test(NAME repo/exports
      COMMAND ${python} ${PROJECT_SOURCE_DIR}/tests/repo/exports.py ${PROJECT_BINARY_DIR})
  endif()
endif()
