# Builds and runs tests/install as somebody else's project: WAY=install against an installed Dyad
# (find_package), WAY=subdirectory with Dyad's sources inside their build (add_subdirectory).
set(work ${BUILD}/stranger/${WAY})
file(REMOVE_RECURSE ${work})

function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE status OUTPUT_VARIABLE text ERROR_VARIABLE text)
  if(NOT status EQUAL 0)
    string(REPLACE ";" " " line "${ARGV}")
    message(FATAL_ERROR "${line}\nfailed (${status}):\n${text}")
  endif()
  set(output "${text}" PARENT_SCOPE)
endfunction()

set(common -G ${GENERATOR} -DCMAKE_CXX_COMPILER=${COMPILER})
if(WAY STREQUAL "install")
  run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${work}/prefix)
  run(${CMAKE_COMMAND} -S ${SOURCE}/tests/install -B ${work}/build ${common}
    -DCMAKE_BUILD_TYPE=${BUILD_TYPE} -DCMAKE_PREFIX_PATH=${work}/prefix)
else()
  # The library is built again, as somebody's debugger wants it, but for its information, which nobody reads
  # here: without optimisation it takes half the time. Where it was built already, in this folder, the compiler
  # cache has its objects.
  string(REPLACE ";" "\\;" LAUNCHER "${LAUNCHER}")  # a list must stay one argument
  run(${CMAKE_COMMAND} -S ${SOURCE}/tests/install -B ${work}/build ${common} -DDYAD_SOURCE=${SOURCE}
    -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG=-g0 "-DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER}"
    "-DCMAKE_CXX_FLAGS=-fdebug-prefix-map=${SOURCE}=.")
endif()
run(${CMAKE_COMMAND} --build ${work}/build)
# Nothing in the environment may be what lets it find the plug-in.
run(${CMAKE_COMMAND} -E chdir / env -i ${work}/build/stranger)
if(output MATCHES "plug-in")
  message(FATAL_ERROR "the program did not find the compiler:\n${output}")
endif()
message("${output}")
