#ifndef DYAD_CODEGEN_PLUGIN_ABI_H
#define DYAD_CODEGEN_PLUGIN_ABI_H

/* The interface between Dyad and a compiler plug-in: plain C, versioned with DYAD_KERNEL_ABI. The
 * numbers in `op`, `type` and `dtype` are those of dyad::scalar::Op, dyad::scalar::ScalarType and
 * dyad::DType, whose order belongs to the version. */

#include <stddef.h>
#include <stdint.h>

#include "dyad/codegen/kernel_abi.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct DyadInstruction {
  uint8_t op, type, dtype;
  uint32_t args[3];
  uint64_t imm;
  const char *file, *function; /* the source line that made it; null when unknown */
  uint32_t line;
} DyadInstruction;

typedef struct DyadProgram {
  const DyadInstruction* code;
  size_t size;
  const uint32_t*
      outputs; /* instructions whose values are the outputs; inputs are instructions of their own */
  size_t output_count;
} DyadProgram;

typedef struct DyadOperand {
  uint8_t dtype, access, is_index;
} DyadOperand;

/* A DyadRowFn, or a DyadReduceFn when accumulators > 0; the outputs of a reduction's program are
 * what it combines. */
typedef struct DyadFunction {
  const char *symbol, *name;
  const DyadOperand* operands; /* inputs, then outputs */
  size_t input_count, output_count;
  DyadProgram program, combine;
  const uint64_t* init;
  size_t accumulators;
} DyadFunction;

typedef struct DyadCompileOptions {
  /* As LLVM names them. Null: this machine's; code for a named one is compiled ahead of time, and
   * may take longer. */
  const char *cpu, *features;
} DyadCompileOptions;

enum { DYAD_PLUGIN_OK = 0, DYAD_PLUGIN_FAILED = 1 };

typedef struct DyadPlugin {
  uint32_t abi;
  /* The compiler's version; this machine's CPU with its features. Dyad reads neither: the disk
   * cache goes by the plug-in's file (size and time) and by cpu_identity(), which it knows without
   * opening the plug-in. */
  const char* version;
  const char* cpu;
  /* Compiles functions into one relocatable ELF object and passes it to `take`, once. Gives a
   * status; `error` gets the text of a failure. Thread-safe. */
  int (*compile)(const DyadFunction* functions, size_t count, const DyadCompileOptions* options,
                 void (*take)(void* user, const void* bytes, size_t size), void* user, char* error,
                 size_t error_size);
} DyadPlugin;

/* The plug-in's one symbol, `dyad_codegen_plugin`: null when it does not speak this version. */
typedef const DyadPlugin* (*DyadPluginEntry)(uint32_t abi);

#ifdef __cplusplus
}
#endif
#endif
