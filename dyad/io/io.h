#pragma once

/// Files of tensors and of training runs.
#include "dyad/io/atomic_file.h"
#include "dyad/io/checkpoint.h"
#include "dyad/io/npy.h"
#include "dyad/io/program.h"
#include "dyad/io/safetensors.h"
