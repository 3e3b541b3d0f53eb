# cmake --install puts: include/dyad, lib/libdyad_*.a, lib/dyad/dyad_codegen_llvm.so (found at run time
# by the run path that programs get, or from the program's place or the library's), lib/cmake/dyad (find_package(dyad)), bin/dyad.
include(CMakePackageConfigHelpers)

install(DIRECTORY dyad DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  FILES_MATCHING PATTERN "*.h" PATTERN "codegen/llvm" EXCLUDE)
install(TARGETS dyad ${DYAD_LAYER_TARGETS} EXPORT dyad-targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET dyad_codegen_llvm)
  install(TARGETS dyad_codegen_llvm LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/dyad)
endif()
if(TARGET dyad_tool)
  install(TARGETS dyad_tool RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/data/digits DESTINATION ${CMAKE_INSTALL_DATADIR}/dyad)  # for dyad demo
endif()

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/dyad)
install(EXPORT dyad-targets NAMESPACE dyad:: DESTINATION ${package})
configure_package_config_file(cmake/dyad-config.cmake.in ${PROJECT_BINARY_DIR}/dyad-config.cmake
  INSTALL_DESTINATION ${package})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/dyad-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/dyad-config.cmake ${PROJECT_BINARY_DIR}/dyad-config-version.cmake
  DESTINATION ${package})
