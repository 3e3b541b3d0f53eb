# Kernels compiled with the library: the common operators as objects for two levels of x86-64, so that
# define-by-run programs start at full speed: they compile nothing and need no LLVM plug-in. Elsewhere every
# kernel is compiled when it is first used.
option(DYAD_BUILT_IN_KERNELS "Compile the common kernels into the library" ON)
if(NOT DYAD_BUILT_IN_KERNELS OR DYAD_PLAIN_LOOPS OR NOT TARGET dyad_codegen_llvm
   OR CMAKE_CROSSCOMPILING OR NOT CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64")
  return()
endif()

add_library(dyad_kernel_recipes STATIC ${PROJECT_SOURCE_DIR}/tools/kernelgen/recipes.cpp)
target_link_libraries(dyad_kernel_recipes PRIVATE dyad_flags PUBLIC dyad_codegen)
add_executable(dyad_kernelgen ${PROJECT_SOURCE_DIR}/tools/kernelgen/main.cpp)
set(kernels ${PROJECT_BINARY_DIR}/kernels)
file(MAKE_DIRECTORY ${kernels})
set_target_properties(dyad_kernelgen PROPERTIES OUTPUT_NAME kernelgen RUNTIME_OUTPUT_DIRECTORY ${kernels})
target_link_libraries(dyad_kernelgen PRIVATE dyad_flags dyad_kernel_recipes Threads::Threads)

set(generated ${kernels}/level3.o ${kernels}/level4.o ${kernels}/table.cpp)
add_custom_command(OUTPUT ${generated}
  COMMAND $<TARGET_FILE:dyad_kernelgen> ${kernels} $<TARGET_FILE:dyad_codegen_llvm>
  DEPENDS dyad_kernelgen dyad_codegen_llvm
  COMMENT "Compiling the common kernels" VERBATIM)

add_library(dyad_kernels STATIC ${kernels}/table.cpp ${kernels}/level3.o ${kernels}/level4.o)
set_source_files_properties(${kernels}/level3.o ${kernels}/level4.o PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
set_target_properties(dyad_kernels PROPERTIES EXPORT_NAME kernels POSITION_INDEPENDENT_CODE ON)
target_include_directories(dyad_kernels PRIVATE ${PROJECT_SOURCE_DIR})
target_link_libraries(dyad_kernels PUBLIC dyad_codegen)
target_link_options(dyad_kernels INTERFACE -Wl,--undefined=dyad_built_in_kernels)
target_link_libraries(dyad_runtime PUBLIC dyad_kernels)
list(APPEND DYAD_LAYER_TARGETS dyad_kernels)  # installed with the layers
