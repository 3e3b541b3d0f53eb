#ifndef DYAD_CODEGEN_KERNEL_ABI_H
#define DYAD_CODEGEN_KERNEL_ABI_H

/* The interface between Dyad and code that a kernel generator made: plain C, versioned. Objects,
 * caches and plug-ins of another version are not used. */

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { DYAD_KERNEL_ABI = 4 };

/* Flags of a call. */
enum {
  DYAD_KERNEL_STREAM = 1 /* outputs are large and not read soon: stores may go past the caches; who
                            asks for it puts a store fence behind the last row */
};

/* One call of a kernel. Dims are ordered outermost first, kept ones before reduced ones. */
typedef struct DyadKernelArgs {
  void* const*
      data; /* inputs, then outputs; for an index operand the index at the origin, as a pointer */
  const int64_t* sizes;   /* rank of them, none negative */
  const int64_t* strides; /* in elements, strides[operand * rank + dim]; 0 repeats; outputs have
                             none for reduced dims */
  const uint64_t* slots;  /* values of the program's params, bits in the low end */
  void* scratch;   /* for partial reductions: scratch_bytes of it, 64-byte aligned; otherwise may be
                      null */
  int32_t rank;    /* 0 to 8 */
  int32_t reduced; /* how many of the dims, the last ones, are reduced */
  uint32_t flags;
} DyadKernelArgs;

/* What generated code consists of: loops along one dim. `data` are the addresses of the first
 * elements and `strides` the distances in bytes, both per operand, inputs first; an index operand
 * has its first value and step instead. Operands whose access class is contiguous or broadcast do
 * not read their stride. `context` is for interpreters. */
typedef void (*DyadRowFn)(const void* context, char* const* data, const int64_t* strides, int64_t n,
                          const uint64_t* slots, uint32_t flags);

/* Flags of DyadReduceFn. */
enum {
  DYAD_REDUCE_INIT = 1, /* lanes start from the initial values; otherwise from lanes[] */
  DYAD_REDUCE_RESULT =
      2 /* write one joined value a row to results[]; otherwise the lanes to lanes[] */
};

/* Reduces `n` elements along `strides` for each of `rows` places that are `row_strides` apart
 * (bytes). The first element goes to lane `phase` (0 to 15). Accumulator k has its 16 lanes at
 * lanes[k] and its results at results[k]. More than one row only with both flags and phase 0. */
typedef void (*DyadReduceFn)(const void* context, char* const* data, const int64_t* row_strides,
                             const int64_t* strides, int64_t rows, int64_t phase, int64_t n,
                             char* const* lanes, char* const* results, const uint64_t* slots,
                             uint32_t flags);

/* The entry points of one recipe; those it does not need are null. */
typedef struct DyadKernelCode {
  DyadRowFn row;        /* pointwise: the program */
  DyadReduceFn reduce;  /* rows: map and combine along the reduced dim */
  DyadRowFn accumulate; /* columns: accumulators, inputs -> accumulators */
  DyadRowFn combine;    /* reductions: accumulators, values -> accumulators, all contiguous */
  DyadRowFn finish;     /* reductions: accumulators, count (broadcast i64) -> outputs */
} DyadKernelCode;

#ifdef __cplusplus
}
#endif
#endif
