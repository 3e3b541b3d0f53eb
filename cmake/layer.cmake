# dyad_layer(NAME [DEPENDS layer...] [EXCLUDE folder...] [PRIVATE target...] [HEADERS target...] [KEEP symbol]
#            [PRECOMPILE header...])
#
# A static library dyad_NAME (dyad::NAME) from dyad/NAME/**.cpp, without the EXCLUDEd folders.
# DEPENDS are earlier layers; PRIVATE are third-party libraries of this layer only; HEADERS are
# header-only ones, which a program that links Dyad need not have. KEEP is an extern "C" function whose
# object file every program gets, though nothing names it: one that registers something before main.
# PRECOMPILE are headers that most of its sources read, besides those of the standard library.
set(DYAD_LAYER_TARGETS "")

# A third of the time that a source takes goes into reading the standard library. tests/repo/layers.py
# checks that every file still includes what it names.
set(DYAD_PRECOMPILED
  <algorithm> <array> <atomic> <bit> <chrono> <cmath> <complex> <concepts> <cstdint> <cstring> <exception>
  <functional> <initializer_list> <limits> <map> <memory> <mutex> <numeric> <optional> <set> <source_location>
  <span> <sstream> <string> <string_view> <tuple> <type_traits> <unordered_map> <unordered_set> <utility>
  <variant> <vector>)

# What the libraries add to the options of a compiler.
function(dyad_compile_options result)
  set(all "")
  foreach(library IN LISTS ARGN)
    foreach(property INTERFACE_COMPILE_OPTIONS INTERFACE_COMPILE_DEFINITIONS)
      if(TARGET ${library})
        get_target_property(options ${library} ${property})
        if(options)
          list(APPEND all ${options})
        endif()
      endif()
    endforeach()
  endforeach()
  set(${result} "${all}" PARENT_SCOPE)
endfunction()

# Shares the precompiled headers of the first target with the same compiler options and headers, which `options`
# tells apart; more headers may follow.
function(dyad_precompile target options)
  if(NOT DYAD_PRECOMPILE)
    return()
  endif()
  string(MAKE_C_IDENTIFIER "DYAD_PRECOMPILED_BY_${options}" owner)
  get_property(first GLOBAL PROPERTY ${owner})
  if(first)
    target_precompile_headers(${target} REUSE_FROM ${first})
  else()
    target_precompile_headers(${target} PRIVATE ${DYAD_PRECOMPILED} ${ARGN})
    set_property(GLOBAL PROPERTY ${owner} ${target})
  endif()
endfunction()

# What to compile for the sources of a target: units of a few, because most of a source's time goes into the headers
# that its neighbours read too. So no two sources of a target may give one name, in their anonymous namespaces, to
# two things. A source with COMPILE_OPTIONS of its own stays alone. Units name sources relative to the checkout, so
# that the compiler cache knows those of another one; those of `*_test.cpp` are called so too, apart from the others.
function(dyad_units result target)
  set(tests ${ARGN})
  list(FILTER tests INCLUDE REGEX "_test\\.cpp$")
  set(others ${ARGN})
  list(FILTER others EXCLUDE REGEX "_test\\.cpp$")
  dyad_units_called(of_tests ${target} _test ${tests})
  dyad_units_called(of_others ${target} "" ${others})
  set(${result} ${of_others} ${of_tests} PARENT_SCOPE)
endfunction()

# Of dyad_units: the units NUMBERsuffix.cpp of some sources.
function(dyad_units_called result target suffix)
  set(units "")
  set(includes "")
  foreach(source IN LISTS ARGN)
    get_source_file_property(options ${source} COMPILE_OPTIONS)
    if(options OR NOT DYAD_UNITY)
      list(APPEND units ${source})
    else()
      file(RELATIVE_PATH path ${PROJECT_SOURCE_DIR} ${source})
      list(APPEND includes "#include \"${path}\"\n")
    endif()
  endforeach()
  list(LENGTH includes count)
  set(first 0)
  while(first LESS count)
    list(SUBLIST includes ${first} ${DYAD_UNITY} text)
    list(JOIN text "" text)
    set(unit ${PROJECT_BINARY_DIR}/units/${target}/${first}${suffix}.cpp)
    file(CONFIGURE OUTPUT ${unit} CONTENT "${text}" @ONLY)
    list(APPEND units ${unit})
    math(EXPR first "${first} + ${DYAD_UNITY}")
  endwhile()
  set(${result} ${units} PARENT_SCOPE)
endfunction()

function(dyad_layer name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "KEEP" "DEPENDS;EXCLUDE;PRIVATE;HEADERS;PRECOMPILE")
  set(folder ${PROJECT_SOURCE_DIR}/dyad/${name})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${folder}/*.cpp)
  foreach(excluded IN LISTS arg_EXCLUDE)
    list(FILTER sources EXCLUDE REGEX "^${folder}/${excluded}/")
  endforeach()

  set(target dyad_${name})
  if(sources)
    dyad_units(units ${target} ${sources})
    add_library(${target} STATIC ${units})
    set(scope PUBLIC)
    set_target_properties(${target} PROPERTIES
      POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
    target_link_libraries(${target} PRIVATE
      $<BUILD_INTERFACE:dyad_flags> fmt::fmt ${arg_PRIVATE})
    dyad_compile_options(options ${arg_PRIVATE})
    dyad_precompile(${target} "layer;${options};${arg_PRECOMPILE}" ${arg_PRECOMPILE})
    foreach(header_only IN LISTS arg_HEADERS)
      target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:${header_only}>)
    endforeach()
  else()
    add_library(${target} INTERFACE)  # headers only
    set(scope INTERFACE)
  endif()
  add_library(dyad::${name} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
  target_compile_features(${target} ${scope} cxx_std_20)
  target_include_directories(${target} ${scope}
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<INSTALL_INTERFACE:include>)
  if(DYAD_PLAIN_LOOPS)
    target_compile_definitions(${target} ${scope} DYAD_PLAIN_LOOPS=1)
  endif()
  if(sources AND arg_KEEP)
    target_link_options(${target} INTERFACE -Wl,--undefined=${arg_KEEP})
  endif()
  list(TRANSFORM arg_DEPENDS PREPEND dyad_)
  target_link_libraries(${target} ${scope} ${arg_DEPENDS})

  set(DYAD_LAYER_TARGETS ${DYAD_LAYER_TARGETS} ${target} PARENT_SCOPE)
endfunction()
