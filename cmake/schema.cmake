# The ONNX schema, compiled into the onnx layer. The generated header stays in the build folder.
set(schema ${PROJECT_SOURCE_DIR}/dyad/onnx/onnx.proto)
get_target_property(type dyad_onnx TYPE)
if(EXISTS ${schema} AND type STREQUAL "STATIC_LIBRARY")
  set(generated ${PROJECT_BINARY_DIR}/generated)
  file(MAKE_DIRECTORY ${generated}/dyad/onnx)
  add_custom_command(
    OUTPUT ${generated}/dyad/onnx/onnx.pb.cc ${generated}/dyad/onnx/onnx.pb.h
    COMMAND protobuf::protoc --proto_path=${PROJECT_SOURCE_DIR} --cpp_out=${generated} ${schema}
    DEPENDS ${schema}
    COMMENT "Generating dyad/onnx/onnx.pb.h"
    VERBATIM)
  # A target of its own: ./dev lint wants the header and no library.
  add_custom_target(dyad_onnx_schema DEPENDS ${generated}/dyad/onnx/onnx.pb.h)
  add_dependencies(dyad_onnx dyad_onnx_schema)
  target_sources(dyad_onnx PRIVATE ${generated}/dyad/onnx/onnx.pb.cc)
  # SYSTEM: the generated code is not ours to keep free of warnings.
  target_include_directories(dyad_onnx SYSTEM PRIVATE ${generated})
  set_source_files_properties(${generated}/dyad/onnx/onnx.pb.cc PROPERTIES COMPILE_OPTIONS -w)
endif()
