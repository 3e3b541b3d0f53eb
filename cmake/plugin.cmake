# The LLVM back end: a module of its own, opened with dlopen at the first kernel that is in no cache.
# Nothing else links LLVM, so a program that compiles nothing starts without it, and a process that holds
# another LLVM (a driver's, Python's) never sees ours: the module exports one function, and its own
# references to Dyad bind inside the module.
include(GNUInstallDirs)
file(GLOB plugin_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/dyad/codegen/llvm/*.cpp)
if(plugin_sources AND NOT DYAD_PLAIN_LOOPS)  # plain loops never open it
  dyad_units(units dyad_codegen_llvm ${plugin_sources})
  add_library(dyad_codegen_llvm MODULE ${units})
  set_target_properties(dyad_codegen_llvm PROPERTIES
    PREFIX ""
    CXX_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON
    LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib/dyad
    LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/plugin.map)
  target_include_directories(dyad_codegen_llvm SYSTEM PRIVATE ${DYAD_LLVM_INCLUDE})
  target_link_libraries(dyad_codegen_llvm PRIVATE dyad_flags dyad_codegen fmt::fmt ${DYAD_LLVM_LIBRARIES})
  dyad_precompile(dyad_codegen_llvm "layer;;")  # as the layers without options of their own
  # Programs find it where it was installed, or built as a part of theirs, however far that is from them. Dyad's
  # own have it in ../lib/dyad.
  target_link_options(dyad_codegen INTERFACE
    "$<INSTALL_INTERFACE:LINKER:-rpath,$<INSTALL_PREFIX>/${CMAKE_INSTALL_LIBDIR}/dyad>")
  if(NOT PROJECT_IS_TOP_LEVEL)
    target_link_options(dyad_codegen INTERFACE
      "$<BUILD_INTERFACE:LINKER:-rpath,${PROJECT_BINARY_DIR}/lib/dyad>")
  endif()
  target_link_options(dyad_codegen_llvm PRIVATE
    -Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/plugin.map -Wl,-Bsymbolic -Wl,--no-undefined)
endif()
