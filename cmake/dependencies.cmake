# Third-party packages. Each belongs to one layer (see the list in CMakeLists.txt); none is included by
# a public header, so a program that uses Dyad compiles without them.

find_package(Threads REQUIRED)
find_package(ZLIB REQUIRED)                  # data and io: gzip, npz
find_package(fmt REQUIRED)                   # text in sources, never in headers
find_package(nlohmann_json REQUIRED)         # io: safetensors headers; debug: reports

# oneDNN's package names an OpenCL target that the CPU library does not need.
find_library(DYAD_DNNL dnnl REQUIRED)
find_path(DYAD_DNNL_INCLUDE dnnl.hpp REQUIRED)
add_library(DNNL::dnnl SHARED IMPORTED)
set_target_properties(DNNL::dnnl PROPERTIES
  IMPORTED_LOCATION ${DYAD_DNNL} INTERFACE_INCLUDE_DIRECTORIES ${DYAD_DNNL_INCLUDE})

# OpenBLAS with LAPACK in it: the variant whose threads are OpenMP's, so that they are the same ones
# that oneDNN and Dyad's own loops use. Debian keeps it in a folder of its own.
find_library(DYAD_OPENBLAS openblas PATH_SUFFIXES openblas-openmp REQUIRED)
find_path(DYAD_LAPACK_INCLUDE lapack.h REQUIRED)
find_path(DYAD_CBLAS_INCLUDE cblas.h PATH_SUFFIXES ${CMAKE_LIBRARY_ARCHITECTURE}/openblas-openmp REQUIRED)
add_library(OpenBLAS::openblas SHARED IMPORTED)
set_target_properties(OpenBLAS::openblas PROPERTIES IMPORTED_LOCATION ${DYAD_OPENBLAS}
  INTERFACE_INCLUDE_DIRECTORIES "${DYAD_LAPACK_INCLUDE};${DYAD_CBLAS_INCLUDE}")

# GNU's OpenMP, whose threads oneDNN uses too. Clang brings another one, which would be a second team of
# threads beside oneDNN's: without _OPENMP the runtime takes its plain thread pool.
set(DYAD_OPENMP "")
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND NOT DYAD_PLAIN_LOOPS)
  find_package(OpenMP REQUIRED COMPONENTS CXX)
  set(DYAD_OPENMP OpenMP::OpenMP_CXX)
endif()

# The static protobuf stays inside the program that links it, where it cannot meet another version.
set(Protobuf_USE_STATIC_LIBS ON)
find_package(Protobuf REQUIRED)

# Not find_package(LLVM): its package looks for a dozen libraries that only static linking needs.
find_path(DYAD_LLVM_INCLUDE llvm/Config/llvm-config.h PATHS /usr/lib/llvm-19/include NO_DEFAULT_PATH)
find_library(DYAD_LLVM LLVM-19 PATHS /usr/lib/llvm-19/lib NO_DEFAULT_PATH)
if(NOT DYAD_LLVM OR NOT DYAD_LLVM_INCLUDE)
  message(FATAL_ERROR "LLVM 19 was not found: install llvm-19-dev (./dev setup does), or set "
                      "DYAD_LLVM to libLLVM-19.so and DYAD_LLVM_INCLUDE to its include folder")
endif()
# Linked into the plug-in, the part that is used opens in a quarter of the time that the whole library
# takes, and the plug-in runs where no LLVM is installed. llvm-config beside libLLVM lists the archives.
option(DYAD_LLVM_STATIC "Link LLVM into the plug-in, where its archives and zstd are there" ON)
set(DYAD_LLVM_LIBRARIES ${DYAD_LLVM})
find_library(DYAD_ZSTD zstd)
get_filename_component(llvm_config ${DYAD_LLVM}/../../bin/llvm-config ABSOLUTE)
if(DYAD_LLVM_STATIC AND DYAD_ZSTD AND EXISTS ${llvm_config})
  execute_process(COMMAND ${llvm_config} --link-static --libfiles nativecodegen
    OUTPUT_VARIABLE archives OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE status)
  if(status EQUAL 0)
    separate_arguments(archives)
    set(DYAD_LLVM_LIBRARIES ${archives} ZLIB::ZLIB ${DYAD_ZSTD} ${CMAKE_DL_LIBS})
  endif()
endif()
